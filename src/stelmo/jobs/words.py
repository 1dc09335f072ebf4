"""A model's vocabulary, or a corpus → a file with one vector per word.

P projection, D = 2P. For a vocabulary: the token layer (P), which depends on the word alone. For a corpus: the mean
over all occurrences of the word (D), in one pass, with one sum per word in memory.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from stelmo.embed.model import Array, Model
from stelmo.errors import DataError, ModelError
from stelmo.jobs import run
from stelmo.jobs.run import Advance
from stelmo.settings import OutputSettings, WordSettings
from stelmo.store import static
from stelmo.text.chars import BEGIN_SENTENCE, END_SENTENCE
from stelmo.text.formats import Sentence

WORDS_AT_ONCE = 4096  # of a vocabulary


class Written(NamedTuple):
    """What the file contains and what was left out."""

    words: int
    width: int
    rare: int = 0  # words below the minimum count
    unwritable: int = 0  # words that contain white space, which the format cannot represent
    late: int = 0  # tokens whose word first occurred after `max_words` was reached


def write_vocabulary(model: Model, path: str | Path, overwrite: bool = False) -> Written:
    """The token layer of every word of the model's vocabulary, in its order, without the sentence markers."""
    path = Path(path)
    static.refuse_output(path, overwrite)
    if model.vocabulary is None:
        raise ModelError("the model has no vocabulary; give one (vocabulary=…), or a corpus")
    # Published vocabularies may repeat a word; readers expect every word once.
    words = [word for word in dict.fromkeys(model.vocabulary) if word not in (BEGIN_SENTENCE, END_SENTENCE)]
    kept = [word for word in words if static.writable(word)]
    width = model.config.projection
    static.write(path, len(kept), width, _token_rows(model, kept), overwrite)
    return Written(len(kept), width, unwritable=len(words) - len(kept))


def _token_rows(model: Model, words: list[str]) -> Iterator[tuple[str, Array]]:
    for first in range(0, len(words), WORDS_AT_ONCE):
        some = words[first : first + WORDS_AT_ONCE]
        yield from zip(some, model.token_vectors(some), strict=True)


def write_averages(
    model: Model,
    sentences: Iterable[Sentence],
    path: str | Path,
    settings: WordSettings | None = None,
    *,
    overwrite: bool = False,
    advance: Advance = lambda tokens: None,
) -> Written:
    """The mean of each word's vectors over the sentences, the most frequent word first."""
    path, settings = Path(path), settings or WordSettings()
    static.refuse_output(path, overwrite)
    sums = Sums(settings.max_words)
    for sentence, vectors_TD in run.stream(model, sentences, OutputSettings(layer=settings.layer)):
        sums.add(sentence.tokens, vectors_TD)
        advance(len(sentence.tokens))
    common = [word for word, count in sums.counts.most_common() if count >= settings.min_count]
    kept = [word for word in common if static.writable(word)]
    if not sums.counts:
        raise DataError(f"{path}: the corpus contains no word; nothing written")
    if not kept:
        raise DataError(f"{path}: none of {len(sums.counts)} words occurs {settings.min_count} times; nothing written")
    means = ((word, sums.mean(word)) for word in kept)
    static.write(path, len(kept), model.config.width, means, overwrite)
    return Written(len(kept), model.config.width, len(sums.counts) - len(common), len(common) - len(kept), sums.late)


class Sums:
    """The count and the sum of the vectors of each word, in float64 because some words occur millions of times."""

    def __init__(self, max_words: int) -> None:
        self.counts: Counter[str] = Counter()
        self.late = 0
        self._sums: dict[str, Array] = {}
        self._room = max_words

    def add(self, tokens: list[str], vectors_TD: Array) -> None:
        for word, vector_D in zip(tokens, vectors_TD.astype(np.float64), strict=True):
            if word in self._sums:
                self._sums[word] += vector_D
            elif len(self._sums) < self._room:
                self._sums[word] = vector_D.copy()
            else:
                self.late += 1
                continue
            self.counts[word] += 1

    def mean(self, word: str) -> Array:
        return self._sums[word] / self.counts[word]
