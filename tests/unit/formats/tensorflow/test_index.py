"""Snappy's opposite, against Snappy; the rest of the index is tested with whole checkpoints."""

import random

import pyarrow as pa
import pytest
from bundles import varint
from hypothesis import given, settings
from hypothesis import strategies as st

from stelmo.formats.tensorflow.index import RefusedError, unsnapped


class TestSnappy:
    @given(st.lists(st.sampled_from([b"a", b"kernel/", b"lm/RNN_0/", b"\x00\xff", bytes(70)]), max_size=400))
    def test_it_undoes_what_snappy_did(self, words: list[bytes]) -> None:
        data = b"".join(words)
        assert unsnapped(pa.Codec("snappy").compress(data, asbytes=True)) == data

    @given(st.integers(0, 100_000), st.integers(0, 2**32))
    @settings(max_examples=20, deadline=None)
    def test_long_literals_are_undone(self, length: int, seed: int) -> None:
        data = random.Random(seed).randbytes(length)
        assert unsnapped(pa.Codec("snappy").compress(data, asbytes=True)) == data

    # By hand: 300 bytes as they are, then 5 from 300 back, in each of the three ways to write such a copy.
    @pytest.mark.parametrize("copy", [b"\x25\x2c", b"\x12\x2c\x01", b"\x13\x2c\x01\0\0"])
    def test_copies_from_afar_are_undone(self, copy: bytes) -> None:
        data = random.Random(0).randbytes(300)
        assert unsnapped(varint(305) + b"\xf4\x2b\x01" + data + copy) == data + data[:5]

    @settings(max_examples=300)
    @given(st.binary(max_size=60))
    def test_any_bytes_unfold_or_are_refused(self, data: bytes) -> None:
        assert unfolds_or_is_refused(data)


def unfolds_or_is_refused(data: bytes) -> bool:
    try:
        return len(unsnapped(data)) <= 64 * len(data)
    except RefusedError:
        return True
