"""Word vectors → contextual vectors: the alternating highway LSTM of He et al. (2017). Knows no task.

The first layer reads a sentence forwards, the second backwards, and so on. With h and c of the previous step:

    i, f, o, r = σ(x W + h U + b)      j = tanh(x W + h U + b)      p = x W + b
    c' = f ⊙ c + i ⊙ j
    h' = z ⊙ (r ⊙ o ⊙ tanh(c') + (1 − r) ⊙ p)

r is the highway gate, and z the recurrent dropout: one mask for all steps of a sentence. Sentences are sorted, longest
first, and packed: a step holds only the sentences that are long enough, so no padding is computed.
B sentences, T tokens, N packed tokens, n rows of a step, D width, H hidden units.
"""

from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from stelmo.tasks.layers import lengths

_aten = torch.ops.aten


class Packing(NamedTuple):
    """Positions of a batch's tokens when its steps are stored one after another."""

    sizes: list[int]  # rows of each step, in decreasing order
    rows_N: Tensor  # position in (B · T) of each packed token
    mirror_N: Tensor  # the token as far from its sentence's end as this one is from the start
    before_N: Tensor  # the token one step earlier, for tokens after the first step


def packing(mask_BT: Tensor) -> Packing:
    """Tokens must be at the start of their rows, padding at the end."""
    lengths_B, order_B = lengths(mask_BT).sort(descending=True, stable=True)
    step_N, rank_N = mask_BT[order_B].t().nonzero(as_tuple=True)
    sizes = [size for size in mask_BT.sum(0).tolist() if size]
    first_T = torch.tensor([0, *accumulate(sizes)], device=mask_BT.device)
    later_n = slice(sizes[0], None)
    return Packing(
        sizes,
        rows_N=order_B[rank_N] * mask_BT.shape[1] + step_N,
        mirror_N=first_T[lengths_B[rank_N] - 1 - step_N] + rank_N,
        before_N=first_T[step_N[later_n] - 1] + rank_N[later_n],
    )


class HighwayLayer(nn.Module):
    """The columns of kernel, state and bias are i, f, o, r, j; kernel and bias have p as the last."""

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.kernel = nn.Parameter(_orthogonal(width, hidden, 6))
        self.state = nn.Parameter(_orthogonal(hidden, hidden, 5))
        self.bias = nn.Parameter(torch.zeros(6 * hidden))
        with torch.no_grad():
            self.bias[hidden : 2 * hidden] = 1.0  # with a low forget gate, long sentences have no gradient at the start

    def forward(self, x_ND: Tensor, packed: Packing, keep_BH: Tensor | None) -> Tensor:
        """(N, H)"""
        run: Callable[..., Tensor] = _Highway.apply
        return run(x_ND, self.kernel, self.state, self.bias, keep_BH, packed.sizes, packed.before_N)


def _orthogonal(inputs: int, hidden: int, gates: int) -> Tensor:
    return torch.cat([nn.init.orthogonal_(torch.empty(inputs, hidden)) for _ in range(gates)], 1)


class AlternatingLstm(nn.Module):
    def __init__(self, width: int, hidden: int, layers: int, dropout: float) -> None:
        super().__init__()
        self.hidden, self.dropout = hidden, dropout
        self.layers = nn.ModuleList(HighwayLayer(width if not layer else hidden, hidden) for layer in range(layers))

    def forward(self, x_BTD: Tensor, mask_BT: Tensor) -> Tensor:
        """(B, T, H), zero where there is no token."""
        packed = packing(mask_BT)
        h_NH = x_BTD.flatten(0, 1)[packed.rows_N]
        for number, layer in enumerate(self.layers):
            h_NH = layer(h_NH if not number else h_NH[packed.mirror_N], packed, self._mask(h_NH, len(mask_BT)))
        if len(self.layers) % 2 == 0:
            h_NH = h_NH[packed.mirror_N]
        h_BTH = h_NH.new_zeros(mask_BT.numel(), self.hidden).index_copy(0, packed.rows_N, h_NH)
        return h_BTH.view(*mask_BT.shape, self.hidden)

    def _mask(self, like: Tensor, rows: int) -> Tensor | None:
        if not self.training or self.dropout == 0:
            return None
        return like.new_empty(rows, self.hidden).bernoulli_(1 - self.dropout).div_(1 - self.dropout)


# One layer and its backward pass, by hand: autograd would record many operations that are too small to be fast.


class _Tape(NamedTuple):
    """What a layer stores for the backward pass, which overwrites the activated gates with their gradients."""

    gates_N6H: Tensor
    h_NH: Tensor
    c_NH: Tensor
    tanh_NH: Tensor  # of c
    m_NH: Tensor  # o ⊙ tanh(c)


class _Step(NamedTuple):
    """The tokens of a step, and the same sentences' tokens one step earlier; None at the first step."""

    now: slice
    before: slice | None


