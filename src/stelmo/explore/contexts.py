"""Uses of a word → vectors of the words around them, by which meanings separate. Knows no files.

N uses, V words of the vocabulary, P projection.

A word's vector is its row of the language model's softmax: words that are predicted in the same places have similar
rows. The mean row and the direction that all rows share most are removed (Mu & Viswanath 2018, "All-but-the-Top"). A
use is the weighted mean of the words of its sentence, the use itself left out; a frequent word has a small weight
(Arora et al. 2017), estimated from its rank, because a vocabulary has the most frequent words first.
"""

from collections.abc import Sequence

import numpy as np

from stelmo.embed.model import Model
from stelmo.explore.index import Use, is_word
from stelmo.explore.mixing import Array, Vectors, units
from stelmo.text.vocabulary import Vocabulary

HALF = 300  # the rank of a word that has half the weight of a rare one
SHARED_FROM = 20_000  # words from which the shared direction is estimated


class Contexts:
    """The words of a language model, as vectors of the contexts in which they stand."""

    def __init__(self, vocabulary: Vocabulary, rows_VP: Array) -> None:
        self._words = vocabulary
        centred_VP = np.asarray(rows_VP, np.float32) - rows_VP.mean(0, dtype=np.float32)
        frequent_UP = units(centred_VP[:SHARED_FROM])
        shared_P = np.linalg.eigh(frequent_UP.T @ frequent_UP)[1][:, -1]
        self._units_VP = units(centred_VP - np.outer(centred_VP @ shared_P, shared_P))

    def vectors(self, uses: Sequence[Use]) -> Vectors:
        """(N, P), of length 1; zeros for a use without a known word around it."""
        found_NP = np.zeros((len(uses), self._units_VP.shape[1]), np.float32)
        for use, found_P in zip(uses, found_NP, strict=True):
            own = use.word.lower()
            words = [token for token in use.tokens if is_word(token) and token.lower() != own]
            ids = np.array([self._words.id(word) for word in map(self._spelling, words) if word], np.int64)
            found_P += (ids / (ids + HALF)) @ self._units_VP[ids]
        return units(found_NP)

    def _spelling(self, token: str) -> str | None:
        """The token as the vocabulary has it, in lower case if need be; None for an unknown word."""
        return next((word for word in (token, token.lower()) if word in self._words), None)


def of_model(model: Model) -> Contexts | None:
    """None if the model has no softmax or no vocabulary: then uses are grouped by their layers."""
    if model.vocabulary is None or model.saved().read_softmax is None:
        return None
    return Contexts(model.vocabulary, model.softmax.weight.detach().cpu().numpy())
