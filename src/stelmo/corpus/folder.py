"""A corpus folder ↔ its manifest and memory-mapped words and sentences.

manifest.json         written last: version, settings, inputs, counts, every file with its size and digest
vocab.txt             the words of the softmax
types.bin             the UTF-8 bytes of every distinct word, concatenated; types.offsets.npy (int64) has the boundaries
targets.npy           int32: type → line of vocab.txt, counted from 0
train-00000.ids.npy   uint32: the types of all sentences, concatenated, without markers …
train-00000.ends.npy  int64: … and where each sentence ends; heldout-00000.* likewise

Types 0 and 1 are <S> and </S>; then words by descending frequency in the training part.
"""

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from stelmo.config import Settings, parse
from stelmo.corpus.windows import BEGIN, END
from stelmo.errors import DataError
from stelmo.settings import PrepareSettings
from stelmo.store import atomic
from stelmo.store.containers import map_npy
from stelmo.text.chars import BEGIN_SENTENCE, END_SENTENCE
from stelmo.text.files import LineReader
from stelmo.text.ids import UNKNOWN, Vocabulary

VERSION = 1
MANIFEST = "manifest.json"
SPLITS = ("train", "heldout")
AGAIN = "prepare the text again with --overwrite"


class InputFile(Settings):
    name: str
    bytes: int
    modified: int = Field(description="nanoseconds since 1970")


class Recipe(NamedTuple):
    """Together with the text itself, everything that decides the bytes of a corpus folder."""

    settings: PrepareSettings
    inputs: tuple[InputFile, ...]
    vocabulary_file: InputFile | None


class StoredFile(Settings):
    bytes: int
    sha256: str


class Repeated(Settings):
    where: str = Field(description="file:line of the first occurrence")
    times: int


class Size(Settings):
    sentences: int
    tokens: int


class InputSizes(Settings):
    """What one input file contributes. Both parts of a corpus keep the order of its inputs."""

    train: Size
    heldout: Size


class Split(Size):
    unknown: int = Field(description="tokens outside the vocabulary")
    shards: int


class Manifest(Settings):
    corpus: int = Field(description="version of the folder's format")
    settings: PrepareSettings
    inputs: tuple[InputFile, ...]
    vocabulary_file: InputFile | None = Field(None, description="the vocabulary that was given")
    lines: int = Field(description="lines that are not blank")
    duplicate_lines: int = Field(description="lines that repeat an earlier line")
    most_repeated: tuple[Repeated, ...] = ()
    types: int = Field(description="distinct words, <S> and </S> included")
    vocabulary: int = Field(description="lines of vocab.txt")
    long_tokens: int = Field(description="tokens of more than 48 bytes, which a model of 50 characters truncates")
    skipped_markers: int = Field(description="tokens <S> or </S> in the text, left out")
    train: Split
    heldout: Split
    by_input: tuple[InputSizes, ...] | None = Field(
        None, description="one for each of the inputs; earlier versions did not record it"
    )
    files: dict[str, StoredFile]

    @property
    def recipe(self) -> Recipe:
        return Recipe(self.settings, self.inputs, self.vocabulary_file)

    def fingerprint(self) -> str:
        """Equal for equal corpora: words, sentences, vocabulary, split."""
        digests = sorted((name, file.sha256) for name, file in self.files.items())
        return hashlib.sha256(json.dumps([self.corpus, digests]).encode()).hexdigest()[:32]


def recognises(folder: Path) -> bool:
    """Other folders also have a manifest.json; that of a corpus has the key `corpus`."""
    try:
        return "corpus" in atomic.read_json(folder / MANIFEST, DataError)
    except (DataError, TypeError):
        return False


