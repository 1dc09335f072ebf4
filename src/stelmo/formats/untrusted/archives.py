"""Members of an untrusted zip or tar.gz → private temporary files, or a refusal. Knows no model format.

No file gets a name from the archive, no link is followed, and nothing is unpacked that would become far larger than
its packed bytes. Deflate reaches 1032 : 1 on zeros; the weights of a model hardly shrink at all.
"""

import gzip
import re
import shutil
import stat
import struct
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from stelmo.errors import ModelError, StelmoError

Wanted = Callable[[str], bool]

MOST_DEFLATED = 1032
MOST_UNPACKED = 20  # above SMALL: weights never shrink that much
SMALL = 64 << 20
MOST_MEMBERS = 10_000
LONGEST_RECORD = 1 << 14  # long names and attributes of a tar: tarfile searches them in quadratic time
PIECE = 1 << 20

_DAMAGED = (
    tarfile.TarError,
    zipfile.BadZipFile,
    gzip.BadGzipFile,
    zlib.error,
    struct.error,
    EOFError,  # truncated
    ValueError,  # an invalid number or name
    LookupError,
    OverflowError,
    RuntimeError,  # includes NotImplementedError: a feature of zip that Python does not read
)


@contextmanager
def unpacked(path: Path, wanted: Wanted, is_text: Wanted = lambda name: False) -> Iterator[dict[str, Path]]:
    """The wanted members by name, each in a file that is deleted when the block ends.

    Text members, which are read into memory as a whole, have at most SMALL bytes.
    If our own error inside the block names such a file, it is changed to name the archive and the member.
    """
    with tempfile.TemporaryDirectory(prefix="stelmo-") as folder:
        with _reported(path):
            unpack = _unpack_zip if is_zip(path) else _unpack_tar
            files = unpack(path, wanted, is_text, Path(folder))
        try:
            yield files
        except StelmoError as problem:
            text = str(problem)
            for name, file in files.items():
                text = text.replace(str(file), f"{path}: {name}")
            raise type(problem)(text) from None


@contextmanager
def unpacked_folder(path: Path, wanted: Wanted, is_text: Wanted) -> Iterator[Path]:
    """The wanted members, whose names the caller has chosen, as the files of one folder, each under its last name.

    If our own error inside the block names the folder, it is changed to name the archive.
    """
    with tempfile.TemporaryDirectory(prefix="stelmo-") as folder, unpacked(path, wanted, is_text) as files:
        for name, file in files.items():
            file.rename(Path(folder) / name.rpartition("/")[2])
        try:
            yield Path(folder)
        except StelmoError as problem:
            raise type(problem)(str(problem).replace(folder, str(path))) from None


def is_zip(path: Path) -> bool:
    return _starts_with(path, b"PK\x03\x04")


def is_gzip(path: Path) -> bool:
    return _starts_with(path, b"\x1f\x8b")


def zip_names(path: Path) -> list[str]:
    """The members of a zip, without opening them."""
    with _reported(path), zipfile.ZipFile(path) as archive:
        return [_safe(member.filename, path) for member in archive.infolist() if not member.is_dir()]


def gunzipped(path: Path) -> bytes:
    """A single compressed file, such as a vocabulary."""
    with _reported(path), _BoundedGzip(path) as stream:
        found = bytearray()
        while piece := stream.read(PIECE):
            found += piece
            _refuse_long_text(len(found), str(path))
        return bytes(found)


def most_unpacked(packed: int) -> int:
    """How many bytes `packed` bytes may become."""
    return max(MOST_UNPACKED * packed, min(SMALL, MOST_DEFLATED * packed))


# zip


def _unpack_zip(path: Path, wanted: Wanted, is_text: Wanted, folder: Path) -> dict[str, Path]:
    files: dict[str, Path] = {}
    with zipfile.ZipFile(path) as archive:
        members = [(_safe(member.filename, path), member) for member in archive.infolist() if not member.is_dir()]
        chosen = [(name, member) for name, member in members if wanted(name)]
        for name, member in chosen:
            _refuse_zip_member(member, f"{path}: {name}")
            _refuse_long_text(member.file_size if is_text(name) else 0, f"{path}: {name}")
        together = sum(member.file_size for _, member in chosen)
        _refuse_size(together, path.stat().st_size, f"{path}: its members")  # members may share their packed bytes
        for name, member in chosen:
            with archive.open(member) as stream:
                _add(files, name, stream, folder, path)
    return files


