"""The specification of the biLM in short, clear PyTorch, differentiable by autograd. Knows no modules.

B sentences, T tokens, C characters of a word, E character width, F filters, D input width, P projection,
H cells, L layers, N words in any arrangement, V words of the vocabulary, K negatives.
Weights have the layout of the published files: x @ W.
"""

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

Linear = Callable[[Tensor, Tensor, Tensor], Tensor]  # x, W, b → x W + b

FORGET_BIAS = 1.0  # added at run time; the stored biases do not include it


class HighwayWeights(NamedTuple):
    carry_FF: Tensor
    carry_bias_F: Tensor
    transform_FF: Tensor
    transform_bias_F: Tensor


class LstmWeights(NamedTuple):
    kernel: Tensor  # (D + P, 4H): rows of the input, then of the previous state; gates i, j, f, o
    bias: Tensor  # (4H,)
    projection_HP: Tensor | None  # absent where P = H: a plain LSTM


class Clips(NamedTuple):
    cell: float | None
    projection: float | None


def char_cnn(
    chars_NC: Tensor, table: Tensor, kernels: Sequence[Tensor], biases: Sequence[Tensor], activation: str
) -> Tensor:
    """Character ids → (N, F): for each filter of shape (width, E, count), the maximum over the windows of a word.

    Padding inside a word is a trained character like any other and is not masked.
    """
    x_NEC = F.embedding(chars_NC, table).transpose(1, 2)
    activate = {"relu": torch.relu, "tanh": torch.tanh}[activation]
    strongest = [
        F.conv1d(x_NEC, kernel.permute(2, 1, 0), bias).amax(-1) for kernel, bias in zip(kernels, biases, strict=True)
    ]
    return activate(torch.cat(strongest, -1))


def linear(x_NK: Tensor, matrix_KM: Tensor, bias_M: Tensor) -> Tensor:
    return x_NK @ matrix_KM + bias_M


def highway(x_NF: Tensor, weights: HighwayWeights, linear: Linear = linear) -> Tensor:
    """g ⊙ relu(x W_t + b_t) + (1 − g) ⊙ x,  g = σ(x W_c + b_c)

    Despite its name, the stored "carry" gate multiplies the *transformed* branch.
    """
    gate = torch.sigmoid(linear(x_NF, weights.carry_FF, weights.carry_bias_F))
    return gate * torch.relu(linear(x_NF, weights.transform_FF, weights.transform_bias_F)) + (1 - gate) * x_NF


def norm(x: Tensor, gain: Tensor, shift: Tensor, epsilon: float) -> Tensor:
    """γ (x − mean) / (σ + ε) + β over the last axis; ε is outside the root, unlike in torch's LayerNorm."""
    centred = x - x.mean(-1, keepdim=True)
    # As a vector norm, whose gradient is zero instead of undefined where all numbers are equal.
    deviation = torch.linalg.vector_norm(centred, dim=-1, keepdim=True) * x.shape[-1] ** -0.5
    normed: Tensor = centred / (deviation + epsilon) * gain + shift
    return normed


def clip(x: Tensor, limit: float | None) -> Tensor:
    return x if limit is None else x.clamp(-limit, limit)


def lstm_step(x_BD: Tensor, h_BP: Tensor, c_BH: Tensor, weights: LstmWeights, clips: Clips) -> tuple[Tensor, Tensor]:
    """c = clip(σ(f + 1) ⊙ c + σ(i) ⊙ tanh(j)),  h = clip((σ(o) ⊙ tanh(c)) W_p)"""
    i, j, f, o = (torch.cat([x_BD, h_BP], -1) @ weights.kernel + weights.bias).chunk(4, -1)
    c_BH = torch.sigmoid(f + FORGET_BIAS) * c_BH + torch.sigmoid(i) * torch.tanh(j)
    c_BH = clip(c_BH, clips.cell)
    m_BH = torch.sigmoid(o) * torch.tanh(c_BH)
    if weights.projection_HP is None:  # a plain LSTM has nothing to clip but its cell
        return m_BH, c_BH
    return clip(m_BH @ weights.projection_HP, clips.projection), c_BH


