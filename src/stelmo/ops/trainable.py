"""The functions of `reference`, arranged for training: equal values and gradients. Knows no modules.

Time comes first inside, and every row has T steps: padding is computed like text. B rows, N = T · B, D input width,
P projection, H cells; words and characters have the letters of `windows`.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from stelmo.ops import arithmetic, windows
from stelmo.ops.reference import FORGET_BIAS, Clips, LstmWeights

_aten = torch.ops.aten


class Buffers:
    """Memory reused from step to step: getting fresh pages from the system takes longer than filling them.

    A buffer is used by one forward pass and its backward pass before the next forward pass may use it.
    """

    def __init__(self) -> None:
        self._kept: dict[str, Tensor] = {}

    def take(self, name: str, like: Tensor, *shape: int) -> Tensor:
        """The memory is uninitialised."""
        kept = self._kept.get(name)
        if kept is None or (kept.shape, kept.dtype, kept.device) != (torch.Size(shape), like.dtype, like.device):
            kept = self._kept[name] = like.new_empty(shape)
        return kept


def lstm(
    x_TBD: Tensor, weights: LstmWeights, clips: Clips, h_BP: Tensor, c_BH: Tensor, buffers: Buffers | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """One layer over a window → outputs (T, B, P) and the end state, which carries no gradient."""
    return _lstm(x_TBD.contiguous(), *weights, clips, h_BP, c_BH, buffers or Buffers(), None)


def padded_lstm(
    x_BTD: Tensor, lengths_B: Tensor, weights: LstmWeights, clips: Clips, h_BP: Tensor, c_BH: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """As `reference.lstm`, for sentences of different lengths; but neither start nor end state carries a gradient."""
    x_TBD = x_BTD.transpose(0, 1).contiguous()
    y_TBP, end_h_BP, end_c_BH = _lstm(x_TBD, *weights, clips, h_BP, c_BH, Buffers(), lengths_B)
    inside_TB = torch.arange(len(x_TBD), device=lengths_B.device)[:, None] < lengths_B
    return torch.where(inside_TB[..., None], y_TBP, 0.0).transpose(0, 1), end_h_BP, end_c_BH


class _Tape(NamedTuple):
    """What the backward pass of a window needs; it overwrites the activated gates with their gradients."""

    gates_TB4H: Tensor
    h: Tensor  # (1 + T, B, P): the start first
    c: Tensor  # (1 + T, B, H)
    tanh_TBH: Tensor  # of c
    m_TBH: Tensor  # before the projection


def _tape(x_TBD: Tensor, h_BP: Tensor, c_BH: Tensor, buffers: Buffers) -> _Tape:
    steps, (rows, cells) = len(x_TBD), c_BH.shape
    sizes = {"gates": (steps, 4 * cells), "c": (steps + 1, cells), "tanh": (steps, cells), "m": (steps, cells)}
    gates, c, tanh, m = (buffers.take(name, x_TBD, long, rows, wide) for name, (long, wide) in sizes.items())
    h = x_TBD.new_empty(steps + 1, *h_BP.shape)  # returned as the layer's output
    h[0], c[0] = h_BP, c_BH
    return _Tape(gates, h, c, tanh, m)


class _Lstm(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        x_TBD: Tensor,
        kernel: Tensor,
        bias_4H: Tensor,
        projection_HP: Tensor | None,
        clips: Clips,
        h_BP: Tensor,
        c_BH: Tensor,
        buffers: Buffers,
        lengths_B: Tensor | None,
    ) -> tuple[Tensor, Tensor, Tensor]:
        inputs = x_TBD.shape[2]
        tape = _tape(x_TBD, h_BP, c_BH, buffers)
        bias_4H = bias_4H.clone()
        bias_4H.chunk(4)[2].add_(FORGET_BIAS)
        arithmetic.write_product(tape.gates_TB4H.flatten(0, 1), x_TBD.flatten(0, 1), kernel[:inputs], bias_4H)
        for t in range(len(x_TBD)):
            arithmetic.add_product(tape.gates_TB4H[t], tape.h[t], kernel[inputs:])
            _cells(tape, t, clips.cell)
            if projection_HP is None:
                tape.h[t + 1].copy_(tape.m_TBH[t])
                continue
            arithmetic.write_product(tape.h[t + 1], tape.m_TBH[t], projection_HP)
            if clips.projection is not None:
                tape.h[t + 1].clamp_(-clips.projection, clips.projection)
        ctx.save_for_backward(x_TBD, kernel, projection_HP, *tape)
        ctx.clips = clips
        ctx.again = lengths_B is not None
        if lengths_B is None:
            ends = tape.h[-1].clone(), tape.c[-1].clone()
        else:
            rows_B = torch.arange(len(lengths_B), device=lengths_B.device)
            ends = tape.h[lengths_B, rows_B], tape.c[lengths_B, rows_B]
        ctx.mark_non_differentiable(*ends)
        return tape.h[1:], *ends

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, dy_TBP: Tensor, *_: Tensor) -> tuple[Tensor | None, ...]:
        x_TBD, kernel, projection_HP, *taped = ctx.saved_tensors
        tape, inputs = _Tape(*taped), x_TBD.shape[2]
        if ctx.again:  # a caller may keep the graph for a second backward pass
            tape = tape._replace(gates_TB4H=tape.gates_TB4H.clone())
        dh_TBP = dy_TBP.clone(memory_format=torch.contiguous_format)
        backward = _Backward(tape, ctx.clips, projection_HP)
        # As a view, it makes the products of a few rows up to seven times as slow (MKL with AVX-512).
        state_4HP = kernel[inputs:].t().contiguous()
        for t in reversed(range(len(x_TBD))):
            backward.step(t, dh_TBP[t])
            if t:
                arithmetic.add_product(dh_TBP[t - 1], tape.gates_TB4H[t], state_4HP)
        # Each weight's gradient is one large product over all steps.
        gates_N4H = tape.gates_TB4H.flatten(0, 1)
        read_ND = torch.cat([x_TBD, tape.h[:-1]], 2).flatten(0, 1)
        dprojection_HP = None
        if projection_HP is not None:
            dprojection_HP = arithmetic.product(tape.m_TBH.flatten(0, 1).t(), dh_TBP.flatten(0, 1))
        dx_TBD = arithmetic.product(gates_N4H, kernel[:inputs].t()).view_as(x_TBD)
        dkernel = arithmetic.product(read_ND.t(), gates_N4H)
        return dx_TBD, dkernel, gates_N4H.sum(0), dprojection_HP, *[None] * 5


_lstm: Callable[..., tuple[Tensor, Tensor, Tensor]] = _Lstm.apply


def _cells(tape: _Tape, t: int, limit: float | None) -> None:
    """c = clip(σ(f) ⊙ c + σ(i) ⊙ tanh(j)),  m = σ(o) ⊙ tanh(c)"""
    i, j, f, o = tape.gates_TB4H[t].chunk(4, 1)
    i.sigmoid_()
    arithmetic.tanh(j, out=j)
    tape.gates_TB4H[t, :, 2 * i.shape[1] :].sigmoid_()  # f and o
    c_BH = torch.mul(f, tape.c[t], out=tape.c[t + 1]).addcmul_(i, j)
    if limit is not None:
        c_BH.clamp_(-limit, limit)
    torch.mul(o, arithmetic.tanh(c_BH, out=tape.tanh_TBH[t]), out=tape.m_TBH[t])


class _Backward:
    """The steps in reverse order; the gradient of the cell is carried from one to the next."""

    def __init__(self, tape: _Tape, clips: Clips, projection_HP: Tensor | None) -> None:
        self._tape, self._clips, self._projection_HP = tape, clips, projection_HP
        self._dc_BH = torch.zeros_like(tape.c[0])
        self._dm_BH, self._a_BH, self._b_BH = (torch.empty_like(self._dc_BH) for _ in range(3))

    def step(self, t: int, dh_BP: Tensor) -> None:
        """`dh_BP` becomes zero where h was clipped; the activated gates of the step become their gradients.

        dm = dh Wₚᵀ;  do = dm tanh(c) σ′(o);  dc += dm o tanh′(c), then 0 where c was clipped;  di = dc j σ′(i);
        dj = dc i tanh′(j);  df = dc cₜ₋₁ σ′(f);  dc f is carried to the step before
        """
        dm_BH, dc_BH, a_BH, b_BH, tape = self._dm_BH, self._dc_BH, self._a_BH, self._b_BH, self._tape
        if self._projection_HP is None:
            dm_BH.copy_(dh_BP)
        else:
            _stop(dh_BP, tape.h[t + 1], self._clips.projection)
            arithmetic.write_product(dm_BH, dh_BP, self._projection_HP.t())
        i, j, f, o = tape.gates_TB4H[t].chunk(4, 1)
        torch.mul(dm_BH, tape.tanh_TBH[t], out=a_BH)
        dm_BH.mul_(o)
        _aten.sigmoid_backward(a_BH, o, grad_input=o)
        dc_BH.add_(_aten.tanh_backward(dm_BH, tape.tanh_TBH[t], grad_input=dm_BH))
        _stop(dc_BH, tape.c[t + 1], self._clips.cell)
        torch.mul(dc_BH, i, out=a_BH)
        torch.mul(dc_BH, j, out=b_BH)
        _aten.tanh_backward(a_BH, j, grad_input=j)
        _aten.sigmoid_backward(b_BH, i, grad_input=i)
        torch.mul(dc_BH, tape.c[t], out=a_BH)
        dc_BH.mul_(f)
        _aten.sigmoid_backward(a_BH, f, grad_input=f)


def _stop(gradient: Tensor, clipped: Tensor, limit: float | None) -> None:
    """Set the gradient to zero where the clip was active."""
    if limit is not None:
        _aten.hardtanh_backward(gradient, clipped, -limit, limit, grad_input=gradient)


def char_cnn(
    chars_UC: Tensor, table: Tensor, kernels: Sequence[Tensor], biases: Sequence[Tensor], activation: str
) -> Tensor:
    """Character ids → (U, F), as `reference.char_cnn`."""
    filters_wEF, widths_F = windows.concatenated(kernels)
    ids_d, numbers_UC = windows.distinct_ids(chars_UC, len(table))
    max_over_windows: Callable[..., Tensor] = _MaxOverWindows.apply
    with torch.autocast(table.device.type, enabled=False):
        x_UF = max_over_windows(numbers_UC, widths_F, table[ids_d] @ filters_wEF)
    activate = {"relu": torch.relu, "tanh": torch.tanh}[activation]
    return activate(x_UF + torch.cat(list(biases)))


class _MaxOverWindows(torch.autograd.Function):
    """The maximum over the windows of each word for each filter; only the winning window has a gradient.

    Where equal windows tie, it does not matter which of them gets the gradient.
    """

    @staticmethod
    def forward(ctx: Any, numbers_UC: Tensor, widths_F: Tensor, contributions_wdF: Tensor) -> Tensor:
        x_UF = contributions_wdF.new_empty(len(numbers_UC), len(widths_F))
        winner_UF = torch.empty_like(x_UF)
        for part in windows.parts(numbers_UC, widths_F, len(contributions_wdF)):
            responses_npF = part.responses(contributions_wdF)
            highest_nF = responses_npF.amax(1)
            x_UF[part.rows_n] = highest_nF
            # These operations take a tenth of the time of an argmax.
            winner_UF[part.rows_n] = responses_npF.eq_(highest_nF[:, None]).mul_(part.places_p1(x_UF)).amax(1)
        ctx.save_for_backward(numbers_UC, widths_F, winner_UF)
        ctx.shape = contributions_wdF.shape
        return x_UF

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, dx_UF: Tensor) -> tuple[Tensor | None, ...]:
        numbers_UC, widths_F, winner_UF = ctx.saved_tensors
        dcontributions_wdF = dx_UF.new_zeros(ctx.shape)
        for part in windows.parts(numbers_UC, widths_F, len(dcontributions_wdF)):
            winner_n1F = winner_UF[part.rows_n][:, None]
            dresponses_npF = winner_n1F.new_empty(len(winner_n1F), part.places, winner_n1F.shape[2])
            torch.eq(winner_n1F, part.places_p1(dx_UF), out=dresponses_npF).mul_(dx_UF[part.rows_n][:, None])
            part.add_gradient(dcontributions_wdF, dresponses_npF)
        return None, None, dcontributions_wdF
