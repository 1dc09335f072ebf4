"""The role tagger: knows which word is the predicate, and never says what is not BIO."""

import json

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.testing import assert_close
from unit.tasks.srl.eight import EIGHT, SMALL, example, net

from stelmo.tasks.srl.data import Example
from stelmo.tasks.srl.model import inventory
from stelmo.tasks.tags import first_not_bio


def test_the_loss_is_the_mean_surprise_at_a_tag():
    tagger, one = net().eval(), EIGHT[0]
    logp_BTY, _ = tagger([one])
    surprises = [-logp_BTY[0, place, tagger.labels.index(tag)] for place, tag in enumerate(one.tags)]
    assert_close(tagger.loss([one]), torch.stack(surprises).mean())


def test_which_word_is_the_predicate_matters():
    tagger, one = net().eval(), EIGHT[0]
    said, won = tagger([one])[0], tagger([one._replace(predicate=3)])[0]
    assert not torch.allclose(said, won)


@settings(deadline=None, max_examples=25)
@given(
    st.integers(0, 2**31),
    st.lists(st.lists(st.text(min_size=1, max_size=4), min_size=1, max_size=6), min_size=1, max_size=4),
)
def test_an_untrained_network_says_bio_too(seed, texts):
    tagger = net().eval()
    torch.manual_seed(seed)
    tagger.label.weight.data.normal_(0, 20)
    for words, tags in zip(
        texts, tagger.predict([Example(tuple(text), 0, "", (), "f:1") for text in texts]), strict=True
    ):
        assert len(tags) == len(words)
        assert first_not_bio(tags) is None


def test_where_the_likeliest_tags_are_no_bio_the_next_best_that_are_count():
    tagger = net(examples=[example("a/B-V b/B-X c/I-X")]).eval()
    assert tagger.labels == ["B-V", "B-X", "I-X", "O"]
    tagger.label.weight.data.zero_()
    tagger.label.bias.data = torch.tensor([0.0, 1.0, 5.0, 4.0])
    assert tagger.predict([example("a/B-V b")]) == [("O", "O")]
    tagger.label.bias.data = torch.tensor([0.0, 3.5, 5.0, 4.0])
    assert tagger.predict([example("a/B-V b")]) == [("B-X", "I-X")]


def test_roles_that_training_did_not_have_are_no_obstacle_to_predict():
    (tags,) = net().eval().predict([example("Mars/B-PLANET glows/B-V")])
    assert len(tags) == 2


def test_one_word_is_enough():
    assert net().loss([example("Go/B-V")]).isfinite()


def test_the_inventory_is_the_labels():
    found = inventory([example("a/B-V b/B-X"), example("c/B-V")], SMALL)
    assert found == {"labels": ["B-V", "B-X", "O"]}
    assert json.loads(json.dumps(found)) == found
