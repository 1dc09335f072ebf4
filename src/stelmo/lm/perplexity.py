"""Log-probabilities → perplexity; and the perplexity of a stream of sentences of any length. Knows no files.

A sentence of T words makes T+1 predictions in each direction: its words, and </S> forwards or <S> backwards.
Only one block of sentences is held in memory.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import astuple, dataclass
from math import exp, inf, sqrt
from typing import NamedTuple

import numpy as np

from stelmo.engine import planning
from stelmo.errors import DataError
from stelmo.lm import probabilities as lm
from stelmo.lm.probabilities import LanguageModel, LogProbs
from stelmo.settings import StatePolicy
from stelmo.text.formats import Sentence
from stelmo.text.ids import Vocabulary

BLOCK_TOKENS = 8192
Advance = Callable[[int], None]  # progress callback: the number of tokens finished since the last call


class Perplexity(NamedTuple):
    """e to the mean negative log-probability of the predictions in each direction."""

    forward: float
    backward: float
    predictions: int  # in each direction

    @property
    def combined(self) -> float:
        """The geometric mean of the two directions, as the paper reports it."""
        return sqrt(self.forward * self.backward)

    @classmethod
    def of(cls, forward: float, backward: float, predictions: int) -> "Perplexity":
        """The perplexity from the sums of the log-probabilities in each direction."""
        return cls(_exp(-forward / predictions), _exp(-backward / predictions), predictions)


def _exp(exponent: float) -> float:
    return exp(exponent) if exponent < 709 else inf  # above that, exp() raises an error


def perplexity(scores: Iterable[LogProbs]) -> Perplexity:
    """The perplexity over all predictions of all sentences: every token and one marker in each direction."""
    found = list(scores)
    if not found:
        raise DataError("perplexity: no sentences; expected at least one")
    forward = sum(float(score.forward.sum(dtype=float)) for score in found)
    backward = sum(float(score.backward.sum(dtype=float)) for score in found)
    return Perplexity.of(forward, backward, sum(len(score.forward) for score in found))


@dataclass(frozen=True)
class Tally:
    """Counts and sums of log-probabilities over some sentences; tallies can be added."""

    sentences: int = 0  # as many predictions of a marker in each direction
    words: int = 0
    unknown: int = 0  # of the words, those outside the vocabulary, which are scored as <UNK>
    forward: float = 0.0  # Σ ln P over all predictions
    backward: float = 0.0
    forward_unknown: float = 0.0  # of that, the part of the unknown words
    backward_unknown: float = 0.0

    def __add__(self, other: "Tally") -> "Tally":
        return Tally(*(left + right for left, right in zip(astuple(self), astuple(other), strict=True)))

    @property
    def all(self) -> Perplexity:
        return Perplexity.of(self.forward, self.backward, self.words + self.sentences)

    @property
    def known(self) -> Perplexity:
        """The perplexity without unknown words, which favour a small vocabulary: <UNK> is easy to predict."""
        forward, backward = self.forward - self.forward_unknown, self.backward - self.backward_unknown
        return Perplexity.of(forward, backward, self.words + self.sentences - self.unknown)


class Scored(NamedTuple):
    sentence: Sentence
    tally: Tally


def tally(tokens: Sequence[str], scores: LogProbs, vocabulary: Vocabulary) -> Tally:
    """The counts and sums of one sentence."""
    unknown_T = np.array([vocabulary.id(token) == vocabulary.unknown for token in tokens], dtype=bool)
    sums = (float(part.sum(dtype=float)) for part in (scores.forward, scores.backward, *scores.tokens[unknown_T].T))
    return Tally(1, len(tokens), int(unknown_T.sum()), *sums)


def scored(
    model: LanguageModel,
    sentences: Iterable[Sentence],
    state: StatePolicy | None = None,
    advance: Advance = lambda tokens: None,
) -> Iterator[Scored]:
    """Every sentence that has words, in order, with its tally."""
    vocabulary = lm.vocabulary_of(model, model.softmax)
    nonempty = (sentence for sentence in sentences if sentence.tokens)
    for block in planning.by_tokens(nonempty, BLOCK_TOKENS, lambda sentence: len(sentence.tokens)):
        scores = lm.log_probs(model, model.softmax, [sentence.tokens for sentence in block], state)
        advance(sum(len(sentence.tokens) for sentence in block))
        for sentence, score in zip(block, scores, strict=True):
            yield Scored(sentence, tally(sentence.tokens, score, vocabulary))
