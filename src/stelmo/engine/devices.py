"""Names of devices and precisions → what torch computes with, or one clear error. Knows no model."""

import torch

from stelmo.errors import ConfigError
from stelmo.ops import fast, int8

HALF = {"bfloat16": torch.bfloat16, "float16": torch.float16}


def available(name: str, card: int | None = None) -> torch.device:
    """The device, once it is known to work. `card` is the GPU that "cuda" without a number means."""
    try:
        device = torch.device(name)
        if card is not None and device.type == "cuda" and device.index is None:
            device = torch.device("cuda", card)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as problem:
        reason = str(problem).split("\n")[0].split(". ")[0]
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
