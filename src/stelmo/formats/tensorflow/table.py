"""Bytes of a sorted table → its names and values. Trusts no byte; knows no files and no tensors.

 table      block · block · ... · index block (last name → where its block lies) · footer
 block      entries · restart offsets, 4 bytes each · their number, 4 | compression, 1 | checksum, 4
 entry      letters shared with the previous name · letters added · value length · letters · value
 footer     two handles (offset, size), the second of the index block, padded to 40 · magic, 8

Lengths and handles are varints. Every checksum is verified.
"""

from collections.abc import Iterator

from stelmo.formats.tensorflow.crc import crc32c, masked
from stelmo.formats.tensorflow.protobuf import RefusedError, take, varint

_MAGIC = 0xDB4775248B80FB57.to_bytes(8, "little")
_FOOTER_BYTES = 48

# Names share letters and blocks may be compressed, so a small crafted index could unfold into gigabytes or
# minutes. A biLM has about a hundred names, 4 kB in all.
_MOST_NAMES = 1 << 14
_LONGEST_NAME = 1 << 10
_LONGEST_VALUE = 1 << 16


def table(index: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Names and values, in the order of the names."""
    rows = (row for offset, size in _handles(index) for row in _block(index, offset, size))
    previous = None
    for count, (key, value) in enumerate(rows):
        if previous is not None and key <= previous:
            raise RefusedError(f"{key[:40]!r} comes after {previous[:40]!r}, ascending order is expected")
        if count > _MOST_NAMES:
            raise RefusedError(f"more than {_MOST_NAMES} tensors", "is it the checkpoint of an ELMo?")
        yield key, value
        previous = key


def _handles(index: bytes) -> Iterator[tuple[int, int]]:
    """Where each block lies, in the order of the file: a crafted index cannot have one read twice."""
    if not index.endswith(_MAGIC):
        raise RefusedError("it does not end as a checkpoint's index: cut short, or another kind of file")
    footer = take(index, len(index) - _FOOTER_BYTES, _FOOTER_BYTES)
    _, at = _handle(footer, 0)
    (offset, size), _ = _handle(footer, at)
    end = 0
    for _, value in _block(index, offset, size):
        (offset, size), _ = _handle(value, 0)
        if offset < end:
            raise RefusedError(f"a block at byte {offset} begins within the one before, which ends at {end}")
        end = offset + size
        yield offset, size


def _handle(data: bytes, at: int) -> tuple[tuple[int, int], int]:
    offset, at = varint(data, at)
    size, at = varint(data, at)
    return (offset, size), at


def _block(index: bytes, offset: int, size: int) -> Iterator[tuple[bytes, bytes]]:
    raw = take(index, offset, size + 5)
    if masked(crc32c(raw[:-4])) != int.from_bytes(raw[-4:], "little"):
        raise RefusedError(f"the block of {size} bytes at byte {offset} does not match its checksum")
    match raw[-5]:
        case 0:
            return _rows(raw[:-5])
        case 1:
            return _rows(unsnapped(raw[:-5]))
        case other:
            raise RefusedError(f"a block has compression {other}, 0 (none) or 1 (snappy) are expected")


def _rows(block: bytes) -> Iterator[tuple[bytes, bytes]]:
    restarts = int.from_bytes(take(block, len(block) - 4, 4), "little")
    entries = take(block, 0, len(block) - 4 - 4 * restarts)
    key, at = b"", 0
    while at < len(entries):
        shared, at = varint(entries, at)
        added, at = varint(entries, at)
        length, at = varint(entries, at)
        if shared > len(key) or shared + added > _LONGEST_NAME:
            raise RefusedError(f"a name of {shared} + {added} letters follows one of {len(key)}")
        if length > _LONGEST_VALUE:
            raise RefusedError(f"an entry of {length} bytes, at most {_LONGEST_VALUE} are expected")
        key = key[:shared] + take(entries, at, added)
        yield key, take(entries, at + added, length)
        at += added + length


def unsnapped(data: bytes) -> bytes:
    """Snappy's opposite. TensorFlow 1.2 and later leave an index as it is; releases before may not have."""
    size, at = varint(data, 0)
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
            out += take(data, at, length)
            at += length
    if len(out) != size:
        raise RefusedError(f"a compressed block unfolds to {len(out)} bytes, {size} are expected")
    return bytes(out)


def _snappy_literal(data: bytes, at: int) -> tuple[int, int]:
    """How many bytes to take as they are, and where they start."""
    length = data[at] >> 2
    if length < 60:
        return length + 1, at + 1
    wide = length - 59
    return int.from_bytes(take(data, at + 1, wide), "little") + 1, at + 1 + wide


def _snappy_copy(data: bytes, at: int) -> tuple[int, int, int]:
    """How many bytes to repeat, from how far back, and where the next tag is."""
    tag = data[at]
    wide = (0, 1, 2, 4)[tag & 3]
    distance = int.from_bytes(take(data, at + 1, wide), "little")
    if wide == 1:
        return 4 + (tag >> 2 & 7), distance | tag >> 5 << 8, at + 2
    return 1 + (tag >> 2), distance, at + 1 + wide
