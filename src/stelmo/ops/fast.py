"""The functions of `reference`, arranged for speed without gradients: equal values, other order. Knows no modules.

Sentences of a batch stand longest first and are *packed*: step t holds the rows that are that long, so there is no
padding to compute. B sentences, N packed tokens, C characters, F filters, D input width, P projection, H cells,
h cells of one block, U distinct words.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from stelmo.ops import windows
from stelmo.ops.reference import FORGET_BIAS, Clips, LstmWeights

_GATES = [0, 2, 3, 1]  # i, f, o, j out of i, j, f, o
CELLS_TOGETHER = 1024  # their gates stay in the cache between product and rest; more, smaller blocks cost calls
TOKENS_TOGETHER = 64  # of an input product: steps of few rows share one, which reads the weights once for all of them


class Product(Protocol):
    """A weight matrix (K, N), arranged for multiplying."""

    def add_to(self, out_nN: Tensor, x_nK: Tensor) -> None:
        """out += x W"""


class Dense(NamedTuple):
    matrix_KN: Tensor

    def add_to(self, out_nN: Tensor, x_nK: Tensor) -> None:
        out_nN.addmm_(x_nK, self.matrix_KN)


Arrange = Callable[[Tensor], Product]


class Block(NamedTuple):
    """Some cells of a layer. Gates stand in the order i, f, o, j: one sigmoid over the first three."""

    input: Product  # (D, 4h)
    state: Product  # (P, 4h)
    bias_4h: Tensor


class PackedWeights(NamedTuple):
    blocks: list[Block]
    projection_HP: Tensor | None
    clips: Clips


Fill = Callable[[int, int, int, Tensor], None]  # (block, first, last packed token, out): the input's half of the gates


def pack(weights: LstmWeights, clips: Clips, cells: int = CELLS_TOGETHER, arrange: Arrange = Dense) -> PackedWeights:
    """Weights cut into blocks of cells, the forget bias put in.

    `arrange` decides how the gates are multiplied. The projection stays as it is: a ninth of the work, and in 8 bits it
    costs most of the accuracy.
    """
    kernel_K4H = weights.kernel.reshape(len(weights.kernel), 4, -1)[:, _GATES]
    bias_4H = weights.bias.reshape(4, -1)[_GATES]
    bias_4H[1] += FORGET_BIAS
    inputs = len(kernel_K4H) - _width(weights)
    blocks = []
    for start in range(0, bias_4H.shape[1], cells):
        kernel_K4h = kernel_K4H[:, :, start : start + cells].flatten(1)
        bias_4h = bias_4H[:, start : start + cells].flatten()
        of_input, of_state = kernel_K4h[:inputs].contiguous(), kernel_K4h[inputs:].contiguous()
        blocks.append(Block(arrange(of_input), arrange(of_state), bias_4h))
    return PackedWeights(blocks, weights.projection_HP, clips)


def _width(weights: LstmWeights) -> int:
    return len(weights.bias) // 4 if weights.projection_HP is None else weights.projection_HP.shape[1]


def from_table(tables: Sequence[Tensor], index_N: Tensor) -> Fill:
    """The input's half of the gates, where a word's is known: one row of a table for each distinct word."""

    def fill(block: int, first: int, last: int, out: Tensor) -> None:
        torch.index_select(tables[block], 0, index_N[first:last], out=out)

    return fill


def from_outputs(x_ND: Tensor, weights: PackedWeights) -> Fill:
    """The same from the outputs of the layer below, some steps ahead where they have few rows."""
    ahead: dict[int, tuple[int, Tensor]] = {}  # of each block: the first token computed, and the gates from it on

    def fill(block: int, first: int, last: int, out: Tensor) -> None:
        start, gates_n4h = ahead.get(block, (0, x_ND[:0]))
        if last > start + len(gates_n4h):
            start = first
            gates_n4h = _input_half(x_ND[first : max(last, first + TOKENS_TOGETHER)], weights.blocks[block])
            ahead[block] = start, gates_n4h
        out.copy_(gates_n4h[first - start : last - start])

    return fill


def gate_tables(x_UD: Tensor, weights: PackedWeights) -> list[Tensor]:
    """The input's half of the gates for each distinct word, block by block: (U, 4h)."""
    return [_input_half(x_UD, block) for block in weights.blocks]


