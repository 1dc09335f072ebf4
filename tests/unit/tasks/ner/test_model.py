"""The tagger: learns, reads every placement of ELMo, and never says what is not BIO."""

import json

import pytest
import tiny
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.testing import assert_close

from stelmo.embed.elmo import Elmo
from stelmo.tasks.ner.data import Example
from stelmo.tasks.ner.model import SIZES, Net, Size, inventory, sentences
from stelmo.tasks.ner.score import score
from stelmo.tasks.spans import first_not_bio
from stelmo.tasks.words import StaticTable, WordReader, places

SMALL = Size(character_embedding=4, filters=((2, 6), (3, 6)), hidden=(12, 8), dropout=0.0)


def example(text):
    """ "Oslo/B-LOC is" """
    pairs = [word.rpartition("/")[::2] if "/" in word else (word, "O") for word in text.split()]
    return Example(tuple(word for word, _ in pairs), tuple(tag for _, tag in pairs), "f:1")


EIGHT = [
    example(text)
    for text in (
        "Berta/B-PER Quell/I-PER left Oslo/B-LOC Bergen/B-LOC .",
        "Acme/B-ORG",
        "Nothing here",
        "the bank of Rome/B-LOC",
        "Bank/B-ORG of/I-ORG the/I-ORG North/I-ORG",
        "Kim/B-PER van/I-PER der/I-PER Berg/I-PER met Ada/B-PER",
        "river über 日本/B-LOC",
        "( a ) .",
    )
]


def reader(placement="none"):
    words = ["the", "bank", "river", ".", "left", "oslo"]
    static = StaticTable(words, torch.randn(len(words), 5, generator=torch.Generator().manual_seed(0)), tuned=True)
    elmo = None if placement == "none" else Elmo(tiny.model(), outputs=len(places(placement)), dropout=0.0)
    return WordReader(static, elmo, placement)


def net(placement="none", size=SMALL, examples=EIGHT):
    torch.manual_seed(0)
    return Net(reader(placement), inventory(examples, size), size)


def test_it_learns_eight_sentences_by_heart():
    tagger = net()
    optimizer = torch.optim.Adam(tagger.parameters(), 0.03)
    for _ in range(40):
        optimizer.zero_grad()
        tagger.loss(EIGHT).backward()
        optimizer.step()
    predictions = tagger.eval().predict(EIGHT)
    assert score(predictions, EIGHT)["f1"] == 100.0


@pytest.mark.parametrize("placement", ["none", "input", "output", "both"])
def test_the_gradient_reaches_every_parameter(placement):
    tagger = net(placement)
    tagger.loss(EIGHT).backward()
    learned = {name: parameter for name, parameter in tagger.named_parameters() if parameter.requires_grad}
    assert {name for name, parameter in learned.items() if parameter.grad is None or not parameter.grad.any()} == set()


def test_padding_changes_neither_loss_nor_tags():
    tagger = net("both").double().eval()
    together = tagger.predict(EIGHT)
    assert together == [tagger.predict([one])[0] for one in EIGHT]
    assert_close(tagger.loss(EIGHT), torch.stack([tagger.loss([one]) for one in EIGHT]).mean())


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


def test_every_size_makes_a_network_that_trains():
    for size in SIZES.values():
        assert net("both", size).train().loss(EIGHT[:3]).isfinite()


def test_words_are_asked_for_as_they_are_precomputed():
    asked = []
    tagger = net()
    tagger.words.register_forward_pre_hook(lambda _, given_: asked.extend(given_[0]))
    tagger.predict(EIGHT)
    assert asked == [sentence for one in EIGHT for sentence in sentences(one)]
