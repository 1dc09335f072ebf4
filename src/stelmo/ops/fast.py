"""The functions of `reference`, arranged for speed without gradients: equal values, computed in another order.

Knows no modules. Sentences of a batch are sorted, longest first, and *packed*: step t holds the rows that are that
long, so there is no padding to compute. G directions side by side, B sentences, N packed tokens, n of some steps,
C characters, F filters, D input width, P projection, H cells, h cells of one block, U distinct words.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from stelmo.ops import arithmetic, windows
from stelmo.ops.reference import FORGET_BIAS, Clips, LstmWeights

_GATES = [0, 2, 3, 1]  # i, f, o, j out of i, j, f, o
CELLS_TOGETHER = 1024  # their gates stay in the cache during a step; smaller blocks would mean more calls
TOKENS_TOGETHER = 64  # of an input product: steps with few rows share one product, which reads the weights only once


class Product(Protocol):
    """A weight matrix (K, N) of each direction, arranged for multiplying."""

    def add_to(self, out_GnN: Tensor, x_GnK: Tensor) -> None:
        """out += x W"""

    def of(self, directions: slice) -> "Product":
        """The same for some of the directions."""


class Dense(NamedTuple):
    matrix_GKN: Tensor

    def add_to(self, out_GnN: Tensor, x_GnK: Tensor) -> None:
        arithmetic.add_products(out_GnN, x_GnK, self.matrix_GKN)

    def of(self, directions: slice) -> "Dense":
        return Dense(self.matrix_GKN[directions])


Arrange = Callable[[Tensor], Product]


class Block(NamedTuple):
    """Some cells of a layer. Gates are in the order i, f, o, j: one sigmoid over the first three."""

    input: Product  # (D, 4h)
    state: Product  # (P, 4h)
    bias_G4h: Tensor

    def of(self, directions: slice) -> "Block":
        return Block(self.input.of(directions), self.state.of(directions), self.bias_G4h[directions])


class PackedWeights(NamedTuple):
    blocks: list[Block]
    projection_GHP: Tensor | None
    clips: Clips

    def of(self, directions: slice) -> "PackedWeights":
        projection_GHP = None if self.projection_GHP is None else self.projection_GHP[directions]
        return PackedWeights([block.of(directions) for block in self.blocks], projection_GHP, self.clips)


# (block, first, end, out): writes the input's contribution x Wₓ + b to the gates of the packed tokens first … end − 1
# into out (G, n, 4h)
Fill = Callable[[int, int, int, Tensor], None]


def pack(
    directions: Sequence[LstmWeights], clips: Clips, cells: int = CELLS_TOGETHER, arrange: Arrange = Dense
) -> PackedWeights:
    """A layer's weights in every direction, cut into blocks of cells; the forget bias is included.

    `arrange` decides how the gates are multiplied. The projection is always float32: it is a ninth of the work, and in
    8 bits most of the accuracy would be lost there.
    """
    kernel_GK4H = torch.stack([weights.kernel.reshape(len(weights.kernel), 4, -1) for weights in directions])
    kernel_GK4H = kernel_GK4H[:, :, _GATES]
    bias_G4H = torch.stack([weights.bias.reshape(4, -1) for weights in directions])[:, _GATES]
    bias_G4H[:, 1] += FORGET_BIAS
    projections = [weights.projection_HP for weights in directions if weights.projection_HP is not None]
    outputs = projections[0].shape[1] if projections else bias_G4H.shape[2]
    inputs = kernel_GK4H.shape[1] - outputs
    blocks = []
    for start in range(0, bias_G4H.shape[2], cells):
        kernel_GK4h = kernel_GK4H[..., start : start + cells].flatten(2)
        bias_G4h = bias_G4H[..., start : start + cells].flatten(1)
        of_input, of_state = kernel_GK4h[:, :inputs].contiguous(), kernel_GK4h[:, inputs:].contiguous()
        blocks.append(Block(arrange(of_input), arrange(of_state), bias_G4h))
    return PackedWeights(blocks, torch.stack(projections) if projections else None, clips)


def from_table(tables: Sequence[Tensor], index_GN: Tensor) -> Fill:
    """The input's contribution to the gates, from a table that has one row for each distinct word."""
    directions, words = tables[0].shape[:2]
    rows_GN = index_GN + words * torch.arange(directions)[:, None]

    def fill(block: int, first: int, end: int, out: Tensor) -> None:
        rows = rows_GN[:, first:end].reshape(-1)
        torch.index_select(tables[block].flatten(0, 1), 0, rows, out=out.flatten(0, 1))

    return fill


def from_outputs(x_GND: Tensor, weights: PackedWeights) -> Fill:
    """The input's contribution to the gates, from the layer below; short steps are computed several at once."""
    computed: dict[int, tuple[int, Tensor]] = {}  # of each block: the first token, and the gates from it on

    def fill(block: int, first: int, end: int, out: Tensor) -> None:
        if end - first >= TOKENS_TOGETHER:
            _add_input(x_GND[:, first:end], weights.blocks[block], out)
            return
        start, gates_Gn4h = computed.get(block, (0, x_GND[:, :0]))
        if end > start + gates_Gn4h.shape[1]:
            start, x_GnD = first, x_GND[:, first : first + TOKENS_TOGETHER]
            gates_Gn4h = _add_input(x_GnD, weights.blocks[block], out.new_empty(*x_GnD.shape[:2], out.shape[2]))
            computed[block] = start, gates_Gn4h
        out.copy_(gates_Gn4h[:, first - start : end - start])

    return fill


