"""Finished chunks → a corpus folder: words are counted over all chunks, then the chunks renumbered and concatenated.

F chunk files; the axis of length 2 is (training part, held-out part).
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stelmo.config import PrepareSettings
from stelmo.corpus import chunks, counts, folder
from stelmo.corpus.chunks import Chunk
from stelmo.corpus.counts import Key, Ranked, WordCounts
from stelmo.corpus.folder import InputFile, InputSizes, Manifest, Recipe, Repeated, Size, Split
from stelmo.errors import DataError
from stelmo.store import atomic
from stelmo.text.vocabulary import Vocabulary, write_vocabulary

SHARD_TOKENS = 1 << 26

Advance = Callable[[int], None]  # called with the number of tokens finished since the last call
Progress = Callable[[str, Callable[[], float | None]], AbstractContextManager[Advance]]


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
        targets = _write_words(draft, ranked, vocabulary)
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


# Counting


def _heldout_bound(files: list[Path], recipe: Recipe) -> Key | None:
    sentences = sum(map(len, chunks.read_field("ends_S", files)))
    if not sentences:
        more = f" and {len(recipe.inputs) - 1} more files" if len(recipe.inputs) > 1 else ""
        raise DataError(f"{recipe.inputs[0].name}{more}: no sentence found; expected text")
    return counts.heldout_bound(chunks.read_field("keys_S", files), _heldout_sentences(recipe.settings, sentences))


def _heldout_sentences(settings: PrepareSettings, sentences: int) -> int:
    """A share above zero holds out at least one sentence."""
    share = settings.heldout
    return int(share) if share >= 1 or share == 0 else max(1, round(share * sentences))


def _count(chunk: Chunk, bound: Key | None, words: WordCounts) -> list[list[int]]:
    """Add the chunk's words to the counts → [sentences, tokens] of each split."""
    heldout_S = counts.is_heldout(chunk, bound)
    words.add(chunk, heldout_S)
    return [[int(chosen.sum()), int(chunk.lengths[chosen].sum())] for chosen in (~heldout_S, heldout_S)]


def _sizes_by_input(files: list[Path], sizes_F22: NDArray[np.int64], inputs: int) -> tuple[InputSizes, ...]:
    """An input without sentences has no chunk, but has its place."""
    sizes_I22 = np.zeros((inputs, 2, 2), np.int64)
    sources_F = np.concatenate(list(chunks.read_field("source", files)))
    np.add.at(sizes_I22, sources_F, sizes_F22)
    return tuple(
        InputSizes(train=Size(sentences=train[0], tokens=train[1]), heldout=Size(sentences=held[0], tokens=held[1]))
        for train, held in sizes_I22.tolist()
    )


def _count_vocabulary(ranked: Ranked, recipe: Recipe) -> Vocabulary:
    vocabulary = ranked.vocabulary(recipe.settings)
    if len(vocabulary) == len(counts.SYMBOLS):
        raise DataError(
            f"{recipe.inputs[0].name}: no word occurs {recipe.settings.min_count or 1} times; lower --min-count"
        )
    return vocabulary


def _line_statistics(files: list[Path], inputs: Sequence[InputFile]) -> dict[str, Any]:
    lines = sum(map(len, chunks.read_field("hashes_L", files)))
    repeats = counts.repeats(lambda: chunks.read_field("hashes_L", files), lines)
    first = _first_places(files, [hash_ for hash_, _ in repeats.most], inputs)
    most = tuple(Repeated(where=first[hash_], times=times) for hash_, times in repeats.most)
    return {"lines": lines, "duplicate_lines": repeats.extra, "most_repeated": most}


def _first_places(files: list[Path], hashes: list[int], inputs: Sequence[InputFile]) -> dict[int, str]:
    """file:line where each of these lines first occurs."""
    found: dict[int, str] = {}
    for chunk in map(chunks.read, files if hashes else []):
        for hash_ in hashes:
            places = np.flatnonzero(chunk.hashes_L == np.uint64(hash_))
            if hash_ not in found and len(places):
                found[hash_] = f"{inputs[int(chunk.source[0])].name}:{chunk.numbers_L[places[0]]}"
        if len(found) == len(hashes):
            break
    return found


# Writing


def _write_words(path: Path, ranked: Ranked, vocabulary: Vocabulary) -> NDArray[np.int32]:
    """The vocabulary and the types → the target of each type."""
    words = [symbol.encode() for symbol in counts.SYMBOLS[:2]] + ranked.words
    targets = np.array([vocabulary.id(word.decode()) for word in words], np.int32)
    write_vocabulary(vocabulary, path / "vocab.txt")
    folder.write_types(path, words, targets)
    return targets


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


def _renumber(chunk: Chunk, bound: Key | None, heldout: bool, number_of: dict[bytes, int]) -> tuple[Any, Any]:
    """(types, sentence lengths) of one split of a chunk."""
    chosen_S = counts.is_heldout(chunk, bound) == heldout
    types_W = np.array([number_of[word] for word in chunk.distinct_words()], np.uint32)
    return types_W[chunk.ids_N[np.repeat(chosen_S, chunk.lengths)]], chunk.lengths[chosen_S]
