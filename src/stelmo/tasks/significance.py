"""Whether one run of a task is better than another: a bootstrap over examples and seeds. Knows no task and no files.

Every headline score is a function of sums over examples, such as correct and predicted spans. A task says what an
example counts (`Task.count`) and what the sums give (`Task.of_counts`); resampling examples is then a matrix product.

N examples, K counts of each, R resamples, S seeds.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
RESAMPLES = 5000
_TOGETHER = 250  # resamples whose weights are in memory at once


def ratio(counts_K: Floats) -> Floats:
    """Two counts, summed → their ratio in percent; 0 out of 0 is 0. Leading axes are kept."""
    part, whole = counts_K[..., 0], counts_K[..., 1]
    share: Floats = np.divide(part, whole, out=np.zeros_like(part), where=whole != 0)
    return 100.0 * share


class Gain(NamedTuple):
    """Of the mean score over the seeds."""

    mean: float
    low: float  # the interval that holds 95 % of the resamples
    high: float
    p: float  # two-sided; at least 1 / resamples

    @property
    def is_sure(self) -> bool:
        return self.p < 0.05


def gain(
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
        score_before_R, score_after_R = (
            _of_drawn_seeds(of_counts(weights_RN @ counts_SNK), rng) for counts_SNK in (before_SNK, after_SNK)
        )
        gains.append(score_after_R - score_before_R)
    gains_R = np.concatenate(gains)
    mean = float(of_counts(after_SNK.sum(1)).mean() - of_counts(before_SNK.sum(1)).mean())
    low, high = np.quantile(gains_R, [0.025, 0.975])
    tail = min(float((gains_R <= 0).mean()), float((gains_R >= 0).mean()))
    return Gain(mean, float(low), float(high), min(1.0, max(2 * tail, 1 / resamples)))


def _of_drawn_seeds(scores_SR: Floats, rng: np.random.Generator) -> Floats:
    """For each resample, the mean over as many seeds as there are, drawn with replacement."""
    seeds, rows = scores_SR.shape
    drawn_SR = rng.integers(seeds, size=(seeds, rows))
    mean_R: Floats = np.take_along_axis(scores_SR, drawn_SR, axis=0).mean(0)
    return mean_R
