"""Sentences of words → what a task's network reads: static vectors and ELMo. Knows no task and no files.

B sentences, T tokens of the longest, D = static width + E where ELMo is at the input, E width of ELMo.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

from stelmo.config import Placement
from stelmo.embed.elmo import Elmo
from stelmo.model.mix import ScalarMix

_UNKNOWN, _NOTHING = -1, -2  # in the place of a row


class Read(NamedTuple):
    """A batch of sentences as vectors; rows are zero where there is no token."""

    x_BTD: Tensor
    mask_BT: Tensor
    elmo_BTE: Tensor | None = None  # for the network's output, where ELMo is placed there


class StaticTable(nn.Module):
    """One vector a word, whatever its sentence. Words of no vector share one that is learned."""

    def __init__(self, words: Sequence[str], vectors_VD: Tensor, tuned: bool) -> None:
        super().__init__()
        self.words, self.tuned = tuple(words), tuned
        self.vectors_VD = nn.Parameter(vectors_VD.clone(), requires_grad=tuned)
        self.unknown_D = nn.Parameter(torch.zeros(vectors_VD.shape[1]))
        self._rows = {word: row for row, word in enumerate(self.words)}

    @property
    def width(self) -> int:
        return self.vectors_VD.shape[1]

    def forward(self, sentences: Sequence[Sequence[str]]) -> Tensor:
        """(B, T, D)"""
        longest = max(map(len, sentences))
        rows_BT = torch.tensor(
            [[self._row(word) for word in sentence] + [_NOTHING] * (longest - len(sentence)) for sentence in sentences],
            device=self.unknown_D.device,
        )[:, :, None]
        found_BTD = nn.functional.embedding(rows_BT[:, :, 0].clamp(min=0), self.vectors_VD)
        found_BTD = torch.where(rows_BT == _UNKNOWN, self.unknown_D, found_BTD)
        return torch.where(rows_BT == _NOTHING, 0.0, found_BTD)

    def _row(self, word: str) -> int:
        """As it is written, else in lower case: the vectors most people have are of lower-cased text."""
        row = self._rows.get(word)
        return self._rows.get(word.lower(), _UNKNOWN) if row is None else row


class WordReader(nn.Module):
    """Static vectors, ELMo, or both side by side (Peters et al. 2018, section 3.3)."""

    def __init__(self, static: StaticTable | None, elmo: Elmo | None, placement: Placement) -> None:
        super().__init__()
        assert (elmo is None) == (placement == "none")
        assert elmo is None or len(elmo.mixes) == len(places(placement))
        assert static is not None or placement in ("input", "both")
        self.static, self.elmo, self.placement = static, elmo, placement
        elmo_width = 0 if elmo is None else elmo.config.width
        at_input, self.output_width = (elmo_width * (place in places(placement)) for place in ("input", "output"))
        self.width = at_input + (0 if static is None else static.width)

    def forward(self, sentences: Sequence[Sequence[str]]) -> Read:
        parts = [] if self.static is None else [self.static(sentences)]
        if self.elmo is None:
            return Read(parts[0], _mask(sentences).to(parts[0].device))
        vectors, mask_BT = self.elmo(sentences)
        mixed = dict(zip(places(self.placement), vectors if len(self.elmo.mixes) > 1 else [vectors], strict=True))
        parts += [mixed["input"]] if "input" in mixed else []
        return Read(torch.cat(parts, -1), mask_BT, mixed.get("output"))

    def penalty(self) -> Tensor:
        """λ·Σ w² of the mixes, to be added to the loss."""
        if self.elmo is None:
            return torch.zeros(())
        return torch.stack([mix.penalty() for mix in self.mixes().values()]).sum()

    def mixes(self) -> Mapping[str, ScalarMix]:
        """Placement → what the task learns of the layers."""
        if self.elmo is None:
            return {}
        return dict(zip(places(self.placement), self.elmo.mixes, strict=True))  # type: ignore[arg-type]


def places(placement: Placement) -> tuple[str, ...]:
    return {"none": (), "input": ("input",), "output": ("output",), "both": ("input", "output")}[placement]


def enriched(h_BTD: Tensor, read: Read) -> Tensor:
    """[h ; ELMo] where ELMo is placed at the output, else h itself."""
    return h_BTD if read.elmo_BTE is None else torch.cat([h_BTD, read.elmo_BTE], -1)


def _mask(sentences: Sequence[Sequence[str]]) -> Tensor:
    lengths_B = torch.tensor([len(sentence) for sentence in sentences])
    return torch.arange(int(lengths_B.max())) < lengths_B[:, None]
