"""The bidirectional gated CNN of Peters et al. 2018b: token vectors → the layers of each direction. Knows no files.

A layer is a residual block of causal convolutions; there is no position signal and no norm. N words end to end, D
width, O = 2h outputs of a convolution and their gates, w taps.
"""

import torch
from torch import Generator, Tensor, nn

from stelmo.config import GatedCnnConfig, WordConvolution, dilation_of
from stelmo.model.transformer import Drop, keep, reset_all
from stelmo.ops import runs as along
from stelmo.ops.runs import Runs

RESIDUAL = 0.5**0.5


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
        return along.gated_convolution(u_ND, runs, self.taps(), self.bias, self.dilation)

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

    def forward(self, direction: int, x_ND: Tensor, runs: Runs, drop: Drop = keep) -> list[Tensor]:
        """Token vectors in the order of the direction → the output (N, D) of every block."""
        outputs = []
        for block in self.stacks[direction]:
            x_ND = block(x_ND, runs, drop)
            outputs.append(x_ND)
        return outputs
