"""How much is computed, remembered and kept at once, and which sentences are computed together. Knows no tensors.

What grows with a batch is counted; what does not (Python, torch, the weights) is subtracted from the budget first.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from stelmo.config import GatedCnnConfig, LstmConfig, ModelConfig
from stelmo.errors import ConfigError
from stelmo.settings import LoadSettings

MB = 2**20
PROCESS = 350 * MB  # Python with torch, before any model
LEAST_TOKENS = 64
NUMBER = 4  # bytes; float64 has twice as many
SLACK = 1.5  # for memory that the allocator holds back, and for everything that is not counted


class Plan(NamedTuple):
    batch_tokens: int  # computed together
    words: int  # whose token vectors are remembered
    block_tokens: int  # whose vectors wait to be written


def plan(config: ModelConfig, parameters: int, settings: LoadSettings, block_tokens: int = 16_384) -> Plan:
    """The largest batches, word memory and blocks that fit in `settings.memory` MB; without it, the fastest ones."""
    wanted = Plan(settings.batch_tokens, 100_000, block_tokens)
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
