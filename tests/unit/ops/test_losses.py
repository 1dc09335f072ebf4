"""`ops.losses` against autograd through `ops.reference`, and that against NumPy."""

import math

import pytest
import torch

from stelmo.ops import losses, reference

pytestmark = pytest.mark.usefixtures("each_arithmetic")

TOLERANCE = {torch.float64: 1e-10, torch.float32: 2e-5}
TOKENS, WORDS, WIDTH, TRIES = 300, 40, 6, 25
NEGATIVES = torch.tensor([0, 3, 17, 2, 39, 11, 5, 8])


@pytest.fixture
def head():
    """h, targets (some of them negatives, some often), weight, bias."""
    torch.manual_seed(0)
    targets_N = torch.randint(WORDS, (TOKENS,)) // torch.randint(1, 4, (TOKENS,))
    parts = (torch.randn(*shape, dtype=torch.float64) for shape in ((TOKENS, WIDTH), (WORDS, WIDTH), (WORDS,)))
    h_NP, weight_VP, bias_V = parts
    return h_NP, targets_N, weight_VP, bias_V


def dense(gradient):
    weight_VP = torch.zeros(WORDS, WIDTH, dtype=gradient.weight_nP.dtype)
    bias_V = torch.zeros(WORDS, dtype=gradient.bias_n.dtype)
    weight_VP[gradient.rows_n], bias_V[gradient.rows_n] = gradient.weight_nP, gradient.bias_n
    return weight_VP, bias_V


def by_autograd(run, h_NP, targets_N, weight_VP, bias_V, *rest):
    leaves = [leaf.clone().requires_grad_() for leaf in (h_NP, weight_VP, bias_V)]
    loss = run(leaves[0], targets_N, leaves[1], leaves[2], *rest)
    return [loss.detach(), *torch.autograd.grad(loss, leaves)]


def in_one_pass(run, *arguments):
    found = run(*arguments)
    return [found.loss, found.h_NP, *dense(losses.merge([found.rows]))]


def cast(head, dtype):
    return [part.to(dtype) if part.is_floating_point() else part for part in head]


SOFTMAXES = {
    "sampled": (losses.sampled_softmax, reference.sampled_softmax, (NEGATIVES, TRIES)),
    "full": (losses.full_softmax, reference.full_softmax, ()),
}


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize(("fast", "slow", "rest"), SOFTMAXES.values(), ids=SOFTMAXES)
def test_loss_and_gradients_in_one_pass_are_autograd_s(head, fast, slow, rest, dtype):
    expected = by_autograd(slow, *cast(head, dtype), *rest)
    for found, right in zip(in_one_pass(fast, *cast(head, dtype), *rest), expected, strict=True):
        assert right.abs().max() > 0
        assert (found - right).norm() <= TOLERANCE[dtype] * right.norm()


@pytest.mark.parametrize(("fast", "slow", "rest"), SOFTMAXES.values(), ids=SOFTMAXES)
def test_the_scale_is_on_the_gradients_not_on_the_loss(head, fast, slow, rest):
    once, thrice = fast(*head, *rest), fast(*head, *rest, 3.0)
    assert thrice.loss == once.loss
    torch.testing.assert_close(thrice.h_NP, 3 * once.h_NP)
    torch.testing.assert_close(
        dense(losses.merge([thrice.rows])), tuple(3 * g for g in dense(losses.merge([once.rows])))
    )


def test_a_full_softmax_of_more_words_than_fit_together(head, monkeypatch):
    monkeypatch.setattr(losses, "_LOGITS_TOGETHER", 7 * WORDS)
    expected = by_autograd(reference.full_softmax, *head)
    for found, right in zip(in_one_pass(losses.full_softmax, *head), expected, strict=True):
        torch.testing.assert_close(found, right)


@pytest.mark.parametrize("together", [(1, 1), (3, 7), (256, 4096)])
def test_losses_of_single_tokens_have_the_full_softmax_s_mean(head, together, monkeypatch):
    monkeypatch.setattr(losses, "PLACES_TOGETHER", together[0])
    monkeypatch.setattr(losses, "WORDS_TOGETHER", together[1])
    losses_N = losses.full_losses(*head)
    assert losses_N.shape == (TOKENS,)
    torch.testing.assert_close(losses_N.mean(), reference.full_softmax(*head))


def test_the_sampled_softmax_is_the_one_a_person_computes_from_the_same_samples(head):
    h, targets, weight, bias = (part.numpy() for part in head)
    total = 0.0
    for vector, target in zip(h, targets, strict=True):
        ids = [target, *(k for k in NEGATIVES.tolist() if k != target)]
        chance = [math.log((k + 2) / (k + 1)) / math.log(WORDS + 1) for k in ids]
        odds = [
            math.exp(weight[k] @ vector + bias[k]) / (1 - (1 - p) ** TRIES) for k, p in zip(ids, chance, strict=True)
        ]
        total -= math.log(odds[0] / sum(odds))
    assert losses.sampled_softmax(*head, NEGATIVES, TRIES).loss.item() == pytest.approx(total / TOKENS, rel=1e-12)


def test_the_log_uniform_law_sums_to_one():
    assert reference.log_uniform(torch.arange(1000), 1000).exp().sum().item() == pytest.approx(1, abs=1e-12)


def test_merged_rows_are_distinct_rising_and_summed():
    parts = [
        (torch.tensor([5, 1, 5]), torch.tensor([[1.0], [2.0], [4.0]]), torch.tensor([1.0, 2.0, 4.0])),
        (torch.tensor([1, 7]), torch.tensor([[8.0], [16.0]]), torch.tensor([8.0, 16.0])),
    ]
    merged = losses.merge(parts)
    assert merged.rows_n.tolist() == [1, 5, 7]
    assert merged.weight_nP[:, 0].tolist() == merged.bias_n.tolist() == [10.0, 5.0, 16.0]


def test_a_target_among_the_negatives_is_not_held_against_itself():
    head = torch.ones(1, 1), torch.tensor([3]), torch.full((WORDS, 1), 2.0), torch.zeros(WORDS)
    assert losses.sampled_softmax(*head, torch.tensor([3]), 5).loss == 0
    assert losses.sampled_softmax(*head, torch.tensor([3]), 5).rows[1].isfinite().all()
