"""Vectors → a flat map that keeps neighbours together (t-SNE, van der Maaten & Hinton 2008). Knows no words.

N points, D width. Every pair is computed, in numpy, so that the work can tell how far it is and be ended: for
the uses of one word that is quick enough.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Points = NDArray[np.float64]

PERPLEXITY = 30.0  # how many neighbours count, about
STEPS, EARLY = 750, 250  # in the early ones attraction is stronger, so that clusters form
EXAGGERATION = 12.0
HALVINGS = 50
TINY = 1e-12


def flatten(vectors_ND: Array, start_N2: Points, advance: Callable[[float], None] = lambda share: None) -> Points:
    """(N, 2), from a first map on; the same for the same input. `advance` is told the share done."""
    wanted_NN = affinities(vectors_ND)
    points_N2 = 1e-4 * start_N2 / max(TINY, start_N2[:, 0].std())
    speed_N2, gain_N2 = np.zeros_like(points_N2), np.ones_like(points_N2)
    rate = max(50.0, len(points_N2) / EXAGGERATION / 4)
    for step in range(STEPS):
        early = step < EARLY
        gradient_N2 = gradient(wanted_NN * (EXAGGERATION if early else 1.0), points_N2)
        gain_N2 = np.where(speed_N2 * gradient_N2 < 0, gain_N2 + 0.2, np.maximum(0.01, gain_N2 * 0.8))
        speed_N2 = (0.5 if early else 0.8) * speed_N2 - rate * gain_N2 * gradient_N2
        points_N2 = points_N2 + speed_N2
        advance((step + 1) / STEPS)
    centred_N2: Points = points_N2 - points_N2.mean(0)
    return centred_N2


def affinities(vectors_ND: Array) -> Array:
    """P: how much each pair belongs together; sums to 1 (eq. 1, made symmetric)."""
    squares_NN = squared_distances(vectors_ND)
    squares_NN /= max(TINY, squares_NN.mean())
    aim = np.log(min(PERPLEXITY, (len(squares_NN) - 1) / 3))
    p_NN = np.stack([_row(row_N, place, aim) for place, row_N in enumerate(squares_NN)])
    symmetric_NN: Array = np.maximum(TINY, (p_NN + p_NN.T) / (2 * len(p_NN)))
    return symmetric_NN


def _row(squares_N: Array, place: int, aim: float) -> Array:
    """Neighbours by a Gaussian as wide as the entropy asks for, found by halving."""
    low, high, sharpness = 0.0, np.inf, 1.0
    others_N = np.delete(squares_N, place)
    for _ in range(HALVINGS):
        p_N = np.exp(-sharpness * (others_N - others_N.min()))
        p_N /= p_N.sum()
        entropy = -float(p_N @ np.log(np.maximum(p_N, TINY)))
        low, high = (sharpness, high) if entropy > aim else (low, sharpness)
        sharpness = sharpness * 2 if high == np.inf else (low + high) / 2
    return np.insert(p_N, place, 0.0)


def gradient(wanted_NN: Array, points_N2: Points) -> Points:
    """Of the divergence of the map's affinities Q from P (eq. 5)."""
    near_NN = 1 / (1 + squared_distances(points_N2))
    np.fill_diagonal(near_NN, 0)
    pull_NN = (wanted_NN - near_NN / near_NN.sum()) * near_NN
    found: Points = 4 * (pull_NN.sum(1)[:, None] * points_N2 - pull_NN @ points_N2)
    return found


def squared_distances(points_ND: Array) -> Array:
    squares_N = (points_ND**2).sum(1)
    squares_NN: Array = np.maximum(0, squares_N[:, None] + squares_N - 2 * points_ND @ points_ND.T)
    return squares_NN
