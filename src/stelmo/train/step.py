"""A batch → the loss of both directions, the gradient of everything, and the state for the next. Knows no optimiser.

What makes it fast: the distinct words of both directions pass through the encoder once; the LSTMs, the convolution and
the softmax have gradients written by hand; each direction has a thread, and so has each half of the words.

T steps of a window, B rows, N = T · B, U distinct words, P projection, H cells, L layers.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
import torch
from torch import Generator, Tensor
from torch.nn import Module, Parameter, functional

from stelmo.model.bilm import BiLM, ProjectedLstm
from stelmo.model.softmax import Softmax
from stelmo.model.stack import ResidualStack
from stelmo.model.state import State
from stelmo.ops import losses, trainable
from stelmo.ops import reference as ops
from stelmo.ops.losses import LossGradient, RowGradient
from stelmo.ops.trainable import Buffers
from stelmo.train.batches import Batch
from stelmo.train.sampling import Negatives
from stelmo.train.threads import side_by_side, workers

DIRECTIONS = (0, 1)  # forward, backward
# One layer over a window: (its number, its weights, input, h, c) → output and end state
LayerEnds = tuple[Tensor, Tensor, Tensor]
RunLayer = Callable[[int, ProjectedLstm, Tensor, Tensor, Tensor], LayerEnds]


class StepResult(NamedTuple):
    loss_forward: float  # mean cross entropy a token, whatever the scale
    loss_backward: float
    state: State  # behind the window, without gradient
    rows: RowGradient


class StepBuffers:
    """Memory that the steps of a run share; see `Buffers`."""

    def __init__(self) -> None:
        self._kept: dict[tuple[int, int], Buffers] = {}

    def of(self, direction: int, depth: int) -> Buffers:
        return self._kept.setdefault((direction, depth), Buffers())


class Dropout(NamedTuple):
    """Masks follow from the seed (say: seed, step, rank) and the direction alone, whatever thread asks for them."""

    share: float = 0.0
    seed: Sequence[int] = ()

    def masks(self, like: Tensor, count: int, direction: int) -> list[Tensor | None]:
        if not self.share:
            return [None] * count
        number = int(np.random.SeedSequence([*self.seed, direction]).generate_state(1, np.uint64)[0])
        generator, keep = Generator().manual_seed(number >> 1), 1 - self.share
        drawn = (torch.empty(like.shape, dtype=like.dtype) for _ in range(count))
        return [mask.bernoulli_(keep, generator=generator).div_(keep).to(like.device) for mask in drawn]


def step(
    bilm: BiLM,
    softmax: Softmax,
    batch: Batch,
    state: State,
    negatives: Negatives | None,
    *,
    scale: float = 1.0,
    dropout: float = 0.0,
    seed: Sequence[int] = (0,),
    reference: bool = False,
    buffers: StepBuffers | None = None,
) -> StepResult:
    """Gradients of scale · ½ (forward + backward loss): added to the biLM's `.grad`, the softmax's returned as rows.

    Without negatives the softmax is the full one. Parameters of the biLM that need no gradient get none. The same
    arguments and thread count give the same bits. `reference` computes the same with nothing but autograd.
    """
    drop = Dropout(dropout, seed)
    if reference:
        return _reference_step(bilm, softmax, batch, state, negatives, scale, drop)
    words = EncodedWords(bilm, batch.ids_U)
    with torch.autocast(batch.ids_U.device.type, enabled=False):  # of lower precision are the encoder's products alone
        window = _Window(bilm, words.x_UP, batch, state, drop, buffers or StepBuffers())
        return _learned(words, window, _Head(softmax, negatives, scale / 2))


def _learned(words: "EncodedWords", window: "_Window", head: "_Head") -> StepResult:
    found = side_by_side(partial(window.both_ways, head), DIRECTIONS, words.x_UP.device)
    for direction in found:
        _add(direction.trained, direction.gradients)
    words.backward([dx_UP for direction in found for dx_UP in direction.dx_UP])
    rows = losses.merge([direction.loss.rows for direction in found])
    forward, backward = (float(direction.loss.loss) for direction in found)
    return StepResult(forward, backward, _joined([direction.end for direction in found]), rows)


@torch.no_grad()
def outputs(bilm: BiLM, batch: Batch, state: State, buffers: StepBuffers | None = None) -> tuple[Tensor, State]:
    """What the softmax reads, (2, T, B, P), without dropout and gradient; and the state behind the window."""
    words = EncodedWords(bilm, batch.ids_U)
    window = _Window(bilm, words.x_UP, batch, state, Dropout(), buffers or StepBuffers())
    with torch.autocast(batch.ids_U.device.type, enabled=False):
        found = side_by_side(window.forward, DIRECTIONS, words.x_UP.device)
    return torch.stack([h_TBP for h_TBP, _ in found]), _joined([end for _, end in found])


class EncodedWords:
    """The encoder's outputs for distinct words; each thread encodes some of them."""

    def __init__(self, bilm: BiLM, ids_U: Tensor) -> None:
        self._bilm, self._ids_U, self._trained = bilm, ids_U, _trained(bilm.encoder)
        count = min(workers(ids_U.device), len(ids_U))
        shares = [slice(first, None, count) for first in range(count)]  # long and short words for everyone
        self._parts = list(zip(shares, side_by_side(self._encode, shares, ids_U.device), strict=True))
        self.x_UP = bilm.encoder.table.new_empty(len(ids_U), bilm.config.lstm.projection)
        for share, part_uP in self._parts:
            self.x_UP[share] = part_uP.detach()
        self.x_UP.requires_grad_(bool(self._trained))

    def _encode(self, share: slice) -> Tensor:
        part_uP: Tensor = self._bilm.encoder(self._ids_U[share], trainable.char_cnn)
        return part_uP

    def backward(self, gradients: Sequence[Tensor]) -> None:
        """The directions' gradients of the vectors → the encoder's `.grad`; none, if it is not trained."""
        if not gradients:
            return
        dx_UP = torch.stack(list(gradients)).sum(0)

        def back(part: tuple[slice, Tensor]) -> Sequence[Tensor]:
            share, part_uP = part
            return torch.autograd.grad(part_uP, self._trained, dx_UP[share].to(part_uP.dtype))

        for found in side_by_side(back, self._parts, dx_UP.device):
            _add(self._trained, found)


