"""Vectors → points of a two-dimensional map; a word of an index → its map, with groups. Knows no server.

N uses or points, L layers, D width. t-SNE (van der Maaten & Hinton 2008) computes every pair in numpy, so that it can
report progress and be cancelled; for the uses of one word that is fast enough.
"""

from collections.abc import Callable, Sequence
from importlib.util import find_spec
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from stelmo.config import choose
from stelmo.errors import ConfigError
from stelmo.explore import clusters
from stelmo.explore.contexts import Contexts
from stelmo.explore.index import Index, Use, spread
from stelmo.explore.mixing import Mix, mixed, squared_distances, units

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
Near = list[tuple[int, float]]  # uses by their place in the list of uses, with their cosines; the nearest first
EXAMPLES = 3  # of a group
AROUND = 5  # nearest uses whose middle is the place of a new use on a map that is not linear


def flatten(vectors_ND: Array, method: Method = "pca", seed: int = 0, advance: Progress = lambda share: None) -> Points:
    """(N, 2), deterministic for the same vectors and seed. Fewer than 5 points are always laid out by PCA."""
    choose("method", method, METHODS)
    vectors_ND = np.asarray(vectors_ND, np.float64)
    if method == "pca" or len(vectors_ND) < FEWEST:
        return pca(vectors_ND)
    if method == "umap":
        try:
            import umap
        except ImportError:
            raise ConfigError(
                "UMAP is not installed: pip install 'stelmo[umap]'; PCA and t-SNE are available"
            ) from None
        near = min(15, len(vectors_ND) - 1)
        mapper = umap.UMAP(n_neighbors=near, random_state=seed, n_jobs=1, init="pca")
        return np.asarray(mapper.fit_transform(vectors_ND), np.float64)
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
        size_N = np.abs(left_NR[:, axis])
        farthest = int(np.argmax(size_N >= size_N.max() * (1 - 1e-6)))  # among equally far points the first
        points_N2[:, axis] = left_NR[:, axis] * np.sign(left_NR[farthest, axis]) * spread_R[axis]
    return points_N2


