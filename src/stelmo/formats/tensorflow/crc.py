"""Bytes → their CRC-32C, the checksum in TensorFlow's files; fast with NumPy only. Opens no files."""

import numpy as np
from numpy.typing import NDArray

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
        crc = _extended(crc, whole[at : at + _PIECE].copy())
    return crc


def _extended(crc: int, piece: NDArray[np.uint8]) -> int:
    """The checksum after `piece`, which is overwritten."""
    state = crc ^ 0xFFFFFFFF
    if len(piece) > _DEGREE:
        piece[:4] ^= np.frombuffer(state.to_bytes(4, "little"), np.uint8)
        state, piece = 0, _folded(_folded(piece, 8), 1)
    for byte in piece.tolist():
        state = _TABLE[(state ^ byte) & 0xFF] ^ state >> 8
    return state ^ 0xFFFFFFFF


def _folded(data: NDArray[np.uint8], unit: int) -> NDArray[np.uint8]:
    """The last _DEGREE units, changed so that they have the same remainder as all of `data`."""
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
    """Rotated and shifted, so that a checksum of checksums stays strong."""
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def _remainder(byte: int) -> int:
    for _ in range(8):
        byte = byte >> 1 ^ (_POLYNOMIAL if byte & 1 else 0)
    return byte


_TABLE = [_remainder(byte) for byte in range(256)]
