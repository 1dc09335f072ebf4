"""A model and a budget in MB → how much is computed, remembered and kept at once. Knows no tensors.

What grows with a batch is counted; what does not (Python, torch, the weights) is taken off the budget first.
"""

from typing import NamedTuple

from stelmo.config import LoadSettings, ModelConfig
from stelmo.errors import ConfigError

MB = 2**20
PROCESS = 350 * MB  # Python with torch, before any model
LEAST_TOKENS = 64
NUMBER = 4  # bytes; float64 has twice as many
SLACK = 1.5  # what the allocator holds back, and what is small beside the rest


class Plan(NamedTuple):
    batch_tokens: int  # computed together
    words: int  # remembered
    block_tokens: int  # whose vectors wait to be written


def plan(config: ModelConfig, parameters: int, settings: LoadSettings, block_tokens: int = 16_384) -> Plan:
    """The largest batches, word memory and blocks that fit; unset, a budget bounds nothing."""
    wanted = Plan(settings.batch_tokens, 100_000, block_tokens)
    if settings.memory is None:
        return wanted
    number = 2 * NUMBER if settings.precision == "float64" else NUMBER
    fixed = PROCESS + 2 * parameters * number  # the engine holds a second copy, arranged for speed
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
    """Numbers a token of a batch takes, a remembered word, and a token whose layers wait to be written."""
    gates = 2 * 4 * config.lstm.cells  # of a word of its own, both directions
    layers = config.depth * config.width
    return gates + 3 * layers, config.lstm.projection, 2 * layers