def gate_tables(x_UD: Tensor, weights: PackedWeights) -> list[Tensor]:
    """The input's contribution to the gates for each distinct word, block by block: (G, U, 4h)."""
    sizes = [(len(block.bias_G4h), len(x_UD), block.bias_G4h.shape[1]) for block in weights.blocks]
    return [
        _add_input(x_UD.expand(size[0], -1, -1), block, x_UD.new_empty(size))
        for block, size in zip(weights.blocks, sizes, strict=True)
    ]


def _add_input(x_GnD: Tensor, block: Block, out_Gn4h: Tensor) -> Tensor:
    block.input.add_to(out_Gn4h.copy_(block.bias_G4h[:, None]), x_GnD)
    return out_Gn4h


def lstm(
    fill: Fill, sizes: Sequence[int], weights: PackedWeights, h_GBP: Tensor, c_GBH: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """One layer over packed sentences → packed outputs (G, N, P) and the state of each row at its own end.

        gatesₜ = (xₜ Wₓ + b) + hₜ₋₁ Wₕ      `fill` writes the bracket; `_cells` and `_projected` compute the rest

    `sizes` is the number of rows of each step; it never increases.
    """
    directions, rows, cells = c_GBH.shape
    together = weights.blocks[0].bias_G4h.shape[1] // 4
    c_blocks = [part.clone(memory_format=torch.contiguous_format) for part in torch.split(c_GBH, together, 2)]
    gates_buffer, m_buffer = (c_GBH.new_empty(directions * rows * wide) for wide in (4 * together, cells))
    y_GNP = h_GBP.new_empty(directions, sum(sizes), h_GBP.shape[2])
    first = 0
    for rows in sizes:
        m_GnH = m_buffer[: directions * rows * cells].view(directions, rows, cells)
        for number, (block, c_GBh) in enumerate(zip(weights.blocks, c_blocks, strict=True)):
            wide = c_GBh.shape[2]
            gates_Gn4h = gates_buffer[: directions * rows * 4 * wide].view(directions, rows, 4 * wide)
            fill(number, first, first + rows, gates_Gn4h)
            block.state.add_to(gates_Gn4h, h_GBP[:, :rows])
            start = number * together
            _cells(gates_Gn4h, c_GBh[:, :rows], m_GnH[..., start : start + wide], weights.clips.cell)
        y_GNP[:, first : first + rows] = _projected(m_GnH, weights)
        h_GBP = y_GNP[:, first : first + rows]
        first += rows
    return y_GNP, y_GNP[:, _ends(sizes)], torch.cat(c_blocks, 2)


def _ends(sizes: Sequence[int]) -> list[int]:
    """The position of each row's last token among the packed ones."""
    ends, first = [0] * sizes[0], 0
    for rows, alive in zip(sizes, [*sizes[1:], 0], strict=True):
        ends[alive:rows] = range(first + alive, first + rows)
        first += rows
    return ends


def _cells(gates_Gn4h: Tensor, c_Gnh: Tensor, m_Gnh: Tensor, limit: float | None) -> None:
    """c = clip(σ(f) ⊙ c + σ(i) ⊙ tanh(j)),  m = σ(o) ⊙ tanh(c), in place."""
    width = c_Gnh.shape[2]
    gates_Gn4h[..., : 3 * width].sigmoid_()
    i, f, o, j = torch.split(gates_Gn4h, width, 2)
    c_Gnh.mul_(f).addcmul_(i, arithmetic.tanh(j, out=j))
    if limit is not None:
        c_Gnh.clamp_(-limit, limit)
    arithmetic.tanh(c_Gnh, out=m_Gnh).mul_(o)


def _projected(m_GnH: Tensor, weights: PackedWeights) -> Tensor:
    if weights.projection_GHP is None:
        return m_GnH
    h_GnP = arithmetic.products(m_GnH, weights.projection_GHP)
    limit = weights.clips.projection
    return h_GnP if limit is None else h_GnP.clamp_(-limit, limit)


def char_cnn(
    chars_NC: Tensor, table: Tensor, kernels: Sequence[Tensor], biases: Sequence[Tensor], activation: str
) -> Tensor:
    """Character ids → (N, F), as `reference.char_cnn`."""
    filters_wEF, widths_F = windows.concatenated(kernels)
    ids_d, numbers_NC = windows.distinct_ids(chars_NC, len(table))
    contributions_wdF = table[ids_d] @ filters_wEF
    x_NF = table.new_empty(len(chars_NC), len(widths_F))
    for part in windows.parts(numbers_NC, widths_F, len(contributions_wdF)):
        x_NF[part.rows_n] = part.responses(contributions_wdF).amax(1)
    activate = {"relu": torch.relu_, "tanh": torch.tanh_}[activation]
    return activate(x_NF.add_(torch.cat(list(biases))))
