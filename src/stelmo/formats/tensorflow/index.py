"""The index of a TensorFlow checkpoint → where each tensor is; its checksums. Nothing in it is trusted; opens no files.

 index      a sorted table: "" → header, tensor name → entry; both are protocol buffers
 header     1 shards   2 endianness   3 version (2 oldest reader allowed)
 entry      1 kind     2 shape (2 dimension (1 size), 3 unknown rank)   3 shard   4 offset   5 size
            6 checksum of the bytes   7 slices, if the variable is partitioned

 table      block · block · ... · index block (last name → position of its block) · footer
 block      rows · restart offsets, 4 bytes each · their number, 4 | compression, 1 | checksum, 4
 row        bytes shared with the previous name · bytes added · value length · bytes · value
 footer     two handles (offset, size), the second of the index block, padded to 40 · magic, 8

Lengths and handles are varints. Every checksum is verified.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

COPY_AGAIN = "copy the checkpoint's files again from where they were saved"

# TensorFlow's numbers for kinds of tensor. The others (7 string, 14 bfloat16, ...) are refused.
KINDS = {
    number: np.dtype(code)
    for number, code in [
        (1, "<f4"), (2, "<f8"), (3, "<i4"), (4, "u1"), (5, "<i2"), (6, "i1"), (8, "<c8"), (9, "<i8"),
        (10, "?"), (17, "<u2"), (18, "<c16"), (19, "<f2"), (22, "<u4"), (23, "<u8"),
    ]
}  # fmt: skip
_VERSION = 1
_LITTLE_ENDIAN = 0
_MOST_DIMENSIONS = 32
_MOST_ELEMENTS = 1 << 58

_MAGIC = 0xDB4775248B80FB57.to_bytes(8, "little")
_FOOTER_BYTES = 48

# Names share bytes and blocks may be compressed, so a small crafted index could expand to gigabytes or take
# minutes. A biLM has about a hundred names, 4 kB in total.
_MOST_NAMES = 1 << 14
_LONGEST_NAME = 1 << 10
_LONGEST_VALUE = 1 << 16

Fields = dict[int, list[int | bytes]]


class RefusedError(Exception):
    """The index is damaged or crafted. Becomes a ModelError where the file's name is known."""

    def __init__(self, found: str, way_out: str = COPY_AGAIN) -> None:
        super().__init__(found)
        self.found, self.way_out = found, way_out


@dataclass(frozen=True)
class Entry:
    """What the index says about one tensor."""

    kind: int
    shape: tuple[int, ...]
    shard: int
    offset: int
    size: int
    checksum: int
    partitioned: bool

    @property
    def expected_size(self) -> int:
        """Bytes that shape and kind need; `size` itself if the kind or the slices leave that open."""
        fixed = self.kind in KINDS and not self.partitioned
        return math.prod(self.shape) * KINDS[self.kind].itemsize if fixed else self.size


class Index(NamedTuple):
    shards: int
    entries: dict[str, Entry]


def read_index(index: bytes) -> Index:
    """The contents of an .index file."""
    rows = _table(index)
    key, header = next(rows, (b"missing", b""))
    if key:
        raise RefusedError(f"the first name is {key[:40]!r}; a checkpoint begins with its header")
    about = _fields(header)
    oldest = max([_number(_fields(version), 2) for version in _messages(about, 3)], default=0)
    if _number(about, 2) != _LITTLE_ENDIAN:
        raise RefusedError("the tensors are not little-endian", "save them again on a little-endian machine")
    if oldest > _VERSION:
        raise RefusedError(f"it has format {oldest}, {_VERSION} is expected", "save it with TensorFlow 2")
    if not (shards := _number(about, 1)):
        raise RefusedError("the header says 0 shards, at least one is expected")
    entries = {}
    for key, value in rows:
        if key.startswith(b"\0"):  # a slice of a variable that also has an entry under its own name
            continue
        try:
            name = key.decode()
        except UnicodeDecodeError:
            raise RefusedError(f"the name {key[:40]!r} is not UTF-8") from None
        entries[name] = _entry(value)
    return Index(shards, entries)


