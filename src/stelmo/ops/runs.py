"""Words laid end to end, without padding, and operations on them: causal attention and causal convolution.

A run is a sentence, or a piece of one, in the order in which a direction reads it; a word sees its own run up to
itself. N words of all runs, S runs, T words of the longest of some runs, D width, H heads, d = D / H, w taps.
"""

import copy
from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from stelmo.ops import arithmetic

SHORT = 8  # runs up to this length form one group; in other groups the shortest run is longer than 2/3 of the longest


class Group(NamedTuple):
    """Runs of similar lengths, side by side."""

    words_ST: Tensor  # the number of each word among the N; arbitrary past a run's end
    there_n: Tensor  # which of the S · T are in a run, in the order of `words_n`
    words_n: Tensor  # their numbers among the N


class Runs:
    """Where runs begin and end among the N words, and the place of each word in its sentence."""

    def __init__(
        self, lengths: Sequence[int], position_N: Tensor | None = None, device: torch.device | None = None
    ) -> None:
        self.lengths = list(lengths)
        self.lengths_S = torch.tensor(self.lengths, dtype=torch.long, device=device)
        self.first_S = self.lengths_S.cumsum(0) - self.lengths_S
        index_N = torch.arange(sum(self.lengths), device=device)
        self.index_N = index_N
        self.offset_N = index_N - self.first_S.repeat_interleave(self.lengths_S)  # words of the run before each
        self.position_N = self.offset_N if position_N is None else position_N

    def at_positions(self, position_N: Tensor) -> "Runs":
        """The same runs of words that have other places in their sentences."""
        other = copy.copy(self)
        other.position_N = position_N
        return other

    def reversed(self) -> tuple[Tensor, "Runs"]:
        """For runs that are whole sentences: the words in the order of the other direction, and their runs.

        The order is its own inverse.
        """
        last_N = (self.lengths_S - 1).repeat_interleave(self.lengths_S)
        order_N = self.index_N + last_N - 2 * self.offset_N
        return order_N, self.at_positions(self.position_N[order_N])

    def earlier(self, x_ND: Tensor, words: int) -> Tensor:
        """The vector `words` words before each one; zero before the start of its run."""
        if words == 0:
            return x_ND
        padded = F.pad(x_ND, (0, 0, 1, 0))
        return padded.index_select(0, torch.where(self.offset_N >= words, self.index_N + 1 - words, 0))

    @cached_property
    def groups(self) -> list[Group]:
        """All runs, in groups with little padding."""
        device = self.index_N.device
        order = sorted(range(len(self.lengths)), key=lambda run: -self.lengths[run])
        found, start = [], 0
        while start < len(order):
            longest = self.lengths[order[start]]
            least = longest * 2 // 3 if longest > SHORT else 0
            end = start + 1
            while end < len(order) and self.lengths[order[end]] > least:
                end += 1
            chosen, t_T = torch.tensor(order[start:end], device=device), torch.arange(longest, device=device)
            words_ST = (self.first_S[chosen, None] + t_T).clamp_(max=len(self.index_N) - 1)
            inside_ST = t_T < self.lengths_S[chosen, None]
            found.append(Group(words_ST, inside_ST.flatten().nonzero()[:, 0], words_ST[inside_ST]))
            start = end
        return found


def attention(qkv_N3D: Tensor, runs: Runs, heads: int) -> Tensor:
    """softmax(Q Kᵀ / √d) V of each head, over the words of the run up to each word itself; heads side by side.

    In its own reading order, a direction's mask is causal: padding follows the words and is never seen.
    """
    width = qkv_N3D.shape[1] // 3
    parts, numbers = [], []
    for group in runs.groups:
        rows, longest = group.words_ST.shape
        qkv = qkv_N3D.index_select(0, group.words_ST.flatten()).view(rows, longest, 3, heads, width // heads)
        q_SHTd, k_SHTd, v_SHTd = qkv.permute(2, 0, 3, 1, 4)
        y_SHTd = F.scaled_dot_product_attention(q_SHTd, k_SHTd, v_SHTd, is_causal=True)
        y_ND = y_SHTd.transpose(1, 2).reshape(rows * longest, width)
        parts.append(y_ND.index_select(0, group.there_n))
        numbers.append(group.words_n)
    return torch.empty_like(qkv_N3D[:, :width]).index_copy(0, torch.cat(numbers), torch.cat(parts))


def gated_convolution(u_ND: Tensor, runs: Runs, taps_wDO: Tensor, bias_O: Tensor, dilation: int) -> Tensor:
    """z ⊙ σ(gate) of [z ; gate][t] = b + Σ_k u[t − k · dilation] W_k, zeros before the run's first word."""
    columns_NK = torch.cat([runs.earlier(u_ND, tap * dilation) for tap in range(len(taps_wDO))], 1)
    return F.glu(arithmetic.linear(columns_NK, taps_wDO.flatten(0, 1), bias_O), 1)
