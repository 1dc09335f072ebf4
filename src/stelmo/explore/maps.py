"""Vectors → points of a flat map, and how far to believe it. Knows no words and no files.   N points, D width."""

from collections.abc import Callable
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from stelmo.config import choose
from stelmo.errors import ConfigError
from stelmo.explore import tsne

Array = NDArray[Any]
Points = NDArray[np.float64]
Method = Literal["pca", "tsne", "umap"]
METHODS: tuple[Method, ...] = get_args(Method)
Progress = Callable[[float], None]  # told the share that is done; what it raises ends the work

FEWEST = 5  # points for which neighbourhoods mean something
TSNE_MOST = 3000  # points: time and memory grow with their square
NOISE = 1e-5  # a spread this small, against the vectors themselves, is rounding


def flatten(vectors_ND: Array, method: Method = "pca", seed: int = 0, advance: Progress = lambda share: None) -> Points:
    """(N, 2): the same for the same vectors and seed. Fewer than 5 points are laid out by PCA, whatever the method."""
    choose("method", method, METHODS)
    vectors_ND = np.asarray(vectors_ND, np.float64)
    if method == "pca" or len(vectors_ND) < FEWEST:
        return pca(vectors_ND)
    if method == "umap":
        return _umap(vectors_ND, seed)
    if len(vectors_ND) > TSNE_MOST:
        raise ConfigError(f"t-SNE of {len(vectors_ND)} points; at most {TSNE_MOST}, else take fewer uses, or PCA")
    return tsne.flatten(vectors_ND, pca(vectors_ND), advance)


def pca(vectors_ND: Array) -> Points:
    """The two directions of the greatest variance; in each the point farthest from the middle is on the right side."""
    points_N2 = np.zeros((len(vectors_ND), 2))
    if len(vectors_ND) < 2:
        return points_N2
    centred_ND = vectors_ND - vectors_ND.mean(0)
    left_NR, spread_R, _ = np.linalg.svd(centred_ND, full_matrices=False)
    # Equal vectors stay one point: rounding alone would be drawn as a cloud.
    real_R = spread_R > NOISE * np.linalg.norm(vectors_ND)
    for axis in np.flatnonzero(real_R[:2]):
        points_N2[:, axis] = _turned(left_NR[:, axis]) * spread_R[axis]
    return points_N2


def _turned(axis_N: Array) -> Array:
    """An axis has no sign of its own; of several points equally far the first decides."""
    size_N = np.abs(axis_N)
    first = int(np.argmax(size_N >= size_N.max() * (1 - 1e-6)))
    turned_N: Array = axis_N * np.sign(axis_N[first])
    return turned_N


def trustworthiness(high_ND: Array, low_N2: Array, k: int = 5) -> float:
    """1: all neighbours on the map are neighbours; lower: strangers lie side by side (Venna & Kaski 2001, eq. 1).

    Of few points k is lowered to what they allow; of fewer than 3 there is nothing to doubt.
    """
    count = len(high_ND)
    k = min(k, (count - 1) // 2)
    if k < 1:
        return 1.0
    ranks_NN, near_NK = _ranks(_distances(high_ND)), np.argsort(_distances(low_N2), 1, "stable")[:, :k]
    strangers_NK = np.maximum(0, np.take_along_axis(ranks_NN, near_NK, 1) - k)
    return float(1 - strangers_NK.sum() * 2 / (count * k * (2 * count - 3 * k - 1)))


def _distances(points_ND: Array) -> Array:
    """Squared, and infinite to oneself: nobody is his own neighbour."""
    squares_NN = tsne.squared_distances(np.asarray(points_ND, np.float64))
    np.fill_diagonal(squares_NN, np.inf)
    return squares_NN


def _ranks(distances_NN: Array) -> Array:
    """For each row, how manyth nearest each column is, from 1."""
    order_NN = np.argsort(distances_NN, 1, "stable")
    ranks_NN = np.empty_like(order_NN)
    np.put_along_axis(ranks_NN, order_NN, np.arange(1, len(order_NN) + 1)[None], 1)
    return ranks_NN


def _umap(vectors_ND: Array, seed: int) -> Points:
    try:
        import umap
    except ImportError:
        raise ConfigError("UMAP is not installed: pip install 'stelmo[umap]'; PCA and t-SNE are there") from None
    near = min(15, len(vectors_ND) - 1)
    mapper = umap.UMAP(n_neighbors=near, random_state=seed, n_jobs=1, init="pca")
    return np.asarray(mapper.fit_transform(vectors_ND), np.float64)
