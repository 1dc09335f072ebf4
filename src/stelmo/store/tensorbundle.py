"""A TensorFlow checkpoint (tensor bundle) → numpy arrays, without TensorFlow. Knows no models.

 NAME.index                 a sorted table: "" → header, tensor name → kind, shape, place, checksum
 NAME.data-00000-of-00002   the tensors' bytes, little-endian; the header says how many such shards
 checkpoint                 text that names the latest NAME of a folder

 table      block · block · ... · index block (last name → where its block lies) · footer
 block      entries · restart offsets, 4 bytes each · their number, 4 | compression, 1 | checksum, 4
 entry      letters shared with the previous name · letters added · value length · letters · value
 footer     two handles (offset, size), the second of the index block, padded to 40 · magic, 8
 header     1 shards   2 endianness   3 version (2 oldest reader allowed)
 value      1 kind     2 shape (2 dimension (1 size), 3 unknown rank)   3 shard   4 offset   5 size
            6 checksum of the bytes   7 slices, when the variable is partitioned

Lengths, handles and field tags are varints; header and values are protocol buffers with these field numbers.
Checksums are CRC-32C, turned and shifted ("masked") so that a checksum of checksums keeps its strength.
All are verified, and every size is compared with the file's before memory is taken for it.
"""

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stelmo.errors import ModelError

# TensorFlow's numbers for kinds of tensor. The others (7 string, 14 bfloat16, ...) are refused.
_KINDS = {
    number: np.dtype(code)
    for number, code in [
        (1, "<f4"), (2, "<f8"), (3, "<i4"), (4, "u1"), (5, "<i2"), (6, "i1"), (8, "<c8"), (9, "<i8"),
        (10, "?"), (17, "<u2"), (18, "<c16"), (19, "<f2"), (22, "<u4"), (23, "<u8"),
    ]
}  # fmt: skip
_MAGIC = 0xDB4775248B80FB57.to_bytes(8, "little")
_FOOTER_BYTES = 48
_VERSION = 1
_LITTLE_ENDIAN = 0

# Names share letters and blocks may be compressed, so a small crafted index could unfold into gigabytes or
# minutes. A biLM has about a hundred names, 4 kB in all.
_MOST_INDEX_BYTES = 1 << 20
_MOST_NAMES = 1 << 14
_LONGEST_NAME = 1 << 10
_LONGEST_VALUE = 1 << 16
_MOST_DIMENSIONS = 32
_MOST_ELEMENTS = 1 << 58

# x⁶⁷⁷⁷ + x⁴⁸⁴ + x¹⁰⁰ + 1 is a multiple of CRC-32C's polynomial, found by search; with x⁸ or x⁶⁴ in place of x it
# still is (squaring over GF(2) only doubles exponents). So a byte, or eight, may be added to the three places
# the lower terms name and then forgotten: the remainder stays, and whole arrays fold by plain XOR.
_DEGREE, *_LOWER = 6777, 484, 100, 0
_POLYNOMIAL = 0x82F63B78  # lowest bit first, x³² left out
_PIECE = 1 << 23

_COPY_AGAIN = "copy the checkpoint's files again from where they were saved"


def open_bundle(prefix: Path) -> "Bundle":
    """The checkpoint whose files start with `prefix` (model.ckpt-935588), index and sizes verified."""
    index = Path(f"{prefix}.index")
    try:
        return _bundle(prefix, _contents(index, _MOST_INDEX_BYTES))
    except _RefusedError as refused:
        raise ModelError(f"{index}: {refused.found}; {refused.way_out}") from None


def latest_checkpoint(folder: Path) -> Path:
    """The prefix that the folder's `checkpoint` file names; without that file, the folder's only prefix."""
    files = _files(folder)
    there = sorted(file.removesuffix(".index") for file in files if file.endswith(".index"))
    if "checkpoint" in files:
        name = _noted(folder / "checkpoint")
        found = f"the `checkpoint` file names {name[:80]!r}"
    else:
        name = there[0] if len(there) == 1 else ""
        found = "no `checkpoint` file names the latest"
    if name not in there:
        raise ModelError(f"{folder}: {found}, the prefixes here are {_listing(there)}; give one of them")
    return folder / name


