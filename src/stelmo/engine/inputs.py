"""Sentences as a caller passes them → checked lists of tokens or character ids, or one clear error. Knows no model."""

from collections.abc import Iterable, Sequence
from typing import Any

from torch import Tensor

from stelmo.errors import DataError
from stelmo.text import chars

Sentences = Iterable[Sequence[str]]
WAY_OUT = "split raw text with stelmo.tokenize(text) first"


def checked(sentences: Sentences) -> list[Sequence[str]]:
    """The sentences, each a sequence of strings. A sentence may be empty."""
    if isinstance(sentences, str | bytes):
        raise DataError(f"{_shown(sentences)} is a string; expected sentences as lists of tokens; {WAY_OUT}")
    try:
        found = [_listed(sentence) for sentence in sentences]
    except TypeError:
        raise DataError(f"{_shown(sentences)} is not a list of sentences; {WAY_OUT}") from None
    for number, sentence in enumerate(found):
        _check_sentence(number, sentence)
    return found


def _check_sentence(number: int, sentence: Any) -> None:
    if isinstance(sentence, str | bytes):
        raise DataError(
            f"sentence {number} is the string {_shown(sentence)}; expected a list of tokens "
            f"(pass a single sentence as [tokens]); {WAY_OUT}"
        )
    if not isinstance(sentence, Sequence):
        raise DataError(f"sentence {number} is {_shown(sentence)}; expected a list of tokens")
    for position, token in enumerate(sentence):
        if not isinstance(token, str):
            raise DataError(f"sentence {number}, token {position} is {_shown(token)}; tokens are strings")


def checked_ids(ids_BTC: Tensor, width: int) -> Tensor:
    """Character ids of sentences without markers, as `chars.encode_sentences` makes them."""
    if ids_BTC.dim() != 3 or ids_BTC.shape[2] != width or not ids_BTC.shape[0]:
        raise DataError(
            f"ids of shape {tuple(ids_BTC.shape)}; expected character ids (B, T, {width}) of at least one sentence"
        )
    if ids_BTC.numel() and not 0 <= int(ids_BTC.min()) <= int(ids_BTC.max()) < chars.ROWS:
        raise DataError(f"ids hold {int(ids_BTC.min())} … {int(ids_BTC.max())}; character ids are 0 … {chars.ROWS - 1}")
    there_BT = (ids_BTC > 0).any(-1)
    if bool((there_BT[:, 1:] & ~there_BT[:, :-1]).any()):
        raise DataError("ids with a row of zeros inside a sentence; zeros are allowed only past a sentence's end")
    return ids_BTC.long()


def _listed(sentence: Any) -> Any:
    """A NumPy array or a pandas Series of tokens → a list; anything else as it is."""
    one_axis = getattr(sentence, "ndim", None) == 1 and not isinstance(sentence, Tensor)
    return sentence.tolist() if one_axis else sentence


def _shown(value: object) -> str:
    text = repr(value)
    return f"{type(value).__name__} {text if len(text) <= 40 else text[:37] + '...'}"
