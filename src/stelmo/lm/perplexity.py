"""A stream of sentences of any length → how surprised the model is, with honest counts. Knows no files.

A sentence of T words makes T+1 predictions in each direction: its words, and </S> forwards or <S> backwards.
Memory holds one block of sentences.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import astuple, dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from stelmo.config import StatePolicy
from stelmo.lm import probabilities as lm
from stelmo.lm.probabilities import LogProbs, Perplexity
from stelmo.text import cut
from stelmo.text.formats import Sentence
from stelmo.text.vocabulary import Vocabulary

if TYPE_CHECKING:
    from stelmo.embed.model import Model

BLOCK_TOKENS = 8192
Advance = Callable[[int], None]  # told the number of tokens finished since the last call


@dataclass(frozen=True)
class Tally:
    """Counts and sums of logarithms over some sentences; tallies add up."""

    sentences: int = 0  # as many predictions of a marker in each direction
    words: int = 0
    unknown: int = 0  # of the words, those outside the vocabulary, which are scored as <UNK>
    forward: float = 0.0  # Σ ln P over all predictions
    backward: float = 0.0
    forward_unknown: float = 0.0  # the part of the unknown words in it
    backward_unknown: float = 0.0

    def __add__(self, other: "Tally") -> "Tally":
        return Tally(*(left + right for left, right in zip(astuple(self), astuple(other), strict=True)))

    @property
    def all(self) -> Perplexity:
        return Perplexity.of(self.forward, self.backward, self.words + self.sentences)

    @property
    def known(self) -> Perplexity:
        """Without the predictions of unknown words, which flatter a model of few words: <UNK> is easy to guess."""
        forward, backward = self.forward - self.forward_unknown, self.backward - self.backward_unknown
        return Perplexity.of(forward, backward, self.words + self.sentences - self.unknown)


class Scored(NamedTuple):
    sentence: Sentence
    tally: Tally


def tally(tokens: Sequence[str], scores: LogProbs, vocabulary: Vocabulary) -> Tally:
    """Of one sentence."""
    unknown_T = np.array([vocabulary.id(token) == vocabulary.unknown for token in tokens], dtype=bool)
    sums = (float(part.sum(dtype=float)) for part in (scores.forward, scores.backward, *scores.tokens[unknown_T].T))
    return Tally(1, len(tokens), int(unknown_T.sum()), *sums)


def scored(
    model: "Model",
    sentences: Iterable[Sentence],
    state: StatePolicy | None = None,
    advance: Advance = lambda tokens: None,
) -> Iterator[Scored]:
    """Every sentence that has words, in order."""
    vocabulary = lm.vocabulary_of(model, model.softmax)
    nonempty = (sentence for sentence in sentences if sentence.tokens)
    for block in cut.by_tokens(nonempty, BLOCK_TOKENS, lambda sentence: len(sentence.tokens)):
        scores = lm.log_probs(model, model.softmax, [sentence.tokens for sentence in block], state)
        advance(sum(len(sentence.tokens) for sentence in block))
        for sentence, score in zip(block, scores, strict=True):
            yield Scored(sentence, tally(sentence.tokens, score, vocabulary))
