"""Chunks → what is counted over all of them: words, the held-out part, repeated lines. Knows no files.

Memory grows with the number of distinct words and with the size of the held-out part, not with the corpus.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stelmo.config import PrepareSettings
from stelmo.corpus.chunks import Chunk, words_of
from stelmo.text.chars import BEGIN_SENTENCE, END_SENTENCE
from stelmo.text.vocabulary import UNKNOWN, Vocabulary

SYMBOLS = (BEGIN_SENTENCE, END_SENTENCE, UNKNOWN)
_NO_WORDS = frozenset((*SYMBOLS, "!!!MAXTERMID"))  # lines that readers of vocabulary files take for something else
LONGEST_WORD = 48  # bytes that a row of 50 character ids has room for
_HASHES_AT_ONCE = 1 << 24

Key = np.uint64


def heldout_bound(keys: Iterable[NDArray[Key]], count: int) -> Key | None:
    """The largest key of the so many sentences with the smallest ones. Sentences of one line have the same key: they
    stay together, and a few more may be held out than asked for."""
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


def lengths(chunk: Chunk) -> NDArray[np.int64]:
    return np.diff(chunk.ends_S, prepend=0)


class WordCounts:
    """How often each word is there, in the training part and in the held-out one."""

    def __init__(self) -> None:
        self._numbers: dict[bytes, int] = {}
        self._counts_W2 = np.zeros((1024, 2), np.int64)

    def add(self, chunk: Chunk, heldout_S: NDArray[np.bool_]) -> None:
        numbers = [self._numbers.setdefault(word, len(self._numbers)) for word in words_of(chunk)]
        if len(self._numbers) > len(self._counts_W2):
            grown = np.zeros((2 * len(self._numbers), 2), np.int64)
            grown[: len(self._counts_W2)] = self._counts_W2
            self._counts_W2 = grown
        heldout_N = np.repeat(heldout_S, lengths(chunk))
        for part, chosen in enumerate((~heldout_N, heldout_N)):
            self._counts_W2[numbers, part] += np.bincount(chunk.ids_N[chosen], minlength=len(numbers))

    def ranked(self) -> "Ranked":
        """Falling frequency in the training part; equals by their bytes, which is the order of code points."""
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
        words = [word for raw in self.words[:often] if (word := raw.decode()) not in _NO_WORDS]
        size = settings.vocabulary_size
        return Vocabulary((*SYMBOLS, *(words if size is None else words[: size - len(SYMBOLS)])))

    def unknown(self, targets_W: NDArray[np.int32], vocabulary: Vocabulary) -> tuple[int, int]:
        """Tokens outside the vocabulary, by part."""
        train, heldout = self.counts_W2[targets_W == vocabulary.unknown].sum(0).tolist()
        return train, heldout

    def long_tokens(self) -> int:
        is_long = np.array([len(word) > LONGEST_WORD for word in self.words], bool)
        return int(self.counts_W2[is_long].sum())


class Repeats(NamedTuple):
    extra: int  # lines that are the same as one before
    most: Sequence[tuple[int, int]]  # (hash, times) of the most repeated


def repeats(hashes: Callable[[], Iterable[NDArray[np.uint64]]], lines: int, most: int = 5) -> Repeats:
    """Which lines are there more than once, by their hashes; those of a share of all lines at a time."""
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
