"""What a task consists of, and the gain from one of its runs to another. Knows no task and no files.

mypy checks the data.py and model.py of the six tasks against `DataModule` and `ModelModule` where `network.py` lists
them.

N examples, K counts of each, R resamples, S seeds.
"""
# ruff: noqa: N802  (properties of a protocol for modules carry the names of module constants)

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, nn

from stelmo.config import Settings, choose
from stelmo.tasks.inputs import WordReader
from stelmo.tasks.reading import Skipped

E = TypeVar("E")  # an example: what one line, sentence, document or question of the data becomes
P = TypeVar("P")  # a prediction for an example
Inventory = Mapping[str, list[str]]  # what a network remembers of its training data, such as its labels
Tokens = tuple[str, ...]  # of a sentence
Floats = NDArray[np.float64]

RESAMPLES = 5000
_TOGETHER = 250  # resamples whose weights are in memory at once


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
    def ELMO_CHANGES(self) -> Mapping[str, dict[str, Any]]:
        """Size → settings that differ from the paper's, chosen by dev scores (docs/decisions.md)."""

    @property
    def Net(self) -> Callable[[WordReader, Inventory, Any], TaskNetwork[E, P]]: ...

    def sentences(self, example: E) -> list[Tokens]:
        """Every sentence whose vectors the network uses."""

    def inventory(self, examples: Sequence[E], size: Any) -> dict[str, list[str]]: ...


def ratio(counts_K: Floats) -> Floats:
    """Two counts, summed → their ratio in percent; 0 out of 0 is 0. Leading axes are kept."""
    part, whole = counts_K[..., 0], counts_K[..., 1]
    share: Floats = np.divide(part, whole, out=np.zeros_like(part), where=whole != 0)
    return 100.0 * share


@dataclass(frozen=True)
class Task(Generic[E, P]):
    name: str
    data: DataModule[E, P]
    model: ModelModule[E, P]
    score: Callable[[Sequence[P], Sequence[E]], dict[str, float]]
    count: Callable[[P, E], tuple[float, ...]]  # what a prediction adds to the sums that the headline score depends on
    read_train: Callable[[Path, Skipped | None], list[E]]  # may return more examples than `data.read`
    of_counts: Callable[[Floats], Floats] = ratio  # these sums (…, K) → the headline score
    unit: Callable[[E], Hashable] = id  # the annotated unit an example is part of; a share of the data has whole ones

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

    def recipe(self, preset: str) -> dict[str, Any]:
        """Training settings of a size that differ from the defaults."""
        choose("--size", preset, tuple(self.model.RECIPES))
        return {**self.model.RECIPES[preset]}

    def elmo(self, preset: str) -> dict[str, Any]:
        """How ELMo is used at a size unless the user says otherwise."""
        return {**self.model.ELMO, **self.model.ELMO_CHANGES.get(preset, {})}

    def tokens(self, example: E) -> int:
        """The length of an example."""
        return sum(map(len, self.model.sentences(example)))


AnyTask = Task[Any, Any]  # a task chosen at run time, whose example type is not known to the type checker


class Splits(NamedTuple, Generic[E]):
    train: list[E]
    dev: list[E]
    test: list[E]  # empty if the data has no test split


# Comparing runs: a bootstrap over examples and seeds. Every headline score is a function of sums over examples, such as
# correct and predicted spans. A task says what an example counts (`count`) and what the sums give (`of_counts`);
# resampling examples is then a matrix product.


class Gain(NamedTuple):
    """The gain of the mean score over the seeds."""

    mean: float
    low: float  # the interval that holds 95 % of the resamples
    high: float
    p: float  # two-sided; at least 1 / resamples

    @property
    def is_significant(self) -> bool:
        return self.p < 0.05


def bootstrap_gain(
    before: Sequence[Floats],
    after: Sequence[Floats],
    of_counts: Callable[[Floats], Floats] = ratio,
    resamples: int = RESAMPLES,
) -> Gain:
    """The gain between two runs on the same examples, given the counts (N, K) of each seed.

    A resample draws N examples, the same for both runs, and for each run as many seeds as it has, with replacement.
    With two or three seeds this still underestimates how much they differ.
    """
    rng = np.random.default_rng(0)
    before_SNK, after_SNK = np.stack(before), np.stack(after)
    examples = before_SNK.shape[1]
    if after_SNK.shape[1] != examples:
        raise ValueError(f"{examples} and {after_SNK.shape[1]} examples; expected the same examples in both runs")
    gains = []
    for first in range(0, resamples, _TOGETHER):
        rows = min(_TOGETHER, resamples - first)
        weights_RN = rng.multinomial(examples, np.full(examples, 1 / examples), size=rows).astype(np.float64)
        means = []
        for counts_SNK in (before_SNK, after_SNK):
            scores_SR = of_counts(weights_RN @ counts_SNK)
            drawn_SR = rng.integers(len(scores_SR), size=scores_SR.shape)
            means.append(np.take_along_axis(scores_SR, drawn_SR, axis=0).mean(0))
        gains.append(means[1] - means[0])
    gains_R = np.concatenate(gains)
    mean = float(of_counts(after_SNK.sum(1)).mean() - of_counts(before_SNK.sum(1)).mean())
    low, high = np.quantile(gains_R, [0.025, 0.975])
    tail = min(float((gains_R <= 0).mean()), float((gains_R >= 0).mean()))
    return Gain(mean, float(low), float(high), min(1.0, max(2 * tail, 1 / resamples)))
