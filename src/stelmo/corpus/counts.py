"""Chunks → what is counted over all of them: words, the bound of the held-out part, repeated lines. Reads no files.

Memory grows with the number of distinct words and with the size of the held-out part, not with the corpus.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stelmo.corpus.chunks import Chunk
from stelmo.settings import PrepareSettings
from stelmo.text.chars import BEGIN_SENTENCE, END_SENTENCE
from stelmo.text.vocabulary import UNKNOWN, Vocabulary

SYMBOLS = (BEGIN_SENTENCE, END_SENTENCE, UNKNOWN)
_RESERVED = frozenset((*SYMBOLS, "!!!MAXTERMID"))  # readers of vocabulary files give these lines a special meaning
LONGEST_WORD = 48  # bytes that fit into a row of 50 character ids
_HASHES_AT_ONCE = 1 << 24

Key = np.uint64


def heldout_bound(keys: Iterable[NDArray[Key]], count: int) -> Key | None:
    """The largest key of the `count` sentences with the smallest keys.

    Sentences of one line share a key and stay together, so slightly more sentences may be held out than requested.
    """
    kept: list[NDArray[Key]] = []
    bound = np.iinfo(Key).max
    for more in keys:
        kept.append(more[more <= bound])
        if sum(map(len, kept)) >= 2 * count + 1:
            kept = [_smallest(kept, count)]
            bound = kept[0].max(initial=0)
    smallest = _smallest(kept, count)
    return smallest.max() if len(smallest) else None


def _smallest(kept: list[NDArray[Key]], count: int) -> NDArray[Key]:
    joined = np.concatenate([np.empty(0, Key), *kept])
    return np.partition(joined, count)[:count] if count < len(joined) else joined


def is_heldout(chunk: Chunk, bound: Key | None) -> NDArray[np.bool_]:
    """For each sentence of the chunk."""
    return np.zeros(len(chunk.keys_S), bool) if bound is None else chunk.keys_S <= bound


class WordCounts:
    """The frequency of each word in the training part and in the held-out part."""

    def __init__(self) -> None:
        self._numbers: dict[bytes, int] = {}
        self._counts_W2 = np.zeros((1024, 2), np.int64)

    def add(self, chunk: Chunk, heldout_S: NDArray[np.bool_]) -> None:
        numbers = [self._numbers.setdefault(word, len(self._numbers)) for word in chunk.distinct_words()]
        if len(self._numbers) > len(self._counts_W2):
            grown = np.zeros((2 * len(self._numbers), 2), np.int64)
            grown[: len(self._counts_W2)] = self._counts_W2
            self._counts_W2 = grown
        heldout_N = np.repeat(heldout_S, chunk.lengths)
        for part, chosen in enumerate((~heldout_N, heldout_N)):
            self._counts_W2[numbers, part] += np.bincount(chunk.ids_N[chosen], minlength=len(numbers))

    def ranked(self) -> "Ranked":
        """By falling frequency in the training part; ties by their bytes, which is the order of code points."""
        words, counts_W2 = list(self._numbers), self._counts_W2[: len(self._numbers)]
        falling = (-counts_W2[:, 0]).tolist()
        order = sorted(range(len(words)), key=lambda number: (falling[number], words[number]))
        return Ranked([words[number] for number in order], counts_W2[order])


class Ranked(NamedTuple):
    words: list[bytes]
    counts_W2: NDArray[np.int64]  # training part, held-out part

    def vocabulary(self, settings: PrepareSettings) -> Vocabulary:
        """The three symbols, then the most frequent words."""
        often = np.searchsorted(-self.counts_W2[:, 0], -(settings.min_count or 1), "right")
        words = [word for raw in self.words[:often] if (word := raw.decode()) not in _RESERVED]
        size = settings.vocabulary_size
        return Vocabulary((*SYMBOLS, *(words if size is None else words[: size - len(SYMBOLS)])))

    def unknown(self, targets_W: NDArray[np.int32], vocabulary: Vocabulary) -> tuple[int, int]:
        """Tokens outside the vocabulary in the training part and in the held-out part."""
        train, heldout = self.counts_W2[targets_W == vocabulary.unknown].sum(0).tolist()
        return train, heldout

    def long_tokens(self) -> int:
        is_long = np.array([len(word) > LONGEST_WORD for word in self.words], bool)
        return int(self.counts_W2[is_long].sum())


class Repeats(NamedTuple):
    extra: int  # lines that repeat an earlier line
    most: Sequence[tuple[int, int]]  # (hash, times) of the most frequent ones


def repeats(hashes: Callable[[], Iterable[NDArray[np.uint64]]], lines: int, most: int = 5) -> Repeats:
    """Lines that occur more than once, by their hashes; a share of all hashes is held in memory at a time."""
    extra = 0
    found: list[tuple[int, int]] = []
    shares = 1 + lines // _HASHES_AT_ONCE
    for share in range(shares):
        mine = [some[some % np.uint64(shares) == share] for some in hashes()]
        distinct, times = np.unique(np.concatenate([np.empty(0, np.uint64), *mine]), return_counts=True)
        extra += int(times.sum() - len(times))
        top = np.argsort(-times, kind="stable")[:most]
        found += [(hash_, count) for hash_, count in zip(distinct[top].tolist(), times[top].tolist(), strict=True)]
    found.sort(key=lambda item: (-item[1], item[0]))
    return Repeats(extra, [item for item in found[:most] if item[1] > 1])
