"""Where a run stands: the numbers of a checkpoint that are no tensors. Knows no files."""

from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

from stelmo.lm.perplexity import Perplexity


class Best(NamedTuple):
    """The best validation so far, and the step it followed."""

    step: int
    forward: float
    backward: float
    tokens: int

    @property
    def perplexity(self) -> float:
        return Perplexity(*self[1:]).combined


@dataclass
class Ledger:
    step: int = 0  # steps finished
    seconds: float = 0.0  # spent on them, pauses left out
    share: float = 0.0  # of the budget
    loss_forward: float = 0.0  # summed since the last line of the log
    loss_backward: float = 0.0
    losses: int = 0
    due: bool = False  # a validation of this step is still to be done
    best: Best | None = None
    worse: int = 0  # validations since the best
    finished: bool = False
    processes: int = 1

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> "Ledger":
        best = values["best"]
        return cls(**{**values, "best": None if best is None else Best(*best)})

    def add(self, forward: float, backward: float) -> None:
        self.loss_forward += forward
        self.loss_backward += backward
        self.losses += 1

    def mean_losses(self) -> tuple[float, float]:
        """Since it was last asked."""
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