def _steps(sizes: Sequence[int]) -> list[_Step]:
    firsts = [0, *accumulate(sizes)]
    return [
        _Step(slice(firsts[t], firsts[t] + size), slice(firsts[t - 1], firsts[t - 1] + size) if t else None)
        for t, size in enumerate(sizes)
    ]


class _Highway(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        x_ND: Tensor,
        kernel_D6H: Tensor,
        state_H5H: Tensor,
        bias_6H: Tensor,
        keep_BH: Tensor | None,
        sizes: list[int],
        before_N: Tensor,
    ) -> Tensor:
        gates_N6H = torch.addmm(bias_6H, x_ND, kernel_D6H)
        tape = _Tape(gates_N6H, *(x_ND.new_empty(len(x_ND), len(state_H5H)) for _ in range(4)))
        for step in _steps(sizes):
            if step.before:
                gates_N6H[step.now, : state_H5H.shape[1]].addmm_(tape.h_NH[step.before], state_H5H)
            _cells(tape, step)
            if keep_BH is not None:
                h_nH = tape.h_NH[step.now]
                h_nH.mul_(keep_BH[: len(h_nH)])
        ctx.save_for_backward(x_ND, kernel_D6H, state_H5H, keep_BH, before_N, *tape)
        ctx.sizes = sizes
        return tape.h_NH

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, dy_NH: Tensor) -> tuple[Tensor | None, ...]:
        x_ND, kernel_D6H, state_H5H, keep_BH, before_N, *taped = ctx.saved_tensors
        tape, stateful = _Tape(*taped), state_H5H.shape[1]
        dh_NH = dy_NH.clone(memory_format=torch.contiguous_format)
        dc_BH = dh_NH.new_zeros(ctx.sizes[0], dh_NH.shape[1])
        for step in reversed(_steps(ctx.sizes)):
            if keep_BH is not None:
                dh_NH[step.now].mul_(keep_BH[: step.now.stop - step.now.start])
            _cells_back(tape, step, dh_NH[step.now], dc_BH)
            if step.before:
                dh_NH[step.before].addmm_(tape.gates_N6H[step.now, :stateful], state_H5H.t())
        # The gradient of each weight is one large product over all steps.
        gates_N6H = tape.gates_N6H
        dstate_H5H = tape.h_NH[before_N].t() @ gates_N6H[ctx.sizes[0] :, :stateful]
        return gates_N6H @ kernel_D6H.t(), x_ND.t() @ gates_N6H, dstate_H5H, gates_N6H.sum(0), None, None, None


def _cells(tape: _Tape, step: _Step) -> None:
    """Gates before activation → c, h; without dropout."""
    gates_n6H, c_nH = tape.gates_N6H[step.now], tape.c_NH[step.now]
    i, f, o, r, j, p = gates_n6H.chunk(6, 1)
    gates_n6H[:, : 4 * i.shape[1]].sigmoid_()
    j.tanh_()
    torch.mul(i, j, out=c_nH)
    if step.before:
        c_nH.addcmul_(f, tape.c_NH[step.before])
    m_nH = torch.mul(o, torch.tanh(c_nH, out=tape.tanh_NH[step.now]), out=tape.m_NH[step.now])
    torch.lerp(p, m_nH, r, out=tape.h_NH[step.now])


def _cells_back(tape: _Tape, step: _Step, dh_nH: Tensor, dc_BH: Tensor) -> None:
    """The gradient of h → the gradients of the gates, in place; the gradient of c is accumulated in dc_BH."""
    i, f, o, r, j, p = tape.gates_N6H[step.now].chunk(6, 1)
    tanh_nH, dc_nH = tape.tanh_NH[step.now], dc_BH[: len(i)]
    dr_nH = torch.sub(tape.m_NH[step.now], p).mul_(dh_nH)
    dm_nH = torch.mul(dh_nH, r)
    torch.sub(dh_nH, dm_nH, out=p)
    _aten.sigmoid_backward(dr_nH, r, grad_input=r)
    do_nH = torch.mul(dm_nH, tanh_nH, out=dr_nH)
    dm_nH.mul_(o)
    _aten.sigmoid_backward(do_nH, o, grad_input=o)
    dc_nH.add_(_aten.tanh_backward(dm_nH, tanh_nH, grad_input=dm_nH))
    dj_nH, di_nH = torch.mul(dc_nH, i, out=dm_nH), torch.mul(dc_nH, j, out=do_nH)
    _aten.tanh_backward(dj_nH, j, grad_input=j)
    _aten.sigmoid_backward(di_nH, i, grad_input=i)
    if step.before is None:
        f.zero_()
        return
    df_nH = torch.mul(dc_nH, tape.c_NH[step.before], out=dj_nH)
    dc_nH.mul_(f)
    _aten.sigmoid_backward(df_nH, f, grad_input=f)
