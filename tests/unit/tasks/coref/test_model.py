"""The span ranker: scores against spans and pairs put together one by one; the loss against enumeration."""

import json
import math
from functools import partial

import pytest
import torch
from torch.testing import assert_close
from unit.tasks.coref.eight import ALONE, EIGHT, KIM, SMALL, TALK, document, net

from stelmo.tasks.coref import model as coref_model
from stelmo.tasks.coref.model import NEAREST, _bucket, inventory, marginal_loss

# The scores


def plain_span(ranker, x_WD, h_WE, head_W, span):
    """g of one span, as the paper writes it."""
    start, end = span
    share = head_W[start : end + 1].softmax(0)
    return torch.cat([h_WE[start], h_WE[end], share @ x_WD[start : end + 1], ranker.width.weight[end - start]])


@pytest.mark.parametrize("example", [KIM, TALK, EIGHT[4]], ids=["three sentences", "two speakers", "one word"])
def test_scores_are_those_of_spans_and_pairs_put_together(example, monkeypatch):
    monkeypatch.setattr(coref_model, "LATER_TOGETHER", 4)
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


def scores_pair_by_pair(ranker, g_MG, mention_M, speakers):
    """s(i, j) of one pair after the other, as the paper writes it."""
    count, most = len(g_MG), min(ranker.size.antecedents, len(g_MG) - 1)
    rows = []
    for i in range(count):
        row = [torch.zeros((), dtype=g_MG.dtype)]
        for back in range(1, most + 1):
            j = i - back
            if j < 0:
                row.append(torch.tensor(-torch.inf, dtype=g_MG.dtype))
                continue
            same, bucket = int(speakers[i] == speakers[j]), sum(back >= nearest for nearest in NEAREST) - 1
            features = [ranker.speaker.weight[same], ranker.distance.weight[bucket]]
            pair = torch.cat([g_MG[i], g_MG[j], g_MG[i] * g_MG[j], *features])
            row.append(mention_M[i] + mention_M[j] + ranker.antecedent(pair))
        rows.append(torch.stack(row))
    return torch.stack(rows)


@pytest.mark.parametrize(("count", "antecedents"), [(2, 3), (4, 9), (9, 9), (9, 3), (12, 1), (13, 5)])
def test_antecedents_scored_together_have_the_values_and_gradients_of_single_pairs(count, antecedents, monkeypatch):
    monkeypatch.setattr(coref_model, "LATER_TOGETHER", 4)
    ranker = net("both", SMALL.model_copy(update={"antecedents": antecedents})).double().eval()
    torch.manual_seed(count)
    g_MG = torch.randn(count, sum(ranker.parts), dtype=torch.float64, requires_grad=True)
    mention_M = torch.randn(count, dtype=torch.float64, requires_grad=True)
    speakers = ["Kim" if place % 3 else "Lee" for place in range(count)]
    learned = [g_MG, mention_M, ranker.speaker.weight, ranker.distance.weight, *ranker.antecedent.parameters()]
    found = []
    for score in (ranker._antecedent_scores, partial(scores_pair_by_pair, ranker)):
        scores_MA = score(g_MG, mention_M, speakers)
        likely = (scores_MA.logsumexp(1) * torch.arange(1.0, count + 1)).sum()
        found.append((scores_MA, torch.autograd.grad(likely, learned, materialize_grads=True)))
    assert_close(*found)


def test_in_half_precision_gradients_are_nearly_the_same():
    ranker, found = net("input").eval(), []
    for half in (False, True):
        ranker.zero_grad()
        with torch.autocast("cpu", torch.bfloat16, enabled=half):
            loss = ranker.loss([KIM])
        loss.backward()
        found.append(ranker.antecedent.first.weight.grad)
    assert (found[0] - found[1]).norm() < 0.1 * found[0].norm()


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
