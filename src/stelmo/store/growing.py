"""Folders that grow block by block. Knows no model and no text.

 manifest.json   what the numbers belong to; written first, never changed
 numbers         arrays, one after the other
 journal         blocks: kind, number of items, checksum of kind and body, body
 lock            held by the process that writes

A block enters the journal after its numbers are on disk. Only the leading blocks that are complete in both files count.
What follows them was left by an interrupted writer; the next writer cuts it off.
"""

import hashlib
import os
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import IO, Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import DTypeLike, NDArray

from stelmo.config import AnySettings, Settings, parse
from stelmo.errors import DataError, OutputError
from stelmo.store import atomic

MANIFEST, LOCK = "manifest.json", "lock"
CHECKSUM_BYTES = 16

Array = NDArray[Any]


# The folder and its manifest


def create(
    folder: Path, manifest: Settings, contents: str, files: Mapping[str, Callable[[IO[bytes]], None]] | None = None
) -> None:
    """Create the folder with its manifest, and before that the `files`, each with the function that writes it.

    Under the lock: if two processes start at once, one of them creates the folder.
    """
    files = files or {}
    atomic.refuse_existing(folder, overwrite=True)
    # What a process leaves behind if it is stopped while it creates the folder.
    harmless = (LOCK, *files), tuple(f".{name}." for name in (*files, MANIFEST))
    if folder.exists() and not (
        folder.is_dir()
        and all(file.name in harmless[0] or file.name.startswith(harmless[1]) for file in folder.iterdir())
    ):
        raise OutputError(f"{folder} exists and does not hold {contents}; choose another name")
    with reported(folder):
        folder.mkdir(exist_ok=True)
    with atomic.locked(folder / LOCK, "writing"):
        if (folder / MANIFEST).is_file():
            return
        for name, write in files.items():
            with atomic.new_file(folder / name, overwrite=True) as draft, draft.open("wb") as file:
                write(file)
        with atomic.new_file(folder / MANIFEST) as draft:
            draft.write_text(manifest.model_dump_json(indent=1) + "\n")


def read_manifest(folder: Path, kind: type[AnySettings], way_out: str) -> AnySettings:
    path = folder / MANIFEST
    return parse(kind, atomic.read_json(path, DataError, way_out), str(path), DataError)


@contextmanager
def reported(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as problem:
        raise OutputError(f"{folder}: {atomic.reason(problem)}; what was finished before is kept") from problem


# The journal


class Block(NamedTuple):
    kind: bytes
    body: bytes
    end: int  # position in the journal after the block


@dataclass(frozen=True)
class BlockFormat:
    """How a journal stores its blocks: bytes of the kind, and bytes of one item of the body."""

    kind_bytes: int
    item_bytes: int

    @cached_property
    def header(self) -> struct.Struct:
        return struct.Struct(f"<{self.kind_bytes}sQ{CHECKSUM_BYTES}s")

    def packed(self, body: bytes, kind: bytes = b"") -> bytes:
        return self.header.pack(kind, len(body) // self.item_bytes, _checksum(kind + body)) + body

    def complete_blocks(self, journal: bytes) -> Iterator[Block]:
        """The leading blocks that are complete."""
        place = 0
        while len(journal) - place >= self.header.size:
            kind, count, checksum = self.header.unpack_from(journal, place)
            place += self.header.size
            end = place + count * self.item_bytes
            body = journal[place:end]
            if end > len(journal) or _checksum(kind + body) != checksum:
                return
            yield Block(kind, body, end)
            place = end


def _checksum(body: bytes) -> bytes:
    return hashlib.blake2b(body, digest_size=CHECKSUM_BYTES).digest()


# Reading and writing


def bytes_of(path: Path) -> bytes:
    return path.read_bytes() if path.is_file() else b""


def size_of(path: Path) -> int:
    return path.stat().st_size if path.is_file() else 0


def mapped(path: Path, shape: tuple[int, ...], dtype: DTypeLike) -> Array:
    """A memory map of the complete blocks only: a writer may cut off what follows them."""
    little = np.dtype(dtype).newbyteorder("<")
    if not shape[0]:  # an empty file cannot be mapped
        return np.empty(shape, little)
    return np.memmap(path, little, "r", shape=shape).view(np.ndarray)


class Writer:
    """Appends blocks after the complete ones: `sizes` bytes of numbers and of the journal."""

    def __init__(self, folder: Path, names: tuple[str, str], sizes: tuple[int, int]) -> None:
        self.folder = folder
        with reported(folder):
            self._numbers, self._journal = ((folder / name).open("ab") for name in names)
            self._numbers.truncate(sizes[0])
            self._journal.truncate(sizes[1])

    def _append(self, arrays: Sequence[Array], block: bytes) -> None:
        """The block exists completely or not at all, whatever stops the process."""
        with reported(self.folder):
            for array in arrays:
                self._numbers.write(np.ascontiguousarray(array, array.dtype.newbyteorder("<")).data)
            if arrays:
                flush_to_disk(self._numbers)
            self._journal.write(block)
            flush_to_disk(self._journal)

    def close(self) -> None:
        with reported(self.folder):
            self._numbers.close()
            self._journal.close()


def flush_to_disk(file: IO[bytes]) -> None:
    file.flush()
    os.fsync(file.fileno())


AnyWriter = TypeVar("AnyWriter", bound=Writer)


@contextmanager
def writing(folder: Path, open_writer: Callable[[], AnyWriter]) -> Iterator[AnyWriter]:
    """The folder's only writer, opened under the lock; a second one is refused."""
    with atomic.locked(folder / LOCK, "writing"), closing(open_writer()) as writer:
        yield writer