def _refuse_zip_member(member: zipfile.ZipInfo, where: str) -> None:
    if member.flag_bits & 1:
        raise ModelError(f"{where} is encrypted; unpack it with its password and load the folder")
    if stat.S_ISLNK(member.external_attr >> 16):
        raise ModelError(f"{where} is a link, which is never followed; pack the file itself")
    if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        method = member.compress_type
        raise ModelError(
            f"{where} is compressed by method {method}; 0 (stored) and 8 (deflate) are read, pack it again"
        )
    _refuse_size(member.file_size, member.compress_size, where)


def _refuse_size(size: int, packed: int, where: str) -> None:
    if size > most_unpacked(packed):
        raise ModelError(
            f"{where}: {packed:,} bytes that would unpack to {size:,}; refused because it would fill the memory"
        )


def _refuse_long_text(size: int, where: str) -> None:
    if size > SMALL:
        raise ModelError(f"{where}: more than {SMALL:,} bytes unpacked; expected a vocabulary or options")


# tar.gz


def _unpack_tar(path: Path, wanted: Wanted, is_text: Wanted, folder: Path) -> dict[str, Path]:
    """In one pass, as a stream: no header can point back."""
    files: dict[str, Path] = {}
    with _BoundedGzip(path) as stream:
        with tarfile.open(fileobj=stream, mode="r|", tarinfo=_Header, bufsize=PIECE) as archive:
            for count, member in enumerate(archive):
                if count == MOST_MEMBERS:
                    raise ModelError(f"{path}: more than {MOST_MEMBERS:,} members; an archive of a model has about ten")
                if not member.isdir() and wanted(name := _safe(member.name, path)):
                    _refuse_long_text(member.size if is_text(name) else 0, f"{path}: {name}")
                    _add(files, name, _tar_member(archive, member, f"{path}: {name}"), folder, path)
        while stream.read(PIECE):  # the checksum is at the very end
            pass
    return files


def _tar_member(archive: tarfile.TarFile, member: tarfile.TarInfo, where: str) -> IO[bytes]:
    if member.islnk() or member.issym():
        raise ModelError(f"{where} is a link to {member.linkname!r}, which is never followed; pack the file itself")
    stream = archive.extractfile(member) if member.isreg() and not member.issparse() else None
    if stream is None:
        raise ModelError(f"{where} is a device, a pipe or a sparse file; expected a regular file, pack it again")
    return stream


class _Header(tarfile.TarInfo):
    """A header whose size is checked before tarfile uses it."""

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> "_Header":
        header = super().frombuf(buf, encoding, errors)
        if header.size < 0 or (header.type in _RECORDS and header.size > LONGEST_RECORD):
            raise ValueError(f"a tar header says {header.size:,} bytes")
        return header


_RECORDS = (
    tarfile.GNUTYPE_LONGNAME,
    tarfile.GNUTYPE_LONGLINK,
    tarfile.XHDTYPE,
    tarfile.XGLTYPE,
    tarfile.SOLARIS_XHDTYPE,
)


class _BoundedGzip(gzip.GzipFile):
    """A gzip stream that fails once it has given more bytes than a model file of its size could."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, "rb")
        self.path, self.left = path, most_unpacked(path.stat().st_size)

    def read(self, size: int | None = -1) -> bytes:
        data = super().read(size)
        self.left -= len(data)
        if self.left < 0:
            raise ModelError(
                f"{self.path}: unpacks to far more than weights would; refused because it would fill the memory"
            )
        return data


# Both


def _add(files: dict[str, Path], name: str, stream: IO[bytes], folder: Path, path: Path) -> None:
    if name in files:
        raise ModelError(f"{path}: two members have the name {name}; pack it again with one")
    files[name] = folder / f"{len(files)}{Path(name).suffix}"
    with files[name].open("wb") as file:
        shutil.copyfileobj(stream, file, PIECE)


def _safe(name: str, path: Path) -> str:
    """The name with "/" only and without "./". If a name points outside, the whole archive is refused."""
    parts = [part for part in re.split(r"[/\\]", name) if part != "."]
    if ".." in parts or not parts[0] or re.match("[A-Za-z]:", name):
        raise ModelError(f"{path}: the member {name[:80]!r} points outside the archive, which cannot be trusted")
    return "/".join(parts)


@contextmanager
def _reported(path: Path) -> Iterator[None]:
    try:
        yield
    except _DAMAGED as problem:
        raise ModelError(f"{path}: a damaged or truncated archive ({problem}); copy it again") from None
    except OSError as problem:
        raise ModelError(f"{path}: cannot be unpacked ({problem.strerror or problem})") from None


def _starts_with(path: Path, magic: bytes) -> bool:
    try:
        with path.open("rb") as file:
            return file.read(len(magic)) == magic
    except OSError:
        return False
