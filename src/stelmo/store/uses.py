"""Word uses with their layers ↔ a folder that grows and forgets, read by memory map. Knows no model.

 manifest.json   what the layers are of; there from the beginning
 vectors.bin     (L+1, D) of one use after the other, float16
 journal.bin     blocks: kind, bytes, a checksum, and what they hold
 lock            held by the process that writes

 ADD   a JSON line for each sentence: its tokens, and the positions whose uses are kept
 DEL   the numbers of uses that are no more

A use's number is its place in vectors.bin, and stays its own. A block goes into the journal when its vectors are on the
disk. What counts is the leading blocks that are whole in both files.
"""

import json
import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stelmo.config import Positive, Settings, parse
from stelmo.errors import DataError, OutputError
from stelmo.store import atomic, growing

MANIFEST, VECTORS, JOURNAL = "manifest.json", "vectors.bin", "journal.bin"
ADD, DELETE = b"ADD ", b"DEL "
HEADER = struct.Struct(f"<4sQ{growing.CHECKSUM_BYTES}s")  # kind, bytes of the body, checksum of both
WAY_OUT = "delete the folder and index the corpus anew"

Array = NDArray[Any]
Numbers = NDArray[np.int64]


class Manifest(Settings):
    """All that decides the numbers, but the text."""

    stelmo: Literal[1] = 1  # version of this format
    kind: Literal["uses"] = "uses"
    model: str  # its fingerprint
    settings: dict[str, Any]  # of the model, those that change numbers
    depth: Positive
    width: Positive

    @property
    def use_bytes(self) -> int:
        return 2 * self.depth * self.width


class Sentence(NamedTuple):
    """Tokens, and which of them are kept as uses."""

    tokens: tuple[str, ...]
    positions: tuple[int, ...]


class _Block(NamedTuple):
    kind: bytes
    body: bytes
    end: int  # byte of the journal behind it


