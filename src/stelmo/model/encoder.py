"""Ids of a word → its context-independent vector, layer 0. Knows no sentence.

N words in any arrangement, C characters of a word, F filters, P projection. Both directions share it.
"""

import torch
from torch import Generator, Tensor, nn

from stelmo.config import CharInput, WordInput
from stelmo.ops import reference as ops
from stelmo.text import chars


class Highway(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.carry = nn.Parameter(torch.empty(width, width))
        self.carry_bias = nn.Parameter(torch.empty(width))
        self.transform = nn.Parameter(torch.empty(width, width))
        self.transform_bias = nn.Parameter(torch.empty(width))

    def reset(self, generator: Generator) -> None:
        deviation = len(self.carry) ** -0.5
        nn.init.normal_(self.carry, 0, deviation, generator)
        nn.init.normal_(self.transform, 0, deviation, generator)
        nn.init.constant_(self.carry_bias, -2.0)  # at first a word passes nearly unchanged
        nn.init.zeros_(self.transform_bias)

    def forward(self, x_NF: Tensor) -> Tensor:
        weights = ops.HighwayWeights(self.carry, self.carry_bias, self.transform, self.transform_bias)
        return ops.highway(x_NF, weights)


class CharEncoder(nn.Module):
    """Characters → convolution → highways → projection (left out where F = P)."""

    def __init__(self, config: CharInput, projection: int) -> None:
        super().__init__()
        self.config = config
        width = config.width
        self.table = nn.Parameter(torch.empty(chars.ROWS, config.embedding))
        self.kernels = nn.ParameterList(torch.empty(w, config.embedding, n) for w, n in config.filters)
        self.biases = nn.ParameterList(torch.empty(n) for _, n in config.filters)
        self.highways = nn.ModuleList(Highway(width) for _ in range(config.highways))
        projected = width != projection
        self.projection = nn.Parameter(torch.empty(width, projection)) if projected else None
        self.projection_bias = nn.Parameter(torch.empty(projection)) if projected else None

    @torch.no_grad()
    def reset(self, generator: Generator) -> None:
        """The initial values of the original training."""
        self.table.uniform_(-1, 1, generator=generator)
        self.table[0] = 0  # "no token here" is no character
        for kernel, bias in zip(self.kernels, self.biases, strict=True):
            self._reset_kernel(kernel, generator)
            bias.zero_()
        for layer in self.highways:
            layer.reset(generator)  # type: ignore[operator]
        if self.projection is not None and self.projection_bias is not None:
            self.projection.normal_(0, self.config.width**-0.5, generator=generator)
            self.projection_bias.zero_()

    def _reset_kernel(self, kernel: Tensor, generator: Generator) -> None:
        if self.config.activation == "relu":
            kernel.uniform_(-0.05, 0.05, generator=generator)
        else:
            kernel.normal_(0, (kernel.shape[0] * kernel.shape[1]) ** -0.5, generator=generator)

    def forward(self, chars_NC: Tensor) -> Tensor:
        x_NP = ops.char_cnn(chars_NC, self.table, list(self.kernels), list(self.biases), self.config.activation)
        for layer in self.highways:
            x_NP = layer(x_NP)
        if self.projection is None or self.projection_bias is None:
            return x_NP
        return x_NP @ self.projection + self.projection_bias


class WordEncoder(nn.Module):
    """A word's number → its row."""

    def __init__(self, config: WordInput, projection: int) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.empty(config.words, projection))

    @torch.no_grad()
    def reset(self, generator: Generator) -> None:
        self.table.normal_(0, self.table.shape[1] ** -0.5, generator=generator)

    def forward(self, words_N: Tensor) -> Tensor:
        return nn.functional.embedding(words_N, self.table)
