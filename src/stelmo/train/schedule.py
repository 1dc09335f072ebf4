"""A budget and a corpus → how long to train, and the learning rate at each point. Knows no clock and no model."""

import math
from dataclasses import dataclass

from stelmo.config import TrainSettings, seconds


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
        return self.settings.lr * min(self._rise(step, share), self._fall(share))

    def validates(self, step: int, before: float, share: float) -> bool:
        """Whether to validate after this step, which moved the spent share from `before` to `share`."""
        if share >= 1.0:
            return True
        if self.settings.validate_every is not None:
            return step % self.settings.validate_every == 0
        return math.floor(share * VALIDATIONS) > math.floor(before * VALIDATIONS)

    def _rise(self, step: int, share: float) -> float:
        warmup = self.settings.warmup
        if warmup == 0:
            return 1.0
        if warmup >= 1:
            return min(1.0, (step + 1) / warmup)
        return min(1.0, (share + (1 / self.steps if self.steps else 1e-3)) / warmup)

    def _fall(self, share: float) -> float:
        if self.settings.decay == "linear":
            return 1.0 - share
        if self.settings.decay == "cosine":
            return 0.5 * (1.0 + math.cos(math.pi * share))
        return 1.0


VALIDATIONS = 20  # per run, unless `validate_every` is set


def schedule(settings: TrainSettings, tokens_of_an_epoch: int) -> Schedule:
    """The budget in steps; a row's window holds `unroll` tokens."""
    time = settings.time if settings.time is not None else settings.processor_time
    if time is not None:
        return Schedule(settings, None, seconds(time))
    tokens = settings.tokens if settings.tokens is not None else (settings.epochs or 0) * tokens_of_an_epoch
    return Schedule(settings, max(1, math.ceil(tokens / (settings.batch * settings.unroll))), None)
