"""Lengths of sentences → which go into one batch together. Knows no text and no model."""

from collections.abc import Iterator, Sequence


def by_length(lengths: Sequence[int], budget: int) -> Iterator[list[int]]:
    """Positions, longest sentences first, so that a batch has little padding; rows × longest ≤ budget.

    A sentence longer than the budget makes a batch of its own.
    """
    order = sorted(range(len(lengths)), key=lambda position: -lengths[position])
    start = 0
    while start < len(order):
        rows = max(1, budget // max(1, lengths[order[start]]))
        yield order[start : start + rows]
        start += rows


def in_order(count: int, rows: int) -> Iterator[list[int]]:
    """Positions as they come, for states that go on from batch to batch."""
    for start in range(0, count, rows):
        yield list(range(start, min(start + rows, count)))
