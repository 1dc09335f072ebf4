"""Sentences → the vectors a task's network reads: static vectors and ELMo. Knows no task.

B sentences, T tokens of the longest, D = static width + E where ELMo is at the input, E width of ELMo, V words.

Static vectors come from a file or folder, are "trained" on the task's own text, start "random", or there are "none".
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from stelmo.embed.elmo import Elmo
from stelmo.errors import ConfigError, DataError
from stelmo.model.mix import ScalarMix
from stelmo.settings import Placement
from stelmo.store import static as files
from stelmo.train.warm_start import TRAINED, WIDTH, train_vectors

RANDOM, NONE = "random", "none"  # static vectors that do not come from a file; or TRAINED, on the task's own text

_UNKNOWN, _PADDING = -1, -2  # used in place of a row number


class Inputs(NamedTuple):
    """A batch of sentences as vectors; rows are zero where there is no token."""

    x_BTD: Tensor
    mask_BT: Tensor
    elmo_BTE: Tensor | None = None  # for the network's output, if ELMo is placed there


class StaticTable(nn.Module):
    """One vector per word, independent of its sentence. Words without a vector share one that is learned."""

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
        rows = []
        for sentence in sentences:
            # A word as written, else in lower case: common vector files are made from lower-cased text.
            found = [self._rows.get(word, self._rows.get(word.lower(), _UNKNOWN)) for word in sentence]
            rows.append(found + [_PADDING] * (longest - len(sentence)))
        rows_BT = torch.tensor(rows, device=self.unknown_D.device)
        found_BTD = nn.functional.embedding(rows_BT.clamp(min=0), self.vectors_VD)
        found_BTD = torch.where(rows_BT[:, :, None] == _UNKNOWN, self.unknown_D, found_BTD)
        return torch.where(rows_BT[:, :, None] == _PADDING, 0.0, found_BTD)

    def lacks(self, word: str) -> bool:
        """Whether the word shares the learned vector, as it is written and in lower case."""
        return word not in self._rows and word.lower() not in self._rows

    def with_more(self, words: Sequence[str], vectors_VD: Tensor) -> "StaticTable":
        """A copy that has the vectors of further words."""
        vectors_VD = torch.cat([self.vectors_VD.detach(), vectors_VD.to(self.vectors_VD)])
        found = StaticTable([*self.words, *words], vectors_VD, self.tuned)
        found.unknown_D = self.unknown_D
        return found


class WordReader(nn.Module):
    """Static vectors, ELMo, or both concatenated (Peters et al. 2018, section 3.3)."""

    def __init__(self, static: StaticTable | None, elmo: Elmo | None, placement: Placement) -> None:
        super().__init__()
        assert (elmo is None) == (placement == "none")
        assert elmo is None or len(elmo.mixes) == len(places(placement))
        assert static is not None or placement in ("input", "both")
        self.static, self.elmo, self.placement = static, elmo, placement
        elmo_width = 0 if elmo is None else elmo.config.width
        at_input, self.output_width = (elmo_width * (place in places(placement)) for place in ("input", "output"))
        self.width = at_input + (0 if static is None else static.width)

    def forward(self, sentences: Sequence[Sequence[str]]) -> Inputs:
        parts = [] if self.static is None else [self.static(sentences)]
        if self.elmo is None:
            lengths_B = torch.tensor([len(sentence) for sentence in sentences])
            mask_BT = torch.arange(int(lengths_B.max())) < lengths_B[:, None]
            return Inputs(parts[0], mask_BT.to(parts[0].device))
        device = next(self.elmo.mixes.parameters()).device.type
        with torch.autocast(device, enabled=False):  # the biLM's kernels are not made for half precision
            vectors, mask_BT = self.elmo(sentences)
        mixed = dict(zip(places(self.placement), vectors if len(self.elmo.mixes) > 1 else [vectors], strict=True))
        parts += [mixed["input"]] if "input" in mixed else []
        return Inputs(torch.cat(parts, -1), mask_BT, mixed.get("output"))

    def penalty(self) -> Tensor:
        """λ·Σ w² of the mixes, to be added to the loss."""
        if self.elmo is None:
            return torch.zeros(())
        return torch.stack([mix.penalty() for mix in self.mixes().values()]).sum()

    def mixes(self) -> Mapping[str, ScalarMix]:
        """Placement → the learned mix of ELMo's layers there."""
        if self.elmo is None:
            return {}
        return dict(zip(places(self.placement), self.elmo.mixes, strict=True))  # type: ignore[arg-type]


