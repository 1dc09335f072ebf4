"""HDF5, zip, npy and Parquet files: what safe reading and writing needs beyond their libraries. Knows no contents."""

import io
import struct
import tokenize
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stelmo.errors import ConfigError, DataError

Array = NDArray[Any]
COLUMNS = ("tokens", "text")  # of a Parquet file, tried in this order
LARGEST, MOST_MEMBERS = 0xFFFF_FFFE, 0xFFFE  # that fields of four and two bytes hold
ELSEWHERE = 0xFFFF_FFFF  # in a field of four bytes: the number is in a zip64 field
# What NumPy and zipfile raise for damaged files: the header of an array is a Python expression, and is parsed as one.
DAMAGE = (
    *(OSError, EOFError, ValueError, TypeError, KeyError, OverflowError, MemoryError, RecursionError, SyntaxError),
    *(NotImplementedError, RuntimeError, struct.error, tokenize.TokenError, zipfile.BadZipFile, zlib.error),
)


# Arrays in files that may be damaged


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


# Zip files of very many members


class NewZip:
    """A zip file being written, uncompressed and without dates, so that equal members make equal files.

    For small members it is several times as fast as `zipfile`, which writes each header twice.
    """

    def __init__(self, path: Path) -> None:
        self._file = path.open("wb")
        self._directory = bytearray()  # entries of all members, written at the end
        self._members = self._size = 0

    def add(self, name: str, content: bytes) -> None:
        encoded, size, start = name.encode("ascii"), len(content), self._size
        large, far = size > LARGEST, start > LARGEST
        sizes = struct.pack("<QQ", size, size) if large else b""
        in_header, in_entry = _zip64(sizes), _zip64(sizes + (struct.pack("<Q", start) if far else b""))
        shown = ELSEWHERE if large else size
        # Version, flags, method, time, date (1 January 1980), checksum, compressed size, size, length of the name.
        common = struct.pack("<5H3LH", 45, 0, 0, 0, 0x21, zlib.crc32(content), shown, shown, len(encoded))
        header = b"PK\3\4" + common + struct.pack("<H", len(in_header)) + encoded + in_header
        # Length of the extra field, comment, disk, kind, permissions (rw for the owner), place of the header.
        place = struct.pack("<4HLL", len(in_entry), 0, 0, 0, 0o600 << 16, ELSEWHERE if far else start)
        self._directory += b"PK\1\2\x2d\3" + common + place + encoded + in_entry
        self._file.write(header)
        self._file.write(content)
        self._members += 1
        self._size += len(header) + size

    def close(self) -> None:
        with self._file:
            self._file.write(self._directory)
            members, size, start = self._members, len(self._directory), self._size
            if members > MOST_MEMBERS or size > LARGEST or start > LARGEST:
                self._file.write(
                    struct.pack("<4sQHHLLQQQQ", b"PK\6\6", 44, 45, 45, 0, 0, members, members, size, start)
                )
                self._file.write(struct.pack("<4sLQL", b"PK\6\7", 0, start + size, 1))
                members, size, start = 0xFFFF, ELSEWHERE, ELSEWHERE
            self._file.write(struct.pack("<4s4HLLH", b"PK\5\6", 0, 0, members, members, size, start, 0))


def _zip64(numbers: bytes) -> bytes:
    """The extra field for numbers of eight bytes; nothing if there are none."""
    return struct.pack("<HH", 1, len(numbers)) + numbers if numbers else b""


# HDF5 on disks that may become full


class NewHdf5:
    """An HDF5 file being written.

    The HDF5 library crashes when it cannot write, so it never sees errors of the disk; `check` and `close` raise them.
    """

    def __init__(self, path: Path) -> None:
        import h5py

        self._disk = _Disk(path)
        self.file = h5py.File(self._disk, "w")

    def check(self) -> None:
        if self._disk.error is not None:
            raise self._disk.error

    def close(self) -> None:
        try:
            self.file.close()
        except (OSError, RuntimeError) as problem:
            self._disk.error = self._disk.error or OSError(str(problem).split("\n")[0])
        self._disk.close()
        self.check()

    def __enter__(self) -> Any:
        return self.file

    def __exit__(self, *_: object) -> None:
        self.close()


class _Disk(io.RawIOBase):
    """A file that remembers the first error of a write and pretends to accept everything after it."""

    def __init__(self, path: Path) -> None:
        self._raw = path.open("w+b", buffering=0)
        self.error: OSError | None = None

    def write(self, data: Any) -> int:
        size = memoryview(data).nbytes
        try:
            while self.error is None and data:
                data = memoryview(data).cast("B")[self._raw.write(data) :]
        except OSError as problem:
            self.error = problem
        return size

    def truncate(self, size: int | None = None) -> int:
        try:
            return self._raw.truncate(size)
        except OSError as problem:
            self.error = self.error or problem
            return size or 0

    def readinto(self, buffer: Any) -> int:
        found = self._raw.readinto(buffer) or 0
        if self.error is not None:  # what was not written is read as zeros
            memoryview(buffer).cast("B")[found:] = bytes(memoryview(buffer).nbytes - found)
            return memoryview(buffer).nbytes
        return found

    def seek(self, offset: int, whence: int = 0) -> int:
        return self._raw.seek(offset, whence)

    def tell(self) -> int:
        return self._raw.tell()

    def close(self) -> None:
        self._raw.close()
        super().close()

    def readable(self) -> bool:
        return True

    def writable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True


# Parquet


def pyarrow_modules() -> tuple[Any, Any]:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise ConfigError("Parquet needs pyarrow; pip install 'stelmo[parquet]'") from None
    return pyarrow, pyarrow.parquet


def text_values(path: Path) -> Iterator[tuple[int, Any]]:
    """(row, value), rows counted from 1; a list of strings holds tokens, a string raw text."""
    pa, parquet = pyarrow_modules()
    try:
        with parquet.ParquetFile(path) as file:
            column = text_column(file.schema_arrow.names, str(path))
            values = (value for batch in file.iter_batches(1024, columns=[column]) for value in batch.column(0))
            for row, value in enumerate(values, 1):
                try:
                    yield row, value.as_py()
                except UnicodeDecodeError as problem:
                    raise DataError(f"{path}: row {row}, column {column}: not UTF-8 ({problem.reason})") from None
    except (pa.ArrowException, OSError, UnicodeDecodeError) as problem:  # names of columns are decoded, too
        reason = str(problem).split("\n")[0]
        raise DataError(f"{path}: cannot be read as Parquet ({reason})") from None


def text_column(names: list[str], where: str, wanted: str | None = None) -> str:
    """The column to read: the one asked for, otherwise tokens, otherwise text."""
    for name in COLUMNS if wanted is None else (wanted,):
        if name in names:
            return name
    expected = " or ".join(COLUMNS) if wanted is None else wanted
    raise DataError(f"{where}: no column {expected}; it has {', '.join(names[:8]) or 'none'}")


def vector_lists(kind: Any, vectors: Sequence[NDArray[Any]]) -> Any:
    """Arrays → a column of `kind`: a vector of fixed width for each, or a list of such vectors for each."""
    pa, _ = pyarrow_modules()
    flat = np.concatenate([vector.ravel() for vector in vectors])
    if pa.types.is_fixed_size_list(kind):
        return pa.FixedSizeListArray.from_arrays(pa.array(flat, kind.value_type), type=kind)
    inner = kind.value_type
    rows = pa.FixedSizeListArray.from_arrays(pa.array(flat, inner.value_type), type=inner)
    offsets = np.cumsum([0, *(len(vector) for vector in vectors)])
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), rows, type=kind)
