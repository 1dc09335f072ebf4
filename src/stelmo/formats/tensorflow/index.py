"""The index of a TensorFlow checkpoint → where each tensor lies. Trusts no byte; knows no files.

index      a sorted table: "" → header, tensor name → value; both are protocol buffers
header     1 shards   2 endianness   3 version (2 oldest reader allowed)
value      1 kind     2 shape (2 dimension (1 size), 3 unknown rank)   3 shard   4 offset   5 size
           6 checksum of the bytes   7 slices, when the variable is partitioned
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from stelmo.formats.tensorflow import table as sstable
from stelmo.formats.tensorflow.protobuf import RefusedError, fields, messages, number

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


@dataclass(frozen=True)
class Entry:
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
        fixed = self.kind in KINDS and not self.partitioned
        return math.prod(self.shape) * KINDS[self.kind].itemsize if fixed else self.size


class Index(NamedTuple):
    shards: int
    entries: dict[str, Entry]


def read(index: bytes) -> Index:
    """The contents of an .index file."""
    rows = sstable.table(index)
    key, header = next(rows, (b"missing", b""))
    if key:
        raise RefusedError(f"the first name is {key[:40]!r}, a checkpoint has its header there")
    shards = _shard_count(header)
    # Names that start with a zero byte are slices of a variable that has an entry under its own name too.
    return Index(shards, {_text(key): _parsed(value) for key, value in rows if not key.startswith(b"\0")})


def _shard_count(header: bytes) -> int:
    about = fields(header)
    oldest = max([number(fields(version), 2) for version in messages(about, 3)], default=0)
    if number(about, 2) != _LITTLE_ENDIAN:
        raise RefusedError("the tensors are not little-endian", "save them again on a little-endian machine")
    if oldest > _VERSION:
        raise RefusedError(f"it is of format {oldest}, {_VERSION} is expected", "save it with TensorFlow 2")
    if not (count := number(about, 1)):
        raise RefusedError("the header counts no shards, at least one is expected")
    return count


def _parsed(value: bytes) -> Entry:
    about = fields(value)
    kind, shard, offset, size, checksum = (number(about, field) for field in (1, 3, 4, 5, 6))
    shape = _shape(b"".join(messages(about, 2)))  # a message given in parts is their concatenation
    return Entry(kind, shape, shard, offset, size, checksum, partitioned=7 in about)


def _shape(message: bytes) -> tuple[int, ...]:
    about = fields(message)
    shape = tuple(number(fields(dimension), 1) for dimension in messages(about, 2))
    if number(about, 3) or len(shape) > _MOST_DIMENSIONS:
        raise RefusedError(f"a tensor has unknown or {len(shape)} dimensions, at most {_MOST_DIMENSIONS} fit")
    # Beside a 0 any other dimension would pass as empty, but numpy wants even those to be addressable.
    if math.prod(size or 1 for size in shape) > _MOST_ELEMENTS:
        raise RefusedError(f"the shape {shape} is beyond any memory")
    return shape


def _text(key: bytes) -> str:
    try:
        return key.decode()
    except UnicodeDecodeError:
        raise RefusedError(f"the name {key[:40]!r} is not UTF-8") from None
