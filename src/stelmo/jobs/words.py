"""A model's vocabulary, or a corpus → a file with one vector for each word. Knows no file format.

P projection, D = 2P. Of a vocabulary: the token layer (P), which depends on the word alone. Of a corpus: the mean over
all places where the word stands (D); one pass, and memory for a sum a word.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from stelmo.config import OutputSettings, WordSettings
from stelmo.embed.model import Array, Model
from stelmo.errors import DataError, ModelError
from stelmo.jobs import run
from stelmo.jobs.run import Advance
from stelmo.store import static
from stelmo.text.chars import BEGIN_SENTENCE, END_SENTENCE
from stelmo.text.formats import Sentence

TOGETHER = 4096  # words of a vocabulary computed at a time


class Written(NamedTuple):
    """What is in the file, and what is not."""

    words: int
    width: int
    rare: int = 0  # words met less often than asked
    unwritable: int = 0  # words with white space in them, which no reader would find
    late: int = 0  # tokens whose word was first met when there was room for no more


def write_vocabulary(model: Model, path: str | Path, overwrite: bool = False) -> Written:
    """The token layer of every word of the model's vocabulary, in its order, without the marks of a sentence."""
    path = Path(path)
    static.refuse_output(path, overwrite)
    if model.vocabulary is None:
        raise ModelError("the model has no vocabulary; name one (vocabulary=…), or give a corpus")
    words = [word for word in model.vocabulary if word not in (BEGIN_SENTENCE, END_SENTENCE)]
    kept = [word for word in words if static.writable(word)]
    width = model.config.lstm.projection
    static.write(path, len(kept), width, _token_rows(model, kept), overwrite)
    return Written(len(kept), width, unwritable=len(words) - len(kept))


def _token_rows(model: Model, words: list[str]) -> Iterator[tuple[str, Array]]:
    for first in range(0, len(words), TOGETHER):
        some = words[first : first + TOGETHER]
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
    """The mean of each word's vectors over the sentences, the commonest word first."""
    path, settings = Path(path), settings or WordSettings()
    static.refuse_output(path, overwrite)
    sums = Sums(settings.max_words)
    for sentence, vectors_TD in run.stream(model, sentences, OutputSettings(layer=settings.layer)):
        sums.add(sentence.tokens, vectors_TD)
        advance(len(sentence.tokens))
    common = [word for word, count in sums.counts.most_common() if count >= settings.min_count]
    kept = [word for word in common if static.writable(word)]
    if not sums.counts:
        raise DataError(f"{path}: the corpus holds no word; nothing written")
    if not kept:
        raise DataError(f"{path}: none of {len(sums.counts)} words comes {settings.min_count} times; nothing written")
    means = ((word, sums.mean(word)) for word in kept)
    static.write(path, len(kept), model.config.width, means, overwrite)
    return Written(len(kept), model.config.width, len(sums.counts) - len(common), len(common) - len(kept), sums.late)


class Sums:
    """For each word, how often it came and the sum of its vectors, in float64: some words come many million times."""

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