@dataclass(frozen=True)
class _Entry:
    """What the index says of one tensor."""

    kind: int
    shape: tuple[int, ...]
    shard: int
    offset: int
    size: int
    checksum: int
    partitioned: bool

    @property
    def expected_size(self) -> int:
        """What shape and kind need; `size` itself where the kind or the slices leave that open."""
        fixed = self.kind in _KINDS and not self.partitioned
        return math.prod(self.shape) * _KINDS[self.kind].itemsize if fixed else self.size


@dataclass(frozen=True)
class Bundle:
    """Tensors by name; bytes are read when asked for, one tensor at a time."""

    prefix: Path
    _shards: tuple[Path, ...]
    _entries: Mapping[str, _Entry]

    def __post_init__(self) -> None:
        for name in self._entries:
            self._checked(name)

    def names(self) -> list[str]:
        """In the order of the index, which is alphabetical."""
        return list(self._entries)

    def __contains__(self, name: object) -> bool:
        return name in self._entries

    def shape(self, name: str) -> tuple[int, ...]:
        return self._entry(name).shape

    def dtype(self, name: str) -> np.dtype[Any]:
        """`object` for a kind that `read` refuses, such as strings."""
        return _KINDS.get(self._entry(name).kind, np.dtype(object))

    def read(self, name: str) -> NDArray[Any]:
        """The tensor, its checksum verified."""
        entry = self._readable(name)
        shard, kind = self._shards[entry.shard], _KINDS[entry.kind]
        raw = _stretch(shard, entry.offset, entry.size)
        if len(raw) != entry.size or _masked(crc32c(raw)) != entry.checksum:
            raise ModelError(f"{shard}: the bytes of {name!r} do not match their checksum; {_COPY_AGAIN}")
        return raw.view(kind).astype(kind.newbyteorder("="), copy=False).reshape(entry.shape)

    def _readable(self, name: str) -> _Entry:
        entry = self._checked(name)
        if entry.partitioned:
            raise ModelError(f"{self.prefix}: {name!r} is cut in slices; save it without a partitioner")
        if entry.kind not in _KINDS:
            raise ModelError(f"{self.prefix}: {name!r} is of kind {entry.kind}; only plain numbers are read")
        return entry

    def _checked(self, name: str) -> _Entry:
        entry = self._entry(name)
        if entry.shard >= len(self._shards):
            found = f"{name!r} is in shard {entry.shard}, the last is {len(self._shards) - 1}"
            raise ModelError(f"{self.prefix}: {found}; {_COPY_AGAIN}")
        shard, end = self._shards[entry.shard], entry.offset + entry.size
        if (length := _length(shard)) < end:
            raise ModelError(f"{shard}: {length} bytes, but {name!r} ends at byte {end}; {_COPY_AGAIN}")
        if entry.size != (size := entry.expected_size):
            found = f"{name!r} has {entry.size} bytes, {entry.shape} needs {size}"
            raise ModelError(f"{shard}: {found}; {_COPY_AGAIN}")
        return entry

    def _entry(self, name: str) -> _Entry:
        if name not in self._entries:
            raise ModelError(f"{self.prefix}: no tensor {name!r}; there is {_listing(self.names())}")
        return self._entries[name]


class _RefusedError(Exception):
    """Becomes a ModelError where the file's name is known."""

    def __init__(self, found: str, way_out: str = _COPY_AGAIN) -> None:
        super().__init__(found)
        self.found, self.way_out = found, way_out


def _bundle(prefix: Path, index: bytes) -> Bundle:
    rows = _table(index)
    key, header = next(rows, (b"missing", b""))
    if key:
        raise _RefusedError(f"the first name is {key[:40]!r}, a checkpoint has its header there")
    shards = tuple(_shards(prefix, _shard_count(header)))
    # Names that start with a zero byte are slices of a variable that has an entry under its own name too.
    whole = {_text(key): _parsed(value) for key, value in rows if not key.startswith(b"\0")}
    return Bundle(prefix, shards, whole)


