"""Ids of a word → its context-independent vector, layer 0. Knows no sentence.

N words in any arrangement, C characters of a word, F filters, P projection. Both directions share it.
"""

from collections.abc import Callable, Sequence

import torch
from torch import Generator, Tensor, nn

from stelmo.config import CharInput, CodePointInput, Convolution, WordInput
from stelmo.ops import arithmetic
from stelmo.ops import reference as ops
from stelmo.text import chars

# What computes the convolution, with equal values: `reference.char_cnn`, `fast.char_cnn` (no gradient) or
# `trainable.char_cnn` (hand-written gradient).
CharCnn = Callable[[Tensor, Tensor, Sequence[Tensor], Sequence[Tensor], str], Tensor]


class Norm(nn.Module):
    """A layer norm over the features, with ε outside the root."""

    def __init__(self, width: int, epsilon: float) -> None:
        super().__init__()
        self.gain, self.shift = nn.Parameter(torch.empty(width)), nn.Parameter(torch.empty(width))
        self.epsilon = epsilon

    def reset(self, generator: Generator) -> None:
        nn.init.ones_(self.gain)
        nn.init.zeros_(self.shift)

    def forward(self, x_NP: Tensor) -> Tensor:
        return ops.norm(x_NP, self.gain, self.shift, self.epsilon)


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
        nn.init.constant_(self.carry_bias, -2.0)  # at the start of training a word passes nearly unchanged
        nn.init.zeros_(self.transform_bias)

    def forward(self, x_NF: Tensor) -> Tensor:
        weights = ops.HighwayWeights(self.carry, self.carry_bias, self.transform, self.transform_bias)
        return ops.highway(x_NF, weights, arithmetic.linear)


class CharEncoder(nn.Module):
    """Characters → convolution → highways → projection (left out where F = P). `CharInput` may place the projection
    before the highways, and a layer norm at the end."""

    def __init__(self, config: Convolution, projection: int, rows: int = chars.ROWS) -> None:
        super().__init__()
        self.config = config
        width = config.width
        place = config.projection if isinstance(config, CharInput) else None
        epsilon = config.layer_norm if isinstance(config, CharInput) else None
        self.projected_first = place == "after_convolution"
        self.table = nn.Parameter(torch.empty(rows, config.embedding))
        self.kernels = nn.ParameterList(torch.empty(w, config.embedding, n) for w, n in config.filters)
        self.biases = nn.ParameterList(torch.empty(n) for _, n in config.filters)
        highway_width = projection if self.projected_first else width
        self.highways = nn.ModuleList(Highway(highway_width) for _ in range(config.highways))
        projected = width != projection or place is not None
        self.projection = nn.Parameter(torch.empty(width, projection)) if projected else None
        self.projection_bias = nn.Parameter(torch.empty(projection)) if projected else None
        self.norm = None if epsilon is None else Norm(projection, epsilon)

    @property
    def offset(self) -> nn.Parameter | None:
        """The last parameter that is added to every token vector, if there is one."""
        if self.norm is not None:
            return self.norm.shift
        return None if self.projected_first else self.projection_bias

    @torch.no_grad()
    def reset(self, generator: Generator) -> None:
        """The initial values of the original training."""
        self.table.uniform_(-1, 1, generator=generator)
        self.table[0] = 0  # padding, not a character
        for kernel, bias in zip(self.kernels, self.biases, strict=True):
            if self.config.activation == "relu":
                kernel.uniform_(-0.05, 0.05, generator=generator)
            else:
                kernel.normal_(0, (kernel.shape[0] * kernel.shape[1]) ** -0.5, generator=generator)
            bias.zero_()
        for layer in self.highways:
            layer.reset(generator)  # type: ignore[operator]
        if self.projection is not None and self.projection_bias is not None:
            self.projection.normal_(0, self.config.width**-0.5, generator=generator)
            self.projection_bias.zero_()
        if self.norm is not None:
            self.norm.reset(generator)

    def forward(self, chars_NC: Tensor, char_cnn: CharCnn = ops.char_cnn) -> Tensor:
        x_NP = char_cnn(chars_NC, self.table, list(self.kernels), list(self.biases), self.config.activation)
        if self.projected_first:
            x_NP = self._project(x_NP)
        for layer in self.highways:
            x_NP = layer(x_NP)
        if not self.projected_first:
            x_NP = self._project(x_NP)
        return x_NP if self.norm is None else self.norm(x_NP)

    def _project(self, x_NF: Tensor) -> Tensor:
        if self.projection is None or self.projection_bias is None:
            return x_NF
        return arithmetic.linear(x_NF, self.projection, self.projection_bias)


class WordEncoder(nn.Module):
    """A word's number → its row."""

    def __init__(self, config: WordInput, projection: int) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.empty(config.words, projection))

    @property
    def offset(self) -> nn.Parameter:
        """The token vectors themselves."""
        return self.table

    @torch.no_grad()
    def reset(self, generator: Generator) -> None:
        self.table.normal_(0, self.table.shape[1] ** -0.5, generator=generator)

    def forward(self, words_N: Tensor, char_cnn: CharCnn = ops.char_cnn) -> Tensor:
        return nn.functional.embedding(words_N, self.table)


class CodePointEncoder(nn.Module):
    """[row of the word ; code points → convolution → highways] → projection. Either of the two may be absent.

    Ids (N, K): the word's number first, then its characters, each where the model reads it.
    """

    def __init__(self, config: CodePointInput, projection: int) -> None:
        super().__init__()
        self.config = config
        words, cnn = config.word_table, config.convolution
        self.word_table = None if words is None else nn.Parameter(torch.empty(words.rows, words.width))
        # As wide as its filters, so that it has no projection of its own.
        self.characters = None if cnn is None else CharEncoder(cnn, cnn.width, cnn.rows)
        self.projection = nn.Parameter(torch.empty(config.width, projection))
        self.projection_bias = nn.Parameter(torch.empty(projection))

    @property
    def table(self) -> nn.Parameter:
        """One of the tables; callers read its device and dtype."""
        if self.characters is not None:
            return self.characters.table
        assert self.word_table is not None
        return self.word_table

    @property
    def offset(self) -> nn.Parameter:
        """What is added to every token vector."""
        return self.projection_bias

    @torch.no_grad()
    def reset(self, generator: Generator) -> None:
        if self.word_table is not None:
            self.word_table.normal_(0, self.word_table.shape[1] ** -0.5, generator=generator)
        if self.characters is not None:
            self.characters.reset(generator)
        self.projection.normal_(0, self.config.width**-0.5, generator=generator)
        self.projection_bias.zero_()

    def forward(self, ids_NK: Tensor, char_cnn: CharCnn = ops.char_cnn) -> Tensor:
        parts = []
        if self.word_table is not None:
            parts.append(nn.functional.embedding(ids_NK[..., 0], self.word_table))
        if self.characters is not None:
            parts.append(self.characters(ids_NK[..., -self.config.max_characters :], char_cnn))
        return arithmetic.linear(torch.cat(parts, -1), self.projection, self.projection_bias)


Encoder = CharEncoder | WordEncoder | CodePointEncoder


def encoder_of(config: CharInput | WordInput | CodePointInput, projection: int) -> Encoder:
    """The encoder of that kind of input."""
    if isinstance(config, WordInput):
        return WordEncoder(config, projection)
    if isinstance(config, CodePointInput):
        return CodePointEncoder(config, projection)
    return CharEncoder(config, projection)
