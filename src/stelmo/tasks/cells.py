"""One recurrent layer over all steps, by hand: GRU in both directions, highway LSTM. Knows no modules.

Sentences are sorted, longest first, and packed; a step holds only those that are long enough: padding is not computed.
Input products are computed for all steps at once. So are, in the backward pass, the factors by which the gradients of
the gates follow from those of h and c; a step then consists of a few products, and the gradient of each weight is one
large product. Autograd would record many operations that are too small to be fast.

B sentences, T tokens, N packed tokens, M the same rounded up, n rows of a step, D width, H hidden units, K directions,
R rows of the padded texts, S columns of the state's products, G of the gates. A tensor with K first has the second
direction's tokens in its own reading order.
"""

from collections.abc import Callable, Sequence
from itertools import accumulate, pairwise
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable


class Packing(NamedTuple):
    """Positions of a batch's tokens when its steps are stored one after another."""

    sizes: list[int]  # rows of each step, in decreasing order
    rows_N: Tensor  # row of each packed token in the padded texts, which lie one after another
    mirror_N: Tensor  # the token as far from its sentence's end as this one is from the start
    before_N: Tensor  # the token one step earlier, for tokens after the first step


def packing(*masks: Tensor) -> Packing:
    """Of the sentences of one or more masks (B, T). Tokens must be at the start of their rows, padding at the end."""
    device = masks[0].device
    firsts = [0, *accumulate(mask_BT.numel() for mask_BT in masks)]
    starts = [torch.arange(firsts[k], firsts[k + 1], mask_BT.shape[1]) for k, mask_BT in enumerate(masks)]
    lengths_B, order_B = torch.cat([mask_BT.sum(1) for mask_BT in masks]).sort(descending=True, stable=True)
    step_N, rank_N = (torch.arange(int(lengths_B[0]), device=device)[:, None] < lengths_B).nonzero(as_tuple=True)
    sizes = torch.bincount(step_N).tolist()
    first_T = torch.tensor([0, *accumulate(sizes)], device=device)
    later_n = slice(sizes[0], None)
    return Packing(
        sizes,
        rows_N=torch.cat(starts).to(device)[order_B[rank_N]] + step_N,
        mirror_N=first_T[lengths_B[rank_N] - 1 - step_N] + rank_N,
        before_N=first_T[step_N[later_n] - 1] + rank_N[later_n],
    )


# Cells: one layer over all steps. The forward pass overwrites the gates with their activations, the backward pass
# overwrites these with the gradients of the gates before activation: first with their factors of dh (and dc, the
# gradient of c), which the steps, the last one first, then multiply. A tensor of one direction has no axis K.


class Cell(NamedTuple):
    """G columns of the gates, of which the first are products of the input; S of them are products of the state."""

    forward: Callable[..., list[Tensor]]  # gates, h to be filled, state, sizes, dropout → what `backward` needs
    backward: Callable[..., None]  # gates, h, what `forward` returned, state, packing, dropout, the gradient of h
    first: int  # the first of the state's columns, in multiples of H


def _earlier(steps: Sequence[Tensor]) -> list[Tensor | None]:
    """For each step, the rows of its sentences one step earlier; None for the first."""
    pairs = ((before, now.shape[-2]) for before, now in pairwise(steps))
    return [None, *(before if before.shape[-2] == n else before.narrow(-2, 0, n) for before, n in pairs)]


def _columns(x_NG: Tensor, hidden: int, sizes: Sequence[int], *ranges: tuple[int, int]) -> list[Sequence[Tensor]]:
    """The steps of several ranges of columns, which are counted in multiples of H."""
    return [x_NG[..., first * hidden : end * hidden].split_with_sizes(sizes, -2) for first, end in ranges]


