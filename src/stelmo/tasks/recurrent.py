"""Recurrent layers of the tasks' networks: LSTM and GRU in both directions, alternating highway LSTM. Knows no task.

LSTMs are torch's, which are as fast on a CPU as anything here; GRUs and highway LSTMs are those of `cells`.

B sentences, T tokens, N packed tokens, n of some steps or sentences, D width, H hidden units, R rows of the padded
texts, M of those that an RNN of torch reads.
"""

from collections.abc import Sequence
from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn

from stelmo.tasks.cells import GRU, HIGHWAY, Packing, packing, recurrence


def together(texts: Sequence[Tensor]) -> Tensor:
    """The rows of all texts (B, T, D), padding included, one after another (R, D)."""
    flat = [x_BTD.flatten(0, 1) for x_BTD in texts]
    return torch.cat(flat) if len(flat) > 1 else flat[0]


def apart(x_RD: Tensor, masks: Sequence[Tensor]) -> list[Tensor]:
    """The inverse of `together`: (B, T, D) for each mask (B, T)."""
    parts = x_RD.split_with_sizes([mask_BT.numel() for mask_BT in masks])
    return [part.view(*mask_BT.shape, -1) for part, mask_BT in zip(parts, masks, strict=True)]


class BiRnn(nn.Module):
    """Reads each sentence in both directions; padding does not change the result."""

    def __init__(self, width: int, hidden: int, kind: Literal["lstm", "gru"] = "lstm") -> None:
        super().__init__()
        make = nn.LSTM if kind == "lstm" else nn.GRU
        self.ahead, self.back = make(width, hidden), make(width, hidden)
        for name, parameter in self.named_parameters():
            if "weight_hh" in name:
                # Orthogonal gates, so that a long sentence's state neither explodes nor vanishes at the start.
                for gate in torch.split(parameter.data, hidden):
                    nn.init.orthogonal_(gate)

    def forward(self, x_BTD: Tensor, mask_BT: Tensor) -> Tensor:
        """(B, T, 2H), zero where there is no token."""
        return self.several([x_BTD], [mask_BT])[0]

    def several(self, texts: Sequence[Tensor], masks: Sequence[Tensor]) -> list[Tensor]:
        """Several batches at once, which is faster than one after the other."""
        if isinstance(self.ahead, nn.LSTM) or texts[0].is_cuda:
            return self._by_torch(texts, masks)
        packed = packing(*masks)
        x_RD = together(texts)
        h_N2H = recurrence(GRU, x_RD, *self._gru_weights(), None, packed.rows_N, packed)
        return apart(h_N2H.new_zeros(len(x_RD), h_N2H.shape[1]).index_copy(0, packed.rows_N, h_N2H), masks)

    def _gru_weights(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Kernel, bias, state and inner bias of both directions. Torch's columns are r, z, n, the cell's n, r, z."""
        kernels, biases, states, inner = [], [], [], []
        for rnn in (self.ahead, self.back):
            kernel_3HD, state_3HH, bias_3H, state_bias_3H = rnn.parameters()
            rz = 2 * rnn.hidden_size
            kernels += [kernel_3HD[rz:], kernel_3HD[:rz]]
            biases += [bias_3H[rz:], bias_3H[:rz] + state_bias_3H[:rz]]
            states.append(state_3HH.t())
            inner.append(state_bias_3H[rz:])
        return torch.cat(kernels), torch.cat(biases), torch.stack(states), torch.stack(inner)

    def _by_torch(self, texts: Sequence[Tensor], masks: Sequence[Tensor]) -> list[Tensor]:
        """The backward RNN reads each sentence from its own end, so that padding stays after the last word.

        Packed sequences would give the same result, but their gradient is slower the longer they are.
        """
        x_RD, device = together(texts), texts[0].device
        first_B = torch.cat([rows_BT1[:, 0, 0] for rows_BT1 in apart(torch.arange(len(x_RD), device=device), masks)])
        lengths_B, order_B = torch.cat([mask_BT.sum(1) for mask_BT in masks]).sort(descending=True, stable=True)
        first_B, last_B = first_B[order_B], (lengths_B - 1).clamp_min(0)
        step_T1 = torch.arange(int(lengths_B[0]), device=device)[:, None]
        blocks = _blocks(lengths_B.tolist(), whole=x_RD.is_cuda)
        kept_N = _of_blocks(step_T1 < lengths_B, blocks).nonzero()[:, 0]
        steps, halves = (torch.minimum(step_T1, last_B), (last_B - step_T1).clamp_min(0)), []
        for rnn, step_TB in zip((self.ahead, self.back), steps, strict=True):
            rows_TB = first_B + step_TB
            h_NH = _block_by_block(rnn, x_RD, rows_TB, blocks).index_select(0, kept_N)
            rows_N = _of_blocks(rows_TB, blocks)[kept_N]
            halves.append(h_NH.new_zeros(len(x_RD), h_NH.shape[1]).index_copy(0, rows_N, h_NH))
        return apart(torch.cat(halves, 1), masks)


class _Block(NamedTuple):
    """Steps of the first sentences, which go on for as long."""

    first: int
    end: int
    rows: int


def _blocks(lengths: Sequence[int], whole: bool) -> list[_Block]:
    """All steps of sentences in descending order of their lengths, with little padding; `whole`: as one block.

    When half of the sentences have ended, a block with the others begins, unless it would cost more than it saves.
    Rows are halved, and ends are multiples of four, so that oneDNN, which compiles for every shape, finds few.
    """
    blocks, first, rows, longest = [], 0, len(lengths), lengths[0]
    while first < longest:
        half = -(-rows // 2)
        end = -(-lengths[half] // 4) * 4 if half < rows else longest
        if whole or longest - end < 8:
            end = longest
        if end > first:
            blocks.append(_Block(first, end, rows))
        first, rows = max(first, end), half
    return blocks


def _of_blocks(x_TB: Tensor, blocks: Sequence[_Block]) -> Tensor:
    return torch.cat([x_TB[first:end, :rows].flatten() for first, end, rows in blocks])


def _block_by_block(rnn: nn.Module, x_RD: Tensor, rows_TB: Tensor, blocks: Sequence[_Block]) -> Tensor:
    """What an RNN of torch says of the rows of x, one block after another, (M, H)."""
    found, state = [], None
    for first, end, rows in blocks:
        rows_tn = rows_TB[first:end, :rows]
        x_tnD = x_RD.index_select(0, rows_tn.flatten()).view(*rows_tn.shape, -1)
        if isinstance(state, Tensor):  # a GRU's
            state = state[:, :rows].contiguous()
        elif state is not None:
            state = tuple(part[:, :rows].contiguous() for part in state)
        y_tnH, state = rnn(x_tnD, state)
        found.append(y_tnH.flatten(0, 1))
    return torch.cat(found)


class HighwayLayer(nn.Module):
    """The columns of kernel, state and bias are i, f, o, r, j; kernel and bias have p as the last."""

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.kernel = nn.Parameter(_orthogonal(width, hidden, 6))
        self.state = nn.Parameter(_orthogonal(hidden, hidden, 5))
        self.bias = nn.Parameter(torch.zeros(6 * hidden))
        with torch.no_grad():
            self.bias[hidden : 2 * hidden] = 1.0  # with a low forget gate, long sentences have no gradient at the start

    def forward(self, x_RD: Tensor, rows_N: Tensor, packed: Packing, keep_BH: Tensor | None) -> Tensor:
        """(N, H), from the rows of x in the layer's reading order."""
        return recurrence(HIGHWAY, x_RD, self.kernel.t(), self.bias, self.state, None, keep_BH, rows_N, packed)


def _orthogonal(inputs: int, hidden: int, gates: int) -> Tensor:
    return torch.cat([nn.init.orthogonal_(torch.empty(inputs, hidden)) for _ in range(gates)], 1)


class AlternatingLstm(nn.Module):
    """Highway LSTMs (He et al. 2017): the first layer reads a sentence forwards, the second backwards, and so on."""

    def __init__(self, width: int, hidden: int, layers: int, dropout: float) -> None:
        super().__init__()
        self.hidden, self.dropout = hidden, dropout
        self.layers = nn.ModuleList(HighwayLayer(width if not layer else hidden, hidden) for layer in range(layers))

    def forward(self, x_BTD: Tensor, mask_BT: Tensor) -> Tensor:
        """(B, T, H), zero where there is no token."""
        packed = packing(mask_BT)
        h, rows_N = x_BTD.flatten(0, 1), packed.rows_N
        for layer in self.layers:
            h = layer(h, rows_N, packed, self._mask(h, len(mask_BT)))
            rows_N = packed.mirror_N
        rows_N = packed.rows_N if len(self.layers) % 2 else packed.rows_N[packed.mirror_N]
        h_BTH = h.new_zeros(mask_BT.numel(), self.hidden).index_copy(0, rows_N, h)
        return h_BTH.view(*mask_BT.shape, self.hidden)

    def _mask(self, like: Tensor, rows: int) -> Tensor | None:
        if not self.training or self.dropout == 0:
            return None
        return like.new_empty(rows, self.hidden).bernoulli_(1 - self.dropout).div_(1 - self.dropout)
