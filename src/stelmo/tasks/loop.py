"""A network and its examples → the network with the best dev score. One loop trains all six tasks; it knows none.

Training runs in rounds: `evaluate_every` steps (unset: one epoch), then an evaluation on dev, then a checkpoint.
Patience and schedules count evaluations. An epoch is as many steps as one pass through the whole training data takes,
even if the run uses a fraction of the data: it then makes more passes, and trains as long. All randomness of a round
comes from the seed and its number, so a run that is stopped and resumed ends in the same bits as one that is not.
"""

import math
import random
import time
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import Any, Generic, NamedTuple, TypeVar

import torch
from torch import Tensor, nn

from stelmo.embed.elmo import Elmo
from stelmo.engine import planning
from stelmo.errors import ModelError, OutputError
from stelmo.progress import ProgressCallback, stop_requested
from stelmo.settings import TaskSettings
from stelmo.store import runs
from stelmo.store.runs import Checkpoint, Run
from stelmo.tasks.task import E, P, Splits, Task, TaskNetwork
from stelmo.train.learner import average_decay

POOL = 50  # batches whose examples are sorted by length together: similar lengths, but mixed differently in every epoch

T = TypeVar("T")


# One step


class Training(Generic[E, P]):
    """The network, its optimizer, and the running average of its weights if the settings ask for one."""

    def __init__(self, net: TaskNetwork[E, P], settings: TaskSettings, seed: int) -> None:
        self.net, self.settings, self.seed = net, settings, seed
        self.parameters = [parameter for parameter in net.parameters() if parameter.requires_grad]
        groups = _groups(net, settings.bilm_lr_factor)
        self.optimizer: torch.optim.Optimizer
        if settings.optimizer == "adadelta":
            self.optimizer = torch.optim.Adadelta(
                groups, settings.lr, rho=0.95, eps=1e-6, weight_decay=settings.weight_decay
            )
        else:
            self.optimizer = torch.optim.Adam(groups, settings.lr, weight_decay=settings.weight_decay, fused=True)
        averaged = self.parameters if settings.average is not None else []
        self.average = [parameter.detach().clone() for parameter in averaged]
        self.precision = chosen_precision(settings.precision, self.parameters[0].device.type)
        self.rate = settings.lr  # halved when the dev score stops rising; `decay` acts on it as well
        self.steps = 0  # finished ones

    def step(self, examples: Sequence[E], decay: float = 1.0) -> float:
        """The loss before the step, which is made with the learning rate times `decay`."""
        for group in self.optimizer.param_groups:
            group["lr"] = self.rate * decay * group["factor"]
        self.optimizer.zero_grad(set_to_none=True)
        half = self.precision == "bfloat16"
        with torch.autocast(self.parameters[0].device.type, torch.bfloat16, enabled=half):
            loss = self.net.loss(examples)
        loss = loss + self.net.words.penalty()
        value = loss.item()
        if not math.isfinite(value):
            raise ModelError(f"the loss is {value}: the training diverged; try a smaller lr (--set lr=0.0003)")
        loss.backward()  # type: ignore[no-untyped-call]
        if self.settings.clip_value is not None:
            nn.utils.clip_grad_value_(self.parameters, self.settings.clip_value)
        if self.settings.clip is not None:
            nn.utils.clip_grad_norm_(self.parameters, self.settings.clip)
        self.optimizer.step()
        self.steps += 1
        if self.settings.average is not None:
            kept = average_decay(self.settings.average, self.steps)
            torch._foreach_lerp_(self.average, [p.data for p in self.parameters], 1 - kept)
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
        self.rate, self.steps = checkpoint.about["lr"], checkpoint.about["step"]