class _Head(NamedTuple):
    softmax: Softmax
    negatives: Negatives | None
    scale: float

    def __call__(self, h_NP: Tensor, targets_N: Tensor) -> LossGradient:
        weight_VP, bias_V = self.softmax.weight, self.softmax.bias
        if self.negatives is None:
            return losses.full_softmax(h_NP, targets_N, weight_VP, bias_V, self.scale)
        return losses.sampled_softmax(h_NP, targets_N, weight_VP, bias_V, *self.negatives, self.scale)


class _Direction(NamedTuple):
    """What one direction gives; only what is trained has a gradient."""

    loss: LossGradient
    end: State
    trained: list[Parameter]
    gradients: Sequence[Tensor]
    dx_UP: Sequence[Tensor]  # one or none


class _Window(NamedTuple):
    bilm: BiLM
    x_UP: Tensor
    batch: Batch
    state: State
    drop: Dropout
    buffers: StepBuffers

    def forward(self, direction: int) -> tuple[Tensor, State]:
        x_TBP = functional.embedding(self.batch.index_2TB[direction], self.x_UP)

        def layer(depth: int, cell: ProjectedLstm, x_TBP: Tensor, h_BP: Tensor, c_BH: Tensor) -> LayerEnds:
            return trainable.lstm(x_TBP, cell.weights, cell.clips, h_BP, c_BH, self.buffers.of(direction, depth))

        return _stack(self.bilm, direction, x_TBP, self.state, self.drop, layer)

    def both_ways(self, head: _Head, direction: int) -> _Direction:
        h_TBP, end = self.forward(direction)
        targets_N = self.batch.targets_2TB[direction].flatten()
        loss = head(h_TBP.detach().flatten(0, 1), targets_N)
        trained = _trained(*_cells(self.bilm, direction))
        leaves = [*trained, self.x_UP] if self.x_UP.requires_grad else trained
        found = torch.autograd.grad(h_TBP, leaves, loss.h_NP.view_as(h_TBP)) if leaves else ()
        return _Direction(loss, end, trained, found[: len(trained)], found[len(trained) :])


