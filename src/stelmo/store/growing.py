"""Files that grow block by block in one folder. Knows no format.

One process writes at a time. What stands behind the last whole block was left by a writer that was stopped; the next
one cuts it off.
"""

import hashlib
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from stelmo.errors import OutputError
from stelmo.store import atomic

LOCK = "lock"
CHECKSUM_BYTES = 16


def checksum(body: bytes) -> bytes:
    return hashlib.blake2b(body, digest_size=CHECKSUM_BYTES).digest()


def bytes_of(path: Path) -> bytes:
    return path.read_bytes() if path.is_file() else b""


def size_of(path: Path) -> int:
    return path.stat().st_size if path.is_file() else 0


def mapped(path: Path, shape: tuple[int, ...], dtype: DTypeLike) -> NDArray[Any]:
    """The finished part alone: a writer may cut off what is behind it."""
    little = np.dtype(dtype).newbyteorder("<")
    if not shape[0]:  # nothing cannot be mapped
        return np.empty(shape, little)
    return np.memmap(path, little, "r", shape=shape).view(np.ndarray)


def little_endian(array: NDArray[Any]) -> memoryview:
    return np.ascontiguousarray(array, array.dtype.newbyteorder("<")).data


def cut(path: Path, size: int) -> IO[bytes]:
    """The file to write on behind its first bytes."""
    file = path.open("ab")
    file.truncate(size)
    return file


def flush_to_disk(file: IO[bytes]) -> None:
    file.flush()
    os.fsync(file.fileno())


@contextmanager
def reported(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as problem:
        raise OutputError(f"{folder}: {atomic.reason(problem)}; what was finished before is kept") from problem


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """By the system's own lock, which a process that dies cannot leave behind; the file says who has it."""
    with reported(folder):
        file = (folder / LOCK).open("a+")
    with file:
        try:
            _take(file)
        except (BlockingIOError, PermissionError):
            file.seek(0)
            writer = file.read().strip() or "another process"
            raise OutputError(f"{folder}: {writer} is writing there; repeat when it has ended") from None
        file.truncate(0)
        file.write(f"process {os.getpid()}")
        file.flush()
        yield


if sys.platform == "win32":  # pragma: no cover
    import msvcrt

    def _take(file: IO[str]) -> None:
        file.seek(2**20)  # behind the text, which a refused process reads
        msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)

else:
    import fcntl

    def _take(file: IO[str]) -> None:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
