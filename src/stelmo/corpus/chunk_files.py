"""A chunk of numbered words ↔ one file of the working folder. Knows no text and no corpus folder."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from stelmo.corpus.chunks import Chunk
from stelmo.store import atomic


def write(chunk: Chunk, path: Path) -> None:
    with atomic.new_file(path, overwrite=True) as draft, draft.open("wb") as file:
        np.savez(file, allow_pickle=False, **chunk._asdict())


def read(path: Path) -> Chunk:
    with _opened(path) as arrays:
        return Chunk(**{name: arrays[name] for name in Chunk._fields})


def each(name: str, paths: Iterable[Path]) -> Iterator[NDArray[Any]]:
    """One array of every chunk, without reading the others."""
    for path in paths:
        with _opened(path) as arrays:
            yield arrays[name]


def left(path: Path, identity: NDArray[np.uint8]) -> Chunk | None:
    """The chunk of that identity, if an earlier run has left it; a damaged one does not count."""
    try:
        chunk = read(path)
    except (OSError, ValueError, KeyError, BadZipFile):
        return None
    return chunk if np.array_equal(chunk.identity, identity) else None


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    # numpy leaves a file open that it cannot read, if it has opened it itself.
    with path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
        yield arrays
