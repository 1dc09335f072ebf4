"""The role tagger: learns, knows which word is the predicate, and never says what is not BIO."""

import json

import pytest
import tiny
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.testing import assert_close

from stelmo.config import TaskSettings
from stelmo.embed.elmo import Elmo
from stelmo.tasks.spans import first_not_bio
from stelmo.tasks.srl.data import Example
from stelmo.tasks.srl.model import RECIPES, SIZES, Net, Size, inventory, sentences
from stelmo.tasks.srl.score import score
from stelmo.tasks.words import StaticTable, WordReader, places

SMALL = Size(predicate=3, hidden=12, layers=3, dropout=0.0)


def example(text):
    """ "Kim/B-ARG0 left/B-V" """
    pairs = [word.rpartition("/")[::2] if "/" in word else (word, "O") for word in text.split()]
    words, tags = zip(*pairs, strict=True)
    return Example(words, tags.index("B-V"), "", tags, "f:1")


EIGHT = [
    example(text)
    for text in (
        "Kim/B-ARG0 said/B-V we/B-ARG1 won/I-ARG1",
        "Kim said we/B-ARG0 won/B-V",
        "Rain/B-ARG1 fell/B-V",
        "Go/B-V",
        "the/B-ARG0 bank/I-ARG0 by/I-ARG0 the/I-ARG0 river/I-ARG0 closed/B-V today/B-ARGM-TMP .",
        "the/B-ARG1 bank/I-ARG1 by the river was closed/B-V",
        "who/B-R-ARG0 sold/B-V what/B-ARG1 to/B-ARG2 them/I-ARG2 ?",
        "he gave/B-V up/B-C-V",
    )
]


def reader(placement="none"):
    words = sorted({word.lower() for one in EIGHT for word in one.words})
    static = StaticTable(words, torch.randn(len(words), 6, generator=torch.Generator().manual_seed(0)), tuned=True)
    elmo = None if placement == "none" else Elmo(tiny.model(), outputs=len(places(placement)), dropout=0.0)
    return WordReader(static, elmo, placement)


def net(placement="none", size=SMALL, examples=EIGHT):
    torch.manual_seed(0)
    return Net(reader(placement), inventory(examples, size), size)


def test_it_learns_eight_frames_by_heart():
    tagger = net()
    optimizer = torch.optim.Adam(tagger.parameters(), 0.03)
    for _ in range(60):
        optimizer.zero_grad()
        tagger.loss(EIGHT).backward()
        optimizer.step()
    assert score(tagger.eval().predict(EIGHT), EIGHT)["f1"] == 100.0


@pytest.mark.parametrize("placement", ["none", "input", "output", "both"])
def test_the_gradient_reaches_every_parameter(placement):
    tagger = net(placement)
    tagger.loss([*EIGHT, EIGHT[0]._replace(words=("Xyzzy", "said", "we", "won"))]).backward()
    learned = {name: parameter for name, parameter in tagger.named_parameters() if parameter.requires_grad}
    assert {name for name, parameter in learned.items() if parameter.grad is None or not parameter.grad.any()} == set()


def test_padding_changes_neither_loss_nor_tags():
    tagger = net("both").double().eval()
    assert tagger.predict(EIGHT) == [tagger.predict([one])[0] for one in EIGHT]
    alone = [tagger.loss([one]) * len(one.words) for one in EIGHT]
    assert_close(tagger.loss(EIGHT), torch.stack(alone).sum() / sum(len(one.words) for one in EIGHT))


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


@pytest.mark.parametrize("name", list(SIZES))
def test_every_size_trains_and_every_recipe_is_one(name):
    assert net("both", SIZES[name]).train().loss(EIGHT[:3]).isfinite()
    assert TaskSettings(**RECIPES[name]).batch


def test_words_are_asked_for_as_they_are_precomputed():
    asked = []
    tagger = net()
    tagger.words.register_forward_pre_hook(lambda _, given_: asked.extend(given_[0]))
    tagger.predict(EIGHT)
    assert asked == [sentence for one in EIGHT for sentence in sentences(one)]
