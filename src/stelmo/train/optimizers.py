"""Gradients → new parameters: torch's fused optimisers for the biLM, row by row for the softmax. Knows no loss.

A step touches few rows of the softmax (targets and negatives), so only theirs are read and written: Adagrad leaves the
others as they are by its own law; Adam becomes lazy, its corrections following the step of the whole run.
V words of the vocabulary, n rows of a step, P projection.
"""

from collections.abc import Callable, Mapping

import torch
from torch import Tensor, nn

from stelmo.config import TrainSettings
from stelmo.model.softmax import Softmax
from stelmo.ops.losses import RowGradient

BETAS = (0.9, 0.999)
EPSILON = 1e-8


class Optimizer:
    """Of the biLM's parameters and the softmax's rows alike, with one learning rate."""

    def __init__(self, bilm: nn.Module, softmax: Softmax, settings: TrainSettings) -> None:
        self._names = {parameter: name for name, parameter in bilm.named_parameters()}
        self._dense = _dense(list(self._names), settings)
        self._rows = {name: Rows(parameter, settings) for name, parameter in softmax.named_parameters()}

    def step(self, rows: RowGradient, lr: float, number: int) -> None:
        """The step of that number, from 1; the biLM's gradients are in its parameters."""
        for group in self._dense.param_groups:
            group["lr"] = lr
        self._dense.step()
        for name, gradient in (("weight", rows.weight_nP), ("bias", rows.bias_n)):
            self._rows[name].step(rows.rows_n, gradient, lr, number)

    def tensors(self) -> dict[str, Tensor]:
        """All that it remembers."""
        dense = {
            f"bilm.{name}.{key}": value
            for parameter, name in self._names.items()
            for key, value in self._dense.state[parameter].items()
        }
        return dense | {
            f"softmax.{n}.{key}": value for n, rows in self._rows.items() for key, value in rows.memory.items()
        }

    def load(self, tensors: Mapping[str, Tensor]) -> None:
        """What `tensors` gave. Copies: a product's last bits depend on how its memory is aligned."""
        for parameter, name in self._names.items():
            start = f"bilm.{name}."
            found = {key.removeprefix(start): value for key, value in tensors.items() if key.startswith(start)}
            self._dense.state[parameter] = {key: value.clone() for key, value in found.items()}
        for name, rows in self._rows.items():
            for key, value in rows.memory.items():
                value.copy_(tensors[f"softmax.{name}.{key}"])


def _dense(parameters: list[nn.Parameter], settings: TrainSettings) -> torch.optim.Optimizer:
    if settings.optimizer == "adagrad":
        # Without epsilon, as published: the accumulator does not start at zero.
        epsilon = 0.0 if settings.accumulator > 0 else 1e-10
        fused = parameters[0].device.type == "cpu"
        return torch.optim.Adagrad(
            parameters, settings.lr, initial_accumulator_value=settings.accumulator, eps=epsilon, fused=fused
        )
    if settings.optimizer == "adam":
        return torch.optim.Adam(parameters, settings.lr, BETAS, EPSILON, fused=True)
    return torch.optim.AdamW(parameters, settings.lr, BETAS, EPSILON, settings.weight_decay, fused=True)


class Rows:
    """The optimiser of one table, a row at a time."""

    def __init__(self, table_VP: nn.Parameter, settings: TrainSettings) -> None:
        self._table_VP = table_VP.data
        self._decay = settings.weight_decay if settings.optimizer == "adamw" else 0.0
        self._change: Callable[[Tensor, Tensor, int], Tensor]
        if settings.optimizer == "adagrad":
            self.memory = {"sum": torch.full_like(self._table_VP, settings.accumulator)}
            self._change = self._adagrad
        else:
            self.memory = {name: torch.zeros_like(self._table_VP) for name in ("exp_avg", "exp_avg_sq")}
            self._change = self._adam

    @torch.no_grad()
    def step(self, rows_n: Tensor, gradient_nP: Tensor, lr: float, number: int) -> None:
        old_nP = self._table_VP[rows_n]
        change_nP = self._change(rows_n, gradient_nP, number)
        self._table_VP[rows_n] = old_nP.mul_(1 - lr * self._decay).sub_(change_nP.mul_(lr))

    def _adagrad(self, rows_n: Tensor, gradient_nP: Tensor, number: int) -> Tensor:
        sum_nP = self.memory["sum"][rows_n].addcmul_(gradient_nP, gradient_nP)
        self.memory["sum"][rows_n] = sum_nP
        return gradient_nP / sum_nP.sqrt_().clamp_min_(1e-10)

    def _adam(self, rows_n: Tensor, gradient_nP: Tensor, number: int) -> Tensor:
        """m̂ / (√v̂ + ε),  m̂ = m / (1 − β₁^t),  v̂ = v / (1 − β₂^t)"""
        mean_nP = self.memory["exp_avg"][rows_n].lerp_(gradient_nP, 1 - BETAS[0])
        square_nP = (
            self.memory["exp_avg_sq"][rows_n].mul_(BETAS[1]).addcmul_(gradient_nP, gradient_nP, value=1 - BETAS[1])
        )
        self.memory["exp_avg"][rows_n] = mean_nP
        self.memory["exp_avg_sq"][rows_n] = square_nP
        spread_nP = square_nP.div_(1 - BETAS[1] ** number).sqrt_().add_(EPSILON)
        return mean_nP.div_(1 - BETAS[0] ** number) / spread_nP
