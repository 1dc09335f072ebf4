"""Sentences → endless rows of words, cut into windows. Reads no files and knows no vocabulary.

A row reads one sentence after another. Both directions read the same sentences, so a step has few distinct words:

  forward    inputs <S> w1 … wn      targets w1 … wn </S>
  backward   inputs </S> wn … w1     targets wn … w1 <S>

K sentences considered for a window, T steps, B rows of this process, R rows of all processes.
"""

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stelmo.errors import DataError

BEGIN, END = 0, 1  # the types of <S> and </S>
_ROUNDS = 4  # a Feistel network of four rounds of random functions is a strong pseudorandom permutation

Ints = NDArray[np.int64]


class Sentences:
    """The sentences of several shards, numbered consecutively; a shard is (all types, end of each sentence)."""

    def __init__(self, shards: Sequence[tuple[NDArray[np.uint32], Ints]]) -> None:
        self._shards = tuple(shards)
        self._first_sentences = np.cumsum([0, *(len(ends) for _, ends in self._shards)])
        self._first_places = np.cumsum([0, *(len(types) for types, _ in self._shards)])

    def __len__(self) -> int:
        return int(self._first_sentences[-1])

    @property
    def tokens(self) -> int:
        """Number of words, without the markers."""
        return int(self._first_places[-1])

    def __getitem__(self, number: int) -> Ints:
        """The types of one sentence, without markers."""
        if not 0 <= number < len(self):
            raise IndexError(number)
        starts, lengths = self.spans(np.array([number]))
        return self.types(np.arange(starts[0], starts[0] + lengths[0]))

    def spans(self, numbers: Ints) -> tuple[Ints, Ints]:
        """The position of the first word and the length of each of these sentences."""
        starts, ends = np.empty_like(numbers), np.empty_like(numbers)
        shard_of = np.searchsorted(self._first_sentences, numbers, "right") - 1
        for shard, (_, ends_S) in enumerate(self._shards):
            here = shard_of == shard
            local = numbers[here] - self._first_sentences[shard]
            starts[here] = np.where(local > 0, ends_S[local - 1], 0) + self._first_places[shard]
            ends[here] = ends_S[local] + self._first_places[shard]
        return starts, ends - starts

    def part(self, first: int, count: int) -> "Sentences":
        """Some consecutive sentences, numbered from 0."""
        shards = []
        for begin, (types_N, ends_S) in zip(self._first_sentences, self._shards, strict=False):
            low, high = np.clip((first - begin, first + count - begin), 0, len(ends_S)).tolist()
            if low < high:
                start = int(ends_S[low - 1]) if low else 0
                shards.append((types_N[start : ends_S[high - 1]], ends_S[low:high] - start))
        return Sentences(shards)

    def spread(self, tokens: int) -> "Sentences":
        """Evenly spaced sentences with about `tokens` tokens, ends of sentences included; at most all sentences."""
        share = tokens / max(1, self.tokens + len(self))
        if share >= 1:
            return self
        count = math.ceil(share * len(self))
        starts_S, lengths_S = self.spans(np.arange(count) * len(self) // count)
        ends_S = lengths_S.cumsum()
        places_N = np.repeat(starts_S - ends_S + lengths_S, lengths_S) + np.arange(lengths_S.sum())
        return Sentences([(self.types(places_N).astype(np.uint32), ends_S)])

    def types(self, places: Ints) -> Ints:
        """The words at these positions, counted over all shards."""
        found = np.empty_like(places)
        shard_of = np.searchsorted(self._first_places, places, "right") - 1
        for shard, (types_N, _) in enumerate(self._shards):
            here = shard_of == shard
            found[here] = types_N[places[here] - self._first_places[shard]]
        return found


class Window(NamedTuple):
    """Types; [0] is the forward direction, [1] the backward one."""

    inputs_2TB: Ints
    targets_2TB: Ints
    places_2TB: Ints  # of the inputs in their sentences: <S> has 0, </S> of n words n + 1

    def of_rows(self, rows: slice) -> "Window":
        return Window(*(part_2TB[:, :, rows] for part_2TB in self))


class Streams:
    """The rows `rows` of a batch of `of` rows. A sentence can extend over several windows.

    Row r reads the sentences at positions r, r + R, r + 2R … of a shuffle seeded by (seed, epoch), so what it reads is
    a function of (seed, R, r) and does not depend on the process that reads it.
    """

    def __init__(self, sentences: Sentences, *, rows: range, of: int, seed: int, position: Ints | None = None) -> None:
        if len(sentences) < of:
            raise DataError(
                f"{len(sentences)} sentences for a batch of {of} rows; "
                "each row reads its own, so use a smaller batch or more text"
            )
        if not len(rows) or rows[0] < 0 or rows[-1] >= of:
            raise ValueError(f"{rows} is not a range of rows below {of}")
        self._sentences, self._seed, self._of = sentences, seed, of
        self._rows_B = np.array(rows, np.int64)
        self._shares_B = (len(sentences) - self._rows_B + of - 1) // of  # sentences per row in an epoch
        self._position_B3 = np.zeros((len(rows), 3), np.int64)
        if position is None:
            return
        if position.shape != (len(rows), 3):
            raise DataError(f"a position of shape {position.shape}; expected 3 numbers for each of {len(rows)} rows")
        if (position < 0).any() or (position[:, 1] >= self._shares_B).any():
            raise DataError(
                "the position lies outside the corpus; it belongs to another corpus or another number of rows"
            )
        self._position_B3[:] = position

    @property
    def position(self) -> Ints:
        """(B, 3) epoch, sentences of it that the row has finished, steps into the next: the complete state."""
        return self._position_B3.copy()

    @property
    def epochs(self) -> float:
        """How often the rows have read their sentences on average, counting whole sentences."""
        epochs_B, indices_B, _ = self._position_B3.T
        return float((epochs_B + indices_B / self._shares_B).mean())

    def next(self, steps: int) -> Window:
        """The next window."""
        epochs_B, indices_B, offsets_B = self._position_B3.T
        # A sentence of n ≥ 1 words takes n + 1 ≥ 2 steps, so no more sentences than this are needed.
        ahead_BK = indices_B[:, None] + np.arange(steps // 2 + 1)
        epochs_BK = epochs_B[:, None] + ahead_BK // self._shares_B[:, None]
        places_BK = self._rows_B[:, None] + self._of * (ahead_BK % self._shares_B[:, None])
        numbers_BK = shuffled(places_BK, epochs_BK, len(self._sentences), self._seed)
        starts_BK, lengths_BK = _spans(self._sentences, numbers_BK)
        cells = _cells(lengths_BK, offsets_B, steps)
        read_B = indices_B + cells.finished_B
        self._position_B3 = np.stack([epochs_B + read_B // self._shares_B, read_B % self._shares_B, cells.offset_B], 1)
        return _window(self._sentences, starts_BK, lengths_BK, cells)


def held_out(sentences: Sentences, *, rows: int, steps: int) -> Iterator[tuple[Window, NDArray[np.bool_]]]:
    """All sentences once, as windows with a mask (T, B) of the valid cells; row r reads sentences r, r + rows …

    Masked cells hold <S>. All rows have the same whole number of windows.
    """
    rows_B = np.arange(rows)
    finished_B, offsets_B = np.zeros(rows, np.int64), np.zeros(rows, np.int64)
    while True:
        numbers_BK = rows_B[:, None] + rows * (finished_B[:, None] + np.arange(steps // 2 + 1))
        there_BK = numbers_BK < len(sentences)
        if not there_BK.any():
            return
        starts_BK, lengths_BK = _spans(sentences, np.where(there_BK, numbers_BK, 0))
        lengths_BK = np.where(there_BK, lengths_BK, steps)
        cells = _cells(lengths_BK, offsets_B, steps)
        mask_BT = np.take_along_axis(there_BK, cells.sentence_BT, 1)
        window = _window(sentences, starts_BK, lengths_BK, cells)
        yield Window(*(np.where(mask_BT.T, types, BEGIN) for types in window)), mask_BT.T
        finished_B, offsets_B = finished_B + cells.finished_B, cells.offset_B


def whole(sentences: Sentences, steps: int) -> Iterator[Window]:
    """All sentences once, uncut: windows of one row and about `steps` steps, with at least one sentence each."""
    first = 0
    while first < len(sentences):
        starts_K, lengths_K = sentences.spans(np.arange(first, min(first + steps // 2 + 1, len(sentences))))
        count = max(1, int(np.searchsorted(np.cumsum(lengths_K + 1), steps, "right")))
        starts_1K, lengths_1K = starts_K[None, :count], lengths_K[None, :count]
        cells = _cells(lengths_1K, np.zeros(1, np.int64), int((lengths_1K + 1).sum()))
        yield _window(sentences, starts_1K, lengths_1K, cells)
        first += count


class _Cells(NamedTuple):
    """For each cell of a window, the sentence (of K) and the step in it; and where the next window begins."""

    sentence_BT: Ints
    step_BT: Ints
    finished_B: Ints
    offset_B: Ints


def _cells(lengths_BK: Ints, offsets_B: Ints, steps: int) -> _Cells:
    ends_BK = np.cumsum(lengths_BK + 1, 1)
    time_BT = offsets_B[:, None] + np.arange(steps + 1)  # since the start of the first sentence; one extra step
    sentence_BT = (time_BT[:, :, None] >= ends_BK[:, None, :]).sum(2)
    begins_BK = np.concatenate((np.zeros_like(ends_BK[:, :1]), ends_BK), 1)
    step_BT = time_BT - np.take_along_axis(begins_BK, sentence_BT, 1)
    return _Cells(sentence_BT[:, :-1], step_BT[:, :-1], sentence_BT[:, -1], step_BT[:, -1])


def _window(sentences: Sentences, starts_BK: Ints, lengths_BK: Ints, cells: _Cells) -> Window:
    start_TB = np.take_along_axis(starts_BK, cells.sentence_BT, 1).T
    length_TB = np.take_along_axis(lengths_BK, cells.sentence_BT, 1).T
    step_TB = cells.step_BT.T
    first, last = step_TB == 0, step_TB == length_TB
    words_4TB = sentences.types(
        # At a marker, an arbitrary word is looked up and discarded.
        start_TB
        + np.stack(
            (
                np.where(first, 0, step_TB - 1),
                np.where(first, 0, length_TB - step_TB),
                np.where(last, 0, step_TB),
                np.where(last, 0, length_TB - 1 - step_TB),
            )
        )
    )
    inputs_2TB = np.stack((np.where(first, BEGIN, words_4TB[0]), np.where(first, END, words_4TB[1])))
    targets_2TB = np.stack((np.where(last, END, words_4TB[2]), np.where(last, BEGIN, words_4TB[3])))
    return Window(inputs_2TB, targets_2TB, np.stack((step_TB, length_TB + 1 - step_TB)))


def _spans(sentences: Sentences, numbers_BK: Ints) -> tuple[Ints, Ints]:
    starts, lengths = sentences.spans(numbers_BK.ravel())
    return starts.reshape(numbers_BK.shape), lengths.reshape(numbers_BK.shape)


# The order of sentences: a shuffle without a table
#
# A Feistel network over the positions 0 … N − 1. Any position of any epoch is computed directly, so the order needs no
# memory (a billion words have 40 million sentences), and rows can be in different epochs.


def scrambled(numbers: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """A 64-bit hash of each number (the finaliser of SplitMix64)."""
    mixed = numbers + np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))


def key_of(*parts: NDArray[np.int64] | int) -> NDArray[np.uint64]:
    """One hash of several numbers, elementwise. The shape is never (), for which numpy warns of overflow."""
    key = np.zeros(1, np.uint64)
    for part in parts:
        key = scrambled(key ^ np.atleast_1d(np.asarray(part)).astype(np.uint64))
    return key


def shuffled(places: NDArray[np.int64], epochs: NDArray[np.int64], count: int, seed: int) -> NDArray[np.int64]:
    """The values of each epoch's permutation of range(count) at these positions."""
    left = math.isqrt(count - 1) + 1  # left · right ≥ count, as small as possible
    right = -(-count // left)
    keys = key_of(seed, epochs)
    found = places.astype(np.uint64)
    outside = np.ones(found.shape, bool)
    while outside.any():  # a position past the end is mapped again until it falls inside
        found[outside] = _network(found[outside], np.broadcast_to(keys, found.shape)[outside], left, right)
        outside = found >= np.uint64(count)
    return found.astype(np.int64)


def _network(places: NDArray[np.uint64], keys: NDArray[np.uint64], left: int, right: int) -> NDArray[np.uint64]:
    """A permutation of range(left · right): in turns, each half is shifted by a hash of the other."""
    a, b = places // np.uint64(right), places % np.uint64(right)
    for turn in range(_ROUNDS):
        if turn % 2:
            a = (a + scrambled(keys ^ (b + np.uint64(turn << 56)))) % np.uint64(left)
        else:
            b = (b + scrambled(keys ^ (a + np.uint64(turn << 56)))) % np.uint64(right)
    return a * np.uint64(right) + b
