"""Layers of word uses → one vector each; lengths and distances of vectors. Knows no model and no files.

N uses, L layers, D width.
"""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stelmo.config import choose
from stelmo.errors import ConfigError
from stelmo.settings import Layer

Array = NDArray[Any]
Vectors = NDArray[np.float32]


class Mix(NamedTuple):
    """γ · Σ s_l h_l with weights s_0 … s_L used as given, without a softmax: (0, 1, 0) is layer 1 alone."""

    weights: tuple[float, ...]
    gamma: float = 1.0


def of_layer(layer: Layer, depth: int) -> Mix:
    """The mix for one layer ("top", 0 … L), or for the mean of all layers ("mean")."""
    choose("layer", layer, ("mean", "top", *range(depth)))
    if layer == "mean":
        return Mix((1 / depth,) * depth)
    number = depth - 1 if layer == "top" else int(layer)
    return Mix(tuple(float(place == number) for place in range(depth)))


def checked(weights: Sequence[float], gamma: float, depth: int) -> Mix:
    """A requested mix, validated: one finite weight per layer."""
    if len(weights) != depth:
        raise ConfigError(f"mix: {len(weights)} weights; the model has {depth} layers, the token layer included")
    if not all(map(math.isfinite, (*weights, gamma))):
        raise ConfigError(f"mix: weights {list(weights)} and gamma {gamma}; expected finite numbers")
    return Mix(tuple(map(float, weights)), float(gamma))


def mixed(layers_NLD: Array, mix: Mix) -> Vectors:
    """(N, L+1, D) → (N, D) in float32. Layers with weight 0 are not read."""
    assert layers_NLD.shape[1] == len(mix.weights)
    mixed_ND = np.zeros((len(layers_NLD), layers_NLD.shape[2]), np.float32)
    for layer, weight in enumerate(mix.weights):
        if weight:
            mixed_ND += np.float32(mix.gamma * weight) * layers_NLD[:, layer].astype(np.float32)
    return mixed_ND


def units(vectors_ND: Array) -> Vectors:
    """Scaled to length 1, so that dot products are cosines; zero vectors stay zero."""
    lengths_N1 = np.linalg.norm(vectors_ND, axis=-1, keepdims=True)
    units_ND: Vectors = np.zeros_like(vectors_ND, np.float32)
    np.divide(vectors_ND, lengths_N1, out=units_ND, where=lengths_N1 > 0)
    return units_ND


def squared_distances(points_ND: Array) -> Array:
    squares_N = (points_ND**2).sum(1)
    squares_NN: Array = np.maximum(0, squares_N[:, None] + squares_N - 2 * points_ND @ points_ND.T)
    return squares_NN
