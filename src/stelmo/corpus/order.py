"""A place in an epoch → the sentence read there: a shuffle without a table. Knows no sentences.

A Feistel network over the places 0 … N − 1: any place of any epoch is answered at once, so the order costs no memory
(a billion words have 40 million sentences), and rows may be in different epochs.
"""

import math

import numpy as np
from numpy.typing import NDArray

_ROUNDS = 4  # after four, a Feistel network with random functions cannot be told from a random permutation


def scrambled(numbers: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """A hash of each number, all 64 bits of it (the finaliser of SplitMix64)."""
    mixed = numbers + np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))


def key_of(*parts: NDArray[np.int64] | int) -> NDArray[np.uint64]:
    """One hash of several numbers, elementwise; never of shape (), where numpy would warn of overflow."""
    key = np.zeros(1, np.uint64)
    for part in parts:
        key = scrambled(key ^ np.atleast_1d(np.asarray(part)).astype(np.uint64))
    return key


def shuffled(places: NDArray[np.int64], epochs: NDArray[np.int64], count: int, seed: int) -> NDArray[np.int64]:
    """A permutation of range(count) for each epoch, at these places of it."""
    left = math.isqrt(count - 1) + 1  # left · right ≥ count, and barely more
    right = -(-count // left)
    keys = key_of(seed, epochs)
    found = places.astype(np.uint64)
    wandering = np.ones(found.shape, bool)
    while wandering.any():  # a place past the end goes through the network again until it falls inside
        found[wandering] = _network(found[wandering], np.broadcast_to(keys, found.shape)[wandering], left, right)
        wandering = found >= np.uint64(count)
    return found.astype(np.int64)


def _network(places: NDArray[np.uint64], keys: NDArray[np.uint64], left: int, right: int) -> NDArray[np.uint64]:
    """A permutation of range(left · right): each half is shifted by a hash of the other, in turns."""
    a, b = places // np.uint64(right), places % np.uint64(right)
    for turn in range(_ROUNDS):
        if turn % 2:
            a = (a + scrambled(keys ^ (b + np.uint64(turn << 56)))) % np.uint64(left)
        else:
            b = (b + scrambled(keys ^ (a + np.uint64(turn << 56)))) % np.uint64(right)
    return a * np.uint64(right) + b