def _input_half(x_nD: Tensor, block: Block) -> Tensor:
    gates_n4h = block.bias_4h.repeat(len(x_nD), 1)
    block.input.add_to(gates_n4h, x_nD)
    return gates_n4h


def lstm(
    fill: Fill, sizes: Sequence[int], weights: PackedWeights, h_BP: Tensor, c_BH: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """One layer over packed sentences → packed outputs (N, P) and the state of each row at its own end.

    `sizes` says how many rows each step has; they never grow.
    """
    h_BP, m_BH = h_BP.clone(), torch.empty_like(c_BH)
    cells = len(weights.blocks[0].bias_4h) // 4
    c_blocks = [part.clone(memory_format=torch.contiguous_format) for part in torch.split(c_BH, cells, 1)]
    room = c_BH.new_empty(len(c_BH) * 4 * cells)
    y_NP = h_BP.new_empty(sum(sizes), h_BP.shape[1])
    first = 0
    for rows in sizes:
        for number, (block, c_Bh) in enumerate(zip(weights.blocks, c_blocks, strict=True)):
            gates_n4h = room[: rows * len(block.bias_4h)].view(rows, -1)
            fill(number, first, first + rows, gates_n4h)
            block.state.add_to(gates_n4h, h_BP[:rows])
            start = number * cells
            _cells(gates_n4h, c_Bh[:rows], m_BH[:rows, start : start + c_Bh.shape[1]], weights.clips.cell)
        _project(m_BH[:rows], weights, h_BP[:rows])
        y_NP[first : first + rows] = h_BP[:rows]
        first += rows
    return y_NP, h_BP, torch.cat(c_blocks, 1)


def _cells(gates_n4h: Tensor, c_nh: Tensor, m_nh: Tensor, limit: float | None) -> None:
    """c = clip(σ(f) ⊙ c + σ(i) ⊙ tanh(j)),  m = σ(o) ⊙ tanh(c), in place."""
    width = c_nh.shape[1]
    gates_n4h[:, : 3 * width].sigmoid_()
    i, f, o, j = torch.split(gates_n4h, width, 1)
    c_nh.mul_(f).addcmul_(i, j.tanh_())
    if limit is not None:
        c_nh.clamp_(-limit, limit)
    torch.tanh(c_nh, out=m_nh)
    m_nh.mul_(o)


def _project(m_nH: Tensor, weights: PackedWeights, out_nP: Tensor) -> None:
    if weights.projection_HP is None:
        out_nP.copy_(m_nH)
        return
    torch.mm(m_nH, weights.projection_HP, out=out_nP)
    if weights.clips.projection is not None:
        out_nP.clamp_(-weights.clips.projection, weights.clips.projection)


def char_cnn(
    chars_NC: Tensor, table: Tensor, kernels: Sequence[Tensor], biases: Sequence[Tensor], activation: str
) -> Tensor:
    """Character ids → (N, F), as `reference.char_cnn`."""
    filters_wEF, widths_F = windows.side_by_side(kernels)
    met_d, numbers_NC = windows.met(chars_NC, len(table))
    given_wdF = table[met_d] @ filters_wEF
    x_NF = table.new_empty(len(chars_NC), len(widths_F))
    for part in windows.parts(numbers_NC, widths_F, len(given_wdF)):
        x_NF[part.rows_n] = part.strength(given_wdF).amax(1)
    activate = {"relu": torch.relu_, "tanh": torch.tanh_}[activation]
    return activate(x_NF.add_(torch.cat(list(biases))))
