"""Seed and step → the negatives of a sampled softmax. Knows no model.   V words, K negatives.

Words are numbered by descending frequency, so the log-uniform distribution p(k) = ln((k + 2) / (k + 1)) / ln(V + 1)
draws them about as often as Zipf's law. Words are drawn until K of them are distinct.
"""

import math
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from stelmo.errors import ConfigError

_DRAWS_AT_LEAST = 1024


class Negatives(NamedTuple):
    ids_K: Tensor  # distinct, in the order in which they were drawn
    tries: int  # how many draws that took

    def to(self, device: torch.device) -> "Negatives":
        return Negatives(self.ids_K.to(device), self.tries)


def refuse_unlikely_count(words: int, count: int) -> None:
    """Drawing more than half of the vocabulary takes longer than the full softmax."""
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
        draws = np.concatenate([draws, _log_uniform(chance, words, max(_DRAWS_AT_LEAST, 2 * count))])
        first = _first_draws(draws, words)
        if len(first) >= count:
            places = first[:count]
            return Negatives(torch.from_numpy(draws[places]), int(places[-1]) + 1)


def _log_uniform(chance: np.random.Generator, words: int, count: int) -> NDArray[np.int64]:
    """⌊(V + 1)^u⌋ − 1 for u uniform in [0, 1)."""
    found = np.exp(chance.random(count) * math.log(words + 1)).astype(np.int64) - 1
    return np.minimum(found, words - 1)  # rounding can reach V + 1


def _first_draws(draws: NDArray[np.int64], words: int) -> NDArray[np.int64]:
    """The positions of first occurrences, in order."""
    place_V = np.full(words, -1)
    backwards = np.arange(len(draws))[::-1]
    place_V[draws[backwards]] = backwards  # of equal indices numpy keeps the last written: the first draw
    return np.flatnonzero(place_V[draws] == np.arange(len(draws)))