def _shard_count(header: bytes) -> int:
    fields = _fields(header)
    oldest = max([_number(_fields(version), 2) for version in _messages(fields, 3)], default=0)
    if _number(fields, 2) != _LITTLE_ENDIAN:
        raise _RefusedError("the tensors are not little-endian", "save them again on a little-endian machine")
    if oldest > _VERSION:
        raise _RefusedError(f"it is of format {oldest}, {_VERSION} is expected", "save it with TensorFlow 2")
    if not (count := _number(fields, 1)):
        raise _RefusedError("the header counts no shards, at least one is expected")
    return count


def _shards(prefix: Path, count: int) -> Iterator[Path]:
    """Ends at the first that is missing, so an absurd count costs nothing."""
    for i in range(count):
        shard = Path(f"{prefix}.data-{i:05d}-of-{count:05d}")
        _length(shard)
        yield shard


def _parsed(value: bytes) -> _Entry:
    fields = _fields(value)
    kind, shard, offset, size, checksum = (_number(fields, field) for field in (1, 3, 4, 5, 6))
    shape = _shape(b"".join(_messages(fields, 2)))  # a message given in parts is their concatenation
    return _Entry(kind, shape, shard, offset, size, checksum, partitioned=7 in fields)


def _shape(message: bytes) -> tuple[int, ...]:
    fields = _fields(message)
    shape = tuple(_number(_fields(dimension), 1) for dimension in _messages(fields, 2))
    if _number(fields, 3) or len(shape) > _MOST_DIMENSIONS:
        raise _RefusedError(f"a tensor has unknown or {len(shape)} dimensions, at most {_MOST_DIMENSIONS} fit")
    # Beside a 0 any other dimension would pass as empty, but numpy wants even those to be addressable.
    if math.prod(size or 1 for size in shape) > _MOST_ELEMENTS:
        raise _RefusedError(f"the shape {shape} is beyond any memory")
    return shape


def _text(key: bytes) -> str:
    try:
        return key.decode()
    except UnicodeDecodeError:
        raise _RefusedError(f"the name {key[:40]!r} is not UTF-8") from None


_Fields = dict[int, list[int | bytes]]


def _fields(message: bytes) -> _Fields:
    fields: _Fields = {}
    at = 0
    while at < len(message):
        tag, at = _varint(message, at)
        value, at = _field(message, at, tag & 7)
        fields.setdefault(tag >> 3, []).append(value)
    return fields


def _field(message: bytes, at: int, wire: int) -> tuple[int | bytes, int]:
    match wire:
        case 0:
            return _varint(message, at)
        case 1 | 5:
            width = 8 if wire == 1 else 4
            return int.from_bytes(_take(message, at, width), "little"), at + width
        case 2:
            length, at = _varint(message, at)
            return _take(message, at, length), at + length
        case _:
            raise _RefusedError(f"a field has wire type {wire}, only 0, 1, 2 and 5 are expected")


def _number(fields: _Fields, field: int) -> int:
    value = fields.get(field, [0])[-1]
    if not isinstance(value, int) or value >= 1 << 63:
        raise _RefusedError(f"field {field} is {value!r:.40}, a number of at least 0 is expected")
    return value


def _messages(fields: _Fields, field: int) -> list[bytes]:
    values = fields.get(field, [])
    messages = [value for value in values if isinstance(value, bytes)]
    if len(messages) < len(values):
        raise _RefusedError(f"field {field} is a number, a message is expected")
    return messages


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """Seven bits a byte, lowest first; the eighth bit says that more follow."""
    value = 0
    for i, byte in enumerate(data[at : at + 10]):
        value |= (byte & 0x7F) << 7 * i
        if byte < 0x80 and value < 1 << 64:
            return value, at + i + 1
    raise _RefusedError(f"no whole number is at byte {at} of {len(data)}")


def _take(data: bytes, at: int, length: int) -> bytes:
    if min(at, length) < 0 or at + length > len(data):
        raise _RefusedError(f"bytes {at} to {at + length} are wanted, there are {len(data)}")
    return data[at : at + length]


