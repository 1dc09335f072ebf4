"""Chunks of numbered words → a corpus folder: words counted together, chunks renumbered, all written end to end."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stelmo.config import PrepareSettings
from stelmo.corpus import chunk_files as chunks
from stelmo.corpus import counts
from stelmo.corpus import folder as shards
from stelmo.corpus.chunks import Chunk, words_of
from stelmo.corpus.counts import Key, Ranked, WordCounts
from stelmo.corpus.manifest import PARTS, VERSION, InputFile, Manifest, Part, Repeated, write_manifest
from stelmo.corpus.recipe import Recipe
from stelmo.errors import DataError
from stelmo.store import atomic
from stelmo.text.vocabulary import Vocabulary

SHARD_TOKENS = 1 << 26

Advance = Callable[[int], None]  # told the number of tokens finished since the last call
Progress = Callable[[str, Callable[[], float | None]], AbstractContextManager[Advance]]


def assemble(files: list[Path], folder: Path, recipe: Recipe, given: Vocabulary | None, progress: Progress) -> Manifest:
    """The whole corpus folder out of the finished chunks; a given vocabulary is taken as it is."""
    bound = _heldout_bound(files, recipe)
    words = WordCounts()
    sizes_F22 = np.array([_counted(chunks.read(file), bound, words) for file in files])
    if not sizes_F22[:, 0].any():
        raise DataError(
            f"{recipe.inputs[0].name}: --heldout {recipe.settings.heldout:g} takes all {sizes_F22[:, 1, 0].sum():,} "
            "sentences, as those of a line stay together; break the text into lines, or give --heldout 0"
        )
    ranked = words.ranked()
    vocabulary = given or _vocabulary(ranked, recipe)
    with atomic.new_folder(folder, overwrite=True) as draft:
        targets = _write_words(draft, ranked, vocabulary)
        number_of = {word: number for number, word in enumerate(ranked.words, 2)}
        shard_counts = _write_parts(draft, files, bound, sizes_F22, number_of, progress)
        parts = zip(sizes_F22.sum(0).tolist(), ranked.unknown(targets[2:], vocabulary), shard_counts, strict=True)
        train, heldout = (Part(sentences=s, tokens=t, unknown=unknown, shards=n) for (s, t), unknown, n in parts)
        manifest = Manifest(
            corpus=VERSION,
            **recipe._asdict(),
            **_lines_report(files, recipe.inputs),
            types=len(targets),
            vocabulary=len(vocabulary),
            long_tokens=ranked.long_tokens(),
            skipped_markers=int(sum(map(np.sum, chunks.each("skipped", files)))),
            train=train,
            heldout=heldout,
            files={},
        )
        return write_manifest(draft, manifest)


# Counting


def _heldout_bound(files: list[Path], recipe: Recipe) -> Key | None:
    sentences = sum(map(len, chunks.each("ends_S", files)))
    if not sentences:
        more = f" and {len(recipe.inputs) - 1} more files" if len(recipe.inputs) > 1 else ""
        raise DataError(f"{recipe.inputs[0].name}{more}: no sentence there; expected text")
    return counts.heldout_bound(chunks.each("keys_S", files), _heldout(recipe.settings, sentences))


def _vocabulary(ranked: Ranked, recipe: Recipe) -> Vocabulary:
    vocabulary = ranked.vocabulary(recipe.settings)
    if len(vocabulary) == len(counts.SYMBOLS):
        raise DataError(
            f"{recipe.inputs[0].name}: no word is there {recipe.settings.min_count or 1} times; lower --min-count"
        )
    return vocabulary


def _heldout(settings: PrepareSettings, sentences: int) -> int:
    """A share that is not zero holds out one sentence or more."""
    share = settings.heldout
    return int(share) if share >= 1 or share == 0 else max(1, round(share * sentences))


def _counted(chunk: Chunk, bound: Key | None, words: WordCounts) -> list[list[int]]:
    """[sentences, tokens] of each part of a chunk, whose words are added to the others."""
    heldout_S, lengths_S = counts.is_heldout(chunk, bound), counts.lengths(chunk)
    words.add(chunk, heldout_S)
    return [[int(chosen.sum()), int(lengths_S[chosen].sum())] for chosen in (~heldout_S, heldout_S)]


def _lines_report(files: list[Path], inputs: Sequence[InputFile]) -> dict[str, Any]:
    lines = sum(map(len, chunks.each("hashes_L", files)))
    repeats = counts.repeats(lambda: chunks.each("hashes_L", files), lines)
    first = _first_places(files, [hash_ for hash_, _ in repeats.most], inputs)
    most = tuple(Repeated(where=first[hash_], times=times) for hash_, times in repeats.most)
    return {"lines": lines, "duplicate_lines": repeats.extra, "most_repeated": most}


def _first_places(files: list[Path], hashes: list[int], inputs: Sequence[InputFile]) -> dict[int, str]:
    """file:line where each of these lines is first seen."""
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


def _write_words(folder: Path, ranked: Ranked, vocabulary: Vocabulary) -> NDArray[np.int32]:
    words = [symbol.encode() for symbol in counts.SYMBOLS[:2]] + ranked.words
    targets = np.array([vocabulary.id(word.decode()) for word in words], np.int32)
    shards.write_vocabulary(folder, vocabulary)
    shards.write_types(folder, words, targets)
    return targets


def _write_parts(
    folder: Path,
    files: list[Path],
    bound: Key | None,
    sizes_F22: NDArray[np.int64],
    number_of: dict[bytes, int],
    progress: Progress,
) -> list[int]:
    """The shards of both parts; how many each has."""
    total, done = int(sizes_F22[:, :, 1].sum()), 0
    with progress("writing", lambda: done / total) as advance:
        written = []
        for place, part in enumerate(PARTS):
            groups = _groups(sizes_F22[:, place])
            for number, group in enumerate(groups):
                sentences, tokens = sizes_F22[group, place].sum(0).tolist()
                pieces = (_renumbered(chunks.read(files[file]), bound, bool(place), number_of) for file in group)
                shards.write_shard(folder, part, number, (sentences, tokens), pieces)
                done += tokens
                advance(tokens)
            written.append(len(groups))
    return written


def _groups(sizes_F2: NDArray[np.int64]) -> list[list[int]]:
    """Whole chunks that make up each shard; they depend on the text alone."""
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


def _renumbered(chunk: Chunk, bound: Key | None, heldout: bool, number_of: dict[bytes, int]) -> tuple[Any, Any]:
    """(types, lengths of the sentences) of one part of a chunk."""
    chosen_S = counts.is_heldout(chunk, bound) == heldout
    lengths_S = counts.lengths(chunk)
    types_W = np.array([number_of[word] for word in words_of(chunk)], np.uint32)
    return types_W[chunk.ids_N[np.repeat(chosen_S, lengths_S)]], lengths_S[chosen_S]
