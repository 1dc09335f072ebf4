"""Sentences with gaps, "The ___ barked" → the words that fit. Knows no files."""

from collections.abc import Sequence

from stelmo.errors import DataError
from stelmo.lm import probabilities as lm
from stelmo.lm.probabilities import Guesses, LanguageModel
from stelmo.settings import StatePolicy

GAP = "___"
ROUNDS = 10  # over the gaps of a sentence, if their best words keep changing


def find(tokens: Sequence[str]) -> list[int]:
    """The positions of the gaps: tokens of three or more underscores, and nothing else."""
    for token in tokens:
        if GAP in token and token.strip("_"):
            raise DataError(f"{token!r}: a gap replaces a whole word; put white space around {GAP}")
    return [position for position, token in enumerate(tokens) if GAP in token]


def fill(
    model: LanguageModel, sentence: Sequence[str], gaps: Sequence[int], k: int = 10, state: StatePolicy | None = None
) -> list[Guesses]:
    """Guesses for every gap. Each gap reads the best words of the others; this is repeated until they do not change."""
    tokens, found = list(sentence), dict[int, Guesses]()
    for _ in range(ROUNDS if len(gaps) > 1 else 1):
        before = list(tokens)
        for gap in gaps:
            found[gap] = lm.guesses(model, model.softmax, tokens, gap, k, state)
            tokens[gap] = found[gap].both[0].word
        if tokens == before:
            break
    return [found[gap] for gap in gaps]
