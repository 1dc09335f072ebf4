"""Snappy against Snappy, CRC-32C against the bitwise definition; the rest of the index is tested with checkpoints."""

import random

import numpy as np
import pyarrow as pa
import pytest
from bundles import bitwise_crc32c, varint
from hypothesis import given, settings
from hypothesis import strategies as st

from stelmo.formats.tensorflow import index as checksums
from stelmo.formats.tensorflow.index import RefusedError, crc32c, snappy_decompressed


class TestSnappy:
    @given(st.lists(st.sampled_from([b"a", b"kernel/", b"lm/RNN_0/", b"\x00\xff", bytes(70)]), max_size=400))
    def test_it_undoes_what_snappy_did(self, words: list[bytes]) -> None:
        data = b"".join(words)
        assert snappy_decompressed(pa.Codec("snappy").compress(data, asbytes=True)) == data

    @given(st.integers(0, 100_000), st.integers(0, 2**32))
    @settings(max_examples=20, deadline=None)
    def test_long_literals_are_undone(self, length: int, seed: int) -> None:
        data = random.Random(seed).randbytes(length)
        assert snappy_decompressed(pa.Codec("snappy").compress(data, asbytes=True)) == data

    # By hand: 300 bytes as they are, then 5 from 300 back, in each of the three ways to write such a copy.
    @pytest.mark.parametrize("copy", [b"\x25\x2c", b"\x12\x2c\x01", b"\x13\x2c\x01\0\0"])
    def test_copies_from_afar_are_undone(self, copy: bytes) -> None:
        data = random.Random(0).randbytes(300)
        assert snappy_decompressed(varint(305) + b"\xf4\x2b\x01" + data + copy) == data + data[:5]

    @settings(max_examples=300)
    @given(st.binary(max_size=60))
    def test_any_bytes_unfold_or_are_refused(self, data: bytes) -> None:
        assert unfolds_or_is_refused(data)


def unfolds_or_is_refused(data: bytes) -> bool:
    try:
        return len(snappy_decompressed(data)) <= 64 * len(data)
    except RefusedError:
        return True


class TestChecksum:
    @given(st.binary(max_size=300))
    def test_it_is_the_bitwise_division(self, data: bytes) -> None:
        assert crc32c(data) == bitwise_crc32c(data)

    @settings(max_examples=25, deadline=None)
    @given(st.integers(6_700, 70_000), st.integers(0, 2**32))
    def test_folding_long_data_changes_nothing(self, length: int, seed: int) -> None:
        data = random.Random(seed).randbytes(length)
        assert crc32c(data) == bitwise_crc32c(data)

    @settings(max_examples=30, deadline=None)
    @given(st.integers(0, 200_000), st.integers(0, 200_000))
    def test_carrying_on_after_a_split_changes_nothing(self, one: int, two: int) -> None:
        data, at = random.Random(one).randbytes(max(one, two)), min(one, two)
        assert crc32c(data[at:], crc32c(data[:at])) == crc32c(data)

    def test_more_than_one_piece_changes_nothing(self, monkeypatch: pytest.MonkeyPatch) -> None:
        data = random.Random(0).randbytes(100_000)
        whole = crc32c(data)
        monkeypatch.setattr(checksums, "_PIECE", 8_191)
        assert crc32c(data) == whole

    # The first is the check value of every CRC catalogue, the others are from RFC 3720, B.4.
    @pytest.mark.parametrize(
        ("data", "crc"),
        [
            (b"123456789", 0xE3069283),
            (b"", 0),
            (bytes(32), 0x8A9136AA),
            (b"\xff" * 32, 0x62A8AB43),
            (bytes(range(32)), 0x46DD794E),
            (bytes(range(31, -1, -1)), 0x113FDB5C),
        ],
    )
    def test_published_values(self, data: bytes, crc: int) -> None:
        assert crc32c(data) == crc

    def test_an_array_and_its_bytes_agree(self) -> None:
        data = np.arange(10_000, dtype=np.uint8)
        assert crc32c(data) == crc32c(data.tobytes())
        assert data[1] == 1
