"""The gradients of all processes → one, and its norm. Knows no model.

Of the softmax only rows travel: those that some process has. n rows of one process, m rows of all, P projection.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from stelmo.ops.losses import RowGradient
from stelmo.train.world import World


def over_processes(world: World, dense: Sequence[Tensor], rows: RowGradient, words: int) -> RowGradient:
    """The sum over all processes: of the dense gradients in place, of the rows anew."""
    rows = on_rows(rows, world.union(rows.rows_n, words))
    world.sum_(*dense, rows.weight_nP, rows.bias_n)
    return rows


def on_rows(part: RowGradient, rows_m: Tensor) -> RowGradient:
    """The same gradient over more rows."""
    if rows_m is part.rows_n:
        return part
    place_n = torch.searchsorted(rows_m, part.rows_n)
    weight_mP = part.weight_nP.new_zeros(len(rows_m), part.weight_nP.shape[1])
    bias_m = part.bias_n.new_zeros(len(rows_m))
    weight_mP[place_n], bias_m[place_n] = part.weight_nP, part.bias_n
    return RowGradient(rows_m, weight_mP, bias_m)


def norm(dense: Sequence[Tensor], rows: RowGradient) -> float:
    """Of all gradients as one vector."""
    norms = torch.stack(torch._foreach_norm([*dense, rows.weight_nP, rows.bias_n]))
    return float(torch.linalg.vector_norm(norms.double()))


def scale_(dense: Sequence[Tensor], rows: RowGradient, factor: float) -> None:
    if factor != 1.0:
        torch._foreach_mul_([*dense, rows.weight_nP, rows.bias_n], factor)
