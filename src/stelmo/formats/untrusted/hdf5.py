"""An HDF5 file from anywhere → arrays of the expected shape, or a refusal. Does not know what a dataset means."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stelmo.errors import ModelError

MAGIC = b"\x89HDF\r\n\x1a\n"
MOST_COMPRESSED = 1100  # deflate cannot shrink further


@contextmanager
def opened(path: Path) -> Iterator[Any]:
    """The open file, which must be complete HDF5."""
    import h5py

    if not path.is_file():
        raise ModelError(f"{path}: no such file")
    with path.open("rb") as handle:
        start = handle.read(len(MAGIC))
    if start != MAGIC:
        found = "an empty file" if not start else f"begins with {start!r}"
        raise ModelError(f"{path}: not an HDF5 file ({found}); expected the weights of a biLM")
    try:
        with h5py.File(path, "r") as file:
            yield file
    except (OSError, RuntimeError, KeyError, ValueError) as problem:
        raise ModelError(f"{path}: damaged or truncated HDF5 ({_first_line(problem)}); copy it again") from None


def read(file: Any, name: str, expected: tuple[int | None, ...]) -> NDArray[Any]:
    """The numbers of one dataset, which must be stored in this file. None in the shape: any length."""
    where = f"{file.filename}: {name}"
    dataset = _dataset(file, name, where)
    if not _fits(dataset.shape, expected):
        raise ModelError(f"{where} has shape {dataset.shape}; the options say {_written(expected)}")
    if dataset.dtype.kind != "f" or dataset.dtype.itemsize > 8:
        raise ModelError(f"{where} holds {dataset.dtype}; weights are floating-point numbers")
    if dataset.nbytes > MOST_COMPRESSED * dataset.id.get_storage_size():
        raise ModelError(f"{where} says {dataset.nbytes:,} bytes, which the file does not hold")
    return np.asarray(dataset[...], dataset.dtype.newbyteorder("="))


def names(file: Any) -> list[str]:
    """All datasets of the open file."""
    import h5py

    found: list[str] = []
    file.visititems(lambda name, item: found.append(name) if isinstance(item, h5py.Dataset) else None)
    return found


def contains(path: Path, name: str) -> bool:
    """Whether the file has that entry. A file that cannot be opened counts, so that reading it reports the error."""
    try:
        with opened(path) as file:
            return name in file
    except ModelError:
        return True


def _dataset(file: Any, name: str, where: str) -> Any:
    import h5py

    parts = name.split("/")
    for depth in range(1, len(parts) + 1):
        path = "/".join(parts[:depth])
        link = file.get(path, getlink=True)
        if link is None:
            raise ModelError(f"{where} is missing; the options belong to another file, or this is not a biLM")
        if not isinstance(link, h5py.HardLink):
            raise ModelError(f"{where} is a link; a model has its weights in its own file")
    found = file[name]
    if not isinstance(found, h5py.Dataset):
        raise ModelError(f"{where} is a group; expected a dataset")
    if found.external or found.is_virtual:
        raise ModelError(f"{where} is stored in another file; a model has its weights in its own file")
    return found


def _fits(shape: tuple[int, ...], expected: tuple[int | None, ...]) -> bool:
    return len(shape) == len(expected) and all(e in (None, s) for s, e in zip(shape, expected, strict=True))


def _written(shape: tuple[int | None, ...]) -> str:
    return "(" + ", ".join("any" if size is None else str(size) for size in shape) + ")"


def _first_line(problem: Exception) -> str:
    return str(problem).split("\n")[0].strip("'\"")
