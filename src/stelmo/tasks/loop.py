"""A network and its examples → the network of the best epoch. One loop trains all six tasks; it knows none of them.

An epoch is a step of the run: a checkpoint follows it, and all that is random in it comes from the seed and its number,
so that a run stopped at any moment ends in the same bits as one that was not.
"""

import math
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

import torch
from torch import nn

from stelmo.interrupts import stop_asked
from stelmo.store import runs
from stelmo.store.runs import Run
from stelmo.tasks import batches
from stelmo.tasks.table import Example, Prediction, Task
from stelmo.tasks.training import Training


class Report(NamedTuple):
    """What a person who waits wants to know."""

    seed: int
    epoch: int
    epochs: int
    share: float  # of this epoch
    loss: float
    best: float | None  # headline score on the dev part


class Watch(Protocol):
    """Who is told how the run goes."""

    def embedded(self, tokens: int, of: int) -> None: ...

    def step(self, report: Report) -> None: ...

    def say(self, message: str) -> None: ...


class Silence:
    def embedded(self, tokens: int, of: int) -> None:
        """Nobody is listening."""

    def step(self, report: Report) -> None:
        """Nobody is listening."""

    def say(self, message: str) -> None:
        """Nobody is listening."""


class Progress(NamedTuple):
    """Where a run stands; as JSON in its checkpoints."""

    epoch: int = 0  # finished ones
    best: float = -math.inf
    best_epoch: int = 0
    seconds: float = 0.0
    stopped: bool = False  # early


class Data(NamedTuple):
    train: list[Example]
    dev: list[Example]
    test: list[Example]  # may be none


def train(
    training: Training, task: Task, data: Data, run: Run, keep_best: Callable[[], None], watch: Watch
) -> Progress:
    """Epochs until the last one, or until the score has not risen for long. `keep_best()` is called at each better one.

    Stopped by a signal it returns early; called again with the same run it goes on.
    """
    progress = _resumed(training, run, watch)
    with stop_asked() as stop:
        while progress.epoch < training.settings.epochs and not progress.stopped:
            started = time.monotonic()
            loss = _epoch(training, task, data.train, progress, stop, watch)
            if loss is None:
                break
            with training.averaged():
                figures = task.score(predict(training.net, task, data.dev, training.settings.batch), data.dev)
                progress = _counted(progress, task.headline(figures), time.monotonic() - started, training)
                if progress.best_epoch == progress.epoch:
                    keep_best()
            run.log.add({"step": progress.epoch, "loss": loss, "lr": training.rate, "dev": figures})
            run.save(progress.epoch, training.tensors(), {**progress._asdict(), "lr": training.rate}, keep=1)
    return progress


def predict(net: nn.Module, task: Task, examples: Sequence[Example], batch: int) -> list[Prediction]:
    """In the examples' order."""
    net.eval()
    found: dict[int, Prediction] = {}
    with torch.no_grad():
        for positions in batches.by_length(examples, lambda example: _length(task, example), batch):
            answers = net.predict([examples[position] for position in positions])  # type: ignore[operator]
            found.update(zip(positions, answers, strict=True))
    return [found[position] for position in range(len(examples))]


def _resumed(training: Training, run: Run, watch: Watch) -> Progress:
    newest = run.newest(watch.say)
    if newest is None:
        run.log.cut(0)
        return Progress()
    checkpoint = runs.read(newest)
    training.restore(checkpoint)
    progress = Progress(**{name: checkpoint.about[name] for name in Progress._fields})
    run.log.cut(progress.epoch)
    return progress


def _epoch(
    training: Training, task: Task, learn: Sequence[Example], progress: Progress, stop: Callable[[], bool], watch: Watch
) -> float | None:
    """The mean loss; None: asked to stop."""
    epoch = progress.epoch + 1
    chance = training.seed * 100_003 + epoch
    torch.manual_seed(chance)
    training.net.train()
    total = 0.0
    parts = batches.shuffled(learn, lambda example: _length(task, example), training.settings.batch, chance)
    best = progress.best if progress.epoch else None
    for number, examples in enumerate(parts, 1):
        total += training.step(examples)
        watch.step(Report(training.seed, epoch, training.settings.epochs, number / len(parts), total / number, best))
        if stop():
            return None
    return total / len(parts)


def _counted(progress: Progress, score: float, seconds: float, training: Training) -> Progress:
    """One epoch more, with what follows from its score."""
    settings = training.settings
    progress = progress._replace(epoch=progress.epoch + 1, seconds=progress.seconds + seconds)
    if score > progress.best:
        return progress._replace(best=score, best_epoch=progress.epoch)
    waited = progress.epoch - progress.best_epoch
    if settings.plateau is not None and waited % settings.plateau == 0:
        training.rate /= 2
    return progress._replace(stopped=settings.patience is not None and waited >= settings.patience)


def _length(task: Task, example: Example) -> int:
    return sum(map(len, task.model.sentences(example)))
