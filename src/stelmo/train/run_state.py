"""The length of a run, its progress and its curve: what a checkpoint stores besides tensors, clock, schedule."""

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

from stelmo import plots
from stelmo.lm.perplexity import Perplexity
from stelmo.progress import ProgressCallback
from stelmo.settings import TrainSettings, seconds
from stelmo.store.runs import Run

VALIDATIONS = 20  # per run, unless `validate_every` is set
LATE = 0.2  # the share of the budget in which the rate falls, with decay="late"
Write = Callable[[int, Mapping[str, float]], None]  # called with a step and its figures


class Best(NamedTuple):
    """The best validation so far, and the step it followed."""

    step: int
    forward: float
    backward: float
    tokens: int

    @property
    def perplexity(self) -> float:
        return Perplexity(*self[1:]).combined


class StepReport(NamedTuple):
    """Progress of training, after each step."""

    step: int
    steps: int | None  # unknown under a time budget
    tokens: int
    rate: float  # tokens per second
    share: float  # of the budget
    seconds_left: float
    loss: float  # among the sampled words; its exponential is not comparable with the validation's perplexity
    best: Best | None


class StageReport(NamedTuple):
    """Progress of what comes before training."""

    label: str
    share: float
    figures: str


TrainProgress = ProgressCallback[StepReport | StageReport]


@dataclass
class RunState:
    step: int = 0  # steps finished
    seconds: float = 0.0  # spent on them, without pauses between processes
    share: float = 0.0  # of the budget
    loss_forward: float = 0.0  # summed since the last line of the log
    loss_backward: float = 0.0
    losses: int = 0
    lowest_loss: float | None = None  # among the lines of the log, both directions
    due: bool = False  # this step is still to be validated
    best: Best | None = None
    worse: int = 0  # validations since the best
    finished: bool = False
    processes: int = 1

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> "RunState":
        best = values["best"]
        return cls(**{**values, "best": None if best is None else Best(*best)})

    def add(self, forward: float, backward: float) -> None:
        self.loss_forward += forward
        self.loss_backward += backward
        self.losses += 1

    def mean_losses(self) -> tuple[float, float]:
        """The mean losses of both directions since the last call."""
        means = self.loss_forward / self.losses, self.loss_backward / self.losses
        self.loss_forward = self.loss_backward = 0.0
        self.losses = 0
        return means

    def judge(self, found: Perplexity) -> bool:
        """Whether this is the best validation so far."""
        better = self.best is None or found.combined < self.best.perplexity
        if better:
            self.best = Best(self.step, *found)
        self.worse = 0 if better else self.worse + 1
        return better


class Clock:
    """Seconds of a run, including those before it was resumed; and seconds since the last checkpoint and picture.

    With `processor`, the seconds of the run are processor time of this process, all threads together.
    """

    def __init__(self, before: float = 0.0, processor: bool = False) -> None:
        self._before = before
        self._now = time.process_time if processor else time.monotonic
        self._start = self._now()
        self._saved = self._drawn = time.monotonic()

    def here(self) -> float:
        return self._now() - self._start

    def seconds(self) -> float:
        return self._before + self.here()

    def since_saved(self) -> float:
        return time.monotonic() - self._saved

    def saved(self) -> None:
        self._saved = time.monotonic()

    def since_drawn(self) -> float:
        return time.monotonic() - self._drawn

    def drawn(self) -> None:
        self._drawn = time.monotonic()


# The length of a run


@dataclass(frozen=True)
class Schedule:
    """The length of a run: a number of steps or, under a time budget, of seconds."""

    settings: TrainSettings
    steps: int | None
    seconds: float | None

    def share(self, step: int, elapsed: float) -> float:
        """The share of the budget that is spent, 0 to 1."""
        spent = step / self.steps if self.steps is not None else elapsed / (self.seconds or 1.0)
        return min(1.0, spent)

    def rate(self, step: int, share: float) -> float:
        """The learning rate of the step after `step` steps and that share of the budget."""
        warmup, decay = self.settings.warmup, self.settings.decay
        rise = fall = 1.0
        if warmup >= 1:
            rise = (step + 1) / warmup
        elif warmup > 0:
            rise = (share + (1 / self.steps if self.steps else 1e-3)) / warmup
        if decay == "linear":
            fall = 1.0 - share
        elif decay == "cosine":
            fall = 0.5 * (1.0 + math.cos(math.pi * share))
        elif decay == "late":
            fall = (1.0 - share) / LATE
        return self.settings.lr * min(1.0, rise, fall)

    def validates(self, step: int, before: float, share: float) -> bool:
        """Whether to validate after this step, which moved the spent share from `before` to `share`."""
        if share >= 1.0:
            return True
        if self.settings.validate_every is not None:
            return step % self.settings.validate_every == 0
        return math.floor(share * VALIDATIONS) > math.floor(before * VALIDATIONS)


def schedule(settings: TrainSettings, tokens_of_an_epoch: int) -> Schedule:
    """The budget in steps; a row's window holds `unroll` tokens."""
    time = settings.time if settings.time is not None else settings.processor_time
    if time is not None:
        return Schedule(settings, None, seconds(time))
    tokens = settings.tokens if settings.tokens is not None else (settings.epochs or 0) * tokens_of_an_epoch
    return Schedule(settings, max(1, math.ceil(tokens / (settings.batch * settings.unroll))), None)


# The curve of a run


def draw_curve(run: Run) -> None:
    """log.jsonl → curve.svg"""
    entries = run.log.entries()
    losses = [(e["tokens"], (e["loss_forward"] + e["loss_backward"]) / 2) for e in entries if "loss_forward" in e]
    series = {"training (among the sampled words)": [(tokens, math.exp(min(50.0, loss))) for tokens, loss in losses]}
    for direction in ("forward", "backward"):
        name = f"perplexity_{direction}"
        series[f"held-out, {direction}"] = [(entry["tokens"], entry[name]) for entry in entries if name in entry]
    drawn = {name: points for name, points in series.items() if points}
    if drawn:
        plots.lines(run.path / "curve.svg", drawn, x="tokens", y="perplexity", title=run.path.name, log_y=True)


def tensorboard_writer(folder: Path) -> Write:
    """A function that writes event files; without TensorBoard it does nothing."""
    if find_spec("tensorboard") is None:
        return lambda step, figures: None
    from torch.utils.tensorboard import SummaryWriter

    writer = SummaryWriter(str(folder))

    def write(step: int, figures: Mapping[str, float]) -> None:
        for name, value in figures.items():
            writer.add_scalar(name, value, step)
        writer.flush()

    return write
