"""Gradients → new parameters: torch's fused optimisers for the biLM, row by row for the softmax.

A step touches few rows of the softmax (targets and negatives), so only those are read and written. Adagrad would not
change the others anyway; Adam becomes lazy: its bias corrections follow the step of the whole run.

Muon (Jordan et al. 2024) replaces Adam for the LSTMs' matrices: the momentum of a matrix is orthogonalised, so that
every direction of the update has about the same size. Such updates never become small, so the matrices decay by
`weight_decay`: without it they grow until training diverges. All other parameters, the softmax included, keep Adam.

V words of the vocabulary, n rows of a step, P projection, H cells, N matrices, R × C their shape.
"""

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from stelmo.model.bilm import Softmax
from stelmo.ops.losses import RowGradient
from stelmo.settings import TrainSettings

BETAS = (0.9, 0.999)
EPSILON = 1e-8
MOMENTUM = 0.95
# Root mean square of Muon's update at a learning rate of 1, about that of Adam (Liu et al. 2025).
MUON_SIZE = 0.2
QUINTIC = (3.4445, -4.7750, 2.0315)  # p(x) = ax + bx³ + cx⁵ drives singular values of (0, 1] to about 1


class Optimizer:
    """Updates the biLM's parameters and the softmax's rows, with one learning rate schedule for both."""

    def __init__(self, bilm: nn.Module, softmax: Softmax, settings: TrainSettings) -> None:
        named = dict(bilm.named_parameters())
        muon = {name: p for name, p in named.items() if settings.optimizer == "muon" and is_lstm_matrix(name)}
        self._names = {parameter: name for name, parameter in named.items() if name not in muon}
        self._dense = _dense(list(self._names), settings)
        self._muon = Muon(muon, settings.weight_decay)
        self._muon_factor = settings.matrix_lr / settings.lr  # both follow the same schedule
        self._rows = {name: Rows(parameter, settings) for name, parameter in softmax.named_parameters()}

    def step(self, rows: RowGradient, lr: float, number: int) -> None:
        """The step of that number, from 1; the biLM's gradients are in its parameters."""
        for group in self._dense.param_groups:
            group["lr"] = lr
        self._dense.step()
        self._muon.step(lr * self._muon_factor)
        for name, gradient in (("weight", rows.weight_nP), ("bias", rows.bias_n)):
            self._rows[name].step(rows.rows_n, gradient, lr, number)

    def tensors(self) -> dict[str, Tensor]:
        """The optimiser's complete state, by name."""
        dense = {
            f"bilm.{name}.{key}": value
            for parameter, name in self._names.items()
            for key, value in self._dense.state[parameter].items()
        }
        dense |= {f"bilm.{name}.momentum": tensor for name, tensor in self._muon.momentum.items()}
        return dense | {
            f"softmax.{n}.{key}": value for n, rows in self._rows.items() for key, value in rows.memory.items()
        }

    def load(self, tensors: Mapping[str, Tensor]) -> None:
        """Resume from what `tensors` returned. Copies: a product's last bits depend on how its memory is aligned."""
        for parameter, name in self._names.items():
            start = f"bilm.{name}."
            found = {key.removeprefix(start): value for key, value in tensors.items() if key.startswith(start)}
            # Only fused optimisers have the number of the step where the parameters are.
            places = {"step": parameter.device if self._dense.defaults["fused"] else torch.device("cpu")}
            self._dense.state[parameter] = {
                key: value.to(places.get(key, parameter.device), copy=True) for key, value in found.items()
            }
        for name, momentum in self._muon.momentum.items():
            momentum.copy_(tensors[f"bilm.{name}.momentum"])
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
    if settings.optimizer in ("adam", "muon"):
        return torch.optim.Adam(parameters, settings.lr, BETAS, EPSILON, fused=True)
    return torch.optim.AdamW(parameters, settings.lr, BETAS, EPSILON, settings.weight_decay, fused=True)


def is_lstm_matrix(name: str) -> bool:
    return name.startswith("lstm_") and name.endswith((".kernel", ".projection"))