def lstm(
    x_BTD: Tensor, lengths_B: Tensor, weights: LstmWeights, clips: Clips, h_BP: Tensor, c_BH: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """One layer, left to right → outputs (B, T, P) and the state of each row at its own length.

    Outputs past a row's length are zero.
    """
    outputs = []
    for t, x_BD in enumerate(x_BTD.unbind(1)):
        alive_B1 = (t < lengths_B)[:, None]
        next_h_BP, next_c_BH = lstm_step(x_BD, h_BP, c_BH, weights, clips)
        h_BP = torch.where(alive_B1, next_h_BP, h_BP)
        c_BH = torch.where(alive_B1, next_c_BH, c_BH)
        outputs.append(torch.where(alive_B1, next_h_BP, 0.0))
    return torch.stack(outputs, 1), h_BP, c_BH


def reverse(x_BTD: Tensor, lengths_B: Tensor) -> Tensor:
    """Each row reversed within its own length; padding stays where it is."""
    t_T = torch.arange(x_BTD.shape[1], device=x_BTD.device)
    mirrored_BT = lengths_B[:, None] - 1 - t_T
    source_BT = torch.where(mirrored_BT >= 0, mirrored_BT, t_T)
    return x_BTD.gather(1, source_BT[:, :, None].expand_as(x_BTD))


def mix(layers_LBTD: Tensor, logits_L: Tensor, scale: Tensor) -> Tensor:
    """scale · Σ_l softmax(logits)_l · layer_l      (Peters et al. 2018, eq. 1)"""
    return scale * torch.einsum("l,lbtd->btd", logits_L.softmax(0), layers_LBTD)


def layer_norm(layers_LBTD: Tensor, mask_BT: Tensor, epsilon: float, by_sentence: bool = False) -> Tensor:
    """Each layer normalised by ONE mean and ONE variance over all its real tokens and features; no learned gain.

    So a vector depends on the other sentences of its batch, as in both released implementations. `by_sentence` takes
    one mean and one variance per sentence instead. A sentence without tokens is all zeros before and after.
    """
    axes = (2, 3) if by_sentence else (1, 2, 3)
    mask_BT1 = mask_BT[:, :, None].to(layers_LBTD.dtype)
    count = (mask_BT1.sum((1, 2), keepdim=True).clamp(min=1) if by_sentence else mask_BT1.sum()) * layers_LBTD.shape[-1]
    mean_L = (layers_LBTD * mask_BT1).sum(axes, keepdim=True) / count
    variance_L = (((layers_LBTD - mean_L) * mask_BT1) ** 2).sum(axes, keepdim=True) / count
    return (layers_LBTD - mean_L) / torch.sqrt(variance_L + epsilon)


def log_uniform(ids_N: Tensor, words: int) -> Tensor:
    """ln p(k),  p(k) = ln((k + 2) / (k + 1)) / ln(V + 1): the distribution of the negatives, in float64."""
    k_N = ids_N.double()
    return torch.log(torch.log1p(1 / (k_N + 1)) / math.log(words + 1))


def log_expected_count(ids_N: Tensor, words: int, tries: int) -> Tensor:
    """ln(1 − (1 − p)^tries): the expected count of a word among distinct negatives found in `tries` draws."""
    return torch.log(-torch.expm1(tries * torch.log1p(-log_uniform(ids_N, words).exp())))


def sampled_softmax(
    h_NP: Tensor, targets_N: Tensor, weight_VP: Tensor, bias_V: Tensor, negatives_K: Tensor, tries: int
) -> Tensor:
    """Mean cross entropy of the target against the negatives; from each logit its log expected count is subtracted.

    A negative that is the target itself is left out.
    """
    ids_NK = torch.cat([targets_N[:, None], negatives_K.expand(len(targets_N), -1)], 1)
    correction_V = log_expected_count(torch.arange(len(bias_V), device=h_NP.device), len(bias_V), tries)
    target_N = (h_NP * weight_VP[targets_N]).sum(-1) + bias_V[targets_N]
    logits_NK = torch.cat([target_N[:, None], h_NP @ weight_VP[negatives_K].T + bias_V[negatives_K]], 1)
    logits_NK = logits_NK - correction_V[ids_NK].to(logits_NK.dtype)
    accidental_NK = ids_NK == targets_N[:, None]
    accidental_NK[:, 0] = False
    return -torch.log_softmax(logits_NK.masked_fill(accidental_NK, -math.inf), -1)[:, 0].mean()


def full_softmax(h_NP: Tensor, targets_N: Tensor, weight_VP: Tensor, bias_V: Tensor) -> Tensor:
    """Mean cross entropy of the target against the whole vocabulary."""
    return F.cross_entropy(h_NP @ weight_VP.T + bias_V, targets_N)
