"""Encoders without a state (Peters et al. 2018b): token vectors → the layers of each direction. Knows no files.

Two stacks with weights of their own read the same input, each in its own order. `Transformer`: pre-norm attention.
`GatedCnn`: residual blocks of causal convolutions, without a position signal and without a norm.

N words end to end, D width, F inner width, S positions, O = 2h outputs of a convolution and their gates, w taps.
"""

import math
from collections.abc import Callable

import torch
from torch import Generator, Tensor, nn

from stelmo.config import GatedCnnConfig, TransformerConfig, WordConvolution, dilation_of
from stelmo.model.encoder import Norm
from stelmo.ops import arithmetic
from stelmo.ops import runs as run_ops
from stelmo.ops.runs import Runs

Drop = Callable[[Tensor], Tensor]
RESIDUAL = 0.5**0.5  # of a gated block
WORDS_TOGETHER = 512  # in a feed-forward network without gradient: its inner vectors need the most memory


def no_dropout(x: Tensor) -> Tensor:
    """No dropout."""
    return x


def reset_all(module: nn.Module, generator: Generator) -> None:
    """Initial values for everything below a module that has some, in the order of its parts."""
    for part in module.modules():
        reset = getattr(part, "reset", None)
        if reset is not None and part is not module:
            reset(generator)


# The Transformer


def position_rows(first: int, rows: int, width: int) -> Tensor:
    """sin and cos of p · 10000^(−2i/D) side by side, computed in double precision, (rows, D)."""
    rates = torch.exp(torch.arange(0, width, 2, dtype=torch.float64) * (-math.log(10000.0) / width))
    angles = torch.arange(first, first + rows, dtype=torch.float64)[:, None] * rates
    return torch.stack([angles.sin(), angles.cos()], -1).flatten(1)


class Linear(nn.Module):
    """x Wᵀ + b; several matrices that read the same vectors may be stacked."""

    def __init__(self, inputs: int, outputs: int, stacked: int = 1) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(stacked * outputs, inputs))
        self.bias = nn.Parameter(torch.empty(stacked * outputs))
        self._stacked = stacked

    def reset(self, generator: Generator) -> None:
        for matrix in self.weight.detach().chunk(self._stacked):
            nn.init.xavier_uniform_(matrix, generator=generator)
        bound = self.weight.shape[1] ** -0.5
        nn.init.uniform_(self.bias, -bound, bound, generator=generator)

    def forward(self, x: Tensor) -> Tensor:
        return arithmetic.linear(x, self.weight.t(), self.bias)


