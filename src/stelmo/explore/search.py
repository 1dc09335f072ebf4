"""A vector, or a word in its sentence → the nearest uses in an index, by cosine; a word → its static neighbours.

N uses, V words, D width.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from stelmo.embed.model import Model
from stelmo.errors import ConfigError, DataError
from stelmo.explore.index import Ids, Index, Use, is_word
from stelmo.explore.mixing import Array, Mix, Vectors, mixed, of_layer, units
from stelmo.settings import Layer
from stelmo.store import static
from stelmo.store.static import StaticVectors

BLOCK_USES = 8192  # uses mixed at once
FAISS_FROM = 100_000  # uses; from here on faiss, if installed, keeps the mixed vectors in memory
SPARE = 16  # extra candidates: faiss and numpy may order nearly equal uses differently
MODEL_WORDS = 20_000  # the first words of the vocabulary are the most frequent


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
    """The k uses most similar to the query, which must be mixed the same way; best first, ties by id.

    `word` restricts the search to the uses of one word, ignoring case; `exclude` leaves out the uses in one sentence,
    such as the query's own.
    """
    left_out = index.ids_in(exclude or ())
    ids_N = _candidates(index, query_D, mix, k + len(left_out), word)
    ids_N = ids_N[~np.isin(ids_N, left_out)]
    similarities_N = similarities(index, ids_N, query_D, mix)
    best = np.lexsort((ids_N, -similarities_N))[:k]
    return [Hit(index.use(int(ids_N[place])), float(similarities_N[place])) for place in best]


def nearest_by_layer(
    model: Model,
    index: Index,
    tokens: Sequence[str],
    position: int,
    layers: Sequence[Layer],
    k: int,
    word: str | None = None,
) -> dict[Layer, list[Hit]]:
    """For each layer, the k uses most similar to one word of a sentence; uses in that sentence are left out."""
    layers_NLD = model.layers([tokens])[0][:, position][None]
    found = {}
    for layer in layers:
        mix = of_layer(layer, index.depth)
        found[layer] = nearest(index, mixed(layers_NLD, mix)[0], mix, k, word, exclude=tokens)
    return found


def find_word(word: str, sentences: Sequence[list[str]]) -> tuple[list[str], int]:
    """The first sentence that contains the word, and its position; an exact match wins over one in another case."""
    for same in (str.__str__, str.lower):
        for tokens in sentences:
            written = [same(token) for token in tokens]
            if same(word) in written:
                return tokens, written.index(same(word))
    shown = " ".join(token for tokens in sentences for token in tokens)
    raise DataError(f"{word!r} is not a token of {shown!r:.80}; give a word as it appears there after tokenising")


def similarities(index: Index, ids_N: Ids, query_D: Array, mix: Mix) -> Vectors:
    """The cosine of each use with the query, block by block: a large index is never in memory as a whole."""
    unit_D = units(query_D)
    blocks = [ids_N[first : first + BLOCK_USES] for first in range(0, len(ids_N), BLOCK_USES)]
    found = [units(index.mixed(block, mix)) @ unit_D for block in blocks]
    return np.concatenate([np.empty(0, np.float32), *found])


def _candidates(index: Index, query_D: Array, mix: Mix, count: int, word: str | None) -> Ids:
    """The uses to compare: those that faiss finds in a large index, otherwise all."""
    if word is not None:
        return index.ids_of(word)
    if len(index) < FAISS_FROM or find_spec("faiss") is None:
        return index.ids
    _, rows = _flat(index, mix).search(units(query_D)[None], min(len(index), count + SPARE))
    return np.sort(index.ids[rows[0]])


@lru_cache(maxsize=2)  # the page compares at most two mixes
def _flat(index: Index, mix: Mix) -> Any:
    """All mixed vectors in memory, for exhaustive search: faiss is faster than numpy and equally exact."""
    import faiss

    flat = faiss.IndexFlatIP(index.width)
    for first in range(0, len(index), BLOCK_USES):
        flat.add(units(index.mixed(index.ids[first : first + BLOCK_USES], mix)))
    return flat


class Static:
    """One vector per word, the same in every context."""

    def __init__(self, vectors: StaticVectors, vector_of: Callable[[str], Array | None]) -> None:
        self._words, self._vector_of = vectors.words, vector_of
        self._units_VD = units(vectors.vectors_VD)

    def neighbours(self, word: str, k: int) -> list[tuple[str, float]]:
        """The k most similar words with their cosines, best first; empty for a word without a vector."""
        vector_D = self._vector_of(word)
        if vector_D is None:
            return []
        similarities_V = self._units_VD @ units(vector_D)
        best = (int(row) for row in np.argsort(-similarities_V, kind="stable"))
        others = (row for row in best if self._words[row] != word)
        return [(self._words[row], float(similarities_V[row])) for row in islice(others, k)]


def static_of_model(model: Model) -> Static:
    """Layer 0, which depends on a word's characters only, for the words of the model's vocabulary."""
    if model.vocabulary is None:
        raise ConfigError("the model has no vocabulary, so it has no static neighbours; give a file of word vectors")
    words = list(islice(filter(is_word, model.vocabulary), MODEL_WORDS))
    return Static(StaticVectors(words, model.token_vectors(words)), lambda word: model.token_vectors([word])[0])


def static_of_file(path: str | Path) -> Static:
    """A file of static vectors, such as GloVe or word2vec."""
    vectors = static.read(path)

    def vector_of(word: str) -> Array | None:
        row = vectors.row(word)
        return None if row is None else vectors.vectors_VD[row]

    return Static(vectors, vector_of)
