"""What a task consists of: types that every task's data.py and model.py must match. Knows no task.

mypy checks the modules of the six tasks against `DataModule` and `ModelModule` where `network.py` lists them.
"""
# ruff: noqa: N802  (properties of a protocol for modules carry the names of module constants)

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

import numpy as np
from torch import Tensor, nn

from stelmo.config import Settings, choose
from stelmo.tasks.inputs import WordReader
from stelmo.tasks.reading import Skipped
from stelmo.tasks.significance import Floats, ratio

E = TypeVar("E")  # an example: what one line, sentence, document or question of the data becomes
P = TypeVar("P")  # a prediction for an example
Inventory = Mapping[str, list[str]]  # what a network remembers of its training data, such as its labels
Tokens = tuple[str, ...]  # of a sentence


class TaskNetwork(nn.Module, Generic[E, P]):
    """A network that learns from examples and predicts on them."""

    words: WordReader

    def loss(self, examples: Sequence[E]) -> Tensor:
        """A single number to minimise."""
        raise NotImplementedError

    def predict(self, examples: Sequence[E]) -> list[P]:
        """One prediction per example, in their order."""
        raise NotImplementedError


class DataModule(Protocol[E, P]):
    """A task's data.py: official files ↔ examples and predictions."""

    @property
    def FILES(self) -> Mapping[str, Sequence[str]]:
        """Split → patterns of file names, in order of preference."""

    def read(self, path: Path, skipped: Skipped | None = None) -> list[E]: ...

    def read_new(self, path: Path) -> list[E]:
        """Examples without labels, to predict on."""

    def gold(self, example: E) -> P: ...

    def write(self, path: Path, examples: Sequence[E], predictions: Sequence[P]) -> None: ...

    def read_predictions(self, path: Path, examples: Sequence[E]) -> list[P]: ...


class ModelModule(Protocol[E, P]):
    """A task's model.py: its network, and the sizes and training settings it comes with."""

    @property
    def METRIC(self) -> str:
        """The name of the headline score."""

    @property
    def SIZES(self) -> Mapping[str, Settings]: ...

    @property
    def RECIPES(self) -> Mapping[str, dict[str, Any]]:
        """Size → training settings that differ from the defaults of `TaskSettings`."""

    @property
    def ELMO(self) -> dict[str, Any]:
        """The paper's `ElmoSettings` for this task."""

    @property
    def Net(self) -> Callable[[WordReader, Inventory, Any], TaskNetwork[E, P]]: ...

    def sentences(self, example: E) -> list[Tokens]:
        """Every sentence whose vectors the network uses."""

    def inventory(self, examples: Sequence[E], size: Any) -> dict[str, list[str]]: ...


@dataclass(frozen=True)
class Task(Generic[E, P]):
    name: str
    data: DataModule[E, P]
    model: ModelModule[E, P]
    score: Callable[[Sequence[P], Sequence[E]], dict[str, float]]
    count: Callable[[P, E], tuple[float, ...]]  # what a prediction adds to the sums that the headline score depends on
    read_train: Callable[[Path, Skipped | None], list[E]]  # may return more examples than `data.read`
    of_counts: Callable[[Floats], Floats] = ratio  # these sums (…, K) → the headline score

    @property
    def metric(self) -> str:
        return self.model.METRIC

    def headline(self, scores: Mapping[str, float]) -> float:
        return scores[self.metric]

    def counts(self, predictions: Sequence[P], examples: Sequence[E]) -> Floats:
        """(N, K): the counts of each example; `of_counts` of their sum is the headline score."""
        return np.array([self.count(*pair) for pair in zip(predictions, examples, strict=True)], np.float64)

    def size(self, preset: str) -> Settings:
        choose("--size", preset, tuple(self.model.SIZES))
        return self.model.SIZES[preset]

    def tokens(self, example: E) -> int:
        """The length of an example."""
        return sum(map(len, self.model.sentences(example)))


AnyTask = Task[Any, Any]  # a task chosen at run time, whose example type is not known to the type checker


class Splits(NamedTuple, Generic[E]):
    train: list[E]
    dev: list[E]
    test: list[E]  # empty if the data has no test split
