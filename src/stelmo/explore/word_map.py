"""A word of an index → its map: uses as points, groups, nearest uses, and the place of a new sentence. Knows no server.

N uses, L layers, D width.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stelmo.explore import clusters, maps
from stelmo.explore.contexts import Contexts
from stelmo.explore.index import Index, Use
from stelmo.explore.mixing import Mix, mixed, units

Array = NDArray[Any]
Near = list[tuple[int, float]]  # uses by their place in the list of uses, with their cosines; the nearest first

EXAMPLES = 3  # of a group
AROUND = 5  # nearest uses whose middle is the place of a new use on a map that is not linear


class Placed(NamedTuple):
    """A use that is not in the index, on a map of uses that are."""

    point: tuple[float, float]
    near: Near


class FlatMap(NamedTuple):
    points_N2: maps.Points
    trustworthiness: float
    near: list[Near]  # of each use; empty if not asked for
    own: Placed | None


class WordMap(NamedTuple):
    total: int  # uses in the index
    uses: list[Use]  # those on the map
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
    method: maps.Method = "pca",
    groups: int | None = None,
    limit: int = 500,
    seed: int = 0,
    near: int = 0,
    own_LD: Array | None = None,
    advance: Callable[[float], None] = lambda share: None,
) -> WordMap:
    """A map for each mix. Of more than `limit` uses a sample is shown.

    The groups are those of the words around the uses; without `contexts`, those of the first mix. `near` is the number
    of nearest uses listed for each use. `own_LD` are the layers of one more use, which is placed on the maps without
    changing them. `advance` is called with the fraction done.
    """
    ids = index.ids_of(word)
    uses = [index.use(int(id)) for id in _sample(ids.tolist(), limit)]
    layers_NLD = index.layers([use.id for use in uses])
    vectors = [mixed(layers_NLD, mix) for mix in mixes]
    grouped_ND = contexts.vectors(uses) if contexts else vectors[0]
    groups_N = clusters.clusters(grouped_ND, groups, seed)
    flat = []
    for number, (vectors_ND, mix) in enumerate(zip(vectors, mixes, strict=True)):

        def share(done: float, number: int = number) -> None:
            advance((number + done) / len(mixes))

        points_N2 = maps.flatten(vectors_ND, method, seed, share)
        own = None
        if own_LD is not None:
            own = place(vectors_ND, points_N2, mixed(own_LD[None], mix)[0], method, max(near, 1))
        trust = maps.trustworthiness(vectors_ND, points_N2)
        flat.append(FlatMap(points_N2, trust, nearest(vectors_ND, near), own))
    examples = clusters.central(grouped_ND, groups_N, EXAMPLES)
    return WordMap(len(ids), uses, groups_N, clusters.labels(uses, groups_N), examples, flat)


def nearest(vectors_ND: Array, k: int) -> list[Near]:
    """For each use its k nearest others by cosine; ties by their place. An empty list if k is 0."""
    if not k:
        return []
    units_ND = units(vectors_ND)
    cosines_NN = units_ND @ units_ND.T
    np.fill_diagonal(cosines_NN, -np.inf)
    return [_best(cosines_N, min(k, len(vectors_ND) - 1)) for cosines_N in cosines_NN]


def place(vectors_ND: Array, points_N2: maps.Points, query_D: Array, method: maps.Method, k: int) -> Placed:
    """Where a further vector falls on a map, and its k nearest uses.

    PCA is linear, so the vector is projected onto the same two directions. Other methods have no such function: there
    it is drawn in the middle of its nearest uses.
    """
    cosines_N = units(vectors_ND) @ units(query_D)
    if method == "pca" or len(vectors_ND) < maps.FEWEST:
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


def _sample(ids: Sequence[int], limit: int) -> list[int]:
    """At most `limit` of them, evenly spread; always the same ones."""
    if len(ids) <= limit:
        return list(ids)
    return [ids[place] for place in np.linspace(0, len(ids) - 1, limit).astype(int)]
