"""How far a run has got: its clock, and the part of a checkpoint that is not tensors."""

import time
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

from stelmo.lm.perplexity import Perplexity
from stelmo.progress import ProgressCallback


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
        """Since the last call."""
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
    """Seconds of a run over the lives of all its processes, and since the last checkpoint and picture.

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
