"""A task's network → the same one step of learning further. Knows no task and no epochs."""

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from stelmo.config import TaskSettings
from stelmo.embed.elmo import Elmo
from stelmo.errors import ModelError
from stelmo.store.runs import Checkpoint
from stelmo.tasks.table import Example
from stelmo.tasks.words import WordReader


class Training:
    """The network, its optimiser, and the running average where one is asked for."""

    def __init__(self, net: nn.Module, words: WordReader, settings: TaskSettings, seed: int) -> None:
        self.net, self.words, self.settings, self.seed = net, words, settings, seed
        self.parameters = [parameter for parameter in net.parameters() if parameter.requires_grad]
        self.optimizer = _optimizer(self.parameters, settings)
        averaged = self.parameters if settings.average is not None else []
        self.average = [parameter.detach().clone() for parameter in averaged]

    def step(self, examples: Sequence[Example]) -> float:
        self.optimizer.zero_grad(set_to_none=True)
        loss: Tensor = self.net.loss(examples) + self.words.penalty()  # type: ignore[operator]
        value = loss.item()
        _refuse_nan(value)
        loss.backward()  # type: ignore[no-untyped-call]
        if self.settings.clip_value is not None:
            nn.utils.clip_grad_value_(self.parameters, self.settings.clip_value)
        if self.settings.clip is not None:
            nn.utils.clip_grad_norm_(self.parameters, self.settings.clip)
        self.optimizer.step()
        if self.settings.average is not None:
            torch._foreach_lerp_(self.average, [p.data for p in self.parameters], 1 - self.settings.average)
        return value

    @contextmanager
    def averaged(self) -> Iterator[None]:
        """The network with the averaged weights, while the block lasts."""
        own = [parameter.data for parameter in self.parameters]
        for parameter, averaged in zip(self.parameters, self.average, strict=False):
            parameter.data = averaged
        try:
            yield
        finally:
            for parameter, data in zip(self.parameters, own, strict=True):
                parameter.data = data

    @property
    def rate(self) -> float:
        rate: float = self.optimizer.param_groups[0]["lr"]
        return rate

    @rate.setter
    def rate(self, rate: float) -> None:
        for group in self.optimizer.param_groups:
            group["lr"] = rate

    def tensors(self) -> dict[str, Tensor]:
        found = {f"net.{name}": tensor for name, tensor in weights(self.net).items()}
        found |= {f"average.{number}": tensor for number, tensor in enumerate(self.average)}
        for number, state in self.optimizer.state_dict()["state"].items():
            found |= {f"optimizer.{number}.{name}": torch.as_tensor(value) for name, value in state.items()}
        return found

    def restore(self, checkpoint: Checkpoint) -> None:
        tensors = checkpoint.tensors
        load_weights(self.net, {name[4:]: tensor for name, tensor in tensors.items() if name.startswith("net.")})
        for number, averaged in enumerate(self.average):
            averaged.copy_(tensors[f"average.{number}"])
        groups = self.optimizer.state_dict()["param_groups"]
        self.optimizer.load_state_dict({"state": _states(tensors), "param_groups": groups})
        self.rate = checkpoint.about["lr"]


def weights(net: nn.Module) -> dict[str, Tensor]:
    """All that training changes; a biLM that stays as it is has a file of its own."""
    frozen = tuple(
        f"{name}.{part}"
        for name, module in net.named_modules()
        if isinstance(module, Elmo) and not module.trainable
        for part in ("bilm.", "start_")
    )
    return {name: tensor for name, tensor in net.state_dict().items() if not name.startswith(frozen)}


def load_weights(net: nn.Module, tensors: Mapping[str, Tensor]) -> None:
    missing = sorted(weights(net).keys() ^ tensors.keys())
    if missing:
        raise ModelError(f"the weights are of another network: {missing[0]} is in only one of the two")
    net.load_state_dict(dict(tensors), strict=False)


def _optimizer(parameters: list[nn.Parameter], settings: TaskSettings) -> torch.optim.Optimizer:
    if settings.optimizer == "adadelta":
        return torch.optim.Adadelta(parameters, settings.lr, rho=0.95, eps=1e-6, weight_decay=settings.weight_decay)
    return torch.optim.Adam(parameters, settings.lr, weight_decay=settings.weight_decay)


def _states(tensors: Mapping[str, Tensor]) -> dict[int, dict[str, Tensor]]:
    """{"optimizer.3.exp_avg": …} → {3: {"exp_avg": …}}"""
    found: dict[int, dict[str, Tensor]] = {}
    for name, tensor in tensors.items():
        if name.startswith("optimizer."):
            _, number, key = name.split(".")
            found.setdefault(int(number), {})[key] = tensor
    return found


def _refuse_nan(loss: float) -> None:
    if not math.isfinite(loss):
        raise ModelError(f"the loss is {loss}: the training diverged; try a smaller lr (--set lr=0.0003)")
