"""Products in 8-bit numbers: about half the time of float32 on a wide layer, nearly the same values. Knows no modules.

A weight matrix has one fixed scale per column; its input has one scale, computed for each product, so the result for a
row depends on the other rows. A scale for each row would need a second pass over the output.
n rows, K inputs, N outputs.

    x W  ≈  scale_x · scale_N · (q(x) − 128) q(W)        q(x) in 0 … 255, q(W) in −127 … 127

Without the VNNI instructions a processor adds two neighbouring products in 16 bits: 255 · (|q| + |q'|) must stay below
2¹⁵, so there |q| + |q'| is at most 128. A column's largest weights are seldom neighbours, so little precision is lost.
"""

from collections.abc import Iterable
from functools import cache

import torch
from torch import Tensor

from stelmo.errors import ConfigError

_MIDDLE = 128  # q(0): the input is unsigned
_LARGEST = 127
_TOGETHER = 128  # sum of two neighbours, if their products are added in 16 bits


class Int8:
    """Weight matrices (K, N) in 8 bits, one for each direction; the same calls as `fast.Dense`."""

    def __init__(self, matrix_GKN: Iterable[Tensor]) -> None:
        self._matrices = [_Matrix(matrix_KN) for matrix_KN in matrix_GKN]

    def add_to(self, out_GnN: Tensor, x_GnK: Tensor) -> None:
        """out += x W"""
        for matrix, out_nN, x_nK in zip(self._matrices, out_GnN, x_GnK, strict=True):
            matrix.add_to(out_nN, x_nK)

    def of(self, directions: slice) -> "Int8":
        some = Int8(())
        some._matrices = self._matrices[directions]
        return some


class _Matrix:
    def __init__(self, matrix_KN: Tensor) -> None:
        self._scale_N = _scale(matrix_KN.abs()).clamp_min(1e-12)
        self._packed = _packed((matrix_KN / self._scale_N).round().to(torch.int8))
        self._zeros_N = torch.zeros(matrix_KN.shape[1], dtype=torch.int32)

    def add_to(self, out_nN: Tensor, x_nK: Tensor) -> None:
        assert out_nN.is_contiguous(), "oneDNN treats all memory as contiguous"
        scale = max(float(x_nK.abs().max()), 1e-12) / (_MIDDLE - 1)
        # The conversion truncates, so adding 0.5 rounds.
        q_nK = torch.add(_MIDDLE + 0.5, x_nK, alpha=1 / scale).to(torch.uint8)
        sum_nN = _multiply(q_nK, scale, self._packed, self._scale_N, self._zeros_N, out_nN)
        if sum_nN.data_ptr() != out_nN.data_ptr():  # usually in place, but that is not guaranteed
            out_nN.copy_(sum_nN)


@cache
def adds_in_16_bits() -> bool:
    """Whether this processor adds neighbouring products in 16 bits; ConfigError if its 8-bit products are not exact."""
    if _is_exact(_LARGEST, _LARGEST):
        return False
    if _is_exact(_LARGEST, _TOGETHER - _LARGEST) and _is_exact(_TOGETHER // 2, _TOGETHER // 2):
        return True
    raise ConfigError("precision: int8 products are not exact on this processor; use float32")


def _scale(size_KN: Tensor) -> Tensor:
    """The value of 1 in each column: the smallest with which its weights fit."""
    scale_N = size_KN.amax(0) / _LARGEST
    if not adds_in_16_bits():
        return scale_N
    size_KN = torch.nn.functional.pad(size_KN, (0, 0, 0, len(size_KN) % 2))
    # − 1, because both neighbours may be rounded up
    return torch.maximum(scale_N, (size_KN[::2] + size_KN[1::2]).amax(0) / (_TOGETHER - 1))


def _is_exact(weight: int, neighbour: int) -> bool:
    """Whether the largest products of these weights are summed without overflow."""
    q_nK = torch.full((16, 64), 255, dtype=torch.uint8)
    weight_KN = torch.tensor([weight, neighbour], dtype=torch.int8).repeat(32)[:, None].expand(64, 64)
    ones_N, zeros_N, out_nN = torch.ones(64), torch.zeros(64, dtype=torch.int32), torch.zeros(16, 64)
    try:
        found_nN = _multiply(q_nK, 1.0, _packed(weight_KN), ones_N, zeros_N, out_nN)
    except (RuntimeError, AttributeError, NotImplementedError) as problem:
        reason = str(problem).split("\n")[0]
        raise ConfigError(
            f"precision: int8 needs a torch with oneDNN on an x86 processor ({reason}); use float32"
        ) from None
    return bool((found_nN == (255 - _MIDDLE) * (weight + neighbour) * 32).all())


def _packed(weight_KN: Tensor) -> Tensor:
    packed: Tensor = torch.ops.onednn.qlinear_prepack(weight_KN.T.contiguous(), None)
    return packed


def _multiply(q_nK: Tensor, scale: float, packed: Tensor, scale_N: Tensor, zeros_N: Tensor, out_nN: Tensor) -> Tensor:
    """out + scale · scale_N · (q − 128) W; may be computed in the memory of out."""
    left, right = (q_nK, scale, _MIDDLE), (packed, scale_N, zeros_N)
    result, of_out = (1.0, 0, torch.float32), (1.0, 0)
    added: Tensor = torch.ops.onednn.qlinear_pointwise.binary(
        *left, *right, out_nN, None, *result, *of_out, "sum", 1.0, "none", [], ""
    )
    return added
