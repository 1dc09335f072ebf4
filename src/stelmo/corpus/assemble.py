"""Finished chunks → a corpus folder: words are counted over all chunks, then the chunks renumbered and concatenated.

Memory grows with the number of distinct words and with the size of the held-out part, not with the corpus.
F chunk files, W distinct words; the axis of length 2 is (training part, held-out part).
"""

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stelmo.corpus import chunks, folder
from stelmo.corpus.chunks import Chunk
from stelmo.corpus.folder import InputFile, InputSizes, Manifest, Recipe, Repeated, Size, Split
from stelmo.errors import DataError
from stelmo.settings import PrepareSettings
from stelmo.store import atomic
from stelmo.text.chars import BEGIN_SENTENCE, END_SENTENCE
from stelmo.text.ids import MAXTERMID, UNKNOWN, Vocabulary, write_vocabulary

SHARD_TOKENS = 1 << 26
SYMBOLS = (BEGIN_SENTENCE, END_SENTENCE, UNKNOWN)
_RESERVED = frozenset((*SYMBOLS, MAXTERMID))  # readers of vocabulary files give these lines a special meaning
LONGEST_WORD = 48  # bytes that fit into a row of 50 character ids
_HASHES_AT_ONCE = 1 << 24

Advance = Callable[[int], None]  # called with the number of tokens finished since the last call
Progress = Callable[[str, Callable[[], float | None]], AbstractContextManager[Advance]]
Key = np.uint64
Piece = tuple[NDArray[np.uint32], NDArray[np.int64]]  # types, lengths of the sentences


# Counts over all chunks


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
    """Whether each sentence of the chunk is held out."""
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
        """The words by descending frequency in the training part; ties in the order of their bytes (or code points)."""
        words, counts_W2 = list(self._numbers), self._counts_W2[: len(self._numbers)]
        times = counts_W2[:, 0].tolist()
        order = sorted(range(len(words)), key=lambda number: (-times[number], words[number]))
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


# The folder


def assemble(files: list[Path], path: Path, recipe: Recipe, given: Vocabulary | None, progress: Progress) -> Manifest:
    """Write the corpus folder; a given vocabulary is used unchanged."""
    bound = _heldout_bound(files, recipe)
    words = WordCounts()
    sizes_F22 = np.array([_count(chunks.read(file), bound, words) for file in files])
    if not sizes_F22[:, 0].any():
        raise DataError(
            f"{recipe.inputs[0].name}: --heldout {recipe.settings.heldout:g} takes all {sizes_F22[:, 1, 0].sum():,} "
            "sentences, because the sentences of a line stay together; break the text into lines, or use --heldout 0"
        )
    ranked = words.ranked()
    vocabulary = given or _count_vocabulary(ranked, recipe)
    with atomic.new_folder(path, overwrite=True) as draft:
        types = [symbol.encode() for symbol in SYMBOLS[:2]] + ranked.words
        targets = np.array([vocabulary.id(word.decode()) for word in types], np.int32)
        write_vocabulary(vocabulary, draft / "vocab.txt")
        folder.write_types(draft, types, targets)
        number_of = {word: number for number, word in enumerate(ranked.words, 2)}
        shard_counts = _write_splits(draft, files, bound, sizes_F22, number_of, progress)
        splits = zip(sizes_F22.sum(0).tolist(), ranked.unknown(targets[2:], vocabulary), shard_counts, strict=True)
        train, heldout = (Split(sentences=s, tokens=t, unknown=unknown, shards=n) for (s, t), unknown, n in splits)
        manifest = Manifest(
            corpus=folder.VERSION,
            **recipe._asdict(),
            **_line_statistics(files, recipe.inputs),
            types=len(targets),
            vocabulary=len(vocabulary),
            long_tokens=ranked.long_tokens(),
            skipped_markers=int(sum(map(np.sum, chunks.read_field("skipped", files)))),
            train=train,
            heldout=heldout,
            by_input=_sizes_by_input(files, sizes_F22, len(recipe.inputs)),
            files={},
        )
        return folder.write_manifest(draft, manifest)


def _heldout_bound(files: list[Path], recipe: Recipe) -> Key | None:
    """The largest key that is held out. A share above zero holds out at least one sentence."""
    sentences = sum(map(len, chunks.read_field("ends_S", files)))
    if not sentences:
        more = f" and {len(recipe.inputs) - 1} more files" if len(recipe.inputs) > 1 else ""
        raise DataError(f"{recipe.inputs[0].name}{more}: no sentence found; expected text")
    asked = recipe.settings.heldout
    count = int(asked) if asked >= 1 or asked == 0 else max(1, round(asked * sentences))
    return heldout_bound(chunks.read_field("keys_S", files), count)


