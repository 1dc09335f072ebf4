"""Work on several items → the results, side by side on the CPU. Knows no work.

Two products that each have a core of their own never wait for one another; one product shared by two cores does,
hundreds of times a step.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import torch

Item = TypeVar("Item")
Result = TypeVar("Result")


def workers(device: torch.device) -> int:
    """Into how many parts work is worth cutting: two, as there are two directions."""
    return 2 if device.type == "cpu" and torch.get_num_threads() > 1 else 1


def side_by_side(work: Callable[[Item], Result], items: Sequence[Item], device: torch.device) -> list[Result]:
    """A thread for each item, torch's own threads shared out evenly; their count is as before at the end."""
    if workers(device) == 1 or len(items) == 1:
        return [work(item) for item in items]
    threads, gradient = torch.get_num_threads(), torch.is_grad_enabled()

    def run(item: Item) -> Result:
        torch.set_num_threads(max(1, threads // len(items)))
        with torch.set_grad_enabled(gradient):
            return work(item)

    try:
        with ThreadPoolExecutor(len(items)) as pool:  # no thread outlives a call: one may fork
            return list(pool.map(run, items))
    finally:
        torch.set_num_threads(threads)
