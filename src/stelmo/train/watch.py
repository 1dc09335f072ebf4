"""How a run goes → whoever is told. Knows no screen."""

from typing import NamedTuple, Protocol

from stelmo.train.ledger import Best


class Report(NamedTuple):
    """What a person who waits wants to know."""

    step: int
    steps: int | None  # unknown under a time budget
    tokens: int
    rate: float  # tokens a second
    share: float  # of the budget
    seconds_left: float
    loss: float  # a training word among the sampled ones; its exponential is not the validation's perplexity
    best: Best | None


class Watch(Protocol):
    """Who is told how the run goes."""

    def step(self, report: Report) -> None: ...

    def stage(self, label: str, share: float, figures: str) -> None: ...

    def say(self, message: str) -> None: ...


class Silence:
    def step(self, report: Report) -> None:
        """Nobody is listening."""

    def stage(self, label: str, share: float, figures: str) -> None:
        """Nobody is listening."""

    def say(self, message: str) -> None:
        """Nobody is listening."""
