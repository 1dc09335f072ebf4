"""Token vectors → all layers of the bidirectional language model; its state and its softmax. Knows no files.

State is passed in and returned, never kept in a module. B sentences, T tokens (the sentence markers included),
P projection, H cells, L layers, D = 2P, V words of the vocabulary.
"""

from collections.abc import Callable
from operator import add
from typing import NamedTuple, TypeVar

import torch
from torch import Generator, Tensor, nn

from stelmo.config import EncoderConfig, LstmConfig, ModelConfig, TransformerConfig
from stelmo.model.context import GatedCnn, Transformer
from stelmo.model.encoder import encoder_of
from stelmo.ops import arithmetic
from stelmo.ops import reference as ops
from stelmo.ops.runs import Runs

X = TypeVar("X")
# What computes a layer of one direction, with equal values: `reference.lstm`, or `trainable.padded_lstm`, which has
# hand-written gradients.
Lstm = Callable[[Tensor, Tensor, ops.LstmWeights, ops.Clips, Tensor, Tensor], tuple[Tensor, Tensor, Tensor]]


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

    def grow(self, rows: int) -> "State":
        """At least that many rows; added rows start at zero, as new rows did in the 2018 releases."""
        missing = max(0, rows - self.rows)
        return State(*(torch.cat([part, part.new_zeros(*part.shape[:2], missing, part.shape[3])], 2) for part in self))

    def replace(self, first: "State") -> "State":
        """The first rows replaced, the others unchanged."""
        return State(*(torch.cat([new, old[:, :, new.shape[2] :]], 2) for new, old in zip(first, self, strict=True)))

    def to(self, device: torch.device, dtype: torch.dtype) -> "State":
        return State(self.h.to(device, dtype), self.c.to(device, dtype))

    @classmethod
    def zeros(cls, config: EncoderConfig, rows: int, device: torch.device, dtype: torch.dtype) -> "State":
        layers, cells = (config.layers, config.cells) if isinstance(config, LstmConfig) else (0, 0)
        return cls(
            torch.zeros(2, layers, rows, config.projection, device=device, dtype=dtype),
            torch.zeros(2, layers, rows, cells, device=device, dtype=dtype),
        )


def with_residual(depth: int, y: X, x: X, skip: bool, add: Callable[[X, X], X] = add) -> X:
    """The output of layer `depth`, which read x and gave y: from the second layer on, with `skip`, x is added.

    The sum is the input of the next layer; it never reaches the state of the LSTM.
    """
    return add(y, x) if skip and depth else y


class ProjectedLstm(nn.Module):
    """One layer of one direction: its weights, in the layout of the published files."""

    def __init__(self, config: LstmConfig) -> None:
        super().__init__()
        cells, projection = config.cells, config.projection
        self.kernel = nn.Parameter(torch.empty(2 * projection, 4 * cells))
        self.bias = nn.Parameter(torch.empty(4 * cells))
        self.projection = nn.Parameter(torch.empty(cells, projection)) if cells != projection else None
        self.clips = ops.Clips(config.cell_clip, config.projection_clip)

    def reset(self, generator: Generator) -> None:
        nn.init.xavier_uniform_(self.kernel, generator=generator)
        nn.init.zeros_(self.bias)
        if self.projection is not None:
            nn.init.xavier_uniform_(self.projection, generator=generator)

    @property
    def weights(self) -> ops.LstmWeights:
        return ops.LstmWeights(self.kernel, self.bias, self.projection)

    def forward(
        self, x_BTP: Tensor, lengths_B: Tensor, h_BP: Tensor, c_BH: Tensor, lstm: Lstm = ops.lstm
    ) -> tuple[Tensor, ...]:
        return lstm(x_BTP, lengths_B, self.weights, self.clips, h_BP, c_BH)


def context_of(config: EncoderConfig) -> Transformer | GatedCnn | None:
    """The encoder above the words, for the kinds without a state; an LSTM's layers belong to the biLM itself."""
    if isinstance(config, LstmConfig):
        return None
    return Transformer(config) if isinstance(config, TransformerConfig) else GatedCnn(config)


