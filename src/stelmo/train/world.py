"""One process or many → the same few verbs. The only file that knows torch.distributed.

Alone, a process is a world of one, in which every verb does nothing; so the training loop asks nobody how many it is.
`torchrun` puts rank and size of a larger world into the environment.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import TypeVar, cast

import torch
import torch.distributed as dist
from torch import Tensor

from stelmo.engine.devices import available
from stelmo.errors import ConfigError, StelmoError

# Rank 0 writes while the others wait; a dead machine is noticed after this, a dead process at once.
PATIENCE = timedelta(minutes=30)
Anything = TypeVar("Anything")


class World:
    """This process alone."""

    rank = 0
    size = 1

    @property
    def first(self) -> bool:
        """Whether this process is the one that writes and speaks."""
        return self.rank == 0

    def rows(self, of: int) -> range:
        """The rows of a batch that are this process's."""
        if of % self.size:
            raise ConfigError(f"batch: {of} rows cannot be shared equally by {self.size} processes; take a multiple")
        own = of // self.size
        return range(self.rank * own, (self.rank + 1) * own)

    def sum_(self, *tensors: Tensor) -> None:
        """In place, the sum over all processes; all of one kind of numbers."""

    def union(self, ids_n: Tensor, of: int) -> Tensor:
        """Ids below `of` that any process has, rising."""
        return ids_n

    def gather(self, tensor: Tensor, dim: int) -> Tensor:
        """The rows of all processes, by rank."""
        return tensor

    def share(self, value: Anything) -> Anything:
        """What rank 0 has."""
        return value

    def lead(self, work: Callable[[], Anything]) -> Anything:
        """Rank 0 works while the others wait; what it returns, or refuses, is the same for all."""
        return work()


class Many(World):
    """One of several processes."""

    def __init__(self, rank: int, size: int) -> None:
        self.rank, self.size = rank, size

    def sum_(self, *tensors: Tensor) -> None:
        flat = torch.cat([tensor.reshape(-1) for tensor in tensors])  # one message costs less than many
        with _whole():
            dist.all_reduce(flat)
        for tensor, part in zip(tensors, torch.split(flat, [tensor.numel() for tensor in tensors]), strict=True):
            tensor.copy_(part.view_as(tensor))

    def union(self, ids_n: Tensor, of: int) -> Tensor:
        has_V = torch.zeros(of, dtype=torch.uint8, device=ids_n.device)
        has_V[ids_n] = 1
        with _whole():
            dist.all_reduce(has_V, dist.ReduceOp.MAX)
        return has_V.nonzero()[:, 0]

    def gather(self, tensor: Tensor, dim: int) -> Tensor:
        parts = [torch.empty_like(tensor) for _ in range(self.size)]
        with _whole():
            dist.all_gather(parts, tensor.contiguous())
        return torch.cat(parts, dim)

    def share(self, value: Anything) -> Anything:
        box = [value]
        with _whole():
            dist.broadcast_object_list(box, 0)
        return box[0]

    def lead(self, work: Callable[[], Anything]) -> Anything:
        result: Anything | None = None
        problem: StelmoError | None = None
        if self.first:
            try:
                result = work()
            except StelmoError as found:
                problem = found
        result, problem = self.share((result, problem))
        if problem is not None:
            raise problem
        return cast(Anything, result)


@contextmanager
def join(device: torch.device) -> Iterator[World]:
    """The world that the environment names; left when the block ends."""
    rank, size = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
    if size == 1:
        yield World()
        return
    if device.type == "cuda":
        torch.cuda.set_device(device)  # NCCL sends from the card that is set
    with _whole():
        dist.init_process_group("nccl" if device.type == "cuda" else "gloo", timeout=PATIENCE)
    try:
        yield Many(rank, size)
        with _whole():
            dist.barrier()  # nobody leaves while another still listens
    finally:
        dist.destroy_process_group()


def local_device(name: str) -> torch.device:
    """Of several processes on a machine, each takes the card of its own number."""
    return available(name, int(os.environ.get("LOCAL_RANK", 0)))


@contextmanager
def _whole() -> Iterator[None]:
    """A lost process ends the others, too: they could only wait."""
    try:
        yield
    except RuntimeError as problem:
        raise StelmoError(
            f"another process of this run was lost ({str(problem).splitlines()[0]}); the same command goes on "
            "from the last checkpoint"
        ) from problem