class Muon:
    """Updates the LSTMs' kernels and projections. A kernel is eight matrices: input and state, four gates each."""

    def __init__(self, parameters: Mapping[str, nn.Parameter], weight_decay: float) -> None:
        self._parameters, self._weight_decay = parameters, weight_decay
        self.momentum = {name: torch.zeros_like(parameter) for name, parameter in parameters.items()}

    @torch.no_grad()
    def step(self, lr: float) -> None:
        for name, parameter in self._parameters.items():
            if parameter.grad is None:
                continue
            momentum = self.momentum[name].lerp_(parameter.grad, 1 - MOMENTUM)
            update = parameter.grad.lerp(momentum, MOMENTUM)  # Nesterov: the momentum after the next such gradient
            gates = 4 if name.endswith(".kernel") else 1
            sources = 2 if name.endswith(".kernel") else 1
            rows, columns = len(update) // sources, update.shape[1] // gates
            blocks = update.view(sources, rows, gates, columns).transpose(1, 2)
            turned = orthogonalised(blocks.reshape(-1, rows, columns)).view(sources, gates, rows, columns)
            size = lr * MUON_SIZE * max(rows, columns) ** 0.5
            parameter.mul_(1 - lr * self._weight_decay)
            parameter.sub_(turned.transpose(1, 2).reshape_as(update), alpha=size)


def orthogonalised(matrices_NRC: Tensor) -> Tensor:
    """U Vᵀ of U S Vᵀ, nearly: five steps of a quintic Newton–Schulz iteration leave singular values of 0.7 to 1.2.

    X ← p(X) = (aI + bA + cA²) X with A = X Xᵀ. The factors are polynomials of the first A, so they are gathered in an
    R × R matrix and X, which is C wide, is multiplied only twice.
    """
    if matrices_NRC.shape[1] > matrices_NRC.shape[2]:
        return orthogonalised(matrices_NRC.transpose(1, 2)).transpose(1, 2)
    a, b, c = QUINTIC
    gram_NRR = matrices_NRC @ matrices_NRC.transpose(1, 2)
    norm_N11 = torch.linalg.matrix_norm(gram_NRR, keepdim=True).clamp_min(1e-30)
    gram_NRR = gram_NRR / norm_N11
    identity_RR = torch.eye(gram_NRR.shape[1], dtype=gram_NRR.dtype, device=gram_NRR.device)
    product_NRR = identity_RR
    for _ in range(5):
        factor_NRR = a * identity_RR + b * gram_NRR + c * (gram_NRR @ gram_NRR)
        product_NRR = factor_NRR @ product_NRR
        gram_NRR = factor_NRR @ gram_NRR @ factor_NRR
    result_NRC: Tensor = (product_NRR @ matrices_NRC) / norm_N11.sqrt()
    return result_NRC


class Rows:
    """The optimiser of one table, a row at a time."""

    def __init__(self, table_VP: nn.Parameter, settings: TrainSettings) -> None:
        self._table_VP = table_VP.data
        self._decay = settings.weight_decay if settings.optimizer == "adamw" else 0.0
        self._adagrad = settings.optimizer == "adagrad"
        if self._adagrad:
            self.memory = {"sum": torch.full_like(self._table_VP, settings.accumulator)}
        else:
            self.memory = {name: torch.zeros_like(self._table_VP) for name in ("exp_avg", "exp_avg_sq")}

    @torch.no_grad()
    def step(self, rows_n: Tensor, gradient_nP: Tensor, lr: float, number: int) -> None:
        """Adagrad: g / √Σg².   Adam: m̂ / (√v̂ + ε),  m̂ = m / (1 − β₁^t),  v̂ = v / (1 − β₂^t)"""
        memory = self.memory
        if self._adagrad:
            sum_nP = memory["sum"][rows_n].addcmul_(gradient_nP, gradient_nP)
            memory["sum"][rows_n] = sum_nP
            change_nP = gradient_nP / sum_nP.sqrt_().clamp_min_(1e-10)
        else:
            mean_nP = memory["exp_avg"][rows_n].lerp_(gradient_nP, 1 - BETAS[0])
            square_nP = memory["exp_avg_sq"][rows_n].mul_(BETAS[1])
            square_nP.addcmul_(gradient_nP, gradient_nP, value=1 - BETAS[1])
            memory["exp_avg"][rows_n], memory["exp_avg_sq"][rows_n] = mean_nP, square_nP
            spread_nP = square_nP.div_(1 - BETAS[1] ** number).sqrt_().add_(EPSILON)
            change_nP = mean_nP.div_(1 - BETAS[0] ** number) / spread_nP
        old_nP = self._table_VP[rows_n]
        self._table_VP[rows_n] = old_nP.mul_(1 - lr * self._decay).sub_(change_nP.mul_(lr))
