"""What one training step reads: a batch, made of a window of word types, and the negatives of a sampled softmax.

T steps, B rows, S types, U distinct words of the step, V words, K negatives. A type is a number of the corpus for one
distinct word. Words of the vocabulary are numbered by descending frequency, so the log-uniform distribution
p(k) = ln((k + 2) / (k + 1)) / ln(V + 1) draws negatives about as often as Zipf's law. Words are drawn until K of them
are distinct.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from stelmo.corpus.windows import Window
from stelmo.errors import ConfigError
from stelmo.settings import TrainSettings
from stelmo.text import chars
from stelmo.text.ids import Ids, WordIds
from stelmo.text.ids import word_ids as word_ids

_DRAWS_AT_LEAST = 1024


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
        new = types_U[~self._known_S[types_U]]
        if len(new):
            self._ids_S[new] = self._ids_of([word.decode() for word in self._words.bytes_of(new)])
            self._known_S[new] = True
        return Batch(
            torch.from_numpy(self._ids_S[types_U].astype(np.int64)),
            torch.from_numpy(index.reshape(window.inputs_2TB.shape)),
            torch.from_numpy(self._targets_S[window.targets_2TB].astype(np.int64)),
            torch.from_numpy(window.places_2TB),
        )


# Negatives


class Negatives(NamedTuple):
    ids_K: Tensor  # distinct, in the order in which they were drawn
    tries: int  # how many draws that took

    def to(self, device: torch.device) -> "Negatives":
        return Negatives(self.ids_K.to(device), self.tries)


def refuse_unlikely_count(words: int, count: int) -> None:
    """Refuse to draw more than half of the vocabulary: it takes longer than the full softmax."""
    if not 0 < count <= words // 2:
        raise ConfigError(
            f"negatives: {count} of a vocabulary of {words}; at most half of it can be drawn, "
            "so lower `negatives` or use the full softmax"
        )


def negatives(seed: int, step: int, words: int, count: int) -> Negatives:
    """The same for the same seed and step, in every process and for both directions."""
    refuse_unlikely_count(words, count)
    chance = np.random.default_rng((seed, step))
    draws = np.empty(0, np.int64)
    while True:
        # ⌊(V + 1)^u⌋ − 1 for u uniform in [0, 1); rounding can reach V, which is no word's number.
        drawn = np.exp(chance.random(max(_DRAWS_AT_LEAST, 2 * count)) * math.log(words + 1)).astype(np.int64) - 1
        draws = np.concatenate([draws, np.minimum(drawn, words - 1)])
        first = _first_draws(draws, words)
        if len(first) >= count:
            places = first[:count]
            return Negatives(torch.from_numpy(draws[places]), int(places[-1]) + 1)


def _first_draws(draws: NDArray[np.int64], words: int) -> NDArray[np.int64]:
    """The positions of first occurrences, in order."""
    place_V = np.full(words, -1)
    backwards = np.arange(len(draws))[::-1]
    place_V[draws[backwards]] = backwards  # of equal indices numpy keeps the last written: the first draw
    return np.flatnonzero(place_V[draws] == np.arange(len(draws)))


def sampled_words(settings: TrainSettings, words: int) -> int:
    """How many negatives a step draws; 0: the full softmax, also if more than half of the vocabulary was asked for."""
    if settings.negatives == "all" or settings.negatives > words // 2:
        return 0
    return settings.negatives