def read_manifest(folder: Path) -> Manifest:
    path = folder / MANIFEST
    if folder.is_file():
        raise DataError(f"{folder}: a file; expected a corpus folder, made by `stelmo prepare {folder} --to FOLDER`")
    if not folder.is_dir():
        raise DataError(f"{folder}: no such folder; `stelmo prepare` makes a corpus from text")
    if not path.exists():
        raise DataError(f"{folder}: not a finished corpus ({MANIFEST} is missing); `stelmo prepare` makes one")
    values = atomic.read_json(path, DataError, AGAIN)
    version = values.get("corpus") if isinstance(values, dict) else None
    if version != VERSION:
        found = "not the manifest of a corpus" if version is None else f"a corpus of version {version}"
        raise DataError(f"{path}: {found}; this stelmo reads version {VERSION}, so prepare the text again")
    return parse(Manifest, values, str(path), DataError)


def write_manifest(folder: Path, manifest: Manifest) -> Manifest:
    """Add the size and digest of every file in the folder, and write the manifest, the last file."""
    files = {
        path.name: StoredFile(bytes=path.stat().st_size, sha256=_digest(path)) for path in sorted(folder.iterdir())
    }
    finished = manifest.model_copy(update={"files": files})
    (folder / MANIFEST).write_text(finished.model_dump_json(indent=2) + "\n")
    return finished


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def describe(manifest: Manifest) -> list[tuple[str, str]]:
    """(label, text) pairs for people to read."""
    tokens = manifest.train.tokens + manifest.heldout.tokens
    settings = manifest.settings.model_dump(exclude_none=True)
    markers = manifest.skipped_markers
    return [
        ("format", f"stelmo corpus, version {manifest.corpus}"),
        ("inputs", f"{len(manifest.inputs):,} files, {sum(file.bytes for file in manifest.inputs):,} bytes"),
        ("settings", ", ".join(f"{name} {value}" for name, value in settings.items())),
        ("train", _describe_split(manifest.train)),
        ("heldout", _describe_split(manifest.heldout)),
        ("types", f"{manifest.types:,} distinct words"),
        ("vocabulary", f"{manifest.vocabulary:,} words"),
        ("lines", f"{manifest.lines:,}; {_share(manifest.duplicate_lines, manifest.lines)} repeat an earlier line"),
        *(("", f"{line.times:,} times {line.where}") for line in manifest.most_repeated),
        ("long words", f"{_share(manifest.long_tokens, tokens)} of the tokens exceed 48 bytes and are truncated"),
        *([("left out", f"{markers:,} tokens <S> or </S>, which are reserved for the model")] if markers else []),
    ]


def _describe_split(split: Split) -> str:
    return f"{split.sentences:,} sentences, {split.tokens:,} tokens, {_share(split.unknown, split.tokens)} unknown"


def _share(some: int, total: int) -> str:
    return f"{some:,} ({some / max(1, total):.2%})"


# Reading


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
        """UTF-8, in the order of the argument."""
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
        return self.manifest.fingerprint()


def type_counts(corpus: Corpus) -> NDArray[np.float64]:
    """How often each type occurs in the training part; <S> and </S> once for every sentence."""
    types = len(corpus.targets_S)
    counts_S = np.zeros(types)
    for shard in corpus.train:
        counts_S += np.bincount(shard.types_N, minlength=types)
    counts_S[[BEGIN, END]] = corpus.manifest.train.sentences
    return counts_S