def _entry(value: bytes) -> Entry:
    about = _fields(value)
    kind, shard, offset, size, checksum = (_number(about, field) for field in (1, 3, 4, 5, 6))
    dimensions = _fields(b"".join(_messages(about, 2)))  # a message given in parts is their concatenation
    shape = tuple(_number(_fields(dimension), 1) for dimension in _messages(dimensions, 2))
    if _number(dimensions, 3) or len(shape) > _MOST_DIMENSIONS:
        raise RefusedError(f"a tensor has unknown or {len(shape)} dimensions, at most {_MOST_DIMENSIONS} are allowed")
    # With a dimension of 0 the others would not matter, but numpy requires even those to be addressable.
    if math.prod(size or 1 for size in shape) > _MOST_ELEMENTS:
        raise RefusedError(f"the shape {shape} is larger than any memory")
    return Entry(kind, shape, shard, offset, size, checksum, partitioned=7 in about)


# The sorted table


def _table(index: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Names and values, in the order of the names."""
    rows = (row for offset, size in _handles(index) for row in _block(index, offset, size))
    previous = None
    for count, (key, value) in enumerate(rows):
        if previous is not None and key <= previous:
            raise RefusedError(f"{key[:40]!r} follows {previous[:40]!r}, ascending order is expected")
        if count > _MOST_NAMES:
            raise RefusedError(f"more than {_MOST_NAMES} tensors", "is it the checkpoint of an ELMo?")
        yield key, value
        previous = key


def _handles(index: bytes) -> Iterator[tuple[int, int]]:
    """Position and size of each block, in the order of the file: a crafted index cannot have one read twice."""
    if not index.endswith(_MAGIC):
        raise RefusedError("it does not end like a checkpoint's index: truncated, or another kind of file")
    footer = _take(index, len(index) - _FOOTER_BYTES, _FOOTER_BYTES)
    _, at = _handle(footer, 0)
    (offset, size), _ = _handle(footer, at)
    end = 0
    for _, value in _block(index, offset, size):
        (offset, size), _ = _handle(value, 0)
        if offset < end:
            raise RefusedError(f"a block at byte {offset} starts inside the previous one, which ends at {end}")
        end = offset + size
        yield offset, size


def _handle(data: bytes, at: int) -> tuple[tuple[int, int], int]:
    offset, at = _varint(data, at)
    size, at = _varint(data, at)
    return (offset, size), at


def _block(index: bytes, offset: int, size: int) -> Iterator[tuple[bytes, bytes]]:
    raw = _take(index, offset, size + 5)
    if masked(crc32c(raw[:-4])) != int.from_bytes(raw[-4:], "little"):
        raise RefusedError(f"the block of {size} bytes at byte {offset} does not match its checksum")
    match raw[-5]:
        case 0:
            return _rows(raw[:-5])
        case 1:
            return _rows(snappy_decompressed(raw[:-5]))
        case other:
            raise RefusedError(f"a block has compression {other}, 0 (none) or 1 (snappy) are expected")


def _rows(block: bytes) -> Iterator[tuple[bytes, bytes]]:
    restarts = int.from_bytes(_take(block, len(block) - 4, 4), "little")
    entries = _take(block, 0, len(block) - 4 - 4 * restarts)
    key, at = b"", 0
    while at < len(entries):
        shared, at = _varint(entries, at)
        added, at = _varint(entries, at)
        length, at = _varint(entries, at)
        if shared > len(key) or shared + added > _LONGEST_NAME:
            raise RefusedError(f"a name of {shared} + {added} bytes follows one of {len(key)}")
        if length > _LONGEST_VALUE:
            raise RefusedError(f"an entry of {length} bytes, at most {_LONGEST_VALUE} are expected")
        key = key[:shared] + _take(entries, at, added)
        yield key, _take(entries, at + added, length)
        at += added + length


def snappy_decompressed(data: bytes) -> bytes:
    """Decompress Snappy. TensorFlow 1.2 and later do not compress an index; earlier releases may."""
    size, at = _varint(data, 0)
    out = bytearray()
    while at < len(data) and len(out) <= size:
        if data[at] & 3:
            length, distance, at = _snappy_copy(data, at)
            if not 0 < distance <= len(out):
                raise RefusedError(f"a compressed block reaches {distance} bytes back, it has {len(out)}")
            start = len(out) - distance
            out += (out[start : start + length] * (length // distance + 1))[:length]
        else:
            length, at = _snappy_literal(data, at)
            out += _take(data, at, length)
            at += length
    if len(out) != size:
        raise RefusedError(f"a compressed block expands to {len(out)} bytes, {size} are expected")
    return bytes(out)


def _snappy_literal(data: bytes, at: int) -> tuple[int, int]:
    """How many bytes to copy unchanged, and where they start."""
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


# Protocol buffers


def _fields(message: bytes) -> Fields:
    """A protocol buffer → its values by field number."""
    found: Fields = {}
    at = 0
    while at < len(message):
        tag, at = _varint(message, at)
        value: int | bytes
        match tag & 7:
            case 0:
                value, at = _varint(message, at)
            case 1 | 5 as wire:
                width = 8 if wire == 1 else 4
                value, at = int.from_bytes(_take(message, at, width), "little"), at + width
            case 2:
                length, at = _varint(message, at)
                value, at = _take(message, at, length), at + length
            case wire:
                raise RefusedError(f"a field has wire type {wire}, only 0, 1, 2 and 5 are expected")
        found.setdefault(tag >> 3, []).append(value)
    return found


def _number(message: Fields, field: int) -> int:
    """The field's last value; 0 if it is absent, as the format prescribes."""
    value = message.get(field, [0])[-1]
    if not isinstance(value, int) or value >= 1 << 63:
        raise RefusedError(f"field {field} is {value!r:.40}, a number of at least 0 is expected")
    return value


def _messages(message: Fields, field: int) -> list[bytes]:
    values = message.get(field, [])
    found = [value for value in values if isinstance(value, bytes)]
    if len(found) < len(values):
        raise RefusedError(f"field {field} is a number, a message is expected")
    return found


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """Seven bits a byte, lowest first; the eighth bit says that more follow."""
    value = 0
    for i, byte in enumerate(data[at : at + 10]):
        value |= (byte & 0x7F) << 7 * i
        if byte < 0x80 and value < 1 << 64:
            return value, at + i + 1
    raise RefusedError(f"no complete number at byte {at} of {len(data)}")


def _take(data: bytes, at: int, length: int) -> bytes:
    """Bytes that must exist."""
    if min(at, length) < 0 or at + length > len(data):
        raise RefusedError(f"bytes {at} to {at + length} are needed, there are {len(data)}")
    return data[at : at + length]


# CRC-32C, fast with NumPy only

# x⁶⁷⁷⁷ + x⁴⁸⁴ + x¹⁰⁰ + 1 is a multiple of CRC-32C's polynomial, found by search; with x⁸ or x⁶⁴ in place of x it
# still is (squaring over GF(2) only doubles exponents). So a byte, or eight, can be added at the three places
# of the lower terms and then dropped: the remainder stays the same, and whole arrays fold by plain XOR.
_DEGREE, *_LOWER = 6777, 484, 100, 0
_POLYNOMIAL = 0x82F63B78  # lowest bit first, x³² left out
_PIECE = 1 << 23


def crc32c(data: bytes | NDArray[np.uint8], crc: int = 0) -> int:
    """CRC-32C of `data`; given the `crc` of preceding bytes, of both together."""
    whole = np.frombuffer(data, np.uint8)
    for at in range(0, len(whole), _PIECE):
        piece, state = whole[at : at + _PIECE].copy(), crc ^ 0xFFFFFFFF
        if len(piece) > _DEGREE:
            piece[:4] ^= np.frombuffer(state.to_bytes(4, "little"), np.uint8)
            piece, state = _folded(_folded(piece, 8), 1), 0
        for byte in piece.tolist():
            state = _TABLE[(state ^ byte) & 0xFF] ^ state >> 8
        crc = state ^ 0xFFFFFFFF
    return crc


def _folded(data: NDArray[np.uint8], unit: int) -> NDArray[np.uint8]:
    """The last _DEGREE units, changed so that they have the same remainder as all of `data`, which is overwritten."""
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


def masked(crc: int) -> int:
    """The rotated and shifted form in which TensorFlow stores a checksum."""
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def _remainder(byte: int) -> int:
    for _ in range(8):
        byte = byte >> 1 ^ (_POLYNOMIAL if byte & 1 else 0)
    return byte


_TABLE = [_remainder(byte) for byte in range(256)]