def _table(index: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Names and values, in the order of the names."""
    rows = (row for offset, size in _handles(index) for row in _block(index, offset, size))
    previous = None
    for count, (key, value) in enumerate(rows):
        if previous is not None and key <= previous:
            raise _RefusedError(f"{key[:40]!r} comes after {previous[:40]!r}, ascending order is expected")
        if count > _MOST_NAMES:
            raise _RefusedError(f"more than {_MOST_NAMES} tensors", "is it the checkpoint of an ELMo?")
        yield key, value
        previous = key


def _handles(index: bytes) -> Iterator[tuple[int, int]]:
    """Where each block lies, in the order of the file: a crafted index cannot have one read twice."""
    if not index.endswith(_MAGIC):
        raise _RefusedError("it does not end as a checkpoint's index: cut short, or another kind of file")
    footer = _take(index, len(index) - _FOOTER_BYTES, _FOOTER_BYTES)
    _, at = _handle(footer, 0)
    (offset, size), _ = _handle(footer, at)
    end = 0
    for _, value in _block(index, offset, size):
        (offset, size), _ = _handle(value, 0)
        if offset < end:
            raise _RefusedError(f"a block at byte {offset} begins within the one before, which ends at {end}")
        end = offset + size
        yield offset, size


def _handle(data: bytes, at: int) -> tuple[tuple[int, int], int]:
    offset, at = _varint(data, at)
    size, at = _varint(data, at)
    return (offset, size), at


def _block(index: bytes, offset: int, size: int) -> Iterator[tuple[bytes, bytes]]:
    raw = _take(index, offset, size + 5)
    if _masked(crc32c(raw[:-4])) != int.from_bytes(raw[-4:], "little"):
        raise _RefusedError(f"the block of {size} bytes at byte {offset} does not match its checksum")
    match raw[-5]:
        case 0:
            return _rows(raw[:-5])
        case 1:
            return _rows(_unsnapped(raw[:-5]))
        case other:
            raise _RefusedError(f"a block has compression {other}, 0 (none) or 1 (snappy) are expected")


def _rows(block: bytes) -> Iterator[tuple[bytes, bytes]]:
    restarts = int.from_bytes(_take(block, len(block) - 4, 4), "little")
    entries = _take(block, 0, len(block) - 4 - 4 * restarts)
    key, at = b"", 0
    while at < len(entries):
        shared, at = _varint(entries, at)
        added, at = _varint(entries, at)
        length, at = _varint(entries, at)
        if shared > len(key) or shared + added > _LONGEST_NAME:
            raise _RefusedError(f"a name of {shared} + {added} letters follows one of {len(key)}")
        if length > _LONGEST_VALUE:
            raise _RefusedError(f"an entry of {length} bytes, at most {_LONGEST_VALUE} are expected")
        key = key[:shared] + _take(entries, at, added)
        yield key, _take(entries, at + added, length)
        at += added + length


def _unsnapped(data: bytes) -> bytes:
    """Snappy's opposite. TensorFlow 1.2 and later leave an index as it is; releases before may not have."""
    size, at = _varint(data, 0)
    out = bytearray()
    while at < len(data) and len(out) <= size:
        if data[at] & 3:
            length, distance, at = _snappy_copy(data, at)
            if not 0 < distance <= len(out):
                raise _RefusedError(f"a compressed block reaches {distance} bytes back, it has {len(out)}")
            start = len(out) - distance
            out += (out[start : start + length] * (length // distance + 1))[:length]
        else:
            length, at = _snappy_literal(data, at)
            out += _take(data, at, length)
            at += length
    if len(out) != size:
        raise _RefusedError(f"a compressed block unfolds to {len(out)} bytes, {size} are expected")
    return bytes(out)


def _snappy_literal(data: bytes, at: int) -> tuple[int, int]:
    """How many bytes to take as they are, and where they start."""
    length = data[at] >> 2
    if length < 60:
        return length + 1, at + 1
    wide = length - 59
    return int.from_bytes(_take(data, at + 1, wide), "little") + 1, at + 1 + wide


def _snappy_copy(data: bytes, at: int) -> tuple[int, int, int]:
    """How many bytes to repeat, from how far back, and where the next tag is."""
    tag = data[at]
    wide = (0, 1, 2, 4)[tag & 3]
    distance = int.from_bytes(_take(data, at + 1, wide), "little")
    if wide == 1:
        return 4 + (tag >> 2 & 7), distance | tag >> 5 << 8, at + 2
    return 1 + (tag >> 2), distance, at + 1 + wide


def crc32c(data: bytes | NDArray[np.uint8], crc: int = 0) -> int:
    """CRC-32C of `data`; with the `crc` of what came before, of both together."""
    whole = np.frombuffer(data, np.uint8)
    for at in range(0, len(whole), _PIECE):
        crc = _carried_on(crc, whole[at : at + _PIECE].copy())
    return crc


def _carried_on(crc: int, piece: NDArray[np.uint8]) -> int:
    """Uses `piece` up."""
    state = crc ^ 0xFFFFFFFF
    if len(piece) > _DEGREE:
        piece[:4] ^= np.frombuffer(state.to_bytes(4, "little"), np.uint8)
        state, piece = 0, _folded(_folded(piece, 8), 1)
    for byte in piece.tolist():
        state = _TABLE[(state ^ byte) & 0xFF] ^ state >> 8
    return state ^ 0xFFFFFFFF


def _folded(data: NDArray[np.uint8], unit: int) -> NDArray[np.uint8]:
    """The last _DEGREE units, changed so that they leave the remainder that all of `data` left."""
    degree, lower = _DEGREE * unit, [power * unit for power in _LOWER]
    longest = degree - lower[0]
    at = 0
    while (excess := len(data) - at - degree) > 0:
        length = min(longest, excess)
        for power in lower:
            to = at + degree - power
            data[to : to + length] ^= data[at : at + length]
        at += length
    return data[at:]


def _masked(crc: int) -> int:
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def _remainder(byte: int) -> int:
    for _ in range(8):
        byte = byte >> 1 ^ (_POLYNOMIAL if byte & 1 else 0)
    return byte


_TABLE = [_remainder(byte) for byte in range(256)]


def _length(path: Path) -> int:
    try:
        if path.is_file():
            return path.stat().st_size
    except OSError as error:
        raise _unreadable(path, error) from error
    raise ModelError(f"{path}: no such file; give the prefix that an .index and its .data-* files share")


def _contents(path: Path, most: int) -> bytes:
    if (length := _length(path)) > most:
        raise ModelError(f"{path}: {length} bytes, at most {most} are expected; is it another kind of file?")
    try:
        return path.read_bytes()
    except OSError as error:
        raise _unreadable(path, error) from error


def _stretch(path: Path, offset: int, size: int) -> NDArray[np.uint8]:
    try:
        with path.open("rb") as file:
            file.seek(offset)
            return np.fromfile(file, np.uint8, size)
    except OSError as error:
        raise _unreadable(path, error) from error


def _files(folder: Path) -> list[str]:
    try:
        return [path.name for path in folder.iterdir()]
    except OSError as error:
        raise _unreadable(folder, error) from error


def _unreadable(path: Path, error: OSError) -> ModelError:
    return ModelError(f"{path}: cannot be read ({error.strerror}); is the path right, and yours to read?")


def _noted(note: Path) -> str:
    """The prefix in a `checkpoint` file, without the folder it had on the machine that wrote it."""
    text = _contents(note, _MOST_INDEX_BYTES)
    line = re.search(rb'^[ \t]*model_checkpoint_path[ \t]*:[ \t]*"((?:[^"\\\n]|\\.)*)"', text, re.MULTILINE)
    if line is None:
        raise ModelError(f"{note}: has no model_checkpoint_path; give the prefix of an .index file instead")
    path = re.sub(rb"\\([0-3][0-7]{2}|.)", _unescaped, line[1])
    return re.split(r"[/\\]", path.decode(errors="replace"))[-1]


def _unescaped(escape: re.Match[bytes]) -> bytes:
    return escape[1] if len(escape[1]) == 1 else bytes([int(escape[1], 8)])


def _listing(names: list[str]) -> str:
    more = f" and {len(names) - 8} more" if len(names) > 8 else ""
    return (", ".join(names[:8]) or "none") + more
