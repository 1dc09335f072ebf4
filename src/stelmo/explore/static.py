"""A word → its neighbours without context. Knows no index.   V words, D width."""

from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stelmo.embed.model import Model
from stelmo.errors import ConfigError
from stelmo.explore.index import is_word
from stelmo.explore.mixing import units
from stelmo.store import static as store
from stelmo.store.static import StaticVectors

Array = NDArray[Any]
MODEL_WORDS = 20_000  # the first words of the vocabulary are the most frequent


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


def of_model(model: Model) -> Static:
    """Layer 0, which depends on a word's characters only, for the words of the model's vocabulary."""
    if model.vocabulary is None:
        raise ConfigError("the model has no vocabulary, so it has no static neighbours; give a file of word vectors")
    words = list(islice(filter(is_word, model.vocabulary), MODEL_WORDS))
    return Static(StaticVectors(words, model.token_vectors(words)), lambda word: model.token_vectors([word])[0])


def of_file(path: str | Path) -> Static:
    """A file of static vectors, such as GloVe or word2vec."""
    vectors = store.read(path)

    def vector_of(word: str) -> Array | None:
        row = vectors.row(word)
        return None if row is None else vectors.vectors_VD[row]

    return Static(vectors, vector_of)
