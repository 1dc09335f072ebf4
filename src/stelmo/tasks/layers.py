"""Layers that several tasks' networks share. Knows no task.

B sentences, T and S tokens, C characters of the longest word, D width, H hidden units, F filters.
"""

from collections import Counter
from collections.abc import Iterable, Sequence

import torch
from torch import Tensor, nn

from stelmo.model.mix import Dropout

MAX_CHARACTERS = 16  # read of a word by the tasks' small character networks


class VariationalDropout(Dropout):
    """Dropout with one mask for all tokens of a sentence (Gal and Ghahramani 2016)."""

    def forward(self, x_BTD: Tensor) -> Tensor:
        if not self.training or self.p == 0:
            return x_BTD
        mask_B1D = torch.empty_like(x_BTD[:, :1]).bernoulli_(1 - self.p)
        return x_BTD * mask_B1D.div_(1 - self.p)


def float32_at_least(x: Tensor) -> Tensor:
    """Scores for a loss, which sums and exponentiates them, when the products before it are in half precision."""
    return x.float() if x.dtype in (torch.bfloat16, torch.float16) else x


def lengths(mask_BT: Tensor) -> Tensor:
    return mask_BT.sum(1)


def masked_softmax(scores: Tensor, mask: Tensor, dim: int = -1) -> Tensor:
    """Softmax over the positions where the mask (broadcast to the scores) is true; zeros if there are none."""
    lowest = torch.finfo(scores.dtype).min
    return torch.where(mask, scores.masked_fill(~mask, lowest).softmax(dim), 0.0)


def masked_max(x_BTD: Tensor, mask_BT: Tensor) -> Tensor:
    return x_BTD.masked_fill(~mask_BT[:, :, None], torch.finfo(x_BTD.dtype).min).amax(1)


def masked_mean(x_BTD: Tensor, mask_BT: Tensor) -> Tensor:
    return torch.where(mask_BT[:, :, None], x_BTD, 0.0).sum(1) / lengths(mask_BT)[:, None]


def feed_forward(width: int, hidden: int, layers: int = 1, dropout: float = 0.0) -> nn.Sequential:
    """Linear, ReLU, dropout; `layers` times."""
    steps: list[nn.Module] = []
    for inputs in [width, *[hidden] * (layers - 1)]:
        steps += [nn.Linear(inputs, hidden), nn.ReLU(), Dropout(dropout)]
    return nn.Sequential(*steps)


class Trilinear(nn.Module):
    """Similarity w · [a ; b ; a∘b] of every pair of tokens (Seo et al. 2017), computed without building the pairs."""

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
    """The characters of a word → the largest output of each filter.

    A character that is not in the training data is unknown.
    """

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
        self.dropout = Dropout(dropout)
        self.width = sum(count for _, count in filters)

    def forward(self, sentences: Sequence[Sequence[str]]) -> Tensor:
        """(B, T, F). Each distinct word is computed once."""
        words = sorted({word for sentence in sentences for word in sentence})
        row_of = {word: row for row, word in enumerate(words, 1)}
        ids_UC = torch.tensor([self._ids_of(word) for word in words], device=self.table.weight.device)
        characters_UDC = self.dropout(self.table(ids_UC)).transpose(1, 2)
        strongest = [convolution(characters_UDC).amax(2).relu() for convolution in self.convolutions]
        vectors_UF = torch.cat(strongest, 1)
        longest = max(map(len, sentences))
        rows_BT = [[row_of[word] for word in sentence] + [0] * (longest - len(sentence)) for sentence in sentences]
        padding_1F = torch.zeros_like(vectors_UF[:1])
        return nn.functional.embedding(torch.tensor(rows_BT, device=ids_UC.device), torch.cat([padding_1F, vectors_UF]))

    def _ids_of(self, word: str) -> list[int]:
        ids = [self._ids.get(character, self.UNKNOWN) for character in word[: self.max_characters]]
        return ids + [self.PADDING] * (self.max_characters - len(ids))


def characters_of(sentences: Iterable[Sequence[str]], minimum: int = 1) -> list[str]:
    """The characters that occur at least `minimum` times, in a fixed order."""
    counts = Counter(character for sentence in sentences for word in sentence for character in word)
    return sorted(character for character, count in counts.items() if count >= minimum)