def places(placement: Placement) -> tuple[str, ...]:
    return {"none": (), "input": ("input",), "output": ("output",), "both": ("input", "output")}[placement]


def append_elmo(h_BTD: Tensor, inputs: Inputs) -> Tensor:
    """[h ; ELMo] if ELMo is placed at the output, else h unchanged."""
    return h_BTD if inputs.elmo_BTE is None else torch.cat([h_BTD, inputs.elmo_BTE], -1)


def rounded_up(inputs: Inputs, multiple: int) -> Inputs:
    """With padding to a multiple of so many tokens: few shapes are faster in half precision (see `cells.py`)."""
    x_BTD, mask_BT, elmo_BTE = inputs
    missing = -mask_BT.shape[1] % multiple
    if elmo_BTE is not None:
        elmo_BTE = F.pad(elmo_BTE, (0, 0, 0, missing))
    return Inputs(F.pad(x_BTD, (0, 0, 0, missing)), F.pad(mask_BT, (0, missing)), elmo_BTE)


# Where static vectors come from


def static_table(
    source: str,
    train: Iterable[Sequence[str]],
    others: Iterable[Sequence[str]],
    tuned: bool,
    message: Callable[[str], None],
) -> StaticTable | None:
    """Vectors of the words of the data. From a file, the words that occur only outside training are kept as well."""
    if source == NONE:
        return None
    sentences = list(train)
    seen = Counter(word for sentence in sentences for word in sentence)
    if source == RANDOM:
        message("static vectors are initialised at random and learned; --vectors FILE reads GloVe or word2vec")
        generator = torch.Generator().manual_seed(0)  # the seeds of a run differ in the network, not in its input
        # The vector of unknown words is learned from those that occur once.
        words = sorted(word for word, count in seen.items() if count > 1) or sorted(seen)
        return StaticTable(words, torch.randn(len(words), WIDTH, generator=generator) * 0.1, tuned)
    if source == TRAINED:
        if max(seen.values(), default=0) < 2:
            raise DataError(f"--vectors {TRAINED}: no word of the training data occurs twice; give a file, or random")
        trained = train_vectors([list(sentence) for sentence in sentences], lambda epoch: None)
        message(f"static vectors of {len(trained.words):,} words were trained on the task's own text (word2vec)")
        return StaticTable(trained.words, torch.from_numpy(trained.vectors_VD), tuned)
    wanted = {*seen, *(word for sentence in others for word in sentence)}
    found = files.read(source, wanted)
    covered = sum(found.row(word) is not None for word in wanted)
    if not covered:
        raise DataError(
            f"--vectors {source}: has no vector for any of the data's {len(wanted):,} words, such as "
            f"{', '.join(sorted(wanted)[:3])}; expected vectors of the same language, one word per line"
        )
    message(f"static vectors of {covered:,} of the data's {len(wanted):,} words read from {source}")
    return StaticTable(found.words, torch.from_numpy(np.asarray(found.vectors_VD, np.float32)), tuned)


def moved(trained_with: str, now: str | None) -> str:
    """Where the static vectors of a trained network are: where they were in training, or at the path given now."""
    if now is None:
        return trained_with
    if trained_with in (RANDOM, TRAINED, NONE):
        raise ConfigError(f"--vectors {now}: the network was trained with --vectors {trained_with}; leave it out")
    if not Path(now).exists():
        raise DataError(f"--vectors {now}: no such file or folder; expected the static vectors of the training")
    return now


def with_words_of(
    static: StaticTable, source: str, text: Iterable[Sequence[str]], message: Callable[[str], None]
) -> StaticTable:
    """The table of a trained network, with the words of new text that are only in the file it was read from."""
    missing = {word for sentence in text for word in sentence if static.lacks(word)}
    if not missing or source in (RANDOM, TRAINED):
        return static
    found = files.read(source, missing) if Path(source).exists() else None
    if found is None or found.width != static.width:
        message(
            f"{len(missing):,} words share one vector: {source} does not have the static vectors of the training; if "
            "they are elsewhere, pass --vectors"
        )
        return static
    return static.with_more(found.words, torch.from_numpy(np.asarray(found.vectors_VD, np.float32)))
