"""What a caller passes as sentences → lists of tokens, or one clear refusal. Knows no model."""

from collections.abc import Iterable, Sequence
from typing import Any

from stelmo.errors import DataError

WAY_OUT = "raw text goes through stelmo.tokenize(text) first"


def checked(sentences: Iterable[Sequence[str]]) -> list[Sequence[str]]:
    """The sentences, each a sequence of strings. An empty sentence is fine."""
    if isinstance(sentences, str | bytes):
        raise DataError(f"{_shown(sentences)} is a string; expected sentences as lists of tokens; {WAY_OUT}")
    try:
        found = list(sentences)
    except TypeError:
        raise DataError(f"{_shown(sentences)} is no list of sentences; {WAY_OUT}") from None
    for number, sentence in enumerate(found):
        _check_sentence(number, sentence)
    return found


def _check_sentence(number: int, sentence: Any) -> None:
    if isinstance(sentence, str | bytes):
        raise DataError(
            f"sentence {number} is the string {_shown(sentence)}; expected a list of tokens "
            f"(one sentence alone goes in as [tokens]); {WAY_OUT}"
        )
    if not isinstance(sentence, Sequence):
        raise DataError(f"sentence {number} is {_shown(sentence)}; expected a list of tokens")
    for position, token in enumerate(sentence):
        if not isinstance(token, str):
            raise DataError(f"sentence {number}, token {position} is {_shown(token)}; tokens are strings")


def _shown(value: object) -> str:
    text = repr(value)
    return f"{type(value).__name__} {text if len(text) <= 40 else text[:37] + '...'}"
