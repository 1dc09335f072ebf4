"""A task's network → the same network after one training step. Knows no task and no schedule."""

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Generic

import torch
from torch import Tensor, nn

from stelmo.embed.elmo import Elmo
from stelmo.errors import ModelError
from stelmo.settings import TaskSettings
from stelmo.store.runs import Checkpoint
from stelmo.tasks.task import E, P, TaskNetwork


class Training(Generic[E, P]):
    """The network, its optimizer, and the running average of its weights if the settings ask for one."""

    def __init__(self, net: TaskNetwork[E, P], settings: TaskSettings, seed: int) -> None:
        self.net, self.settings, self.seed = net, settings, seed
        self.parameters = [parameter for parameter in net.parameters() if parameter.requires_grad]
        self.optimizer: torch.optim.Optimizer
        if settings.optimizer == "adadelta":
            self.optimizer = torch.optim.Adadelta(
                self.parameters, settings.lr, rho=0.95, eps=1e-6, weight_decay=settings.weight_decay
            )
        else:
            self.optimizer = torch.optim.Adam(self.parameters, settings.lr, weight_decay=settings.weight_decay)
        averaged = self.parameters if settings.average is not None else []
        self.average = [parameter.detach().clone() for parameter in averaged]

    def step(self, examples: Sequence[E]) -> float:
        """The loss before the step."""
        self.optimizer.zero_grad(set_to_none=True)
        loss = self.net.loss(examples) + self.net.words.penalty()
        value = loss.item()
        if not math.isfinite(value):
            raise ModelError(f"the loss is {value}: the training diverged; try a smaller lr (--set lr=0.0003)")
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
        """Inside the block the network has its averaged weights."""
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
        """The contents of a checkpoint."""
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
        states: dict[int, dict[str, Tensor]] = {}  # "optimizer.3.exp_avg" → states[3]["exp_avg"]
        for name, tensor in tensors.items():
            if name.startswith("optimizer."):
                _, number_text, key = name.split(".")
                states.setdefault(int(number_text), {})[key] = tensor
        groups = self.optimizer.state_dict()["param_groups"]
        self.optimizer.load_state_dict({"state": states, "param_groups": groups})
        self.rate = checkpoint.about["lr"]


def weights(net: nn.Module) -> dict[str, Tensor]:
    """Everything that training changes; a frozen biLM is not included, because it has its own file."""
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
        raise ModelError(f"the weights belong to another network: {missing[0]} is in only one of the two")
    net.load_state_dict(dict(tensors), strict=False)
