"""The span ranker: its scores against spans and pairs put together one by one, its loss against enumeration."""

import json
import math

import pytest
import tiny
import torch
from torch.testing import assert_close

from stelmo.config import TaskSettings
from stelmo.embed.elmo import Elmo
from stelmo.tasks.coref import model as coref_model
from stelmo.tasks.coref.data import Example
from stelmo.tasks.coref.model import RECIPES, SIZES, Net, Size, _bucket, inventory, marginal_loss, sentences
from stelmo.tasks.coref.score import score
from stelmo.tasks.words import StaticTable, WordReader, places

SMALL = Size(
    characters=3, filters=((2, 4),), hidden=6, scorer=32, feature=3, widest=3, spans=0.8, antecedents=8,
    lexical_dropout=0.0, dropout=0.0,
)  # fmt: skip


def document(*lines, clusters=(), name="0"):
    """A line is a sentence; "Ann: I left" has a speaker."""
    said = [line.rpartition(": ")[::2] for line in lines]
    words = tuple(tuple(text.split()) for _, text in said)
    speakers = tuple((speaker or "-",) * len(text.split()) for speaker, text in said)
    return Example(f"(x/{name}); part 000", words, speakers, tuple(map(frozenset, clusters)), "f:1")


KIM = document(
    "the baker of Oslo sold her shop",
    "it closed",
    "she left Oslo",
    clusters=[{(0, 1), (5, 5), (9, 9)}, {(3, 3), (11, 11)}, {(5, 6), (7, 7)}],
)
TALK = document("Ann: I saw you", "Bob: you saw me", clusters=[{(0, 0), (3, 3)}, {(2, 2), (5, 5)}])
ALONE = document("a man met a woman", "he smiled", clusters=[{(0, 1), (5, 5)}, {(3, 4)}])
EIGHT = [
    KIM,
    TALK,
    ALONE,
    document("nothing happens"),
    document("hush"),
    document("rain fell", "it stopped", clusters=[{(0, 0), (2, 2)}]),
    document("the bank by the river", "the bank failed", clusters=[{(0, 1), (5, 6)}, {(3, 4)}]),
    document("we know us", clusters=[{(0, 0), (2, 2)}]),
]


def reader(placement="none"):
    words = sorted({word.lower() for one in EIGHT for sentence in one.sentences for word in sentence} - {"hush"})
    static = StaticTable(words, torch.randn(len(words), 6, generator=torch.Generator().manual_seed(0)), tuned=True)
    elmo = None if placement == "none" else Elmo(tiny.model(), outputs=len(places(placement)), dropout=0.0)
    return WordReader(static, elmo, placement)


def net(placement="none", size=SMALL, examples=EIGHT):
    torch.manual_seed(0)
    return Net(reader(placement), inventory(examples, size), size)


# The scores


def plain_span(ranker, x_WD, h_WE, head_W, span):
    """g of one span, as the paper writes it."""
    start, end = span
    share = head_W[start : end + 1].softmax(0)
    return torch.cat([h_WE[start], h_WE[end], share @ x_WD[start : end + 1], ranker.width.weight[end - start]])


@pytest.mark.parametrize("example", [KIM, TALK, EIGHT[4]], ids=["three sentences", "two speakers", "one word"])
def test_scores_are_those_of_spans_and_pairs_put_together(example, monkeypatch):
    monkeypatch.setattr(coref_model, "PAIRS_TOGETHER", 4)
    ranker = net("both", SMALL.model_copy(update={"antecedents": 6})).double().eval()
    ranked = ranker(example)
    x_WD, h_WE = ranker._encoded(example)
    spans_G = [plain_span(ranker, x_WD, h_WE, ranker.head(h_WE), span) for span in ranked.candidates]
    mention_S = torch.stack([ranker.mention(g_G) for g_G in spans_G])
    assert_close(ranked.mention_S, mention_S)

    speakers = [speaker for sentence in example.speakers for speaker in sentence]
    expected_MA = torch.full_like(ranked.antecedent_MA, -torch.inf)
    expected_MA[:, 0] = 0.0
    for i, later in enumerate(ranked.kept):
        for back, earlier in enumerate(reversed(ranked.kept[max(0, i - 6) : i]), 1):
            same = speakers[ranked.candidates[later][0]] == speakers[ranked.candidates[earlier][0]]
            features = [ranker.speaker.weight[int(same)], ranker.distance.weight[min(back, 5) - 1]]
            pair = torch.cat([spans_G[later], spans_G[earlier], spans_G[later] * spans_G[earlier], *features])
            expected_MA[i, back] = mention_S[later] + mention_S[earlier] + ranker.antecedent(pair)
    assert_close(ranked.antecedent_MA, expected_MA)


def test_as_many_mentions_are_kept_as_the_size_says():
    ranked = net()(KIM)
    assert len(ranked.kept) == int(0.8 * 12)
    assert len(net()(EIGHT[4]).kept) == 1


def test_distances_fall_into_buckets():
    distances = [1, 2, 3, 4, 5, 7, 8, 15, 16, 31, 32, 63, 64, 1000]
    assert _bucket(torch.tensor(distances)).tolist() == [0, 1, 2, 3, 4, 4, 5, 5, 6, 6, 7, 7, 8, 8]


