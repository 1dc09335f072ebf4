"""Arrays in .npy and .npz files of ours, which may be damaged → arrays, or one clear error. Knows no contents."""

import io
import struct
import tokenize
import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stelmo.errors import DataError

Array = NDArray[Any]

# What NumPy and zipfile raise for damaged files: the header of an array is a Python expression, and is parsed as one.
DAMAGE = (
    *(OSError, EOFError, ValueError, TypeError, KeyError, OverflowError, MemoryError, RecursionError, SyntaxError),
    *(NotImplementedError, RuntimeError, struct.error, tokenize.TokenError, zipfile.BadZipFile, zlib.error),
)


def read_npz(path: Path, way_out: str, names: tuple[str, ...] | None = None) -> dict[str, Array]:
    """The arrays of a file that `np.savez` wrote, or some of them; checksums are compared.

    Only members that are not compressed are read, so that memory is bounded by the size of the file.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            members = {member.filename.removesuffix(".npy"): member for member in archive.infolist()}
            if any(member.compress_type != zipfile.ZIP_STORED for member in members.values()):
                raise ValueError("compressed members, which are never written")
            return {name: _array(archive.read(members[name])) for name in names or tuple(members)}
    except DAMAGE as problem:
        raise _damaged(path, problem, way_out) from None


def map_npy(path: Path, way_out: str) -> Array:
    """A memory map of the array in a file that `np.save` wrote."""
    try:
        array: Array = np.load(path, mmap_mode="r", allow_pickle=False)
    except DAMAGE as problem:
        raise _damaged(path, problem, way_out) from None
    return array


def _array(content: bytes) -> Array:
    """As `np.load`, but an array that is not as large as its header says is an error before memory is taken for it."""
    file = io.BytesIO(content)
    version = np.lib.format.read_magic(file)
    if version != (1, 0):
        raise ValueError(f"version {version} of the header")
    shape, fortran, dtype = np.lib.format.read_array_header_1_0(file)
    if fortran or dtype.hasobject:
        raise ValueError(f"an array of {dtype}")
    return np.frombuffer(bytearray(file.read()), dtype).reshape(shape)


def _damaged(path: Path, problem: BaseException, way_out: str) -> DataError:
    return DataError(f"{path}: cannot be read ({' '.join(str(problem).split())[:100]}); {way_out}")
