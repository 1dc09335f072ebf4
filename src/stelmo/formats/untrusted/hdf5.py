"""An untrusted HDF5 file → arrays of the expected shape, or a refusal. Does not know what a dataset means."""

import math
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stelmo.errors import MissingModelError, ModelError
from stelmo.formats.untrusted.archives import most_unpacked

MAGIC = b"\x89HDF\r\n\x1a\n"
MOST_CHUNKS = 1 << 20
DEFLATE, SHUFFLE, FLETCHER32 = 1, 2, 3  # numbers of HDF5's filters


@contextmanager
def opened(path: Path) -> Iterator[Any]:
    """The open file, which must be complete HDF5."""
    import h5py

    if not path.is_file():
        raise MissingModelError(f"{path}: no such file")
    with path.open("rb") as handle:
        start = handle.read(len(MAGIC))
    if start != MAGIC:
        found = "an empty file" if not start else f"begins with {start!r}"
        raise ModelError(f"{path}: not an HDF5 file ({found}); expected the weights of a biLM")
    try:
        with h5py.File(path, "r") as file:
            yield file
    except (OSError, RuntimeError, KeyError, ValueError, TypeError, MemoryError, zlib.error) as problem:
        reason = str(problem).split("\n")[0].strip("'\"")
        raise ModelError(f"{path}: damaged or truncated HDF5 ({reason}); copy it again") from None


def read(file: Any, name: str, expected: tuple[int | None, ...]) -> NDArray[Any]:
    """The numbers of one dataset, which must be stored in this file. None in the shape: any length."""
    where = f"{file.filename}: {name}"
    dataset = _dataset(file, name, where)
    if dataset.shape is None:
        raise ModelError(f"{where} has no shape and no numbers; the options say {written_shape(expected)}")
    if len(dataset.shape) != len(expected) or any(
        size not in (None, found) for size, found in zip(expected, dataset.shape, strict=True)
    ):
        raise ModelError(f"{where} has shape {dataset.shape}; the options say {written_shape(expected)}")
    if dataset.dtype.kind != "f" or dataset.dtype.itemsize > 8:
        raise ModelError(f"{where} holds {dataset.dtype}; weights are floating-point numbers")
    _refuse_inflation(dataset, Path(file.filename).stat().st_size, where)
    return np.asarray(dataset[...], dataset.dtype.newbyteorder("="))


def names(file: Any) -> list[str]:
    """All datasets of the open file. Together they must not be far larger than the file."""
    import h5py

    found: dict[str, int] = {}

    def visit(name: str, item: Any) -> None:
        if isinstance(item, h5py.Dataset):
            found[name] = item.nbytes if item.shape is not None else 0

    file.visititems(visit)
    size, numbers = Path(file.filename).stat().st_size, sum(found.values())
    if numbers > most_unpacked(size):
        raise ModelError(f"{file.filename}: says {numbers:,} bytes of numbers, which its {size:,} bytes do not hold")
    return list(found)


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


def _refuse_inflation(dataset: Any, file_size: int, where: str) -> None:
    """Before memory is allocated: numbers that the file does not hold, and chunks that inflate to more than they say.

    HDF5 inflates a chunk to its end, whatever size it should have, so chunks are inflated here first, up to that size.
    """
    stored = min(dataset.id.get_storage_size(), file_size)
    chunk_bytes = math.prod(dataset.chunks or (0,)) * dataset.dtype.itemsize
    chunks = math.prod(-(-size // chunk) for size, chunk in zip(dataset.shape, dataset.chunks or (), strict=False))
    if max(dataset.nbytes, chunks * chunk_bytes) > most_unpacked(stored) or chunks > MOST_CHUNKS:
        raise ModelError(f"{where} says {dataset.nbytes:,} bytes, which the file does not hold")
    if dataset.chunks is None:
        return
    settings = dataset.id.get_create_plist()
    filters = [settings.get_filter(number)[0] for number in range(settings.get_nfilters())]
    if set(filters) - {DEFLATE, SHUFFLE, FLETCHER32} or filters.count(DEFLATE) > 1:
        raise ModelError(f"{where} is compressed by the filters {filters}; only gzip is read, repack it (h5repack)")
    if DEFLATE not in filters:
        return
    places: list[Any] = []
    dataset.id.chunk_iter(places.append)
    for place in places:
        if place.size > file_size:
            raise ModelError(f"{where} says {place.size:,} bytes, which the file does not hold")
        mask, raw = dataset.id.read_direct_chunk(place.chunk_offset)
        applied = [filter for number, filter in enumerate(filters) if not mask >> number & 1]
        if DEFLATE in applied:
            checksums = 4 * applied.count(FLETCHER32)  # bytes, inside or after the compressed ones
            if len(zlib.decompressobj().decompress(raw, chunk_bytes + checksums + 1)) > chunk_bytes + checksums:
                raise ModelError(f"{where} inflates to more than the {chunk_bytes:,} bytes of a chunk; refused")


def written_shape(shape: Iterable[int | None]) -> str:
    """(any, 128) for an expected shape whose first size is free."""
    return "(" + ", ".join("any" if size is None else str(size) for size in shape) + ")"
