"""A position in an epoch → the number of the sentence read there: a shuffle without a table; and the hash it uses.

A Feistel network over the positions 0 … N − 1. Any position of any epoch is computed directly, so the order needs no
memory (a billion words have 40 million sentences), and rows can be in different epochs.
"""

import math

import numpy as np
from numpy.typing import NDArray

_ROUNDS = 4  # a Feistel network of four rounds of random functions is a strong pseudorandom permutation


def scrambled(numbers: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """A 64-bit hash of each number (the finaliser of SplitMix64)."""
    mixed = numbers + np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))


def key_of(*parts: NDArray[np.int64] | int) -> NDArray[np.uint64]:
    """One hash of several numbers, elementwise. The shape is never (), for which numpy warns of overflow."""
    key = np.zeros(1, np.uint64)
    for part in parts:
        key = scrambled(key ^ np.atleast_1d(np.asarray(part)).astype(np.uint64))
    return key


def shuffled(places: NDArray[np.int64], epochs: NDArray[np.int64], count: int, seed: int) -> NDArray[np.int64]:
    """The values of each epoch's permutation of range(count) at these positions."""
    left = math.isqrt(count - 1) + 1  # left · right ≥ count, as small as possible
    right = -(-count // left)
    keys = key_of(seed, epochs)
    found = places.astype(np.uint64)
    outside = np.ones(found.shape, bool)
    while outside.any():  # a position past the end is mapped again until it falls inside
        found[outside] = _network(found[outside], np.broadcast_to(keys, found.shape)[outside], left, right)
        outside = found >= np.uint64(count)
    return found.astype(np.int64)


def _network(places: NDArray[np.uint64], keys: NDArray[np.uint64], left: int, right: int) -> NDArray[np.uint64]:
    """A permutation of range(left · right): in turns, each half is shifted by a hash of the other."""
    a, b = places // np.uint64(right), places % np.uint64(right)
    for turn in range(_ROUNDS):
        if turn % 2:
            a = (a + scrambled(keys ^ (b + np.uint64(turn << 56)))) % np.uint64(left)
        else:
            b = (b + scrambled(keys ^ (a + np.uint64(turn << 56)))) % np.uint64(right)
    return a * np.uint64(right) + b