def _gru(gates_N4H: Tensor, h_NH: Tensor, state_H3H: Tensor, sizes: list[int], keep_BH: Tensor | None) -> list[Tensor]:
    """n, r, z, and the state's part of n.   n = tanh(xW + r ⊙ (hU + b)),  h' = (1 − z) ⊙ n + z ⊙ h"""
    columns = _columns(gates_N4H, h_NH.shape[-1], sizes, (0, 1), (1, 4), (1, 3), (1, 2), (2, 3), (3, 4))
    h_T = h_NH.split_with_sizes(sizes, -2)
    for n, of_state, rz, r, z, inner, h, before in zip(*columns, h_T, _earlier(h_T), strict=True):
        if before is not None:
            of_state.baddbmm_(before, state_H3H)
        rz.sigmoid_()
        n.addcmul_(r, inner).tanh_()
        if before is None:
            torch.addcmul(n, n, z, value=-1, out=h)
        else:
            torch.lerp(n, before, z, out=h)
    return []


def _gru_back(
    gates_N4H: Tensor,
    h_NH: Tensor,
    kept: list[Tensor],
    state_H3H: Tensor,
    packed: Packing,
    keep_BH: Tensor | None,
    dh_NH: Tensor,
) -> None:
    """Factors of dh, where n′ = (1 − z)(1 − n²): n: n′, inner: n′ r, r: n′ r (1 − r) inner, z: z (1 − z)(h − n)."""
    hidden, sizes = h_NH.shape[-1], packed.sizes
    n, r, z, inner = gates_N4H.chunk(4, -1)
    z_NH, one_less_z = z.clone(), 1 - z
    before_NH = torch.zeros_like(h_NH)
    before_NH[..., sizes[0] :, :] = h_NH.index_select(-2, packed.before_N)
    torch.mul(z, one_less_z, out=z).mul_(before_NH.sub_(n))
    torch.addcmul(one_less_z, one_less_z, n * n, value=-1, out=n)
    of_inner = n * r
    inner.mul_(of_inner).mul_(1 - r)
    r.copy_(inner)
    inner.copy_(of_inner)
    (of_state_T,) = _columns(gates_N4H, hidden, sizes, (1, 4))
    dh_T, z_T = (x_NH.split_with_sizes(sizes, -2) for x_NH in (dh_NH, z_NH))
    state_3HH = state_H3H.transpose(-1, -2).contiguous()
    steps = list(zip(of_state_T, z_T, dh_T, _earlier(dh_T), strict=True))
    for of_state, z, dh, dbefore in reversed(steps):
        torch.unflatten(of_state, -1, (3, hidden)).mul_(dh.unsqueeze(-2))
        if dbefore is not None:
            dbefore.addcmul_(dh, z)
            dbefore.baddbmm_(of_state, state_3HH)
    n.mul_(dh_NH)