# The loss and the answer


def test_the_loss_is_the_likelihood_of_all_right_antecedents_together():
    numbers = [0, 1, 0, 0, -1, -1, 1]  # the last is out of reach of its cluster
    scores = torch.full((7, 4), -torch.inf, dtype=torch.float64)
    scores[:, 0] = 0.0
    for i in range(7):
        scores[i, 1 : min(i, 3) + 1] = torch.randn(min(i, 3), dtype=torch.float64)
    expected = 0.0
    for i, row in enumerate(scores.exp().tolist()):
        right = [back for back in range(1, min(i, 3) + 1) if numbers[i - back] == numbers[i] != -1] or [0]
        expected -= math.log(sum(row[back] for back in right) / sum(row))
    assert float(marginal_loss(scores, torch.tensor(numbers))) == pytest.approx(expected)


def test_each_mention_takes_its_best_antecedent_or_none():
    ranker = net().eval()
    ranked = ranker(KIM)
    ranker.singletons = False
    antecedent_MA = torch.full((len(ranked.kept), 3), -1.0)
    antecedent_MA[:, 0] = 0.0
    antecedent_MA[2, 1], antecedent_MA[4, 2] = 2.0, 1.0
    (cluster,) = ranker._clusters(ranked._replace(antecedent_MA=antecedent_MA))
    assert cluster == {ranked.mentions[place] for place in (1, 2, 4)}


def test_a_mention_of_its_own_is_answered_where_training_had_such():
    with_, without = net(), net(examples=[KIM, TALK])
    assert (with_.singletons, without.singletons) == (True, False)
    assert not net(size=SMALL.model_copy(update={"singletons": False})).singletons
    for ranker in (with_, without):
        ranked = ranker(ALONE)
        nobody_MA = torch.full_like(ranked.antecedent_MA, -1.0)
        nobody_MA[:, 0] = 0.0
        ranked = ranked._replace(antecedent_MA=nobody_MA)
        positive = {
            frozenset({span}) for place, span in zip(ranked.kept, ranked.mentions, strict=True)
            if ranked.mention_S[place] > 0
        }  # fmt: skip
        assert set(ranker._clusters(ranked)) == (positive if ranker.singletons else set())


# The network


def test_it_learns_eight_documents_by_heart():
    ranker = net()
    optimizer = torch.optim.Adam(ranker.parameters(), 0.02)
    for _ in range(40):
        optimizer.zero_grad()
        ranker.loss(EIGHT).backward()
        optimizer.step()
    assert score(ranker.eval().predict(EIGHT), EIGHT)["f1"] == 100.0


@pytest.mark.parametrize("placement", ["none", "input", "output", "both"])
def test_the_gradient_reaches_every_parameter(placement):
    ranker = net(placement)
    ranker.loss(EIGHT).backward()
    learned = {name: parameter for name, parameter in ranker.named_parameters() if parameter.requires_grad}
    assert {name for name, parameter in learned.items() if parameter.grad is None or not parameter.grad.any()} == set()


def test_company_changes_nothing():
    ranker = net("both").double().eval()
    assert ranker.predict(EIGHT) == [ranker.predict([one])[0] for one in EIGHT]
    assert_close(ranker.loss(EIGHT), torch.stack([ranker.loss([one]) for one in EIGHT]).mean())


@pytest.mark.parametrize("example", EIGHT[3:5], ids=["no mention", "one word"])
@pytest.mark.parametrize("examples", [EIGHT, [KIM]], ids=["singletons", "none"])
def test_a_document_without_mentions_has_a_finite_loss_and_gradient(example, examples):
    ranker = net(examples=examples)
    loss = ranker.loss([example])
    loss.backward()
    assert loss.isfinite()
    assert all(p.grad is None or p.grad.isfinite().all() for p in ranker.parameters())


def test_training_takes_a_piece_of_a_long_document_by_chance():
    ranker = net(size=SMALL.model_copy(update={"sentences": 2}))
    asked = []
    ranker.words.register_forward_pre_hook(lambda _, given: asked.append(given[0]))
    for _ in range(20):
        ranker.loss([KIM])
    assert set(asked) == {KIM.sentences[:2], KIM.sentences[1:]}
    ranker.predict([KIM])
    assert asked[-1] == KIM.sentences


def test_the_inventory_knows_characters_and_whether_mentions_stand_alone():
    assert inventory([document("ab a", clusters=[{(0, 0)}])], SMALL) == {
        "characters": ["a", "b"],
        "singletons": ["annotated"],
    }
    found = inventory([TALK], SMALL)
    assert found["singletons"] == []
    assert json.loads(json.dumps(found)) == found


@pytest.mark.parametrize("name", list(SIZES))
def test_every_size_trains_and_every_recipe_is_one(name):
    assert net("both", SIZES[name]).train().loss(EIGHT[:2]).isfinite()
    assert TaskSettings(**RECIPES[name]).batch == 1


def test_words_are_asked_for_as_they_are_precomputed():
    asked = []
    ranker = net()
    ranker.words.register_forward_pre_hook(lambda _, given: asked.extend(given[0]))
    ranker.predict(EIGHT)
    assert asked == [sentence for one in EIGHT for sentence in sentences(one)]
