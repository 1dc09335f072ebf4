"""Spans of a document: candidates, the best of them, and the clusters they form. Knows no network.

W words, K widths.
"""

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor

from stelmo.tasks.coref.data import Clusters, Example, Span

NO_CLUSTER = -1


def candidates(lengths: Sequence[int], widest: int) -> Tensor:
    """(W, K): whether the span of K + 1 words that begins here ends within its sentence."""
    left_W = torch.cat([torch.arange(length, 0, -1) for length in lengths])
    return torch.arange(widest) < left_W[:, None]


def pruned(spans: Sequence[Span], scores: Sequence[float], keep: int) -> list[int]:
    """The positions of the best spans, in document order; a span that crosses a better one is left out."""
    kept: list[int] = []
    crossing = _Crossing()
    for place in sorted(range(len(spans)), key=lambda place: -scores[place]):
        if len(kept) == keep:
            break
        if not crossing.with_any(spans[place]):
            crossing.add(spans[place])
            kept.append(place)
    return sorted(kept, key=lambda place: spans[place])


class _Crossing:
    """The spans accepted so far; checks whether another span overlaps one of them without nesting."""

    def __init__(self) -> None:
        self._last_end: dict[int, int] = {}  # of the spans that begin at a word
        self._first_start: dict[int, int] = {}  # of the spans that end at a word

    def add(self, span: Span) -> None:
        start, end = span
        self._last_end[start] = max(end, self._last_end.get(start, end))
        self._first_start[end] = min(start, self._first_start.get(end, start))

    def with_any(self, span: Span) -> bool:
        start, end = span
        return any(
            self._last_end.get(inside + 1, end) > end or self._first_start.get(inside, start) < start
            for inside in range(start, end)
        )


def cluster_numbers(spans: Iterable[Span], clusters: Clusters) -> list[int]:
    number = {span: number for number, cluster in enumerate(clusters) for span in cluster}
    return [number.get(span, NO_CLUSTER) for span in spans]


def linked(mentions: Sequence[Span], antecedents: Sequence[int | None], alone: Sequence[bool]) -> Clusters:
    """Chains of antecedents → clusters. A mention without a chain is a cluster if it may be `alone`, else dropped."""
    clusters: list[list[int]] = []
    of: list[list[int]] = []
    for mention, antecedent in enumerate(antecedents):
        if antecedent is None:
            clusters.append([])
        of.append(clusters[-1] if antecedent is None else of[antecedent])
        of[-1].append(mention)
    return tuple(
        frozenset(mentions[mention] for mention in cluster)
        for cluster in clusters
        if len(cluster) > 1 or alone[cluster[0]]
    )


def cut(example: Example, first: int, count: int) -> Example:
    """`count` sentences from number `first`, and the mentions inside them."""
    chosen = slice(first, first + count)
    start = sum(map(len, example.sentences[:first]))
    end = start + sum(map(len, example.sentences[chosen]))
    inside = (
        frozenset((a - start, b - start) for a, b in cluster if start <= a and b < end) for cluster in example.clusters
    )
    return example._replace(
        sentences=example.sentences[chosen],
        speakers=example.speakers[chosen],
        clusters=tuple(cluster for cluster in inside if cluster),
    )
