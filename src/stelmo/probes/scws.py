"""SCWS ratings file → pairs of words in context; their cosines → rank correlation with human ratings. Knows no model.

A line: number, word, pos, word, pos, context, context (each with its word between <b> and </b>), mean rating, ratings.
A context is several sentences of a paragraph, truncated at both ends; the model reads it as one sentence.
"""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stelmo.errors import DataError
from stelmo.probes.embedding import Occurrence
from stelmo.text.files import LineReader

COLUMNS = 8  # up to the mean; the single ratings after it are not used


class Pair(NamedTuple):
    first: Occurrence
    second: Occurrence
    rating: float
    where: str


def read(path: Path) -> list[Pair]:
    with LineReader(path) as reader:
        pairs = [_pair(line.split("\t"), f"{path}:{number}") for number, line in reader if line.strip()]
    if not pairs:
        raise DataError(f"{path}: no pairs; expected the ratings.txt of SCWS")
    return pairs


def _pair(fields: list[str], where: str) -> Pair:
    if len(fields) < COLUMNS:
        raise DataError(
            f"{where}: {len(fields)} columns; "
            f"SCWS has {COLUMNS} or more (number, word, pos, word, pos, two contexts, mean rating)"
        )
    return Pair(_marked(fields[5], where), _marked(fields[6], where), _rating(fields[7], where), where)


def _rating(field: str, where: str) -> float:
    try:
        rating = float(field)
    except ValueError as error:
        raise DataError(f"{where}: mean rating {field!r}; expected a number") from error
    if not math.isfinite(rating):
        raise DataError(f"{where}: mean rating {field!r}; expected a number from 0 to 10")
    return rating


def _marked(context: str, where: str) -> Occurrence:
    before, opened, rest = context.partition("<b>")
    inside, closed, after = rest.partition("</b>")
    words = inside.split()
    if not (opened and closed and words) or "<b>" in rest:
        raise DataError(f"{where}: the context {context[:40]!r}… has no marked word; expected one between <b> and </b>")
    start = len(before.split())
    return Occurrence((*before.split(), *words, *after.split()), start, start + len(words))


# The probe


def score(pairs: Sequence[Pair], cosine_N: NDArray[Any]) -> dict[str, float]:
    """100 ρ, as usually reported."""
    return {"spearman": 100 * spearman(cosine_N, np.array([pair.rating for pair in pairs]))}


def spearman(a_N: NDArray[Any], b_N: NDArray[Any]) -> float:
    """The correlation of the ranks; NaN if all values of one side are equal."""
    x_N, y_N = (ranks(values_N) - (len(values_N) + 1) / 2 for values_N in (a_N, b_N))
    scale = math.sqrt(float(x_N @ x_N) * float(y_N @ y_N))
    return float(x_N @ y_N) / scale if scale else math.nan


def ranks(values_N: NDArray[Any]) -> NDArray[np.float64]:
    """Ranks from 1; equal values share the mean of their ranks."""
    _, which_N, counts = np.unique(values_N, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    mean_rank: NDArray[np.float64] = last - (counts - 1) / 2
    return mean_rank[which_N.reshape(-1)]
