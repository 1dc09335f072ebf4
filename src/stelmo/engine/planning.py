"""Where and how much at once is computed: devices, precisions, memory, batches and blocks. Knows no weights.

What grows with a batch is counted; what does not (Python, torch, the weights) is subtracted from the budget first.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple, TypeVar

import torch

from stelmo.config import GatedCnnConfig, LstmConfig, ModelConfig
from stelmo.errors import ConfigError
from stelmo.ops import fast, int8
from stelmo.settings import LoadSettings

HALF = {"bfloat16": torch.bfloat16, "float16": torch.float16}
MB = 2**20
PROCESS = 350 * MB  # Python with torch, before any model
LEAST_TOKENS = 64
NUMBER = 4  # bytes; float64 has twice as many
WORDS_REMEMBERED = 100_000  # whose token vectors are kept, unless the memory is limited
SLACK = 1.5  # for memory that the allocator keeps, and for everything that is not counted

Item = TypeVar("Item")


# Devices and precisions


def available(name: str, gpu: int | None = None) -> torch.device:
    """The device, after a check that it works. `gpu` is the GPU that "cuda" without a number means."""
    try:
        device = torch.device(name)
        if gpu is not None and device.type == "cuda" and device.index is None:
            device = torch.device("cuda", gpu)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as problem:
        reason = str(problem).split("\n")[0].split(". ")[0]
        if reason.startswith("Expected one of"):  # torch lists its twenty kinds of devices
            reason = "expected cpu, cuda, cuda:N or mps"
        raise ConfigError(f"device: {name!r} is not available here ({reason}); cpu always is") from None
    return device


def refuse_precision(precision: str, device: torch.device) -> None:
    """Raise a ConfigError if the device cannot compute in this precision."""
    if precision == "int8":
        if device.type != "cpu":
            raise ConfigError(f"precision: int8 runs only on the CPU, not on {device}; use float16 there")
        int8.adds_in_16_bits()  # raises if the processor or the build has no exact 8-bit products
    if precision in HALF and device.type == "cpu":
        raise ConfigError(f"precision: {precision} requires a GPU (--device cuda); on the CPU use int8 for speed")


def arrangement(precision: str) -> fast.Arrange:
    """How the packed engine multiplies gates."""
    return int8.Int8 if precision == "int8" else fast.Dense


# Memory


class Plan(NamedTuple):
    batch_tokens: int  # computed together
    words: int  # whose token vectors are remembered
    block_tokens: int  # whose vectors wait to be written


def plan(config: ModelConfig, parameters: int, settings: LoadSettings, block_tokens: int = 16_384) -> Plan:
    """The largest batches, word memory and blocks that fit in `settings.memory` MB; without it, the fastest ones."""
    wanted = Plan(settings.batch_tokens, WORDS_REMEMBERED, block_tokens)
    if settings.memory is None:
        return wanted
    number = 2 * NUMBER if settings.precision == "float64" else NUMBER
    fixed = PROCESS + 2 * parameters * number  # the engine holds a second copy of the weights, arranged for speed
    token, word, kept = (size * number for size in _sizes(config))
    free = settings.memory * MB - fixed
    if free < 2 * LEAST_TOKENS * (token + word + kept) * SLACK:
        least = (fixed + 2 * LEAST_TOKENS * (token + word + kept) * SLACK) / MB
        raise ConfigError(f"memory: {settings.memory} MB; this model needs at least {least:.0f} MB")
    half, quarter = free / SLACK / 2, free / SLACK / 4
    return Plan(
        min(wanted.batch_tokens, int(half / token)),
        min(wanted.words, int(quarter / word)),
        min(wanted.block_tokens, int(quarter / kept)),
    )


def _sizes(config: ModelConfig) -> tuple[int, int, int]:
    """Numbers held for a token of a batch, for a remembered word, and for a token whose layers wait to be written."""
    encoder, layers = config.encoder, config.depth * config.width
    if isinstance(encoder, LstmConfig):
        inner = 2 * 4 * encoder.cells  # the gates of a word, in both directions
    elif isinstance(encoder, GatedCnnConfig):  # the columns of the widest convolution, and its outputs
        inner = 2 * max(conv[0] * encoder.width + 4 * conv[1] for block in encoder.blocks for conv in block)
    else:  # queries, keys and values, padded and not; inner vectors are computed for a few words at a time
        inner = 2 * 8 * encoder.width
    return inner + 3 * layers, config.projection, 2 * layers


# Batches and blocks


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
    """Positions in input order, for states that continue from batch to batch."""
    for start in range(0, count, rows):
        yield list(range(start, min(start + rows, count)))


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
