"""The uses of a word → flat maps with clusters, as the page draws them. Knows no HTTP.   N uses, D width."""

from collections.abc import Sequence

import numpy as np

from stelmo.explore import clusters, maps
from stelmo.explore.index import Index, Use
from stelmo.explore.maps import Points
from stelmo.explore.mixing import Array, Mix, mixed
from stelmo.serve import bodies
from stelmo.serve.jobs import Advance


def compute(
    index: Index, asked: bodies.MapRequest, mixes: Sequence[Mix], limit: int, advance: Advance = lambda share: None
) -> bodies.MapAnswer:
    """A map for each mix; the clusters are those of the first. `advance` is told the share that is done."""
    uses = some(index.uses(asked.word), limit)
    layers_NLD = index.layers([use.id for use in uses])
    vectors = [mixed(layers_NLD, mix) for mix in mixes]
    groups = clusters.clusters(vectors[0], asked.clusters, asked.seed)
    flat = [
        maps.flatten(vectors_ND, asked.method, asked.seed, _part(advance, number, len(mixes)))
        for number, vectors_ND in enumerate(vectors)
    ]
    return bodies.MapAnswer(
        word=asked.word,
        uses=[_use(use, int(group)) for use, group in zip(uses, groups, strict=True)],
        maps=[_map(*parts) for parts in zip(asked.mixes, vectors, flat, strict=True)],
        clusters=_clusters(uses, groups.tolist()),
        method=asked.method,
    )


def _part(advance: Advance, number: int, count: int) -> Advance:
    """The progress of one map → of all."""
    return lambda share: advance((number + share) / count)


def some(uses: Sequence[Use], limit: int) -> list[Use]:
    """At most so many, from all over the corpus; the same ones every time."""
    if len(uses) <= limit:
        return list(uses)
    return [uses[place] for place in np.linspace(0, len(uses) - 1, limit).astype(int)]


def _use(use: Use, group: int) -> bodies.MapUse:
    return bodies.MapUse(id=use.id, tokens=list(use.tokens), position=use.position, cluster=group)


def _map(asked: bodies.Mix | str | int, vectors_ND: Array, points_N2: Points) -> bodies.FlatMap:
    trust = maps.trustworthiness(vectors_ND, points_N2)
    return bodies.FlatMap(mix=asked, points=points_N2.round(6).tolist(), trustworthiness=trust)


def _clusters(uses: Sequence[Use], groups: Sequence[int]) -> list[bodies.Cluster]:
    sizes = np.bincount(groups)
    words = clusters.labels(uses, groups)
    return [bodies.Cluster(size=int(size), words=found) for size, found in zip(sizes, words, strict=True)]
