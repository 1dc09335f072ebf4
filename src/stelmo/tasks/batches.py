"""Examples → batches of like length, and a sample of them. Knows no task."""

import random
from collections.abc import Callable, Sequence
from typing import TypeVar

POOL = 50  # batches whose examples are sorted together: like lengths, yet every epoch another mixture

T = TypeVar("T")


def shuffled(examples: Sequence[T], length: Callable[[T], int], batch: int, seed: int) -> list[list[T]]:
    """All examples once, in an order that the seed decides."""
    chance = random.Random(seed)
    order = list(examples)
    chance.shuffle(order)
    batches: list[list[T]] = []
    for start in range(0, len(order), batch * POOL):
        pool = sorted(order[start : start + batch * POOL], key=length)
        batches += [pool[place : place + batch] for place in range(0, len(pool), batch)]
    chance.shuffle(batches)
    return batches


def by_length(examples: Sequence[T], length: Callable[[T], int], batch: int) -> list[list[int]]:
    """Positions of the examples, the longest first."""
    order = sorted(range(len(examples)), key=lambda position: -length(examples[position]))
    return [order[place : place + batch] for place in range(0, len(order), batch)]


def sample(examples: Sequence[T], count: int | None, fraction: float = 1.0) -> list[T]:
    """At most so many, in their own order; always the same ones, and those of a smaller share among a larger one's."""
    kept = len(examples) if count is None else min(count, len(examples))
    kept = max(1, round(kept * fraction))
    order = list(range(len(examples)))
    random.Random(0).shuffle(order)
    return [examples[position] for position in sorted(order[:kept])]
