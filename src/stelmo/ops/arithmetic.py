"""Products and tanh in float32 on processors where torch's own are slow. Knows no modules.

On a CPU, torch multiplies float32 matrices and computes tanh with MKL, which uses AVX-512 on Intel's processors alone.
AMD's compute 512 bits at once since family 26 (Zen 5). There oneDNN, which torch uses for other operations, multiplies
2.3 times as fast, except with few rows, and tanh(x) = 2 σ(2x) − 1 takes a fifth of the time. On all other processors,
in other precisions and on GPUs, these functions are torch's.

N rows, K inputs, M outputs. oneDNN takes the transposed matrix, and reads a view of it without a copy.
"""

import platform
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

ROWS = 16  # from so many rows on oneDNN is faster,
WORK = 1_000_000  # and from so many multiplications on
NUMBERS = 2_048  # from so many on, σ is faster than tanh
_MINUS_ONE = torch.tensor(-1.0)
ROWS_TOGETHER = 256


def is_slow_with_mkl(processor: str) -> bool:
    """Judged by its description: "vendor_id : AuthenticAMD, cpu family : 26" or "AMD64 Family 26, AuthenticAMD"."""
    family = re.search(r"family\s*:?\s*(\d+)", processor, re.IGNORECASE)
    return "AuthenticAMD" in processor and family is not None and int(family[1]) >= 26


def _this_one_is_slow() -> bool:
    usable = torch.backends.mkl.is_available() and torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]
    if not usable or torch.backends.cpu.get_cpu_capability() != "AVX512":
        return False
    try:
        with Path("/proc/cpuinfo").open() as file:
            return is_slow_with_mkl(file.read(512))
    except OSError:  # not Linux
        return is_slow_with_mkl(platform.processor())


avoids_mkl = _this_one_is_slow()


@contextmanager
def of_torch() -> Iterator[None]:
    """Inside the block, everything is computed as in other programs that use torch."""
    global avoids_mkl
    before, avoids_mkl = avoids_mkl, False
    try:
        yield
    finally:
        avoids_mkl = before


def tanh(x: Tensor, out: Tensor) -> Tensor:
    """tanh(x) → out, which may be x; without a gradient. An error of up to 2e-7 if it is computed by σ."""
    if avoids_mkl and x.dtype == torch.float32 and x.device.type == "cpu" and x.numel() >= NUMBERS:
        return torch.add(_MINUS_ONE, torch.mul(x, 2, out=out).sigmoid_(), alpha=2, out=out)
    return torch.tanh(x, out=out)


# Products


def _suits_onednn(x_NK: Tensor, matrix_KM: Tensor) -> bool:
    rows = x_NK.shape[0]
    return (
        avoids_mkl
        and rows >= ROWS
        and rows * matrix_KM.numel() >= WORK
        and x_NK.dtype == matrix_KM.dtype == torch.float32
        and x_NK.device.type == "cpu"
        and (matrix_KM.is_contiguous() or matrix_KM.t().is_contiguous())  # else oneDNN is very slow
        and not torch.is_autocast_enabled("cpu")
    )


def _multiply(x_NK: Tensor, matrix_KM: Tensor, bias_M: Tensor | None) -> Tensor:
    found: Tensor = torch.ops.mkldnn._linear_pointwise(x_NK, matrix_KM.t(), bias_M, "none", [], "")
    return found


def _parts(out_NM: Tensor, x_NK: Tensor) -> Iterable[tuple[Tensor, Tensor]]:
    """oneDNN returns a new tensor; some rows of it at a time are still in the cache when they are copied or added."""
    if len(x_NK) <= ROWS_TOGETHER:
        return ((out_NM, x_NK),)
    return zip(torch.split(out_NM, ROWS_TOGETHER), torch.split(x_NK, ROWS_TOGETHER), strict=True)


def product(x_NK: Tensor, matrix_KM: Tensor, bias_M: Tensor | None = None) -> Tensor:
    """x W + b, without a gradient."""
    if _suits_onednn(x_NK, matrix_KM):
        return _multiply(x_NK, matrix_KM, bias_M)
    return torch.mm(x_NK, matrix_KM) if bias_M is None else torch.addmm(bias_M, x_NK, matrix_KM)


def write_product(out_NM: Tensor, x_NK: Tensor, matrix_KM: Tensor, bias_M: Tensor | None = None) -> None:
    """out = x W + b, without a gradient."""
    if _suits_onednn(x_NK, matrix_KM):
        for part_nM, x_nK in _parts(out_NM, x_NK):
            part_nM.copy_(_multiply(x_nK, matrix_KM, bias_M))
    elif bias_M is None:
        torch.mm(x_NK, matrix_KM, out=out_NM)
    else:
        torch.addmm(bias_M, x_NK, matrix_KM, out=out_NM)


def add_product(out_NM: Tensor, x_NK: Tensor, matrix_KM: Tensor) -> None:
    """out += x W, without a gradient."""
    if _suits_onednn(x_NK, matrix_KM):
        for part_nM, x_nK in _parts(out_NM, x_NK):
            part_nM.add_(_multiply(x_nK, matrix_KM, None))
    else:
        out_NM.addmm_(x_NK, matrix_KM)


def products(x_GNK: Tensor, matrix_GKM: Tensor) -> Tensor:
    """x W of each of several pairs, without a gradient."""
    if _suits_onednn(x_GNK[0], matrix_GKM[0]):
        return torch.stack([_multiply(*pair, None) for pair in zip(x_GNK, matrix_GKM, strict=True)])
    return torch.bmm(x_GNK, matrix_GKM)


def add_products(out_GNM: Tensor, x_GNK: Tensor, matrix_GKM: Tensor) -> None:
    """out += x W of each of several pairs, without a gradient."""
    if _suits_onednn(x_GNK[0], matrix_GKM[0]):
        for out_NM, x_NK, matrix_KM in zip(out_GNM, x_GNK, matrix_GKM, strict=True):
            add_product(out_NM, x_NK, matrix_KM)
    else:
        out_GNM.baddbmm_(x_GNK, matrix_GKM)


def linear(x: Tensor, matrix_KM: Tensor, bias_M: Tensor) -> Tensor:
    """x W + b of (…, K), with gradients."""
    x_NK = x.flatten(0, -2)
    if not _suits_onednn(x_NK, matrix_KM):
        return F.linear(x, matrix_KM.t(), bias_M)
    return _linear(x_NK, matrix_KM, bias_M).view(*x.shape[:-1], -1)


class _Linear(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x_NK: Tensor, matrix_KM: Tensor, bias_M: Tensor) -> Tensor:
        ctx.save_for_backward(x_NK, matrix_KM)
        return product(x_NK, matrix_KM, bias_M)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, dy_NM: Tensor) -> tuple[Tensor | None, ...]:
        x_NK, matrix_KM = ctx.saved_tensors
        of_x, of_matrix, of_bias = ctx.needs_input_grad
        return (
            product(dy_NM, matrix_KM.t()) if of_x else None,
            product(x_NK.t(), dy_NM) if of_matrix else None,
            dy_NM.sum(0) if of_bias else None,
        )


_linear: Callable[..., Tensor] = _Linear.apply