def read(folder: Path) -> Corpus:
    """Everything memory-mapped; a damaged or unfinished folder, or one of another version, is refused."""
    manifest, words = read_manifest(folder), folder / "vocab.txt"
    for name, file in manifest.files.items():
        path = folder / name
        try:
            found = path.stat().st_size
        except OSError as problem:
            raise DataError(f"{path}: {problem.strerror or problem}; {MANIFEST} names the file, so {AGAIN}") from None
        if found != file.bytes:
            raise DataError(f"{path}: {found:,} bytes, {MANIFEST} says {file.bytes:,}; {AGAIN}")
    if StoredFile(bytes=words.stat().st_size, sha256=_digest(words)) != manifest.files.get(words.name):
        raise DataError(f"{words}: not the vocabulary that the shards were made with; {AGAIN}, or with --vocabulary")
    corpus = Corpus(
        path=folder,
        manifest=manifest,
        vocabulary=read_vocabulary(words),
        words=TypeTable(
            np.memmap(folder / "types.bin", np.uint8, "r"), _mapped(folder / "types.offsets.npy", np.int64)
        ),
        targets_S=_mapped(folder / "targets.npy", np.int32),
        train=_shards(folder, "train", manifest.train),
        heldout=_shards(folder, "heldout", manifest.heldout),
    )
    if not len(corpus.words) == len(corpus.targets_S) == manifest.types:
        raise DataError(f"{folder}: {MANIFEST} says {manifest.types} types, but the tables differ; {AGAIN}")
    return corpus


def read_vocabulary(path: Path) -> Vocabulary:
    """A vocabulary file, compressed or not, with the three symbols that training a softmax requires."""
    with LineReader(path) as lines:
        words = Vocabulary.of((line for _, line in lines), str(path))
    for symbol in (BEGIN_SENTENCE, END_SENTENCE, UNKNOWN):
        words.require(symbol)
    return words


def _shards(folder: Path, split: str, about: Split) -> tuple[Shard, ...]:
    shards = []
    for number in range(about.shards):
        ids, ends = (folder / name for name in shard_names(split, number))
        shard = Shard(_mapped(ids, np.uint32), _mapped(ends, np.int64))
        if not len(shard.ends_S) or shard.ends_S[-1] != len(shard.types_N):
            raise DataError(f"{ends}: the last sentence does not end with the words of {ids.name}; {AGAIN}")
        shards.append(shard)
    sentences, tokens = sum(len(shard.ends_S) for shard in shards), sum(len(shard.types_N) for shard in shards)
    if (sentences, tokens) != (about.sentences, about.tokens):
        raise DataError(
            f"{folder}: {sentences:,} sentences and {tokens:,} tokens of {split}, {MANIFEST} says "
            f"{about.sentences:,} and {about.tokens:,}; {AGAIN}"
        )
    return tuple(shards)


def shard_names(split: str, number: int) -> tuple[str, str]:
    return f"{split}-{number:05d}.ids.npy", f"{split}-{number:05d}.ends.npy"


def _mapped(path: Path, dtype: type[np.generic]) -> NDArray[Any]:
    array = map_npy(path, AGAIN)
    if array.dtype != dtype or array.ndim != 1:
        raise DataError(f"{path}: {array.ndim} axes of {array.dtype}, expected 1 of {np.dtype(dtype)}; {AGAIN}")
    return array.view(np.ndarray)  # indexing a np.memmap is slow


# Writing


def write_types(folder: Path, words: Sequence[bytes], targets: NDArray[np.int32]) -> None:
    with (folder / "types.bin").open("wb") as file:
        file.writelines(words)
    np.save(folder / "types.offsets.npy", np.cumsum([0, *map(len, words)], dtype=np.int64))
    np.save(folder / "targets.npy", targets)


def write_shard(
    folder: Path,
    split: str,
    number: int,
    size: tuple[int, int],
    pieces: Iterable[tuple[NDArray[np.uint32], NDArray[np.int64]]],
) -> None:
    """Concatenated pieces of (types, sentence lengths); `size` is their total number of sentences and of tokens."""
    ids_name, ends_name = shard_names(split, number)
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
    """A .npy file written piece by piece. On a full disk a write fails; a memory map would kill the process."""
    kind = np.dtype(dtype)
    header = {"descr": np.lib.format.dtype_to_descr(kind), "fortran_order": False, "shape": (length,)}
    with path.open("wb") as file:
        np.lib.format.write_array_header_1_0(file, header)
        begin = file.tell()
        yield lambda piece: file.write(piece.astype(kind).tobytes())
        assert file.tell() == begin + length * kind.itemsize, "the array differs from the announced length"
