"""BIO tags ↔ labelled spans, and their precision, recall and F1. Knows no files.

BIO   every span begins with B-X and continues with I-X
IOB1  a span begins with I-X, and with B-X only where it touches a span of the same label (CoNLL-2003 as published)
"""

import re
from collections.abc import Callable, Hashable, Iterable, Sequence, Set
from itertools import pairwise
from typing import NamedTuple, Self

_TAG = re.compile(r"O|[BI]-\S+")


class Span(NamedTuple):
    """Tokens start … end-1."""

    start: int
    end: int
    label: str


def is_tag(text: str) -> bool:
    return _TAG.fullmatch(text) is not None


def spans(tags: Sequence[str]) -> list[Span]:
    """The spans of BIO or IOB1 tags, as conlleval reads them: I-X starts a span unless it continues one of X."""
    found: list[Span] = []
    for index, tag in enumerate(tags):
        if tag == "O":
            continue
        if tag.startswith("I-") and found and found[-1].end == index and found[-1].label == tag[2:]:
            found[-1] = found[-1]._replace(end=index + 1)
        else:
            found.append(Span(index, index + 1, tag[2:]))
    return found


def bio(spans: Iterable[Span], length: int) -> list[str]:
    """Spans that do not overlap → the tags of `length` tokens."""
    tags = ["O"] * length
    for start, end, label in spans:
        assert all(tag == "O" for tag in tags[start:end]), f"spans overlap at {start}"
        tags[start:end] = [f"B-{label}", *[f"I-{label}"] * (end - start - 1)]
    return tags


def first_not_bio(tags: Sequence[str]) -> int | None:
    """The first I-X that does not continue a span of X."""
    return _first(tags, lambda before, tag: tag.startswith("I-") and before[2:] != tag[2:])


def first_not_iob1(tags: Sequence[str]) -> int | None:
    """The first B-X that does not directly follow a span of X."""
    return _first(tags, lambda before, tag: tag.startswith("B-") and before[2:] != tag[2:])


def _first(tags: Sequence[str], wrong: Callable[[str, str], bool]) -> int | None:
    return next((index for index, pair in enumerate(pairwise(["O", *tags])) if wrong(*pair)), None)


class Tally(NamedTuple):
    """How many spans were correct, predicted and wanted. The scores are percentages; 0 out of 0 is 0."""

    correct: int = 0
    predicted: int = 0
    wanted: int = 0

    def counting(self, predicted: Set[Hashable], wanted: Set[Hashable]) -> Self:
        """The tally with one more sentence: what is in both sets is correct."""
        return self._replace(
            correct=self.correct + len(predicted & wanted),
            predicted=self.predicted + len(predicted),
            wanted=self.wanted + len(wanted),
        )

    @property
    def fraction(self) -> tuple[float, float]:
        """Numerator and denominator of F1: 2PR/(P+R) equals 2·correct/(predicted + wanted)."""
        return 2.0 * self.correct, float(self.predicted + self.wanted)

    @property
    def precision(self) -> float:
        return 100.0 * self.correct / self.predicted if self.predicted else 0.0

    @property
    def recall(self) -> float:
        return 100.0 * self.correct / self.wanted if self.wanted else 0.0

    @property
    def f1(self) -> float:
        part, whole = self.fraction
        return 100.0 * part / whole if whole else 0.0
