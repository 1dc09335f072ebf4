"""A batch → the loss of both directions, the gradient of every parameter, and the state after the window.

What makes it fast: the distinct words of both directions pass through the encoder once; the LSTMs, the convolution and
the softmax have hand-written gradients; each direction runs in its own thread, and so does each half of the words.
Encoders without a state are differentiated by autograd; they read the sentences of a window end to end.

T steps of a window, B rows, N = T · B, U distinct words, P projection, H cells, L layers.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple, TypeVar

import numpy as np
import torch
from torch import Tensor
from torch.nn import Module, Parameter, functional

from stelmo.engine.packed import shared_threads
from stelmo.model.bilm import BiLM, ProjectedLstm, Softmax, State, with_residual
from stelmo.model.context import Drop, GatedCnn, Transformer, no_dropout
from stelmo.ops import losses, trainable
from stelmo.ops import reference as ops
from stelmo.ops.losses import LossGradient, RowGradient
from stelmo.ops.runs import Runs
from stelmo.ops.trainable import Buffers
from stelmo.train.batches import Batch, Negatives

DIRECTIONS = (0, 1)  # forward, backward
# One LSTM layer over a window: `trainable.lstm`, or the reference with the same arguments
RunLstm = Callable[..., tuple[Tensor, Tensor, Tensor]]

Item = TypeVar("Item")
Result = TypeVar("Result")


def workers(device: torch.device) -> int:
    """Number of threads that work is split into: two, one for each direction, if torch has more than one."""
    return 2 if device.type == "cpu" and torch.get_num_threads() > 1 else 1


def side_by_side(work: Callable[[Item], Result], items: Sequence[Item], device: torch.device) -> list[Result]:
    """One thread for each item, with torch's own threads divided equally; their number is restored at the end.

    Two products that each have a core never wait for one another; one product shared by two cores does, hundreds of
    times in a step.
    """
    if workers(device) == 1 or len(items) == 1:
        return list(map(work, items))
    gradient = torch.is_grad_enabled()

    def run(item: Item) -> Result:
        torch.set_num_threads(share)
        with torch.set_grad_enabled(gradient):
            return work(item)

    # No thread outlives the call, so that a process may fork.
    with shared_threads(len(items)) as share, ThreadPoolExecutor(len(items)) as pool:
        return list(pool.map(run, items))


class StepResult(NamedTuple):
    loss_forward: float  # mean cross entropy per token, independent of the scale
    loss_backward: float
    state: State  # after the window, without gradient
    rows: RowGradient


class StepBuffers:
    """Memory reused by all steps of a run; see `Buffers`."""

    def __init__(self) -> None:
        self._kept: dict[tuple[int, int], Buffers] = {}

    def of(self, direction: int, depth: int) -> Buffers:
        return self._kept.setdefault((direction, depth), Buffers())


class Dropout(NamedTuple):
    """Masks depend only on the seed (for example: seed, step, rank) and the direction, not on the thread."""

    share: float = 0.0
    seed: Sequence[int] = ()

    def masks(self, like: Tensor, count: int, direction: int) -> list[Tensor | None]:
        if not self.share:
            return [None] * count
        generator = self._generator(direction)
        return [self._mask(like, generator) for _ in range(count)]

    def function(self, direction: int) -> Drop:
        """A function that applies dropout to its argument, with a new mask each time."""
        if not self.share:
            return no_dropout
        generator = self._generator(direction)
        return lambda x: x * self._mask(x, generator)

    def _mask(self, like: Tensor, generator: np.random.Generator) -> Tensor:
        """A mask from 16 random bits per number: three times as fast as torch's Bernoulli draws, which use 53."""
        bits = np.frombuffer(generator.bytes(2 * like.numel()), np.uint16)
        kept = torch.from_numpy(bits >= round(self.share * (1 << 16))).view(like.shape)
        return kept.to(like.dtype).div_(1 - self.share).to(like.device)

    def _generator(self, direction: int) -> np.random.Generator:
        return np.random.Generator(np.random.SFC64(np.random.SeedSequence([*self.seed, direction])))


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
    words, memory = EncodedWords(bilm, batch.ids_U), buffers or StepBuffers()
    x_UP = words.x_UP

    def learn(direction: int) -> _Direction:
        x_TBP = functional.embedding(batch.index_2TB[direction], x_UP)
        h_TBP, end = _stack(bilm, direction, x_TBP, batch, state, drop, trainable.lstm, memory)
        targets_N = batch.targets_2TB[direction].flatten()
        head = (h_TBP.detach().flatten(0, 1), targets_N, softmax.weight, softmax.bias)
        if negatives is None:
            loss = losses.full_softmax(*head, scale / 2)
        else:
            loss = losses.sampled_softmax(*head, *negatives, scale / 2)
        trained = _trained(bilm.stacks[direction])
        leaves = [*trained, x_UP] if x_UP.requires_grad else trained
        found = torch.autograd.grad(h_TBP, leaves, loss.h_NP.view_as(h_TBP)) if leaves else ()
        return _Direction(loss, end, trained, found[: len(trained)], found[len(trained) :])

    with torch.autocast(batch.ids_U.device.type, enabled=False):  # only the encoder's products have lower precision
        found = side_by_side(learn, DIRECTIONS, x_UP.device)
        for direction in found:
            _add(direction.trained, direction.gradients)
        words.backward([dx_UP for direction in found for dx_UP in direction.dx_UP])
        rows = losses.merge([direction.loss.rows for direction in found])
        forward, backward = (float(direction.loss.loss) for direction in found)
        return StepResult(forward, backward, _joined([direction.end for direction in found]), rows)


