"""Sentences with gaps, "The ___ barked" → the words that would fit. Knows no files and no probabilities of its own."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from stelmo.config import StatePolicy
from stelmo.errors import DataError
from stelmo.lm import probabilities as lm
from stelmo.lm.probabilities import Guesses

if TYPE_CHECKING:
    from stelmo.embed.model import Model

GAP = "___"
ROUNDS = 10  # over the gaps of a sentence, should their best words never come to rest


def find(tokens: Sequence[str]) -> list[int]:
    """The positions of the gaps: tokens of three or more underscores, and nothing else."""
    for token in tokens:
        if GAP in token and token.strip("_"):
            raise DataError(f"{token!r}: a gap stands for a whole word; leave {GAP} with white space around it")
    return [position for position, token in enumerate(tokens) if GAP in token]


def fill(
    model: "Model", sentence: Sequence[str], gaps: Sequence[int], k: int = 10, state: StatePolicy | None = None
) -> list[Guesses]:
    """Guesses for every gap. Each gap reads the best words of the others, again and again until these stay."""
    tokens, found = list(sentence), dict[int, Guesses]()
    for _ in range(ROUNDS if len(gaps) > 1 else 1):
        before = list(tokens)
        for gap in gaps:
            found[gap] = lm.guesses(model, model.softmax, tokens, gap, k, state)
            tokens[gap] = found[gap].both[0].word
        if tokens == before:
            break
    return [found[gap] for gap in gaps]
