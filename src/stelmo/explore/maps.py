"""Vectors → points of a two-dimensional map, and how well it keeps neighbourhoods. Knows no words and no files.

N points, D width. t-SNE (van der Maaten & Hinton 2008) computes every pair in numpy, so that it can report progress and
be cancelled; for the uses of one word that is fast enough.
"""

from collections.abc import Callable
from importlib.util import find_spec
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from stelmo.config import choose
from stelmo.errors import ConfigError

Array = NDArray[Any]
Points = NDArray[np.float64]
Method = Literal["pca", "tsne", "umap"]
METHODS: tuple[Method, ...] = get_args(Method)
Progress = Callable[[float], None]  # called with the fraction done; an exception it raises stops the work

FEWEST = 5  # points: with fewer, neighbourhoods are not meaningful
TSNE_MOST = 3000  # points: time and memory grow with their square
NOISE = 1e-5  # a spread this small, relative to the vectors, is rounding error
PERPLEXITY = 30.0  # t-SNE: roughly how many neighbours count
STEPS, EARLY = 750, 250  # in the early steps attraction is stronger, so that clusters form
EXAGGERATION = 12.0
HALVINGS = 50
TINY = 1e-12


def flatten(vectors_ND: Array, method: Method = "pca", seed: int = 0, advance: Progress = lambda share: None) -> Points:
    """(N, 2), deterministic for the same vectors and seed. Fewer than 5 points are always laid out by PCA."""
    choose("method", method, METHODS)
    vectors_ND = np.asarray(vectors_ND, np.float64)
    if method == "pca" or len(vectors_ND) < FEWEST:
        return pca(vectors_ND)
    if method == "umap":
        return _umap(vectors_ND, seed)
    if len(vectors_ND) > TSNE_MOST:
        raise ConfigError(f"t-SNE: {len(vectors_ND)} points; expected at most {TSNE_MOST}; use fewer uses, or PCA")
    return tsne(vectors_ND, pca(vectors_ND), advance)


def pca(vectors_ND: Array) -> Points:
    """The two directions of greatest variance. On each axis the point farthest from the centre is positive."""
    points_N2 = np.zeros((len(vectors_ND), 2))
    if len(vectors_ND) < 2:
        return points_N2
    centred_ND = vectors_ND - vectors_ND.mean(0)
    left_NR, spread_R, _ = np.linalg.svd(centred_ND, full_matrices=False)
    # Equal vectors stay one point: rounding errors alone would be drawn as a cloud.
    real_R = spread_R > NOISE * np.linalg.norm(vectors_ND)
    for axis in np.flatnonzero(real_R[:2]):
        points_N2[:, axis] = _turned(left_NR[:, axis]) * spread_R[axis]
    return points_N2


def _turned(axis_N: Array) -> Array:
    """Fixes the sign of an axis by its farthest point; among equally far points the first decides."""
    size_N = np.abs(axis_N)
    first = int(np.argmax(size_N >= size_N.max() * (1 - 1e-6)))
    turned_N: Array = axis_N * np.sign(axis_N[first])
    return turned_N