def _stack(
    bilm: BiLM, direction: int, x_TBP: Tensor, state: State, drop: Dropout, layer: RunLayer
) -> tuple[Tensor, State]:
    """Token vectors of a window → what the softmax reads, and the end state (L, B, ·) of the direction."""
    cells = _cells(bilm, direction)
    *masks, last = drop.masks(x_TBP, len(cells) + 1, direction)
    ends = []
    stack = ResidualStack(x_TBP, len(cells), bilm.config.lstm.skip)
    for depth, x_TBP in stack:
        x_TBP = _dropped(x_TBP, masks[depth])
        y_TBP, *end = layer(depth, cells[depth], x_TBP, state.h[direction, depth], state.c[direction, depth])
        stack.put(y_TBP, x_TBP)
        ends.append(end)
    return _dropped(stack.outputs[-1], last), State(*(torch.stack(part).detach() for part in zip(*ends, strict=True)))


def _dropped(x_TBP: Tensor, mask: Tensor | None) -> Tensor:
    return x_TBP if mask is None else x_TBP * mask


def _cells(bilm: BiLM, direction: int) -> list[ProjectedLstm]:
    return list((bilm.lstm_forward, bilm.lstm_backward)[direction])  # type: ignore[arg-type]


def _trained(*modules: Module) -> list[Parameter]:
    return [parameter for module in modules for parameter in module.parameters() if parameter.requires_grad]


def _add(parameters: Sequence[Parameter], gradients: Sequence[Tensor]) -> None:
    for parameter, gradient in zip(parameters, gradients, strict=True):
        parameter.grad = gradient if parameter.grad is None else parameter.grad.add_(gradient)


def _joined(ends: Sequence[State]) -> State:
    return State(*(torch.stack(both) for both in zip(*ends, strict=True)))


def _reference_step(
    bilm: BiLM,
    softmax: Softmax,
    batch: Batch,
    state: State,
    negatives: Negatives | None,
    scale: float,
    drop: Dropout,
) -> StepResult:
    """As the papers' code does: every position through the encoder, one step after another, a gradient for each row."""
    weight_VP, bias_V = (part.detach().requires_grad_() for part in (softmax.weight, softmax.bias))
    found, ends = [], []
    for direction in DIRECTIONS:
        index_TB, targets_N = batch.index_2TB[direction], batch.targets_2TB[direction].flatten()
        x_TBP = bilm.encoder(batch.ids_U[index_TB.flatten()]).view(*index_TB.shape, -1)
        h_TBP, end = _stack(bilm, direction, x_TBP, state, drop, _step_by_step)
        head = (h_TBP.flatten(0, 1), targets_N, weight_VP, bias_V)
        found.append(ops.full_softmax(*head) if negatives is None else ops.sampled_softmax(*head, *negatives))
        ends.append(end)
    torch.autograd.backward(scale / 2 * (found[0] + found[1]))
    assert weight_VP.grad is not None
    assert bias_V.grad is not None
    rows = RowGradient(torch.arange(len(bias_V), device=bias_V.device), weight_VP.grad, bias_V.grad)
    return StepResult(found[0].item(), found[1].item(), _joined(ends), rows)


def _step_by_step(_: int, cell: ProjectedLstm, x_TBP: Tensor, h_BP: Tensor, c_BH: Tensor) -> LayerEnds:
    outputs = []
    for x_BP in x_TBP:
        h_BP, c_BH = ops.lstm_step(x_BP, h_BP, c_BH, cell.weights, cell.clips)
        outputs.append(h_BP)
    return torch.stack(outputs), h_BP, c_BH