def _count(chunk: Chunk, bound: Key | None, words: WordCounts) -> list[list[int]]:
    """Add the chunk's words to the counts → [sentences, tokens] of each split."""
    heldout_S = is_heldout(chunk, bound)
    words.add(chunk, heldout_S)
    return [[int(chosen.sum()), int(chunk.lengths[chosen].sum())] for chosen in (~heldout_S, heldout_S)]


def _sizes_by_input(files: list[Path], sizes_F22: NDArray[np.int64], inputs: int) -> tuple[InputSizes, ...]:
    """What each input contributes; one without sentences has no chunk and contributes zeros."""
    sizes_I22 = np.zeros((inputs, 2, 2), np.int64)
    sources_F = np.concatenate(list(chunks.read_field("source", files)))
    np.add.at(sizes_I22, sources_F, sizes_F22)
    return tuple(
        InputSizes(train=Size(sentences=train[0], tokens=train[1]), heldout=Size(sentences=held[0], tokens=held[1]))
        for train, held in sizes_I22.tolist()
    )


def _count_vocabulary(ranked: Ranked, recipe: Recipe) -> Vocabulary:
    """The most frequent words of the text."""
    vocabulary = ranked.vocabulary(recipe.settings)
    if len(vocabulary) == len(SYMBOLS):
        raise DataError(
            f"{recipe.inputs[0].name}: no word occurs {recipe.settings.min_count or 1} times; lower --min-count"
        )
    return vocabulary


def _line_statistics(files: list[Path], inputs: Sequence[InputFile]) -> dict[str, Any]:
    """Fields of the manifest: how many lines there are, and which are repeated."""
    lines = sum(map(len, chunks.read_field("hashes_L", files)))
    found = repeats(lambda: chunks.read_field("hashes_L", files), lines)
    first: dict[int, str] = {}  # file:line where each of the most repeated lines first occurs
    for file in files:
        if len(first) == len(found.most):
            break
        chunk = chunks.read(file)
        for hash_, _ in found.most:
            places = np.flatnonzero(chunk.hashes_L == np.uint64(hash_))
            if hash_ not in first and len(places):
                first[hash_] = f"{inputs[int(chunk.source[0])].name}:{chunk.numbers_L[places[0]]}"
    most = tuple(Repeated(where=first[hash_], times=times) for hash_, times in found.most)
    return {"lines": lines, "duplicate_lines": found.extra, "most_repeated": most}


def _write_splits(
    path: Path,
    files: list[Path],
    bound: Key | None,
    sizes_F22: NDArray[np.int64],
    number_of: dict[bytes, int],
    progress: Progress,
) -> list[int]:
    """The shards of both splits → the number of each."""
    total, done = int(sizes_F22[:, :, 1].sum()), 0
    with progress("writing", lambda: done / total) as advance:
        written = []
        for place, split in enumerate(folder.SPLITS):
            groups = _group_into_shards(sizes_F22[:, place])
            for number, group in enumerate(groups):
                sentences, tokens = sizes_F22[group, place].sum(0).tolist()
                pieces = (_renumber(chunks.read(files[file]), bound, bool(place), number_of) for file in group)
                folder.write_shard(path, split, number, (sentences, tokens), pieces)
                done += tokens
                advance(tokens)
            written.append(len(groups))
    return written


def _group_into_shards(sizes_F2: NDArray[np.int64]) -> list[list[int]]:
    """The chunks of each shard. A chunk is never divided, so the shards depend on the text alone."""
    groups: list[list[int]] = []
    room = 0
    for file, (sentences, tokens) in enumerate(sizes_F2.tolist()):
        if sentences and tokens > room:
            groups.append([])
            room = SHARD_TOKENS
        if sentences:
            groups[-1].append(file)
            room -= tokens
    return groups


def _renumber(chunk: Chunk, bound: Key | None, heldout: bool, number_of: dict[bytes, int]) -> Piece:
    """(types, sentence lengths) of one split of a chunk."""
    chosen_S = is_heldout(chunk, bound) == heldout
    types_W = np.array([number_of[word] for word in chunk.distinct_words()], np.uint32)
    return types_W[chunk.ids_N[np.repeat(chosen_S, chunk.lengths)]], chunk.lengths[chosen_S]
