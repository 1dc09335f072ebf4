"""A vector → its nearest uses of an index, by cosine. Knows no model.   N uses, D width."""

from collections.abc import Sequence
from functools import lru_cache
from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np

from stelmo.explore.index import Ids, Index, Use
from stelmo.explore.mixing import Array, Mix, Vectors, mixed, units

BLOCK_USES = 8192  # mixed at once
FAISS_FROM = 100_000  # uses from which faiss, where installed, keeps the mixed vectors in memory
SPARE = 16  # more than asked for: equal to the last bits, faiss and numpy may order two uses differently


class Hit(NamedTuple):
    use: Use
    similarity: float  # cosine


def nearest(
    index: Index,
    query_D: Array,
    mix: Mix,
    k: int,
    word: str | None = None,
    exclude: Sequence[str] | None = None,
) -> list[Hit]:
    """The k uses most like the query, which is mixed the same way; the best first, equals by their id.

    `word` keeps to the uses of one word, whatever its case; `exclude` leaves out the uses in one sentence, such as
    the query's own.
    """
    left_out = index.ids_in(exclude or ())
    ids_N = _candidates(index, query_D, mix, k + len(left_out), word)
    ids_N = ids_N[~np.isin(ids_N, left_out)]
    similarities_N = similarities(index, ids_N, query_D, mix)
    best = np.lexsort((ids_N, -similarities_N))[:k]
    return [Hit(index.use(int(ids_N[place])), float(similarities_N[place])) for place in best]


def similarities(index: Index, ids_N: Ids, query_D: Array, mix: Mix) -> Vectors:
    """The cosine of each use and the query. Block by block: a large index is never in memory as a whole."""
    unit_D = units(query_D)
    blocks = [ids_N[first : first + BLOCK_USES] for first in range(0, len(ids_N), BLOCK_USES)]
    found = [units(mixed(index.stored(block), mix)) @ unit_D for block in blocks]
    return np.concatenate([np.empty(0, np.float32), *found])


def _candidates(index: Index, query_D: Array, mix: Mix, count: int, word: str | None) -> Ids:
    """Uses among which the nearest are: of a large index those that faiss finds, else all."""
    if word is not None:
        return index.ids_of(word)
    if len(index) < FAISS_FROM or find_spec("faiss") is None:
        return index.ids
    _, rows = _flat(index, mix).search(units(query_D)[None], min(len(index), count + SPARE))
    return np.sort(index.ids[rows[0]])


@lru_cache(maxsize=2)  # the page compares two mixes at most
def _flat(index: Index, mix: Mix) -> Any:
    """All mixed vectors in memory, compared one by one: faiss is faster than numpy, and as exact."""
    import faiss

    flat = faiss.IndexFlatIP(index.width)
    for first in range(0, len(index), BLOCK_USES):
        flat.add(units(mixed(index.stored(index.ids[first : first + BLOCK_USES]), mix)))
    return flat