def _highway(
    gates_N6H: Tensor, h_NH: Tensor, state_H5H: Tensor, sizes: list[int], keep_BH: Tensor | None
) -> list[Tensor]:
    """i, f, o, r, j, and p, which the state has no part in.

    c' = f ⊙ c + i ⊙ j,  h' = keep ⊙ (r ⊙ o ⊙ tanh(c') + (1 − r) ⊙ p), where r is the highway gate, and `keep` the
    recurrent dropout: one mask for all steps of a sentence.
    """
    c_NH, tanh_NH, m_NH = (torch.empty_like(h_NH) for _ in range(3))
    ranges = (0, 5), (0, 4), (0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (5, 6)
    columns = _columns(gates_N6H, h_NH.shape[-1], sizes, *ranges)
    h_T, c_T, tanh_T, m_T = (x_NH.split_with_sizes(sizes, -2) for x_NH in (h_NH, c_NH, tanh_NH, m_NH))
    for of_state, ifor, i, f, o, r, j, p, h, c, tanh, m, h_before, c_before in zip(
        *columns, h_T, c_T, tanh_T, m_T, _earlier(h_T), _earlier(c_T), strict=True
    ):
        if h_before is not None:
            of_state.addmm_(h_before, state_H5H)
        ifor.sigmoid_()
        j.tanh_()
        torch.mul(i, j, out=c)
        if c_before is not None:
            c.addcmul_(f, c_before)
        torch.mul(o, torch.tanh(c, out=tanh), out=m)
        torch.lerp(p, m, r, out=h)
        if keep_BH is not None:
            h.mul_(keep_BH[: len(h)])
    return [c_NH, tanh_NH, m_NH]


def _highway_back(
    gates_N6H: Tensor,
    h_NH: Tensor,
    kept: list[Tensor],
    state_H5H: Tensor,
    packed: Packing,
    keep_BH: Tensor | None,
    dh_NH: Tensor,
) -> None:
    # Factors of dh: r: keep (m − p) r (1 − r), p: keep (1 − r), o: keep r tanh(c') o (1 − o), c': keep r o
    # (1 − tanh²(c')), where m = o tanh(c'). Factors of dc: i: i (1 − i) j, f: f (1 − f) c, j: i (1 − j²).
    hidden, sizes = h_NH.shape[-1], packed.sizes
    i, f, o, r, j, p = gates_N6H.chunk(6, -1)
    c_NH, tanh_NH, m_NH = kept
    keep_NH = None if keep_BH is None else torch.cat([keep_BH[:size] for size in sizes])
    of_r = m_NH.sub_(p).mul_(r)
    of_r.mul_(p.copy_(1 - r))
    of_m = r if keep_NH is None else r.mul_(keep_NH)
    of_c_NH = torch.addcmul(o, o, tanh_NH * tanh_NH, value=-1).mul_(of_m)
    o.mul_(tanh_NH.mul_(1 - o)).mul_(of_m)
    r.copy_(of_r)
    if keep_NH is not None:
        r.mul_(keep_NH)
        p.mul_(keep_NH)
    f_NH, later = f.clone(), f[sizes[0] :]
    later.mul_(torch.mul(1 - later, c_NH.index_select(0, packed.before_N)))
    f[: sizes[0]].zero_()
    of_i = torch.mul(1 - i, i).mul_(j)
    torch.addcmul(i, i, j * j, value=-1, out=j)
    i.copy_(of_i)
    columns = _columns(gates_N6H, hidden, sizes, (0, 5), (0, 2), (2, 4), (4, 5))
    dh_T, f_T, of_c_T = (x_NH.split_with_sizes(sizes, -2) for x_NH in (dh_NH, f_NH, of_c_NH))
    state_5HH, dc_BH = state_H5H.t().contiguous(), torch.zeros_like(h_NH[: sizes[0]])
    steps = list(zip(*columns, f_T, of_c_T, dh_T, _earlier(dh_T), strict=True))
    for of_state, i_f, o_r, j, f, of_c, dh, dbefore in reversed(steps):
        dc = dc_BH[: len(dh)].addcmul_(dh, of_c)
        torch.unflatten(i_f, -1, (2, hidden)).mul_(dc.unsqueeze(-2))
        torch.unflatten(o_r, -1, (2, hidden)).mul_(dh.unsqueeze(-2))
        j.mul_(dc)
        if dbefore is not None:
            dc.mul_(f)
            dbefore.addmm_(of_state, state_5HH)
    p.mul_(dh_NH)


GRU, HIGHWAY = Cell(_gru, _gru_back, 1), Cell(_highway, _highway_back, 0)
ROWS = 64  # a product in half precision has a multiple of so many rows


def _rounded_up(x_ND: Tensor, dtype: torch.dtype) -> Tensor:
    """x in the given precision; in half precision, followed by rows of zeros.

    oneDNN compiles a product in half precision for each new shape, which takes as long as the product itself, so only
    a few shapes should occur.
    """
    if dtype.itemsize > 2:
        return x_ND.to(dtype)
    *leading, rows, width = x_ND.shape
    padded_MD = x_ND.new_empty(*leading, -(-rows // ROWS) * ROWS, width, dtype=dtype)
    padded_MD[..., :rows, :] = x_ND
    padded_MD[..., rows:, :] = 0
    return padded_MD


class _Recurrence(torch.autograd.Function):
    """One layer: input products, the cell's steps, and the same backwards. With two directions the state is (K, H, S),
    and the columns of kernel and bias are those of the first direction, then those of the second. Under autocast, the
    products over all steps are in half precision, and so is the result; gates, states and their gradients are not."""

    @staticmethod
    def forward(
        ctx: Any,
        cell: Cell,
        x_RD: Tensor,
        kernel_GD: Tensor,
        bias_G: Tensor,
        state: Tensor,
        inner_KH: Tensor | None,
        keep_BH: Tensor | None,
        rows_N: Tensor,
        packed: Packing,
    ) -> Tensor:
        device, hidden = x_RD.device.type, state.shape[-2]
        half = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else state.dtype
        x_MD, kernel_GD = _rounded_up(x_RD.index_select(0, rows_N), half), kernel_GD.to(half)
        gates = torch.addmm(bias_G.to(half), x_MD, kernel_GD.t())[: len(rows_N)].to(state.dtype)
        if state.dim() == 3:
            ahead_NG, back_NG = gates.chunk(2, 1)
            wide = ahead_NG.shape[1]
            gates = gates.new_empty(2, len(rows_N), wide + (0 if inner_KH is None else hidden))
            gates[0, :, :wide] = ahead_NG
            gates[1, :, :wide] = back_NG.index_select(0, packed.mirror_N)
            if inner_KH is not None:
                gates[:, :, wide:] = inner_KH[:, None]
        h = gates.new_empty(*gates.shape[:-1], hidden)
        with torch.autocast(device, enabled=False):  # a step's products are too small to gain from half precision
            kept = cell.forward(gates, h, state, packed.sizes, keep_BH)
        ctx.save_for_backward(x_MD, kernel_GD, state, inner_KH, keep_BH, rows_N, gates, h, *kept)
        ctx.cell, ctx.packed, ctx.x_like = cell, packed, (x_RD.shape, x_RD.dtype)
        if state.dim() == 3:
            h = torch.cat([h[0], h[1].index_select(0, packed.mirror_N)], 1)
        return h.to(half)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, dy_NE: Tensor) -> tuple[Tensor | None, ...]:
        x_MD, kernel_GD, state, inner_KH, keep_BH, rows_N, gates, h, *kept = ctx.saved_tensors
        packed, cell, hidden = ctx.packed, ctx.cell, state.shape[-2]
        half, dy_NE = x_MD.dtype, dy_NE.to(state.dtype)
        if state.dim() == 3:
            dh = torch.stack([dy_NE[:, :hidden], dy_NE[:, hidden:].index_select(0, packed.mirror_N)])
        else:
            dh = dy_NE.clone(memory_format=torch.contiguous_format)
        cell.backward(gates, h, kept, state, packed, keep_BH, dh)
        columns = slice(cell.first * hidden, cell.first * hidden + state.shape[-1])
        before, later = h.index_select(-2, packed.before_N), gates[..., packed.sizes[0] :, columns]
        dstate = _rounded_up(before, half).transpose(-1, -2) @ _rounded_up(later, half)
        dinner_KH = None if inner_KH is None else gates[..., -hidden:].sum(-2)
        if state.dim() == 3:
            wide = kernel_GD.shape[0] // 2
            gates = torch.cat([gates[0, :, :wide], gates[1, :, :wide].index_select(0, packed.mirror_N)], 1)
        dbias_G, gates_MG = gates.sum(0), _rounded_up(gates, half)
        dx_RD, dkernel_GD = None, (gates_MG.t() @ x_MD).to(state.dtype)
        if ctx.needs_input_grad[1]:
            shape, dtype = ctx.x_like
            dx_ND = (gates_MG @ kernel_GD)[: len(rows_N)].to(dtype)
            dx_RD = dx_ND.new_zeros(shape).index_copy_(0, rows_N, dx_ND)
        return None, dx_RD, dkernel_GD, dbias_G, dstate.to(state.dtype), dinner_KH, None, None, None


recurrence: Callable[..., Tensor] = _Recurrence.apply
