"""The softmaxes of `reference`, loss and gradient in one pass over chunks of tokens. Knows no modules.

The logits of a chunk stay in the processor's cache and are not stored. N tokens, V words, K negatives, P projection.
"""

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from stelmo.ops import arithmetic
from stelmo.ops.reference import log_expected_count

TOKENS_TOGETHER = 128
PLACES_TOGETHER, WORDS_TOGETHER = 256, 4096  # a tile of logits without gradient: 2.7 × the speed of whole rows
_LOGITS_TOGETHER = 1 << 20  # of a full softmax with gradient, whatever the size of the vocabulary


class RowGradient(NamedTuple):
    """The gradient of some rows of the softmax; that of all other rows is zero."""

    rows_n: Tensor  # distinct, ascending
    weight_nP: Tensor
    bias_n: Tensor


class LossGradient(NamedTuple):
    """The mean loss of N tokens, and the gradients of scale · loss."""

    loss: Tensor  # ()
    h_NP: Tensor
    rows: tuple[Tensor, Tensor, Tensor]  # ids in any order, possibly repeated; weight and bias of each


def merge(parts: Sequence[tuple[Tensor, Tensor, Tensor]]) -> RowGradient:
    """Gradients of rows, each part (ids, weight, bias), summed over equal ids."""
    ids, weight, bias = (torch.cat(columns) for columns in zip(*parts, strict=True))
    rows_n, place = torch.unique(ids, return_inverse=True)
    weight_nP = weight.new_zeros(len(rows_n), weight.shape[1]).index_add_(0, place, weight)
    return RowGradient(rows_n, weight_nP, bias.new_zeros(len(rows_n)).index_add_(0, place, bias))


@torch.no_grad()
def sampled_softmax(
    h_NP: Tensor,
    targets_N: Tensor,
    weight_VP: Tensor,
    bias_V: Tensor,
    negatives_K: Tensor,
    tries: int,
    scale: float = 1.0,
) -> LossGradient:
    """As `reference.sampled_softmax`, with the gradient of scale · loss."""
    words, weight = len(bias_V), scale / len(h_NP)  # weight of a token
    weight_NP, weight_KP = weight_VP[targets_N], weight_VP[negatives_K]
    bias_K = bias_V[negatives_K] - log_expected_count(negatives_K, words, tries).to(bias_V.dtype)
    target_N = torch.linalg.vecdot(h_NP, weight_NP) + bias_V[targets_N]
    target_N -= log_expected_count(targets_N, words, tries).to(bias_V.dtype)
    place_V = negatives_K.new_full((words,), -1)  # of each word among the negatives
    place_V[negatives_K] = torch.arange(len(negatives_K), device=negatives_K.device)
    hit_N = place_V[targets_N]
    dh_NP, dtarget_N, loss = torch.empty_like(h_NP), torch.empty_like(target_N), target_N.new_zeros(())
    dweight_KP, dbias_K = torch.zeros_like(weight_KP), torch.zeros_like(bias_K)
    for n in _chunks(len(h_NP), TOKENS_TOGETHER):
        logits_nK = arithmetic.product(h_NP[n], weight_KP.t(), bias_K)
        logits_nK[(hit_N[n] >= 0).nonzero()[:, 0], hit_N[n][hit_N[n] >= 0]] = -math.inf
        top_n = torch.maximum(logits_nK.amax(1), target_N[n])
        exp_nK = logits_nK.sub_(top_n[:, None]).exp_()
        target_exp_n = torch.exp(target_N[n] - top_n)
        total_n = exp_nK.sum(1) + target_exp_n
        loss += (total_n.log() + top_n - target_N[n]).sum()
        # Rows are divided by their totals after the product, where they have P numbers instead of K.
        share_n = weight / total_n
        torch.mul(arithmetic.product(exp_nK, weight_KP), share_n[:, None], out=dh_NP[n])
        arithmetic.add_product(dweight_KP, exp_nK.t(), h_NP[n] * share_n[:, None])
        dbias_K.addmv_(exp_nK.t(), share_n)
        dtarget_N[n] = target_exp_n * share_n - weight
    dh_NP.addcmul_(dtarget_N[:, None], weight_NP)
    ids = torch.cat([negatives_K, targets_N])
    dweight = torch.cat([dweight_KP, dtarget_N[:, None] * h_NP])
    return LossGradient(loss / len(h_NP), dh_NP, (ids, dweight, torch.cat([dbias_K, dtarget_N])))


@torch.no_grad()
def full_softmax(
    h_NP: Tensor, targets_N: Tensor, weight_VP: Tensor, bias_V: Tensor, scale: float = 1.0
) -> LossGradient:
    """As `reference.full_softmax`, with the gradient of scale · loss; every word has a row."""
    weight, loss = scale / len(h_NP), h_NP.new_zeros(())  # weight of a token
    dh_NP, dweight_VP, dbias_V = torch.empty_like(h_NP), torch.zeros_like(weight_VP), torch.zeros_like(bias_V)
    for n in _chunks(len(h_NP), max(1, _LOGITS_TOGETHER // len(bias_V))):
        logp_nV = arithmetic.product(h_NP[n], weight_VP.t(), bias_V).log_softmax(1)
        loss -= logp_nV.gather(1, targets_N[n, None]).sum()
        dlogits_nV = logp_nV.exp_().mul_(weight)  # d loss / d logit = softmax(logit), less 1 for the target
        dlogits_nV.scatter_add_(1, targets_N[n, None], dlogits_nV.new_full((len(dlogits_nV), 1), -weight))
        arithmetic.write_product(dh_NP[n], dlogits_nV, weight_VP)
        arithmetic.add_product(dweight_VP, dlogits_nV.t(), h_NP[n])
        dbias_V += dlogits_nV.sum(0)
    ids_V = torch.arange(len(bias_V), device=bias_V.device)
    return LossGradient(loss / len(h_NP), dh_NP, (ids_V, dweight_VP, dbias_V))


@torch.no_grad()
def full_losses(h_NP: Tensor, targets_N: Tensor, weight_VP: Tensor, bias_V: Tensor) -> Tensor:
    """Cross entropy of each target against the whole vocabulary, (N,), without gradient."""
    target_N = torch.linalg.vecdot(h_NP, weight_VP[targets_N]) + bias_V[targets_N]
    words = list(zip(torch.split(weight_VP, WORDS_TOGETHER), torch.split(bias_V, WORDS_TOGETHER), strict=True))
    log_sums = []  # ln Σ exp over all words, (n,) each
    for h_nP in torch.split(h_NP, PLACES_TOGETHER):
        tiles = [arithmetic.product(h_nP, weight_vP.t(), bias_v).logsumexp(1) for weight_vP, bias_v in words]
        log_sums.append(torch.stack(tiles).logsumexp(0))
    return torch.sub(torch.cat(log_sums), target_N)


def _chunks(count: int, together: int) -> Iterator[slice]:
    return (slice(first, min(first + together, count)) for first in range(0, count, together))
