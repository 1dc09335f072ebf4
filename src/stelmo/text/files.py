"""A path → its lines, decompressed and decoded. Knows no format."""

import lzma
import os
import stat
import sys
import zlib
from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, NamedTuple, Self

from stelmo.errors import DataError
from stelmo.settings import ReadSettings


def display(path: Path | str) -> str:
    """The name of a file in messages."""
    return "<stdin>" if str(path) == "-" else str(path)


class LineReader:
    """The lines of a file as (number, line), numbered from 1; "-" is standard input. For one pass, inside `with`.

    Only a line feed ends a line. gzip, xz and zstd are recognised by their first bytes, not by the file's name.
    A line longer than `settings.line_bytes` is refused before it is read to its end.
    """

    def __init__(self, path: Path | str, settings: ReadSettings | None = None) -> None:
        self.path = path
        self._line_bytes = (settings or ReadSettings()).line_bytes
        self.name = display(path)
        self._file: BinaryIO | None = None
        self._size: int | None = None
        self._consumed = 0
        self._number = 0

    def __enter__(self) -> Self:
        try:
            self._file = sys.stdin.buffer if str(self.path) == "-" else Path(self.path).open("rb")
        except (OSError, ValueError) as error:  # ValueError: a zero byte in the path
            raise DataError(f"{self.name}: {_reason(error)}; expected a text file") from error
        self._size = None if str(self.path) == "-" else _size(self._file)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._file is not None and str(self.path) != "-":
            self._file.close()

    def fraction(self) -> float | None:
        """The share of the file's bytes consumed so far; None where the size cannot be known."""
        if self._size is None:
            return None
        return min(1.0, self._consumed / self._size) if self._size else 1.0

    def __iter__(self) -> Iterator[tuple[int, str]]:
        for raw in self._lines(self._decompressed()):
            self._number += 1
            try:
                line = raw.decode()
            except UnicodeDecodeError as error:
                problem = (
                    f"byte 0x{raw[error.start]:02x} in column {error.start + 1} is not UTF-8; "
                    f"convert the file, for instance with `iconv -f ISO-8859-1 -t UTF-8`"
                )
                if self._number == 1 and raw.startswith((b"\xff\xfe", b"\xfe\xff")):
                    problem = "the file is in UTF-16, expected UTF-8; convert it with `iconv -f UTF-16 -t UTF-8`"
                elif b"\0" in raw:
                    problem = "a zero byte, as in binary files; expected text in UTF-8"
                raise DataError(f"{self.name}:{self._number}: {problem}") from error
            yield self._number, line.removeprefix("\ufeff") if self._number == 1 else line

    def _lines(self, blocks: Iterator[bytes]) -> Iterator[bytes]:
        """The lines without their endings, \\n or \\r\\n."""
        parts: list[bytes] = []  # of a line that spans blocks
        size = 0
        for block in blocks:
            *ended, tail = block.split(b"\n")
            for line in ended:
                self._refuse_long(size + len(line))
                parts.append(line)
                yield b"".join(parts).removesuffix(b"\r")
                parts, size = [], 0
            size += len(tail)
            self._refuse_long(size)
            parts.append(tail)
        if last := b"".join(parts):
            yield last

    def _refuse_long(self, size: int) -> None:
        if size > self._line_bytes:
            raise DataError(
                f"{self.name}:{self._number + 1}: a line of more than {self._line_bytes:,} bytes; "
                "expected text, so break the line, or check that the file is text"
            )

    def _blocks(self) -> Iterator[bytes]:
        """The file as it is on disk, in small blocks."""
        assert self._file is not None, "a LineReader is read inside `with`"
        try:
            while block := self._file.read(4096):
                self._consumed += len(block)
                yield block
        except OSError as error:
            raise DataError(f"{self.name}: {_reason(error)}") from error

    def _decompressed(self) -> Iterator[bytes]:
        blocks = self._blocks()
        first = next(blocks, b"")
        if packed := next((name for start, name in _NOT_READ.items() if first.startswith(start)), None):
            raise DataError(
                f"{self.name}: a {packed} file, which is not read; unpack it, or compress it with gzip or xz"
            )
        codec = _codec(first)
        if codec is None:
            yield first
            yield from blocks
            return
        try:
            # Small pieces, because 4 KiB can decompress to 128 MiB, but 256 bytes to no more than 8 MiB.
            pieces = (
                block[start : start + 256] for block in chain([first], blocks) for start in range(0, len(block), 256)
            )
            yield from _decompress(pieces, codec)
        except (EOFError, codec.error) as error:
            raise DataError(
                f"{self.name}: the {codec.name} data are incomplete or damaged after line {self._number} ({error}); "
                f"copy the file again"
            ) from error


# First bytes of files that are often taken for a compressed text that can be read
_NOT_READ = {b"PK\x03\x04": "zip"} | {b"BZh%d1AY&SY" % level: "bzip2" for level in range(1, 10)}
_WINDOW = 1 << 31  # the largest, needed by `zstd --long=31`


class _Codec(NamedTuple):
    name: str
    decompressor: Callable[[], Any]
    error: type[Exception]


def _codec(first: bytes) -> _Codec | None:
    """The compression that begins with these bytes."""
    if first.startswith(b"\x1f\x8b"):
        return _Codec("gzip", lambda: zlib.decompressobj(wbits=31), zlib.error)
    if first.startswith(b"\xfd7zXZ\x00"):
        return _Codec("xz", lambda: lzma.LZMADecompressor(format=lzma.FORMAT_XZ), lzma.LZMAError)
    if first.startswith(b"\x28\xb5\x2f\xfd") or first[1:4] == b"\x2a\x4d\x18":  # a frame, or a skippable frame
        import zstandard  # here, because few files need it

        return _Codec(
            "zstd", lambda: zstandard.ZstdDecompressor(max_window_size=_WINDOW).decompressobj(), zstandard.ZstdError
        )
    return None


def _decompress(pieces: Iterator[bytes], codec: _Codec) -> Iterator[bytes]:
    """All members of a compressed file. Stricter than the file objects of these libraries, which accept a truncated
    zstd frame and a damaged second xz stream as the end of the file."""
    rest = next(pieces, b"")
    while rest:
        member = codec.decompressor()
        while not member.eof:
            if not rest:
                raise EOFError("the end is missing")
            yield member.decompress(rest)
            rest = member.unused_data if member.eof else next(pieces, b"")
        rest = rest.lstrip(b"\x00")  # some writers pad a member with zeros
        while not rest and (piece := next(pieces, b"")):
            rest = piece.lstrip(b"\x00")


def _size(file: BinaryIO) -> int | None:
    status = os.fstat(file.fileno())
    return status.st_size if stat.S_ISREG(status.st_mode) else None


def _reason(error: OSError | ValueError) -> str:
    return str(getattr(error, "strerror", None) or error)
