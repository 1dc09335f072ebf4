"""A corpus folder ↔ memory-mapped words and sentences. Knows no text format and no training.

manifest.json         written last: version, settings, inputs, counts, every file with its size and digest
vocab.txt             the words a softmax tells apart
types.bin             the UTF-8 bytes of every distinct word, end to end; types.offsets.npy (int64) says where to cut
targets.npy           int32: type → line of vocab.txt, counted from 0
train-00000.ids.npy   uint32: the types of all sentences end to end, without markers …
train-00000.ends.npy  int64: … and where each sentence ends; heldout-00000.* likewise

Types 0 and 1 are <S> and </S>; then words by falling frequency in the training part.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stelmo.corpus.manifest import AGAIN, MANIFEST, Manifest, Part, StoredFile, digest, fingerprint, read_manifest
from stelmo.errors import DataError
from stelmo.text.chars import BEGIN_SENTENCE, END_SENTENCE
from stelmo.text.files import LineReader
from stelmo.text.vocabulary import UNKNOWN, Vocabulary


class Shard(NamedTuple):
    types_N: NDArray[np.uint32]
    ends_S: NDArray[np.int64]


class TypeTable:
    """The bytes of every distinct word."""

    def __init__(self, data_N: NDArray[np.uint8], offsets_S: NDArray[np.int64]) -> None:
        self._data_N, self._offsets_S = data_N, offsets_S

    def __len__(self) -> int:
        return len(self._offsets_S) - 1

    def bytes_of(self, types: Iterable[int]) -> list[bytes]:
        """UTF-8, in the order asked for."""
        chosen = np.fromiter(types, np.int64)
        starts, ends = self._offsets_S[chosen].tolist(), self._offsets_S[chosen + 1].tolist()
        return [self._data_N[start:end].tobytes() for start, end in zip(starts, ends, strict=True)]

    def words(self, types: Iterable[int]) -> list[str]:
        return [word.decode() for word in self.bytes_of(types)]


@dataclass(frozen=True)
class Corpus:
    path: Path
    manifest: Manifest
    vocabulary: Vocabulary
    words: TypeTable
    targets_S: NDArray[np.int32]
    train: tuple[Shard, ...]
    heldout: tuple[Shard, ...]

    def fingerprint(self) -> str:
        """Equal for equal corpora: words, sentences, vocabulary, split."""
        return fingerprint(self.manifest)


def read(folder: Path) -> Corpus:
    """Everything memory-mapped; a folder that is torn, unfinished or of another version is refused."""
    manifest = read_manifest(folder)
    for name, file in manifest.files.items():
        _refuse_torn(folder / name, file)
    vocabulary = _own_vocabulary(folder, manifest)
    corpus = Corpus(
        path=folder,
        manifest=manifest,
        vocabulary=vocabulary,
        words=TypeTable(
            np.memmap(folder / "types.bin", np.uint8, "r"), _mapped(folder / "types.offsets.npy", np.int64)
        ),
        targets_S=_mapped(folder / "targets.npy", np.int32),
        train=_shards(folder, "train", manifest.train),
        heldout=_shards(folder, "heldout", manifest.heldout),
    )
    if not len(corpus.words) == len(corpus.targets_S) == manifest.types:
        raise DataError(f"{folder}: {MANIFEST} says {manifest.types} types, the tables disagree; {AGAIN}")
    return corpus


def read_vocabulary(path: Path) -> Vocabulary:
    """A vocabulary file, compressed or not, that a softmax can be trained with."""
    with LineReader(path) as lines:
        words = Vocabulary.of((line for _, line in lines), str(path))
    for symbol in (BEGIN_SENTENCE, END_SENTENCE, UNKNOWN):
        words.require(symbol)
    return words


def _refuse_torn(path: Path, expected: StoredFile) -> None:
    try:
        found = path.stat().st_size
    except OSError as problem:
        raise DataError(f"{path}: {problem.strerror or problem}; {MANIFEST} names the file, so {AGAIN}") from None
    if found != expected.bytes:
        raise DataError(f"{path}: {found:,} bytes, {MANIFEST} says {expected.bytes:,}; {AGAIN}")


def _own_vocabulary(folder: Path, manifest: Manifest) -> Vocabulary:
    path = folder / "vocab.txt"
    if StoredFile(bytes=path.stat().st_size, sha256=digest(path)) != manifest.files.get(path.name):
        raise DataError(f"{path}: not the vocabulary the shards were made with; {AGAIN}, or with --vocabulary")
    return read_vocabulary(path)


def _shards(folder: Path, part: str, about: Part) -> tuple[Shard, ...]:
    shards = tuple(_shard(folder, part, number) for number in range(about.shards))
    sentences, tokens = (sum(len(shard[field]) for shard in shards) for field in (1, 0))
    if (sentences, tokens) != (about.sentences, about.tokens):
        raise DataError(
            f"{folder}: {sentences:,} sentences and {tokens:,} tokens of {part}, {MANIFEST} says "
            f"{about.sentences:,} and {about.tokens:,}; {AGAIN}"
        )
    return shards


def _shard(folder: Path, part: str, number: int) -> Shard:
    ids, ends = (folder / name for name in shard_names(part, number))
    shard = Shard(_mapped(ids, np.uint32), _mapped(ends, np.int64))
    if not len(shard.ends_S) or shard.ends_S[-1] != len(shard.types_N):
        raise DataError(f"{ends}: the last sentence does not end with the words of {ids.name}; {AGAIN}")
    return shard


def shard_names(part: str, number: int) -> tuple[str, str]:
    return f"{part}-{number:05d}.ids.npy", f"{part}-{number:05d}.ends.npy"


def _mapped(path: Path, dtype: type[np.generic]) -> NDArray[Any]:
    try:
        array: NDArray[Any] = np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError) as problem:
        raise DataError(f"{path}: cannot be read ({problem}); {AGAIN}") from None
    if array.dtype != dtype or array.ndim != 1:
        raise DataError(f"{path}: {array.ndim} axes of {array.dtype}, expected 1 of {np.dtype(dtype)}; {AGAIN}")
    return array.view(np.ndarray)  # memmap's own indexing is slow


# Writing


def write_types(folder: Path, words: Sequence[bytes], targets: NDArray[np.int32]) -> None:
    with (folder / "types.bin").open("wb") as file:
        file.writelines(words)
    np.save(folder / "types.offsets.npy", np.cumsum([0, *map(len, words)], dtype=np.int64))
    np.save(folder / "targets.npy", targets)


def write_vocabulary(folder: Path, vocabulary: Vocabulary) -> None:
    with (folder / "vocab.txt").open("w", encoding="utf-8", newline="\n") as file:
        file.writelines(f"{word}\n" for word in vocabulary)


def write_shard(
    folder: Path,
    part: str,
    number: int,
    size: tuple[int, int],
    pieces: Iterable[tuple[NDArray[np.uint32], NDArray[np.int64]]],
) -> None:
    """Pieces (types, lengths of the sentences) end to end; `size`, sentences and tokens of them all, goes ahead."""
    ids_name, ends_name = shard_names(part, number)
    end = 0
    with (
        _array_file(folder / ids_name, np.uint32, size[1]) as add_ids,
        _array_file(folder / ends_name, np.int64, size[0]) as add_ends,
    ):
        for types, lengths in pieces:
            add_ids(types)
            add_ends(end + np.cumsum(lengths))
            end += len(types)


@contextmanager
def _array_file(path: Path, dtype: type[np.generic], length: int) -> Iterator[Callable[[NDArray[Any]], int]]:
    """A .npy file written piece by piece: on a full disk a write fails, where a memory map would kill the process."""
    kind = np.dtype(dtype)
    header = {"descr": np.lib.format.dtype_to_descr(kind), "fortran_order": False, "shape": (length,)}
    with path.open("wb") as file:
        np.lib.format.write_array_header_1_0(file, header)
        begin = file.tell()
        yield lambda piece: file.write(piece.astype(kind).tobytes())
        assert file.tell() == begin + length * kind.itemsize, "an array of another length than announced"
