"""Words → the response of all filters to every window of their characters. Knows no modules.

A response is the sum of the contributions of a window's characters, each at its place in the window. A batch has few
distinct characters, so their contributions fit in a small table, and a response is a sum of its rows. All filters lie
side by side, each padded with zeros to the widest.

U words, n words together, C characters of a word, d distinct characters, E character width, p places of a window in a
word, w places in the widest filter, F filters.
"""

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

WORDS_TOGETHER = 32  # their windows stay in the processor's cache between the sum and the maximum


def concatenated(kernels: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
    """Kernels (width, E, count) → one (w, E, F), and the width of each filter."""
    widest, device = max(map(len, kernels)), kernels[0].device
    padded = [functional.pad(kernel, (0, 0, 0, 0, 0, widest - len(kernel))) for kernel in kernels]
    widths_F = torch.cat([torch.full((kernel.shape[2],), len(kernel), device=device) for kernel in kernels])
    return torch.cat(padded, 2), widths_F


def distinct_ids(chars_UC: Tensor, rows: int) -> tuple[Tensor, Tensor]:
    """The ids that occur, and the number of each character among them."""
    occurs = torch.zeros(rows, dtype=torch.bool, device=chars_UC.device)
    occurs[chars_UC.flatten()] = True
    return occurs.nonzero()[:, 0], (occurs.cumsum(0) - 1)[chars_UC]


class Part(NamedTuple):
    """Some words of similar length."""

    rows_n: Tensor
    numbers_nc: Tensor
    places: int
    forbidden_pF: Tensor | None  # where a filter would reach past the end of the word

    def responses(self, contributions_wdF: Tensor) -> Tensor:
        """(n, p, F) of each window."""
        widest, characters, _ = contributions_wdF.shape
        # Beyond a word the characters are arbitrary: filters that reach there are excluded, the others get zero.
        beyond = self.places + widest - 1 - self.numbers_nc.shape[1]
        windows_npw = functional.pad(self.numbers_nc, (0, beyond)).unfold(1, widest, 1)
        rows_npw = windows_npw + characters * torch.arange(widest, device=windows_npw.device)
        responses = functional.embedding_bag(rows_npw.flatten(0, 1), contributions_wdF.flatten(0, 1), mode="sum")
        responses_npF = responses.view(*rows_npw.shape[:2], -1)
        if self.forbidden_pF is not None:
            responses_npF.masked_fill_(self.forbidden_pF, -math.inf)
        return responses_npF

    def add_gradient(self, dcontributions_wdF: Tensor, dresponses_npF: Tensor) -> None:
        """Add the gradient of the windows to that of their characters."""
        for offset, dcontributions_dF in enumerate(dcontributions_wdF):
            inside = min(self.places, self.numbers_nc.shape[1] - offset)
            characters = self.numbers_nc[:, offset : offset + inside].flatten()
            dcontributions_dF.index_add_(0, characters, dresponses_npF[:, :inside].flatten(0, 1))

    def places_p1(self, like: Tensor) -> Tensor:
        return torch.arange(self.places, dtype=like.dtype, device=like.device)[:, None]


def parts(numbers_UC: Tensor, widths_F: Tensor, widest: int) -> Iterator[Part]:
    """Words in groups of similar length. Where a row ends in equal ids (padding), one window represents them all."""
    total = numbers_UC.shape[1]
    places_C = torch.arange(1, total + 1, device=numbers_UC.device)
    lengths_U = torch.where(numbers_UC != numbers_UC[:, -1:], places_C, 0).amax(1)  # without the equal ids at the end
    order_U = lengths_U.argsort(stable=True)
    for rows_n in torch.split(order_U, WORDS_TOGETHER) if len(order_U) else ():
        places = int(lengths_U[rows_n[-1]]) + 1
        if places + widest - 1 <= total:
            yield Part(rows_n, numbers_UC[rows_n, : places + widest - 1], places, None)
        else:  # no window fits in the equal ids alone: each filter has its own last window
            places_p1 = torch.arange(total, device=numbers_UC.device)[:, None]
            yield Part(rows_n, numbers_UC[rows_n], total, places_p1 + widths_F > total)
