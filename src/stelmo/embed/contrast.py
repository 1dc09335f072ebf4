"""One word in several sentences → how similar its uses are to each other, layer by layer.

U uses, L layers, the token layer included, D width of a vector.
"""

from collections import Counter
from collections.abc import Sequence
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
FREQUENT = 100  # words of the vocabulary at most that are too frequent to compare; of a small one, a hundredth


class Pair(NamedTuple):
    """Two uses of the word, by the numbers of their sentences, from 0."""

    first: int
    second: int
    cosines_L: Array


class Contrast(NamedTuple):
    word: str
    pairs: list[Pair]  # the most similar in `layer` first
    layer: int  # the one that separates the uses most

    @property
    def separation(self) -> float:
        """How much more similar the first pair is than the last, in `layer`; of a single pair 0."""
        return float(self.pairs[0].cosines_L[self.layer] - self.pairs[-1].cosines_L[self.layer])


def shared_word(sentences: Sequence[Sequence[str]], vocabulary: Sequence[str] | None) -> str | None:
    """The word that most sentences have in common, once in each; of several the rarest (or longest). None: no word.

    A vocabulary is in order of frequency. Its first words, such as "the", say little about a sentence and are ignored.
    """
    counts = Counter(word for tokens in sentences for word, times in Counter(tokens).items() if times == 1)
    frequent = frozenset((vocabulary or ())[: min(FREQUENT, len(vocabulary or ()) // 100)])
    found = [word for word, times in counts.items() if times > 1 and word.isalpha() and word not in frequent]
    ranks = {word: rank for rank, word in enumerate(vocabulary or ())}
    return max(found, key=lambda word: (counts[word], ranks.get(word, len(ranks)), len(word)), default=None)


def contrast(word: str, sentences: Sequence[Sequence[str]], layers: Sequence[Array]) -> Contrast:
    """Compare the uses of a word in the sentences that have it once; `layers` has (L, T, D) of every sentence.

    The layer that separates the uses most is the one with the widest range of cosines; of two uses, the one where they
    are least similar.
    """
    numbers = [number for number, tokens in enumerate(sentences) if list(tokens).count(word) == 1]
    uses_ULD = np.stack([layers[number][:, list(sentences[number]).index(word)] for number in numbers]).astype(float)
    uses_ULD /= np.maximum(np.linalg.norm(uses_ULD, axis=2, keepdims=True), 1e-12)
    cosines_LUU = np.einsum("uld,vld->luv", uses_ULD, uses_ULD)
    places = list(combinations(range(len(numbers)), 2))
    pairs = [Pair(numbers[first], numbers[second], cosines_LUU[:, first, second]) for first, second in places]
    cosines_LP = np.stack([pair.cosines_L for pair in pairs], 1)
    layer = int(np.argmax(np.ptp(cosines_LP, axis=1) if len(pairs) > 1 else -cosines_LP[:, 0]))
    return Contrast(word, sorted(pairs, key=lambda pair: -pair.cosines_L[layer]), layer)
