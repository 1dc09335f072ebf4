"""Writes TensorFlow checkpoints, independently of the reader: also such as TensorFlow itself would not write."""

from pathlib import Path
from typing import Any

import pyarrow as pa
from numpy.typing import NDArray

NUMBERS = {"float32": 1, "float64": 2, "int32": 3, "uint8": 4, "int64": 9, "bool": 10, "float16": 19}
MAGIC = 0xDB4775248B80FB57.to_bytes(8, "little")

Tensors = dict[str, NDArray[Any]]
Rows = list[tuple[bytes, bytes]]


def bitwise_crc32c(data: bytes) -> int:
    """The definition: division by the polynomial, one bit at a time."""
    state = 0xFFFFFFFF
    for byte in data:
        state ^= byte
        for _ in range(8):
            state = state >> 1 ^ 0x82F63B78 * (state & 1)
    return state ^ 0xFFFFFFFF


def checksum(data: bytes) -> bytes:
    crc = bitwise_crc32c(data)
    return (((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF).to_bytes(4, "little")


def varint(number: int) -> bytes:
    low, high = number & 0x7F, number >> 7
    return bytes([low | 0x80]) + varint(high) if high else bytes([low])


def number(field: int, value: int) -> bytes:
    return varint(field << 3) + varint(value)


def message(field: int, value: bytes) -> bytes:
    return varint(field << 3 | 2) + varint(len(value)) + value


def shape(*sizes: int) -> bytes:
    return message(2, b"".join(message(2, number(1, size)) for size in sizes))


def entry(data: bytes, kind: int = 1, shape: bytes = b"", shard: int = 0, offset: int = 0) -> bytes:
    place = number(1, kind) + shape + number(3, shard) + number(4, offset) + number(5, len(data))
    return place + b"\x35" + checksum(data)


def header(shards: int = 1, endianness: int = 0, oldest_reader: int = 0) -> bytes:
    return number(1, shards) + number(2, endianness) + message(3, number(1, 1) + number(2, oldest_reader))


def row(previous: bytes, key: bytes, value: bytes) -> bytes:
    unlike = (i for i, (old, new) in enumerate(zip(previous, key, strict=False)) if old != new)
    shared = next(unlike, min(len(previous), len(key)))
    return varint(shared) + varint(len(key) - shared) + varint(len(value)) + key[shared:] + value


def block(rows: Rows) -> bytes:
    keys = [b"", *(key for key, _ in rows)]
    body = b"".join(row(previous, *pair) for previous, pair in zip(keys, rows, strict=False))
    return body + bytes(4) + (1).to_bytes(4, "little")


def sealed(body: bytes, compression: int = 0) -> bytes:
    packed = pa.Codec("snappy").compress(body, asbytes=True) if compression == 1 else body
    return packed + bytes([compression]) + checksum(packed + bytes([compression]))


def table(rows: Rows, per_block: int = 3, compression: int = 0) -> bytes:
    out, handles = b"", []
    for i in range(0, len(rows), per_block):
        some = rows[i : i + per_block]
        piece = sealed(block(some), compression)
        handles.append((some[-1][0], varint(len(out)) + varint(len(piece) - 5)))
        out += piece
    return with_footer(out, sealed(block(handles), compression))


def with_footer(blocks: bytes, index_block: bytes) -> bytes:
    handle = varint(len(blocks)) + varint(len(index_block) - 5)
    return blocks + index_block + (b"\0\0" + handle).ljust(40, b"\0") + MAGIC


def write(prefix: Path, index: bytes, shards: list[bytes]) -> Path:
    Path(f"{prefix}.index").write_bytes(index)
    for i, shard in enumerate(shards):
        Path(f"{prefix}.data-{i:05d}-of-{len(shards):05d}").write_bytes(shard)
    return prefix


def save(prefix: Path, tensors: Tensors, count: int = 1, per_block: int = 3, compression: int = 0) -> Path:
    rows, shards = [(b"", header(count))], [b""] * count
    for i, (name, tensor) in enumerate(sorted(tensors.items(), key=lambda item: item[0].encode())):
        data, at = tensor.tobytes(), len(shards[i % count])
        value = entry(data, NUMBERS[tensor.dtype.name], shape(*tensor.shape), i % count, at)
        rows.append((name.encode(), value))
        shards[i % count] += data
    return write(prefix, table(rows, per_block, compression), shards)