def trustworthiness(high_ND: Array, low_N2: Array, k: int = 5) -> float:
    """1 if all neighbours on the map are true neighbours, lower if some are not (Venna & Kaski 2001, eq. 1).

    For few points k is lowered; with fewer than 3 points the result is 1.
    """
    count = len(high_ND)
    k = min(k, (count - 1) // 2)
    if k < 1:
        return 1.0
    ranks_NN, near_NK = _ranks(_distances(high_ND)), np.argsort(_distances(low_N2), 1, "stable")[:, :k]
    excess_NK = np.maximum(0, np.take_along_axis(ranks_NN, near_NK, 1) - k)
    return float(1 - excess_NK.sum() * 2 / (count * k * (2 * count - 3 * k - 1)))


def _distances(points_ND: Array) -> Array:
    """Squared distances; the diagonal is infinite, so that no point is its own neighbour."""
    squares_NN = squared_distances(np.asarray(points_ND, np.float64))
    np.fill_diagonal(squares_NN, np.inf)
    return squares_NN


def _ranks(distances_NN: Array) -> Array:
    """For each row, the rank of each column by distance, starting at 1."""
    order_NN = np.argsort(distances_NN, 1, "stable")
    ranks_NN = np.empty_like(order_NN)
    np.put_along_axis(ranks_NN, order_NN, np.arange(1, len(order_NN) + 1)[None], 1)
    return ranks_NN


def methods() -> tuple[Method, ...]:
    """The methods that can be used here: UMAP needs an optional package."""
    return METHODS if find_spec("umap") else tuple(method for method in METHODS if method != "umap")


def _umap(vectors_ND: Array, seed: int) -> Points:
    try:
        import umap
    except ImportError:
        raise ConfigError("UMAP is not installed: pip install 'stelmo[umap]'; PCA and t-SNE are available") from None
    near = min(15, len(vectors_ND) - 1)
    mapper = umap.UMAP(n_neighbors=near, random_state=seed, n_jobs=1, init="pca")
    return np.asarray(mapper.fit_transform(vectors_ND), np.float64)


def tsne(vectors_ND: Array, start_N2: Points, advance: Callable[[float], None] = lambda share: None) -> Points:
    """(N, 2), starting from another map; deterministic. `advance` is called with the fraction done."""
    wanted_NN = affinities(vectors_ND)
    points_N2 = 1e-4 * start_N2 / max(TINY, start_N2[:, 0].std())
    speed_N2, gain_N2 = np.zeros_like(points_N2), np.ones_like(points_N2)
    rate = max(50.0, len(points_N2) / EXAGGERATION / 4)
    for step in range(STEPS):
        early = step < EARLY
        gradient_N2 = tsne_gradient(wanted_NN * (EXAGGERATION if early else 1.0), points_N2)
        gain_N2 = np.where(speed_N2 * gradient_N2 < 0, gain_N2 + 0.2, np.maximum(0.01, gain_N2 * 0.8))
        speed_N2 = (0.5 if early else 0.8) * speed_N2 - rate * gain_N2 * gradient_N2
        points_N2 = points_N2 + speed_N2
        advance((step + 1) / STEPS)
    centred_N2: Points = points_N2 - points_N2.mean(0)
    return centred_N2


def affinities(vectors_ND: Array) -> Array:
    """P: the affinity of each pair; sums to 1 (eq. 1, symmetrised)."""
    squares_NN = squared_distances(vectors_ND)
    squares_NN /= max(TINY, squares_NN.mean())
    aim = np.log(min(PERPLEXITY, (len(squares_NN) - 1) / 3))
    p_NN = np.stack([_row(row_N, place, aim) for place, row_N in enumerate(squares_NN)])
    symmetric_NN: Array = np.maximum(TINY, (p_NN + p_NN.T) / (2 * len(p_NN)))
    return symmetric_NN


def _row(squares_N: Array, place: int, aim: float) -> Array:
    """Affinities by a Gaussian whose width gives the target entropy, found by bisection."""
    low, high, sharpness = 0.0, np.inf, 1.0
    others_N = np.delete(squares_N, place)
    for _ in range(HALVINGS):
        p_N = np.exp(-sharpness * (others_N - others_N.min()))
        p_N /= p_N.sum()
        entropy = -float(p_N @ np.log(np.maximum(p_N, TINY)))
        low, high = (sharpness, high) if entropy > aim else (low, sharpness)
        sharpness = sharpness * 2 if high == np.inf else (low + high) / 2
    return np.insert(p_N, place, 0.0)


def tsne_gradient(wanted_NN: Array, points_N2: Points) -> Points:
    """The gradient of the divergence between the map's affinities Q and P (eq. 5)."""
    near_NN = 1 / (1 + squared_distances(points_N2))
    np.fill_diagonal(near_NN, 0)
    pull_NN = (wanted_NN - near_NN / near_NN.sum()) * near_NN
    found: Points = 4 * (pull_NN.sum(1)[:, None] * points_N2 - pull_NN @ points_N2)
    return found


def squared_distances(points_ND: Array) -> Array:
    squares_N = (points_ND**2).sum(1)
    squares_NN: Array = np.maximum(0, squares_N[:, None] + squares_N - 2 * points_ND @ points_ND.T)
    return squares_NN
