"""One process or many, behind the same few methods. The only file that imports torch.distributed.

A single process is a world of size 1, in which most methods do nothing; so the training loop has no `if distributed`.
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

from stelmo.engine.planning import available
from stelmo.errors import ConfigError, StelmoError

# Rank 0 writes while the others wait; a dead machine is detected after this time, a dead process at once.
TIMEOUT = timedelta(minutes=30)
LONG_TIMEOUT = timedelta(days=7)  # the same where rank 0 fits static vectors
Anything = TypeVar("Anything")


class World:
    """This process alone."""

    rank = 0
    size = 1

    @property
    def first(self) -> bool:
        """Whether this process is the one that writes files and prints."""
        return self.rank == 0

    def rows(self, of: int) -> range:
        """The rows of a batch that belong to this process."""
        if of % self.size:
            raise ConfigError(f"batch: {of} rows cannot be divided equally among {self.size} processes; use a multiple")
        own = of // self.size
        return range(self.rank * own, (self.rank + 1) * own)

    def all_reduce_(self, *tensors: Tensor) -> None:
        """Replace each tensor by its sum over all processes; all have the same dtype."""

    def union(self, ids_n: Tensor, of: int) -> Tensor:
        """Ids below `of` that any process has, in ascending order."""
        return ids_n

    def gather(self, tensor: Tensor, dim: int) -> Tensor:
        """The rows of all processes, ordered by rank."""
        return tensor

    def broadcast(self, value: Anything) -> Anything:
        """The value of rank 0."""
        return value

    def on_rank_0(self, work: Callable[[], Anything], long: bool = False) -> Anything:
        """Rank 0 works while the others wait; all get its result, or raise its error. `long`: it may take hours."""
        return work()


class Distributed(World):
    """One of several processes."""

    def __init__(self, rank: int, size: int, waiting: dist.ProcessGroup | None = None) -> None:
        self.rank, self.size = rank, size
        self._waiting = waiting  # all processes, for what takes long

    def all_reduce_(self, *tensors: Tensor) -> None:
        flat = torch.cat([tensor.reshape(-1) for tensor in tensors])  # one message is cheaper than many
        with _reporting_lost_processes():
            dist.all_reduce(flat)
        for tensor, part in zip(tensors, torch.split(flat, [tensor.numel() for tensor in tensors]), strict=True):
            tensor.copy_(part.view_as(tensor))

    def union(self, ids_n: Tensor, of: int) -> Tensor:
        has_V = torch.zeros(of, dtype=torch.uint8, device=ids_n.device)
        has_V[ids_n] = 1
        with _reporting_lost_processes():
            dist.all_reduce(has_V, dist.ReduceOp.MAX)
        return has_V.nonzero()[:, 0]

    def gather(self, tensor: Tensor, dim: int) -> Tensor:
        parts = [torch.empty_like(tensor) for _ in range(self.size)]
        with _reporting_lost_processes():
            dist.all_gather(parts, tensor.contiguous())
        return torch.cat(parts, dim)

    def broadcast(self, value: Anything, group: dist.ProcessGroup | None = None) -> Anything:
        box = [value]
        with _reporting_lost_processes():
            dist.broadcast_object_list(box, 0, group)
        return box[0]

    def on_rank_0(self, work: Callable[[], Anything], long: bool = False) -> Anything:
        result: Anything | None = None
        problem: StelmoError | None = None
        if self.first:
            try:
                result = work()
            except StelmoError as found:
                problem = found
        result, problem = self.broadcast((result, problem), self._waiting if long else None)
        if problem is not None:
            raise problem
        return cast(Anything, result)


@contextmanager
def join(device: torch.device) -> Iterator[World]:
    """The world described by the environment; the process leaves it when the block ends."""
    size = int(os.environ.get("WORLD_SIZE") or 1)
    if size == 1:
        yield World()
        return
    missing = [name for name in ("RANK", "MASTER_ADDR", "MASTER_PORT") if not os.environ.get(name)]
    if missing:  # a cluster's job may have WORLD_SIZE alone
        raise ConfigError(
            f"WORLD_SIZE is {size}, but the environment has no {', '.join(missing)}; start several processes with "
            "torchrun, or unset WORLD_SIZE to train in one process"
        )
    rank = int(os.environ["RANK"])
    # The functions of this module have the group that exists when it is imported as a default argument. Imported later,
    # by torch, it would keep our group and its threads until Python ends, and such a thread may then abort the process.
    from torch.distributed.nn import functional  # noqa: F401

    if device.type == "cuda":
        torch.cuda.set_device(device)  # NCCL sends from the card that is set
    with _reporting_lost_processes():
        dist.init_process_group("nccl" if device.type == "cuda" else "gloo", timeout=TIMEOUT)
        waiting = dist.new_group(backend="gloo", timeout=LONG_TIMEOUT)
    try:
        yield Distributed(rank, size, waiting)
        with _reporting_lost_processes():
            dist.barrier()  # no process leaves while another still waits for a message
    finally:
        dist.destroy_process_group()


def local_device(name: str) -> torch.device:
    """The device of this process; several processes on one machine each use the GPU of their local rank."""
    return available(name, int(os.environ.get("LOCAL_RANK", 0)))


@contextmanager
def _reporting_lost_processes() -> Iterator[None]:
    """If one process is lost, the others end as well: they would wait forever."""
    try:
        yield
    except RuntimeError as problem:
        raise StelmoError(
            f"another process of this run was lost ({str(problem).splitlines()[0]}); the same command resumes "
            "from the last checkpoint"
        ) from problem
