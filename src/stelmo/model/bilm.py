"""Token vectors → all layers of the bidirectional language model. Knows no files, no strings, and keeps no state.

B sentences, T tokens (the sentence markers included), P projection, H cells, L layers, D = 2P.
"""

import torch
from torch import Generator, Tensor, nn

from stelmo.config import LstmConfig, ModelConfig
from stelmo.model import state as states
from stelmo.model.encoder import encoder_of
from stelmo.model.stack import with_residual
from stelmo.model.state import State
from stelmo.ops import reference as ops


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

    def forward(self, x_BTP: Tensor, lengths_B: Tensor, h_BP: Tensor, c_BH: Tensor) -> tuple[Tensor, ...]:
        return ops.lstm(x_BTP, lengths_B, self.weights, self.clips, h_BP, c_BH)


class BiLM(nn.Module):
    """A word encoder and two independent stacks of LSTMs on top of it."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        projection, layers = config.lstm.projection, range(config.lstm.layers)
        self.encoder = encoder_of(config.input, projection)
        self.lstm_forward = nn.ModuleList(ProjectedLstm(config.lstm) for _ in layers)
        self.lstm_backward = nn.ModuleList(ProjectedLstm(config.lstm) for _ in layers)

    def reset(self, seed: int) -> "BiLM":
        """Initial values for training, the same for the same seed."""
        generator = Generator().manual_seed(seed)
        self.encoder.reset(generator)
        for cell in (*self.lstm_forward, *self.lstm_backward):
            cell.reset(generator)
        return self

    def zero_state(self, rows: int = 1) -> State:
        table = self.encoder.table
        return states.zeros(self.config.lstm, rows, table.device, table.dtype)

    def forward(self, x_BTP: Tensor, lengths_B: Tensor, state: State) -> tuple[Tensor, State]:
        """Token layer, lengths and start state (a row each) → layers (L+1, B, T, 2P) and the state at each row's end.

        Layer 0 is the token layer twice; positions past a row's length are zero in every layer.
        """
        inside_BT1 = torch.arange(x_BTP.shape[1], device=x_BTP.device)[None, :, None] < lengths_B[:, None, None]
        x_BTP = torch.where(inside_BT1, x_BTP, 0.0)
        forward = self._run(self.lstm_forward, x_BTP, lengths_B, State(state.h[0], state.c[0]))
        reversed_BTP = ops.reverse(x_BTP, lengths_B)
        backward = self._run(self.lstm_backward, reversed_BTP, lengths_B, State(state.h[1], state.c[1]))
        layers = [torch.cat([x_BTP, x_BTP], -1)]
        for forward_BTP, backward_BTP in zip(forward[0], backward[0], strict=True):
            layers.append(torch.cat([forward_BTP, ops.reverse(backward_BTP, lengths_B)], -1))
        ends = zip(forward[1], backward[1], strict=True)
        return torch.stack(layers), State(*(torch.stack(both) for both in ends))

    def _run(self, cells: nn.ModuleList, x_BTP: Tensor, lengths_B: Tensor, start: State) -> tuple[list[Tensor], State]:
        """One direction, in reading order → the output of every layer, and the end state (L, B, ·)."""
        outputs, ends = [], []
        for depth, cell in enumerate(cells):
            y_BTP, *end = cell(x_BTP, lengths_B, start.h[depth], start.c[depth])
            x_BTP = with_residual(depth, y_BTP, x_BTP, self.config.lstm.skip)
            outputs.append(x_BTP)
            ends.append(end)
        return outputs, State(*(torch.stack(part) for part in zip(*ends, strict=True)))