@torch.no_grad()
def outputs(bilm: BiLM, batch: Batch, state: State) -> tuple[Tensor, State]:
    """What the softmax reads, (2, T, B, P), without dropout and gradient; and the state after the window."""
    x_UP, memory = EncodedWords(bilm, batch.ids_U).x_UP, StepBuffers()

    def forward(direction: int) -> tuple[Tensor, State]:
        x_TBP = functional.embedding(batch.index_2TB[direction], x_UP)
        return _stack(bilm, direction, x_TBP, batch, state, Dropout(), trainable.lstm, memory)

    with torch.autocast(batch.ids_U.device.type, enabled=False):
        found = side_by_side(forward, DIRECTIONS, x_UP.device)
    return torch.stack([h_TBP for h_TBP, _ in found]), _joined([end for _, end in found])


class EncodedWords:
    """The encoder's outputs for distinct words; each thread encodes some of them."""

    def __init__(self, bilm: BiLM, ids_U: Tensor) -> None:
        self._trained = _trained(bilm.encoder)
        count = min(workers(ids_U.device), len(ids_U))
        shares = [slice(first, None, count) for first in range(count)]  # each thread gets long and short words

        def encode(share: slice) -> Tensor:
            part_uP: Tensor = bilm.encoder(ids_U[share], trainable.char_cnn)
            return part_uP

        self._parts = list(zip(shares, side_by_side(encode, shares, ids_U.device), strict=True))
        self.x_UP = bilm.encoder.table.new_empty(len(ids_U), bilm.config.projection)
        for share, part_uP in self._parts:
            self.x_UP[share] = part_uP.detach()
        self.x_UP.requires_grad_(bool(self._trained))

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


class _Direction(NamedTuple):
    """The results of one direction; only what is trained has a gradient."""

    loss: LossGradient
    end: State
    trained: list[Parameter]
    gradients: Sequence[Tensor]
    dx_UP: Sequence[Tensor]  # one or none


