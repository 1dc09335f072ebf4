"""A window of word types → what one training step reads. Knows no files and no gradients.

T steps, B rows, S types, U distinct words of the step. A type is a number of the corpus for one distinct word.
"""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from stelmo.corpus.windows import Window
from stelmo.text import chars
from stelmo.text.ids import Ids, WordIds
from stelmo.text.ids import word_ids as word_ids


class Batch(NamedTuple):
    """The distinct words of both directions, and the position of each: a word passes through the encoder once."""

    ids_U: Tensor  # (U, C), or as `WordIds` says
    index_2TB: Tensor  # rows of ids_U
    targets_2TB: Tensor  # numbers in the vocabulary
    places_2TB: Tensor  # of the words in their sentences

    def to(self, device: torch.device) -> "Batch":
        return Batch(*(part.to(device) for part in self))


class TypeBytes(Protocol):
    """Types → their words as UTF-8."""

    def __len__(self) -> int: ...

    def bytes_of(self, types: Ids) -> Sequence[bytes]: ...


class Batches:
    """Makes the batches of one corpus for one model; keeps the ids of the types it has seen."""

    def __init__(self, ids_of: WordIds, words: TypeBytes, targets_S: NDArray[np.int32]) -> None:
        self._ids_of, self._words, self._targets_S = ids_of, words, targets_S
        self._known_S = np.zeros(len(words), bool)
        shape = ids_of([chars.BEGIN_SENTENCE]).shape[1:]
        self._ids_S = np.empty((len(words), *shape), np.int32)  # untouched pages take no memory

    def __call__(self, window: Window) -> Batch:
        types_U, index = np.unique(window.inputs_2TB, return_inverse=True)
        return Batch(
            torch.from_numpy(self._ids(types_U)),
            torch.from_numpy(index.reshape(window.inputs_2TB.shape)),
            torch.from_numpy(self._targets_S[window.targets_2TB].astype(np.int64)),
            torch.from_numpy(window.places_2TB),
        )

    def _ids(self, types_U: Ids) -> Ids:
        unmet = types_U[~self._known_S[types_U]]
        if len(unmet):
            self._ids_S[unmet] = self._ids_of([word.decode() for word in self._words.bytes_of(unmet)])
            self._known_S[unmet] = True
        return self._ids_S[types_U].astype(np.int64)