def trustworthiness(high_ND: Array, low_N2: Array, k: int = 5) -> float:
    """1 if all neighbours on the map are true neighbours, lower if some are not (Venna & Kaski 2001, eq. 1).

    For few points k is lowered; with fewer than 3 points the result is 1.
    """
    count = len(high_ND)
    k = min(k, (count - 1) // 2)
    if k < 1:
        return 1.0
    order_NN = np.argsort(_distances(high_ND), 1, "stable")
    ranks_NN = np.empty_like(order_NN)  # for each row, the rank of each column by distance, starting at 1
    np.put_along_axis(ranks_NN, order_NN, np.arange(1, count + 1)[None], 1)
    near_NK = np.argsort(_distances(low_N2), 1, "stable")[:, :k]
    excess_NK = np.maximum(0, np.take_along_axis(ranks_NN, near_NK, 1) - k)
    return float(1 - excess_NK.sum() * 2 / (count * k * (2 * count - 3 * k - 1)))


def _distances(points_ND: Array) -> Array:
    """Squared distances; the diagonal is infinite, so that no point is its own neighbour."""
    squares_NN = squared_distances(np.asarray(points_ND, np.float64))
    np.fill_diagonal(squares_NN, np.inf)
    return squares_NN


def methods() -> tuple[Method, ...]:
    """The methods that can be used here: UMAP needs an optional package."""
    return METHODS if find_spec("umap") else tuple(method for method in METHODS if method != "umap")


def tsne(vectors_ND: Array, start_N2: Points, advance: Progress = lambda share: None) -> Points:
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


class Placed(NamedTuple):
    """A use that is not in the index, on a map of uses that are."""

    point: tuple[float, float]
    near: Near


class FlatMap(NamedTuple):
    points_N2: Points
    trustworthiness: float
    near: list[Near]  # of each use; empty if not asked for
    own: Placed | None


class WordMap(NamedTuple):
    total: int  # uses in the index
    uses: list[Use]  # those on the map
    columns: dict[str, list[str]]  # of each use, what the columns of the data say
    groups_N: clusters.Groups
    labels: list[list[str]]  # of each group
    examples: list[list[int]]  # of each group the uses nearest to its centre, by their place in `uses`
    maps: list[FlatMap]  # one for each mix


def word_map(
    index: Index,
    word: str,
    mixes: Sequence[Mix],
    *,
    contexts: Contexts | None = None,
    method: Method = "pca",
    groups: int | None = None,
    limit: int = 500,
    seed: int = 0,
    near: int = 0,
    own_LD: Array | None = None,
    advance: Progress = lambda share: None,
) -> WordMap:
    """A map for each mix. Of more than `limit` uses a sample is shown.

    The groups are those of the words around the uses; without `contexts`, those of the first mix. `near` is the number
    of nearest uses listed for each use. `own_LD` are the layers of one more use, which is placed on the maps without
    changing them. `advance` is called with the fraction done.
    """
    ids = index.ids_of(word)
    uses = [index.use(id) for id in spread(ids.tolist(), limit)]
    layers_NLD = index.layers([use.id for use in uses])
    vectors = [mixed(layers_NLD, mix) for mix in mixes]
    grouped_ND = contexts.vectors(uses) if contexts else vectors[0]
    groups_N = clusters.clusters(grouped_ND, groups, seed)
    flat = []
    for number, (vectors_ND, mix) in enumerate(zip(vectors, mixes, strict=True)):

        def share(done: float, number: int = number) -> None:
            advance((number + done) / len(mixes))

        points_N2 = flatten(vectors_ND, method, seed, share)
        own = None
        if own_LD is not None:
            own = place(vectors_ND, points_N2, mixed(own_LD[None], mix)[0], method, max(near, 1))
        trust = trustworthiness(vectors_ND, points_N2)
        flat.append(FlatMap(points_N2, trust, nearest(vectors_ND, near), own))
    examples = clusters.central(grouped_ND, groups_N, EXAMPLES)
    columns = {name: index.values([use.id for use in uses], name) for name in index.columns}
    return WordMap(len(ids), uses, columns, groups_N, clusters.labels(uses, groups_N), examples, flat)


def nearest(vectors_ND: Array, k: int) -> list[Near]:
    """For each use its k nearest others by cosine; ties by their place. An empty list if k is 0."""
    if not k:
        return []
    units_ND = units(vectors_ND)
    cosines_NN = units_ND @ units_ND.T
    np.fill_diagonal(cosines_NN, -np.inf)
    return [_best(cosines_N, min(k, len(vectors_ND) - 1)) for cosines_N in cosines_NN]


def place(vectors_ND: Array, points_N2: Points, query_D: Array, method: Method, k: int) -> Placed:
    """Where a further vector falls on a map, and its k nearest uses.

    PCA is linear, so the vector is projected onto the same two directions. Other methods have no such function: there
    it is drawn in the middle of its nearest uses.
    """
    cosines_N = units(vectors_ND) @ units(query_D)
    if method == "pca" or len(vectors_ND) < FEWEST:
        middle_D = vectors_ND.mean(0, dtype=np.float64)
        along_N = (vectors_ND - middle_D) @ (query_D - middle_D)
        squares_2 = (points_N2**2).sum(0)  # a direction times its spread, squared
        point_2 = np.divide(points_N2.T @ along_N, squares_2, out=np.zeros(2), where=squares_2 > 0)
    else:
        point_2 = points_N2[[use for use, _ in _best(cosines_N, AROUND)]].mean(0)
    return Placed((float(point_2[0]), float(point_2[1])), _best(cosines_N, k))


def _best(cosines_N: Array, k: int) -> Near:
    best = np.argsort(-cosines_N, kind="stable")[:k]
    return [(int(use), round(float(min(1.0, cosines_N[use])), 4)) for use in best]
