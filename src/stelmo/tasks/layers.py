"""Layers that several tasks are built of. Knows no task.

B sentences, T and S tokens, C characters of the longest word, D width, H hidden units, F filters.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Literal

import torch
from torch import Tensor, nn

MAX_CHARACTERS = 16  # of a word, for the small character networks of tasks


class VariationalDropout(nn.Dropout):
    """One mask for all tokens of a sentence (Gal and Ghahramani 2016)."""

    def forward(self, x_BTD: Tensor) -> Tensor:
        if not self.training or self.p == 0:
            return x_BTD
        mask_B1D = torch.empty_like(x_BTD[:, :1]).bernoulli_(1 - self.p)
        return x_BTD * mask_B1D / (1 - self.p)


class BiRnn(nn.Module):
    """Reads each sentence both ways; nothing is read past its end.

    The backward RNN reads each sentence turned around in its place, so that padding stays behind the last word. Packed
    sequences would do as well, but their gradient costs more the longer they are.
    """

    def __init__(self, width: int, hidden: int, kind: Literal["lstm", "gru"] = "lstm") -> None:
        super().__init__()
        make = nn.LSTM if kind == "lstm" else nn.GRU
        self.ahead, self.back = make(width, hidden), make(width, hidden)
        for name, parameter in self.named_parameters():
            if "weight_hh" in name:
                _orthogonal_gates(parameter, hidden)

    def forward(self, x_BTD: Tensor, mask_BT: Tensor) -> Tensor:
        """(B, T, 2H), zero where there is no token."""
        x_TBD, turned_TB1 = x_BTD.transpose(0, 1), _turned(mask_BT).t()[:, :, None]
        ahead_TBH, _ = self.ahead(x_TBD)
        back_TBH, _ = self.back(x_TBD.take_along_dim(turned_TB1, 0))
        h_TBH = torch.cat([ahead_TBH, back_TBH.take_along_dim(turned_TB1, 0)], -1)
        return (h_TBH * mask_BT.t()[:, :, None]).transpose(0, 1)


def _turned(mask_BT: Tensor) -> Tensor:
    """Where each token of the sentence read backwards is; padding stays in its place."""
    places_T = torch.arange(mask_BT.shape[1], device=mask_BT.device)
    return torch.where(mask_BT, lengths(mask_BT)[:, None] - 1 - places_T, places_T)


def _orthogonal_gates(weight: Tensor, hidden: int) -> None:
    """Each gate's own recurrent matrix, so that a long sentence neither swells nor fades at the start."""
    for gate in torch.split(weight.data, hidden):
        nn.init.orthogonal_(gate)


def lengths(mask_BT: Tensor) -> Tensor:
    return mask_BT.sum(1)


def masked_softmax(scores: Tensor, mask: Tensor, dim: int = -1) -> Tensor:
    """Shares of what the mask (same shape, or one that spreads to it) lets in; of nothing: zeros."""
    lowest = torch.finfo(scores.dtype).min
    return torch.where(mask, scores.masked_fill(~mask, lowest).softmax(dim), 0.0)


def masked_max(x_BTD: Tensor, mask_BT: Tensor) -> Tensor:
    return x_BTD.masked_fill(~mask_BT[:, :, None], torch.finfo(x_BTD.dtype).min).amax(1)


def masked_mean(x_BTD: Tensor, mask_BT: Tensor) -> Tensor:
    return torch.where(mask_BT[:, :, None], x_BTD, 0.0).sum(1) / lengths(mask_BT)[:, None]


def feed_forward(width: int, hidden: int, layers: int = 1, dropout: float = 0.0) -> nn.Sequential:
    """`layers` times linear, ReLU, dropout."""
    steps: list[nn.Module] = []
    for inputs in [width, *[hidden] * (layers - 1)]:
        steps += [nn.Linear(inputs, hidden), nn.ReLU(), nn.Dropout(dropout)]
    return nn.Sequential(*steps)


class Trilinear(nn.Module):
    """Similarity w · [a ; b ; a∘b] of every pair of tokens (Seo et al. 2017), without making the pairs."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(width, 1, bias=False), nn.Linear(width, 1, bias=False)
        self.product_D = nn.Parameter(torch.empty(width).uniform_(-(width**-0.5), width**-0.5))

    def forward(self, a_BTD: Tensor, b_BSD: Tensor) -> Tensor:
        """(B, T, S)"""
        both_BTS = (a_BTD * self.product_D) @ b_BSD.transpose(1, 2)
        scores_BTS: Tensor = both_BTS + self.first(a_BTD) + self.second(b_BSD).transpose(1, 2)
        return scores_BTS


class CharCnn(nn.Module):
    """The letters of a word → its strongest windows. A letter that training did not have is unknown."""

    PADDING, UNKNOWN = 0, 1

    def __init__(
        self,
        characters: Sequence[str],
        embedding: int,
        filters: Iterable[tuple[int, int]],
        dropout: float = 0.0,
        max_characters: int = MAX_CHARACTERS,
    ) -> None:
        super().__init__()
        filters = list(filters)
        self._ids = {character: number for number, character in enumerate(characters, 2)}
        self.max_characters = max_characters
        self.table = nn.Embedding(len(characters) + 2, embedding, padding_idx=self.PADDING)
        self.convolutions = nn.ModuleList(
            nn.Conv1d(embedding, count, width, padding=width - 1) for width, count in filters
        )
        self.dropout = nn.Dropout(dropout)
        self.width = sum(count for _, count in filters)

    def forward(self, sentences: Sequence[Sequence[str]]) -> Tensor:
        """(B, T, F). Every distinct word is computed once."""
        words = sorted({word for sentence in sentences for word in sentence})
        place = {word: row for row, word in enumerate(words, 1)}
        ids_UC = torch.tensor([self._word(word) for word in words], device=self.table.weight.device)
        characters_UDC = self.dropout(self.table(ids_UC)).transpose(1, 2)
        strongest = [convolution(characters_UDC).amax(2).relu() for convolution in self.convolutions]
        vectors_UF = torch.cat(strongest, 1)
        longest = max(map(len, sentences))
        rows_BT = [[place[word] for word in sentence] + [0] * (longest - len(sentence)) for sentence in sentences]
        nothing_1F = torch.zeros_like(vectors_UF[:1])
        return nn.functional.embedding(torch.tensor(rows_BT, device=ids_UC.device), torch.cat([nothing_1F, vectors_UF]))

    def _word(self, word: str) -> list[int]:
        ids = [self._ids.get(character, self.UNKNOWN) for character in word[: self.max_characters]]
        return ids + [self.PADDING] * (self.max_characters - len(ids))


def characters_of(sentences: Iterable[Sequence[str]], minimum: int = 1) -> list[str]:
    """The characters seen so often, in a fixed order."""
    counts = Counter(character for sentence in sentences for word in sentence for character in word)
    return sorted(character for character, count in counts.items() if count >= minimum)