class TransformerLayer(nn.Module):
    """x + attention(norm(x)), then x + feed-forward(norm(x))."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        width, self.heads = config.width, config.heads
        self.attention_norm = Norm(width, config.epsilon)
        self.attention_in = Linear(width, width, stacked=3)  # queries, keys, values
        self.attention_out = Linear(width, width)
        self.hidden_norm = Norm(width, config.epsilon)
        self.hidden_in = Linear(width, config.hidden)
        self.hidden_out = Linear(config.hidden, width)

    def forward(self, x_ND: Tensor, runs: Runs, drop: Drop) -> Tensor:
        seen_ND = run_ops.attention(self.attention_in(self.attention_norm(x_ND)), runs, self.heads)
        x_ND = x_ND + drop(self.attention_out(seen_ND))
        if torch.is_grad_enabled():
            return x_ND + drop(self._feed_forward(x_ND, drop))
        return torch.cat([part + self._feed_forward(part, no_dropout) for part in torch.split(x_ND, WORDS_TOGETHER)])

    def _feed_forward(self, x_ND: Tensor, drop: Drop) -> Tensor:
        inner_NF = torch.relu_(self.hidden_in(self.hidden_norm(x_ND)))
        y_ND: Tensor = self.hidden_out(drop(inner_NF))
        return y_ND


class TransformerStack(nn.Module):
    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.layers = nn.ModuleList(TransformerLayer(config) for _ in range(config.layers))
        self.norm = Norm(config.width, config.epsilon)  # over the last layer only

    def forward(self, x_ND: Tensor, runs: Runs, drop: Drop) -> list[Tensor]:
        outputs = []
        for layer in self.layers:
            x_ND = layer(x_ND, runs, drop)
            outputs.append(x_ND)
        return [*outputs[:-1], self.norm(outputs[-1])]


class Transformer(nn.Module):
    positions: Tensor

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.forward_stack = TransformerStack(config)
        self.backward_stack = TransformerStack(config)
        # Stored: computed in another precision, the last rows differ by 1e-4.
        self.register_buffer("positions", torch.empty(config.positions, config.width))

    def reset(self, generator: Generator) -> None:
        self.positions.copy_(position_rows(0, *self.positions.shape))
        reset_all(self, generator)

    @property
    def stacks(self) -> tuple[TransformerStack, TransformerStack]:
        return self.forward_stack, self.backward_stack

    def forward(self, direction: int, x_ND: Tensor, runs: Runs, drop: Drop = no_dropout) -> list[Tensor]:
        """Token vectors in the order of the direction → the output (N, D) of every layer."""
        position_N, positions, (rows, width) = runs.position_N, self.positions, self.positions.shape
        missing = int(position_N.max()) + 1 - rows if len(position_N) else 0
        if missing > 0:  # beyond the stored table, the formula continues it
            positions = torch.cat([positions, position_rows(rows, missing, width).to(positions)])
        outputs: list[Tensor] = self.stacks[direction](drop(x_ND + positions[position_N]), runs, drop)
        return outputs


# The gated CNN


class GatedConvolution(nn.Module):
    """Weights with a norm of their own: W_o = gain_o · direction_o / ‖direction_o‖. Tap k reads k · dilation back."""

    def __init__(self, inputs: int, config: WordConvolution) -> None:
        super().__init__()
        width, outputs = config[0], 2 * config[1]
        self.dilation = dilation_of(config)
        self.direction = nn.Parameter(torch.empty(width, inputs, outputs))
        self.gain = nn.Parameter(torch.empty(outputs))
        self.bias = nn.Parameter(torch.empty(outputs))

    @torch.no_grad()  # the spread of an input without dropout
    def reset(self, generator: Generator) -> None:
        width, inputs, _ = self.direction.shape
        self.direction.normal_(0, (4 / (width * inputs)) ** 0.5, generator=generator)
        self.gain.copy_(self._norms())
        self.bias.zero_()

    def _norms(self) -> Tensor:
        norms_O: Tensor = torch.linalg.vector_norm(self.direction, dim=(0, 1))
        return norms_O

    def forward(self, u_ND: Tensor, runs: Runs) -> Tensor:
        return run_ops.gated_convolution(u_ND, runs, self.taps(), self.bias, self.dilation)

    def taps(self) -> Tensor:
        """(w, inputs, O); the first reads the word itself."""
        return self.direction * (self.gain / self._norms())


class Block(nn.Module):
    """(convolutions(x) + x) · √½; dropout at the convolutions' input, not on the way around them."""

    def __init__(self, width: int, config: tuple[WordConvolution, ...]) -> None:
        super().__init__()
        inputs = (width, *(outputs for _, outputs, *_ in config))
        self.convolutions = nn.ModuleList(GatedConvolution(*pair) for pair in zip(inputs, config, strict=False))

    def forward(self, x_ND: Tensor, runs: Runs, drop: Drop) -> Tensor:
        u_ND = drop(x_ND)
        for convolution in self.convolutions:
            u_ND = convolution(u_ND, runs)
        return (u_ND + x_ND) * RESIDUAL


class GatedCnn(nn.Module):
    def __init__(self, config: GatedCnnConfig) -> None:
        super().__init__()
        self.forward_stack = nn.ModuleList(Block(config.width, block) for block in config.blocks)
        self.backward_stack = nn.ModuleList(Block(config.width, block) for block in config.blocks)

    def reset(self, generator: Generator) -> None:
        reset_all(self, generator)

    @property
    def stacks(self) -> tuple[nn.ModuleList, nn.ModuleList]:
        return self.forward_stack, self.backward_stack

    def forward(self, direction: int, x_ND: Tensor, runs: Runs, drop: Drop = no_dropout) -> list[Tensor]:
        """Token vectors in the order of the direction → the output (N, D) of every block."""
        outputs = []
        for block in self.stacks[direction]:
            x_ND = block(x_ND, runs, drop)
            outputs.append(x_ND)
        return outputs