class UseFolder:
    """What the folder held when it was opened.   N uses, deleted ones included."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.manifest = folder, read_manifest(folder)
        self.sentences: list[tuple[str, ...]] = []
        self.journal_bytes = 0
        self._room = growing.size_of(folder / VECTORS) // self.manifest.use_bytes
        owners, positions, deleted = self._read_journal()
        self.sentence_N: Numbers = np.array(owners, np.int64)
        self.position_N: Numbers = np.array(positions, np.int64)
        _refuse_foreign(self, deleted)
        self.there_N = np.ones(len(owners), bool)
        self.there_N[deleted] = False
        shape = len(owners), self.manifest.depth, self.manifest.width
        self.vectors_NLD = growing.mapped(folder / VECTORS, shape, np.float16)

    def _read_journal(self) -> tuple[list[int], list[int], list[int]]:
        """The sentence and the position of every use, and the uses that were deleted."""
        owners, positions, deleted = list[int](), list[int](), list[int]()
        for block in _whole_blocks(growing.bytes_of(self.folder / JOURNAL)):
            if block.kind == DELETE:
                deleted += np.frombuffer(block.body, "<i8").tolist()
            else:
                added = _decoded(block.body)
                if len(owners) + sum(len(sentence.positions) for sentence in added) > self._room:
                    break
                for sentence in added:
                    owners += [len(self.sentences)] * len(sentence.positions)
                    positions += sentence.positions
                    self.sentences.append(sentence.tokens)
            self.journal_bytes = block.end
        return owners, positions, deleted


def exists(folder: Path) -> bool:
    return (folder / MANIFEST).is_file()


def recognises(folder: Path) -> bool:
    return exists(folder) and (folder / JOURNAL).is_file()


def describe(folder: Path) -> list[tuple[str, str]]:
    """In lines for a person."""
    found = UseFolder(folder)
    manifest = found.manifest
    return [
        ("format", "index of word uses"),
        ("uses", f"{int(found.there_N.sum()):,} in {len(found.sentences):,} sentences"),
        ("vectors", f"{manifest.depth} layers of {manifest.width} numbers, float16"),
        ("model", f"fingerprint {manifest.model[:16]}"),
    ]


def prepare(folder: Path, manifest: Manifest) -> None:
    """Make the folder, or see that the one there is of the same model and settings."""
    if not exists(folder):
        _create(folder, manifest)
    found = read_manifest(folder)
    if found.model != manifest.model:
        there, here = found.model[:8], manifest.model[:8]
        raise OutputError(f"{folder} is an index by another model ({there} there, {here} here); choose another folder")
    if found != manifest:
        there, here = (json.dumps(one.settings, sort_keys=True) for one in (found, manifest))
        raise OutputError(f"{folder} is an index by other settings ({there} there, {here} here); take the same")


def _create(folder: Path, manifest: Manifest) -> None:
    """Under the lock: of two processes that begin at once, one makes the folder."""
    atomic.refuse_existing(folder, overwrite=True)
    if folder.exists() and not (folder.is_dir() and all(map(_is_beginning, folder.iterdir()))):
        raise OutputError(f"{folder} exists and holds no index of word uses; choose another name")
    with growing.reported(folder):
        folder.mkdir(exist_ok=True)
    with growing.locked(folder):
        if not exists(folder):
            with atomic.new_file(folder / MANIFEST) as draft:
                draft.write_text(manifest.model_dump_json(indent=1) + "\n")


def _is_beginning(path: Path) -> bool:
    """Whether a process stopped while it made the folder may have left the file."""
    return path.name == growing.LOCK or path.name.startswith(f".{MANIFEST}.")


def read_manifest(folder: Path) -> Manifest:
    path = folder / MANIFEST
    if not path.is_file():
        raise DataError(f"{folder}: no index of word uses; make one with `stelmo index CORPUS --to DIR`")
    try:
        values = json.loads(path.read_text())
    except (OSError, ValueError):
        raise DataError(f"{path}: damaged; {WAY_OUT}") from None
    return parse(Manifest, values, str(path), DataError)


@contextmanager
def writing(folder: Path) -> Iterator["Writer"]:
    """The one writer of the folder; a second is refused."""
    with growing.locked(folder):
        writer = Writer(UseFolder(folder))
        try:
            yield writer
        finally:
            writer.close()


class Writer:
    """Adds blocks behind those that are whole."""

    def __init__(self, found: UseFolder) -> None:
        self.found = found
        with growing.reported(found.folder):
            self._vectors = growing.cut(found.folder / VECTORS, len(found.there_N) * found.manifest.use_bytes)
            self._journal = growing.cut(found.folder / JOURNAL, found.journal_bytes)

    def add(self, sentences: Sequence[Sentence], vectors_NLD: Array) -> None:
        """One block: there whole or not at all, whatever stops the process."""
        manifest = self.found.manifest
        uses = sum(len(sentence.positions) for sentence in sentences)
        assert vectors_NLD.shape == (uses, manifest.depth, manifest.width)
        assert vectors_NLD.dtype == np.float16
        with growing.reported(self.found.folder):
            self._vectors.write(growing.little_endian(vectors_NLD))
            growing.flush_to_disk(self._vectors)
        self._append(ADD, "".join(json.dumps(sentence) + "\n" for sentence in sentences).encode())

    def delete(self, uses: Sequence[int]) -> None:
        """All of them or, where the process is stopped, none."""
        self._append(DELETE, np.asarray(uses, "<i8").tobytes())

    def _append(self, kind: bytes, body: bytes) -> None:
        with growing.reported(self.found.folder):
            self._journal.write(HEADER.pack(kind, len(body), growing.checksum(kind + body)) + body)
            growing.flush_to_disk(self._journal)

    def close(self) -> None:
        with growing.reported(self.found.folder):
            self._vectors.close()
            self._journal.close()


def _whole_blocks(journal: bytes) -> Iterator[_Block]:
    """The leading blocks that are all there."""
    place = 0
    while len(journal) - place >= HEADER.size:
        kind, size, checksum = HEADER.unpack_from(journal, place)
        place += HEADER.size
        body = journal[place : place + size]
        place += size
        if len(body) != size or growing.checksum(kind + body) != checksum:
            return
        yield _Block(kind, body, place)


def _decoded(body: bytes) -> list[Sentence]:
    return [Sentence(tuple(tokens), tuple(positions)) for tokens, positions in map(json.loads, body.splitlines())]


def _refuse_foreign(found: "UseFolder", deleted: Sequence[int]) -> None:
    """A journal that is whole and still impossible was not written by us."""
    lengths_N = np.array([len(tokens) for tokens in found.sentences], np.int64)[found.sentence_N]
    inside = (found.position_N >= 0).all() and (found.position_N < lengths_N).all()
    if not (inside and all(0 <= use < len(lengths_N) for use in deleted)):
        raise DataError(f"{found.folder / JOURNAL}: positions or uses that are not there; {WAY_OUT}")
