"""A stream of sentences → blocks of about as many tokens, so that long work holds one block in memory."""

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

Item = TypeVar("Item")


def by_tokens(
    items: Iterable[Item], tokens: int, length: Callable[[Item], int], multiple: int = 1
) -> Iterator[list[Item]]:
    """Consecutive items with at most `tokens` tokens, unless one item alone has more.

    With `multiple`, the number of items in every block but the last is a multiple of it, and a block may be larger.
    """
    block: list[Item] = []
    size = 0
    for item in items:
        added = length(item)
        if block and size + added > tokens and len(block) % multiple == 0:
            yield block
            block, size = [], 0
        block.append(item)
        size += added + 1  # so that a block of empty sentences ends, too
        if size > tokens and len(block) % multiple == 0:  # full: do not wait for the next item
            yield block
            block, size = [], 0
    if block:
        yield block