def _groups(net: nn.Module, bilm_factor: float) -> list[dict[str, Any]]:
    """The parameters by the factor of their learning rate; those of a biLM that is trained have their own."""
    tuned = {
        parameter
        for module in net.modules()
        if isinstance(module, Elmo) and module.trainable
        for parameter in module.bilm.parameters()
    }
    factors = {parameter: bilm_factor if parameter in tuned else 1.0 for parameter in net.parameters()}
    return [
        {"params": [p for p, own in factors.items() if own == factor and p.requires_grad], "factor": factor}
        for factor in sorted(set(factors.values()), reverse=True)
    ]


def chosen_precision(setting: str, device: str) -> str:
    """float32 or bfloat16. A CPU without instructions for bfloat16 emulates it, tens of times slower than float32."""
    if setting != "auto":
        return setting
    return "bfloat16" if device == "cpu" and torch.cpu._is_avx512_bf16_supported() else "float32"


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
    for name, own in weights(net).items():
        if own.shape != tensors[name].shape:
            found, expected = ("×".join(map(str, tensor.shape)) for tensor in (tensors[name], own))
            raise ModelError(f"the weights belong to another network: {name} has {found} numbers, not {expected}")
    net.load_state_dict(dict(tensors), strict=False)


# The loop


class LayersReport(NamedTuple):
    """Progress of computing ELMo's layers, before training."""

    tokens: int
    of: int


class StepReport(NamedTuple):
    """Progress of training, after each step."""

    seed: int
    step: int
    steps: int  # at most
    epoch: int  # the current one, from 1
    loss: float  # mean of this round
    best: float | None  # best headline score on dev so far


TaskProgress = ProgressCallback[LayersReport | StepReport]


class RunState(NamedTuple):
    """How far a run has got; stored as JSON in its checkpoints."""

    step: int = 0  # finished ones
    evaluations: int = 0
    best: float = -math.inf
    best_evaluation: int = 0
    seconds: float = 0.0
    stopped: bool = False  # early, because the score stopped rising


def train(
    training: Training[E, P],
    task: Task[E, P],
    data: Splits[E],
    epoch_steps: int,
    run: Run,
    keep_best: Callable[[list[P]], None],
    progress: TaskProgress,
) -> tuple[RunState, bool]:
    """Train until the last step, or until the score has not risen for `patience` evaluations; whether it finished.

    `keep_best` receives the predictions on dev after each evaluation with a new best score. Stopped by a signal, the
    function returns early; called again with the same run, it resumes.
    """
    settings = training.settings
    every, total = settings.evaluate_every or epoch_steps, step_limit(settings, epoch_steps)
    state = _resume(training, run, progress)
    with stop_requested() as stop:
        while state.step < total and not state.stopped:
            started = time.monotonic()
            steps = min(every, total - state.step)
            loss = _train_round(training, task, data.train, state, steps, total, stop, progress)
            if loss is None:
                return state, False
            with training.averaged():
                predictions = predict(training.net, task, data.dev, settings.score_tokens)
                scores = task.score(predictions, data.dev)
                seconds = state.seconds + time.monotonic() - started
                state = state._replace(step=state.step + steps, evaluations=state.evaluations + 1, seconds=seconds)
                state = _after_evaluation(state, task.headline(scores), training)
                if state.best_evaluation == state.evaluations:
                    keep_best(predictions)
            passes = state.step / math.ceil(len(data.train) / settings.batch)
            entry = {"step": state.step, "evaluation": state.evaluations, "epoch": passes, "loss": loss}
            rate = training.rate * decayed(settings, state.step, total)
            run.log.add({**entry, "lr": rate, "dev": scores})
            run.save(state.step, training.tensors(), {**state._asdict(), "lr": training.rate}, keep=1)
    return state, True


def step_limit(settings: TaskSettings, epoch_steps: int) -> int:
    return settings.steps or settings.epochs * epoch_steps


def decayed(settings: TaskSettings, step: int, total: int) -> float:
    """The factor of the learning rate after `step` of at most `total` steps."""
    return 1.0 - step / total if settings.decay == "linear" else 1.0