def _stack(
    bilm: BiLM,
    direction: int,
    x_TBP: Tensor,
    batch: Batch,
    state: State,
    drop: Dropout,
    lstm: RunLstm,
    buffers: StepBuffers,
) -> tuple[Tensor, State]:
    """Token vectors of a window → what the softmax reads, and the end state (L, B, ·) of the direction.

    The only function that distinguishes LSTMs, with hand-written gradients, from encoders trained by autograd.
    """
    if bilm.context is not None:
        h_TBP = _concatenated(bilm.context, direction, x_TBP, batch.places_2TB, drop.function(direction))
        return h_TBP, State(state.h[direction], state.c[direction])
    cells: list[ProjectedLstm] = list((bilm.lstm_forward, bilm.lstm_backward)[direction])  # type: ignore[arg-type]
    *masks, last = drop.masks(x_TBP, len(cells) + 1, direction)
    ends = []
    for depth, (cell, mask) in enumerate(zip(cells, masks, strict=True)):
        x_TBP = _dropped(x_TBP, mask)
        start, memory = (state.h[direction, depth], state.c[direction, depth]), buffers.of(direction, depth)
        y_TBP, *end = lstm(x_TBP, cell.weights, cell.clips, *start, memory)
        x_TBP = with_residual(depth, y_TBP, x_TBP, bilm.config.lstm.skip)
        ends.append(end)
    return _dropped(x_TBP, last), State(*(torch.stack(part).detach() for part in zip(*ends, strict=True)))


def _concatenated(
    context: Transformer | GatedCnn, direction: int, x_TBP: Tensor, places_2TB: Tensor, drop: Drop
) -> Tensor:
    """Words see their own sentence, as far as it lies in the window: a row of a window is one or more runs."""
    steps, rows, width = x_TBP.shape
    begins_BT = (places_2TB[0] == 0).t().contiguous()
    begins_BT[:, 0] = True
    first_S = begins_BT.flatten().nonzero()[:, 0]
    lengths_S = torch.diff(first_S, append=first_S.new_tensor([steps * rows]))
    runs = Runs(lengths_S.tolist(), places_2TB[direction].t().flatten(), x_TBP.device)
    y_NP = context(direction, x_TBP.transpose(0, 1).reshape(steps * rows, width), runs, drop)[-1]
    return drop(y_NP).view(rows, steps, width).transpose(0, 1)


def _dropped(x_TBP: Tensor, mask: Tensor | None) -> Tensor:
    return x_TBP if mask is None else x_TBP * mask


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
    """As the paper's code does: encode every position, run one step after another, a gradient for each softmax row."""
    weight_VP, bias_V = (part.detach().requires_grad_() for part in (softmax.weight, softmax.bias))
    found, ends = [], []
    for direction in DIRECTIONS:
        index_TB, targets_N = batch.index_2TB[direction], batch.targets_2TB[direction].flatten()
        x_TBP = bilm.encoder(batch.ids_U[index_TB.flatten()]).view(*index_TB.shape, -1)
        h_TBP, end = _stack(bilm, direction, x_TBP, batch, state, drop, _step_by_step, StepBuffers())
        head = (h_TBP.flatten(0, 1), targets_N, weight_VP, bias_V)
        found.append(ops.full_softmax(*head) if negatives is None else ops.sampled_softmax(*head, *negatives))
        ends.append(end)
    torch.autograd.backward(scale / 2 * (found[0] + found[1]))
    assert weight_VP.grad is not None
    assert bias_V.grad is not None
    rows = RowGradient(torch.arange(len(bias_V), device=bias_V.device), weight_VP.grad, bias_V.grad)
    return StepResult(found[0].item(), found[1].item(), _joined(ends), rows)


def _step_by_step(
    x_TBP: Tensor, weights: ops.LstmWeights, clips: ops.Clips, h_BP: Tensor, c_BH: Tensor, _: Buffers
) -> tuple[Tensor, Tensor, Tensor]:
    outputs = []
    for x_BP in x_TBP:
        h_BP, c_BH = ops.lstm_step(x_BP, h_BP, c_BH, weights, clips)
        outputs.append(h_BP)
    return torch.stack(outputs), h_BP, c_BH
