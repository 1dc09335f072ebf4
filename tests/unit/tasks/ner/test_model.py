"""The tagger: it never says what is not BIO."""

import json

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from unit.tasks.ner.eight import SMALL, example, net

from stelmo.tasks.ner.data import Example
from stelmo.tasks.ner.model import inventory
from stelmo.tasks.tags import first_not_bio


@settings(deadline=None, max_examples=25)
@given(
    st.integers(0, 2**31),
    st.lists(st.lists(st.text(min_size=1, max_size=4), min_size=1, max_size=6), min_size=1, max_size=4),
)
def test_an_untrained_network_says_bio_too(seed, texts):
    tagger = net().eval()
    torch.manual_seed(seed)
    tagger.projection.weight.data.normal_(0, 20)
    tagger.crf.transitions_YY.data.normal_(0, 20)
    for words, tags in zip(texts, tagger.predict([Example(tuple(words), (), "f:1") for words in texts]), strict=True):
        assert len(tags) == len(words)
        assert first_not_bio(tags) is None


def test_tags_that_training_did_not_have_are_no_obstacle_to_predict():
    tagger = net().eval()
    (tags,) = tagger.predict([example("Mars/B-PLANET is red")])
    assert len(tags) == 3


def test_without_any_entity_there_is_still_something_to_train():
    plain = [example("nothing here"), example("x")]
    tagger = net(examples=plain)
    assert tagger.loss(plain).isfinite()
    assert tagger.predict(plain) == [("O", "O"), ("O",)]


def test_the_inventory_knows_the_tags_and_the_characters_seen_twice():
    found = inventory([example("aab/B-X b c"), example("d/B-Y")], SMALL)
    assert found == {"tags": ["O", *(f"{part}-{kind}" for kind in "XY" for part in "BIUL")], "characters": ["a", "b"]}
    assert json.loads(json.dumps(found)) == found