class BiLM(nn.Module):
    """A word encoder and, on top of it, two independent stacks: of LSTMs, or those of `context`."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        self.encoder = encoder_of(config.input, config.projection)
        self.context = context_of(config.encoder)
        if isinstance(config.encoder, LstmConfig):
            layers = range(config.encoder.layers)
            self.lstm_forward = nn.ModuleList(ProjectedLstm(config.encoder) for _ in layers)
            self.lstm_backward = nn.ModuleList(ProjectedLstm(config.encoder) for _ in layers)

    @property
    def stacks(self) -> tuple[nn.Module, nn.Module]:
        """What is above the words in each direction."""
        return (self.lstm_forward, self.lstm_backward) if self.context is None else self.context.stacks

    def reset(self, seed: int) -> "BiLM":
        """Initial values for training, the same for the same seed."""
        generator = Generator().manual_seed(seed)
        self.encoder.reset(generator)
        if self.context is not None:
            self.context.reset(generator)
        else:
            for cell in (*self.lstm_forward, *self.lstm_backward):
                cell.reset(generator)
        return self

    @torch.no_grad()
    def centre(self, mean_P: Tensor) -> bool:
        """Subtract a vector from the token layer; the first LSTMs' biases make up for it, so no other layer changes:

        x W + b = (x − m) W + (b + m W)

        False, and nothing is changed, for an encoder that does not begin with x W + b, or without a bias in layer 0.
        """
        offset, size = self.encoder.offset, len(mean_P)
        if offset is None or self.context is not None:
            return False
        offset.sub_(mean_P)
        for stack in (self.lstm_forward, self.lstm_backward):
            first = stack[0]
            assert isinstance(first, ProjectedLstm)
            first.bias.add_(mean_P @ first.kernel[:size])
        return True

    def zero_state(self, rows: int = 1) -> State:
        """The state of a fresh start; that of an encoder without one has no layers."""
        return State.zeros(self.config.encoder, rows, self.encoder.table.device, self.encoder.table.dtype)

    def forward(self, x_BTP: Tensor, lengths_B: Tensor, state: State, lstm: Lstm = ops.lstm) -> tuple[Tensor, State]:
        """Token layer, lengths and start state (a row each) → layers (L+1, B, T, 2P) and the state at each row's end.

        Layer 0 is the token layer twice; positions past a row's length are zero in every layer.
        """
        inside_BT1 = torch.arange(x_BTP.shape[1], device=x_BTP.device)[None, :, None] < lengths_B[:, None, None]
        x_BTP = torch.where(inside_BT1, x_BTP, 0.0)
        if self.context is not None:
            return self._without_padding(self.context, x_BTP, inside_BT1[..., 0]), state
        forward = self._run(self.lstm_forward, x_BTP, lengths_B, State(state.h[0], state.c[0]), lstm)
        reversed_BTP = ops.reverse(x_BTP, lengths_B)
        backward = self._run(self.lstm_backward, reversed_BTP, lengths_B, State(state.h[1], state.c[1]), lstm)
        layers = [torch.cat([x_BTP, x_BTP], -1)]
        for forward_BTP, backward_BTP in zip(forward[0], backward[0], strict=True):
            layers.append(torch.cat([forward_BTP, ops.reverse(backward_BTP, lengths_B)], -1))
        ends = zip(forward[1], backward[1], strict=True)
        return torch.stack(layers), State(*(torch.stack(both) for both in ends))

    def _without_padding(self, context: Transformer | GatedCnn, x_BTP: Tensor, inside_BT: Tensor) -> Tensor:
        """All layers (L+1, B, T, 2P) of an encoder that reads words end to end."""
        runs = Runs(inside_BT.sum(1).tolist(), device=x_BTP.device)
        order_N, turned = runs.reversed()
        x_NP = x_BTP[inside_BT]
        forward, backward = context(0, x_NP, runs), context(1, x_NP[order_N], turned)
        pairs = zip([x_NP, *forward], [x_NP, *(y_NP[order_N] for y_NP in backward)], strict=True)
        layers_LND = torch.stack([torch.cat(pair, 1) for pair in pairs])
        layers_LBTD = layers_LND.new_zeros(len(layers_LND), *inside_BT.shape, layers_LND.shape[2])
        layers_LBTD[:, inside_BT] = layers_LND
        return layers_LBTD

    def _run(
        self, cells: nn.ModuleList, x_BTP: Tensor, lengths_B: Tensor, start: State, lstm: Lstm
    ) -> tuple[list[Tensor], State]:
        """One direction, in reading order → the output of every layer, and the end state (L, B, ·)."""
        outputs, ends = [], []
        for depth, cell in enumerate(cells):
            y_BTP, *end = cell(x_BTP, lengths_B, start.h[depth], start.c[depth], lstm)
            x_BTP = with_residual(depth, y_BTP, x_BTP, self.config.lstm.skip)
            outputs.append(x_BTP)
            ends.append(end)
        return outputs, State(*(torch.stack(part) for part in zip(*ends, strict=True)))


class Softmax(nn.Module):
    def __init__(self, words: int, projection: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(words, projection))
        self.bias = nn.Parameter(torch.empty(words))

    def reset(self, generator: Generator) -> None:
        nn.init.normal_(self.weight, 0, self.weight.shape[1] ** -0.5, generator)
        nn.init.zeros_(self.bias)

    def forward(self, h_NP: Tensor) -> Tensor:
        """Outputs of the top layer in one direction → log-probabilities of the word each predicts (N, V)."""
        return torch.log_softmax(arithmetic.linear(h_NP, self.weight.t(), self.bias), -1)
