"""Finding uses and words: nearest uses in an index, static neighbours, suggested words, words spelled alike.

N uses, V words, D width. Suggested words are those whose uses separate well. They are computed when an index is made,
and kept in its folder.
"""

from collections.abc import Callable, Sequence
from difflib import SequenceMatcher
from functools import lru_cache
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from pydantic import ValidationError

from stelmo.config import Settings
from stelmo.embed.model import Model
from stelmo.errors import ConfigError, DataError
from stelmo.explore import clusters
from stelmo.explore.contexts import Contexts, of_model
from stelmo.explore.index import Ids, Index, Use, is_word, spread
from stelmo.explore.mixing import Array, Mix, Vectors, mixed, of_layer, squared_distances, units
from stelmo.settings import Layer
from stelmo.store import atomic, static
from stelmo.store import uses as store
from stelmo.store.static import StaticVectors

BLOCK_USES = 8192  # uses mixed at once
FAISS_FROM = 100_000  # uses; from here on faiss, if installed, keeps the mixed vectors in memory
SPARE = 16  # extra candidates: faiss and numpy may order nearly equal uses differently
MODEL_WORDS = 20_000  # the first words of the vocabulary are the most frequent
CANDIDATES = 120  # most frequent words among which the suggested ones are chosen
FEWEST = 20  # uses of a candidate: fewer do not show a meaning
ENOUGH = 60  # uses of a candidate that are compared
SMALLEST = 0.15  # of the uses in the smaller group: otherwise it consists of outliers
KEPT = 30  # suggested words that the folder of an index keeps
KNOWN = 50_000  # most frequent words among which a spelling is looked up
ALIKE = 0.6  # ratio of matching letters from which two spellings are similar


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
    if word is not None:
        ids_N = index.ids_of(word)
    elif len(index) < FAISS_FROM or find_spec("faiss") is None:
        ids_N = index.ids
    else:
        candidates = min(len(index), k + len(left_out) + SPARE)
        _, rows = _flat(index, mix).search(units(query_D)[None], candidates)
        ids_N = np.sort(index.ids[rows[0]])
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


class Suggested(Settings):
    """Suggested words, and the number of uses that they were computed from; another number: they are outdated."""

    uses: int
    words: list[str]


def suggested(index: Index, count: int, contexts: Contexts | None = None) -> list[str]:
    """Words to begin with: those kept with the index, or computed if there are none or the index has changed."""
    kept = _read_suggested(index)
    return separating(index, count, contexts) if kept is None else kept.words[:count]


def keep_suggested(index: Index, model: Model) -> None:
    """Compute the suggested words and keep them in the folder of the index, unless they are there."""
    if _read_suggested(index) is None:
        words = separating(index, KEPT, of_model(model)) if _frequent(index) else []
        with atomic.new_file(index.folder / store.SUGGESTED, overwrite=True) as draft:
            draft.write_text(Suggested(uses=len(index), words=words).model_dump_json() + "\n", encoding="utf-8")


def _read_suggested(index: Index) -> Suggested | None:
    try:
        found = Suggested.model_validate_json((index.folder / store.SUGGESTED).read_bytes())
    except (OSError, ValidationError):  # an index without them, or a damaged file: they are computed again
        return None
    return found if found.uses == len(index) and all(word in index.words for word in found.words) else None


def separating(index: Index, count: int, contexts: Contexts | None = None) -> list[str]:
    """Frequent words of the index; those whose uses separate best into two groups come first.

    Uses are grouped by the words around them; without `contexts`, by the top layer.
    """
    words = _frequent(index)
    scores = {word: _separation(index, word, contexts) for word in words}
    return sorted(words, key=lambda word: -scores[word])[:count]


def _frequent(index: Index) -> list[str]:
    wanted = (word for word in index.words if word.isalpha() and len(word) > 1 and word not in clusters.FUNCTION_WORDS)
    return [word for word in islice(wanted, CANDIDATES) if index.words[word] >= FEWEST]


def _separation(index: Index, word: str, contexts: Contexts | None) -> float:
    """The silhouette of two groups of uses; -1 if one of them is only a few outliers."""
    some = spread(index.ids_of(word).tolist(), ENOUGH)
    if contexts is None:
        vectors_ND = index.mixed(some, of_layer("top", index.depth))
    else:
        vectors_ND = contexts.vectors([index.use(id) for id in some])
    groups_N = clusters.clusters(vectors_ND, 2)
    if np.bincount(groups_N, minlength=2).min() < SMALLEST * len(some):
        return -1.0
    return clusters.silhouette(np.sqrt(squared_distances(clusters.axes(units(vectors_ND)))), groups_N)


def spelled_like(index: Index, word: str, count: int) -> list[str]:
    """The words of the index spelled most like this one, best first; of equally similar ones the more frequent."""
    matcher = SequenceMatcher(b=word.lower(), autojunk=False)
    scores = {}
    for known in islice(index.words, KNOWN):
        matcher.set_seq1(known)
        if matcher.real_quick_ratio() >= ALIKE and matcher.quick_ratio() >= ALIKE and matcher.ratio() >= ALIKE:
            scores[known] = matcher.ratio()
    return sorted(scores, key=lambda known: -scores[known])[:count]