def predict(net: TaskNetwork[E, P], task: Task[E, P], examples: Sequence[E], tokens: int) -> list[P]:
    """Predictions in the order of the examples, in batches of about `tokens` tokens, padding included."""
    net.eval()
    found: dict[int, P] = {}
    with torch.no_grad():
        for positions in planning.by_length(list(map(task.tokens, examples)), tokens):
            predictions = net.predict([examples[position] for position in positions])
            found.update(zip(positions, predictions, strict=True))
    return [found[position] for position in range(len(examples))]


def _resume(training: Training[E, P], run: Run, progress: TaskProgress) -> RunState:
    newest = run.newest(progress.message)
    if newest is None:
        run.log.cut(0)
        return RunState()
    checkpoint = runs.read(newest)
    if "evaluations" not in checkpoint.about:
        raise OutputError(
            f"{run.path}: an unfinished run of an earlier stelmo, which counted epochs instead of steps; "
            "delete the folder or choose another one, and train again"
        )
    training.restore(checkpoint)
    state = RunState(**{name: checkpoint.about[name] for name in RunState._fields})
    run.log.cut(state.step)
    return state


def _train_round(
    training: Training[E, P],
    task: Task[E, P],
    examples: Sequence[E],
    state: RunState,
    steps: int,
    total: int,
    stop: Callable[[], bool],
    progress: TaskProgress,
) -> float | None:
    """The mean loss; None if the run was asked to stop."""
    size, seed = training.settings.batch, training.seed
    torch.manual_seed(_seed_of(seed, state.evaluations + 1))
    training.net.train()
    best = state.best if state.evaluations else None
    summed, done = 0.0, 0
    while done < steps:
        epoch, first = divmod(state.step + done, math.ceil(len(examples) / size))
        batches = shuffled(examples, task.tokens, size, _seed_of(seed, epoch + 1))
        for batch in islice(batches, first, first + steps - done):
            step = state.step + done
            summed += training.step(batch, decayed(training.settings, step, total))
            done, step = done + 1, step + 1
            progress.update(StepReport(seed, step, total, epoch + 1, summed / done, best))
            if stop():
                return None
    return summed / done


def _seed_of(seed: int, number: int) -> int:
    """A seed for an epoch or round of a run."""
    return seed * 100_003 + number


def _after_evaluation(state: RunState, score: float, training: Training[E, P]) -> RunState:
    """Note the score; halve the learning rate or stop if it has not risen for long."""
    settings = training.settings
    if score > state.best:
        return state._replace(best=score, best_evaluation=state.evaluations)
    waited = state.evaluations - state.best_evaluation
    if settings.plateau is not None and waited % settings.plateau == 0:
        training.rate /= 2
    return state._replace(stopped=settings.patience is not None and waited >= settings.patience)


# Batches


def shuffled(examples: Sequence[T], length: Callable[[T], int], batch: int, seed: int) -> list[list[T]]:
    """Each example once, in batches of similar length whose order the seed determines."""
    generator = random.Random(seed)
    order = list(examples)
    generator.shuffle(order)
    batches: list[list[T]] = []
    for start in range(0, len(order), batch * POOL):
        pool = sorted(order[start : start + batch * POOL], key=length)
        batches += [pool[place : place + batch] for place in range(0, len(pool), batch)]
    generator.shuffle(batches)
    return batches


def sample(examples: Sequence[T], count: int | None) -> list[T]:
    """At most `count` examples in their own order; always the same ones, and a smaller sample is part of a larger."""
    order = list(range(len(examples)))
    random.Random(0).shuffle(order)
    return [examples[position] for position in sorted(order[:count])]


def share(examples: Sequence[T], fraction: float, unit: Callable[[T], Hashable]) -> list[T]:
    """The examples of that fraction of the units, at least one; a smaller share is part of a larger."""
    units = list(dict.fromkeys(map(unit, examples)))
    kept = set(sample(units, max(1, round(len(units) * fraction))))
    return [example for example in examples if unit(example) in kept]
