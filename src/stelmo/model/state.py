"""The state of the LSTMs between two calls, passed in and returned. Knows no module."""

from typing import NamedTuple

import torch
from torch import Tensor

from stelmo.config import EncoderConfig, LstmConfig


class State(NamedTuple):
    """h (2, L, B, P) and c (2, L, B, H): directions, layers, rows of the batch.

    Of an encoder that carries no state, L and H are 0: its states can be passed and returned, and hold nothing.
    """

    h: Tensor
    c: Tensor

    @property
    def rows(self) -> int:
        return self.h.shape[2]

    def take(self, rows: int) -> "State":
        """The first rows."""
        return State(self.h[:, :, :rows], self.c[:, :, :rows])

    def expand(self, rows: int) -> "State":
        """One row for every sentence of a batch."""
        return State(self.h.expand(-1, -1, rows, -1), self.c.expand(-1, -1, rows, -1))

    def to(self, device: torch.device, dtype: torch.dtype) -> "State":
        return State(self.h.to(device, dtype), self.c.to(device, dtype))


def zeros(config: EncoderConfig, rows: int, device: torch.device, dtype: torch.dtype) -> State:
    layers, cells = (config.layers, config.cells) if isinstance(config, LstmConfig) else (0, 0)
    return State(
        torch.zeros(2, layers, rows, config.projection, device=device, dtype=dtype),
        torch.zeros(2, layers, rows, cells, device=device, dtype=dtype),
    )


def grow(state: State, rows: int) -> State:
    """At least that many rows; added rows start at zero, as new rows did in the 2018 releases."""
    missing = max(0, rows - state.rows)
    return State(*(_pad_rows(part, missing) for part in state))


def replace(state: State, first: State) -> State:
    """The first rows replaced, the others unchanged."""
    return State(*(torch.cat([new, old[:, :, new.shape[2] :]], 2) for new, old in zip(first, state, strict=True)))


def _pad_rows(part: Tensor, missing: int) -> Tensor:
    return torch.cat([part, part.new_zeros(*part.shape[:2], missing, part.shape[3])], 2)
