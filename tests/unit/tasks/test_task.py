"""Bootstrap gains: against theory, against a loop, and the counts of every task against its score."""

import numpy as np
import pytest
from unit.tasks import more_samples, samples

from stelmo.tasks.network import TASKS
from stelmo.tasks.task import bootstrap_gain


def accuracy(right: list[int]) -> np.ndarray:
    return np.array([(float(one), 1.0) for one in right])


@pytest.mark.parametrize("sample", [*samples.TASKS, *more_samples.TASKS], ids=lambda sample: sample.name)
@pytest.mark.parametrize("seed", range(4))
def test_summed_counts_give_the_headline_score(sample, seed, tmp_path):
    task = TASKS[sample.data.__name__.split(".")[-2]]
    examples = task.data.read(sample.write(tmp_path)) * 3
    wrong = np.random.default_rng(seed).integers(2, size=len(examples))
    predictions = [sample.wrong(e) if w else task.data.gold(e) for w, e in zip(wrong, examples, strict=True)]
    counts_NK = task.counts(predictions, examples)
    found = task.of_counts(counts_NK.sum(0))
    assert float(found) == pytest.approx(task.headline(task.score(predictions, examples)), abs=1e-9)
    assert task.of_counts(np.zeros_like(counts_NK[0])) == 0.0  # nothing out of nothing


def test_equal_runs_gain_nothing():
    run = [accuracy([1, 0, 1, 1, 0] * 20)] * 2
    found = bootstrap_gain(run, run, resamples=500)
    assert (found.mean, found.low, found.high, found.p) == (0.0, 0.0, 0.0, 1.0)
    assert not found.is_significant


def test_a_large_gain_is_sure_in_either_direction():
    low, high = [accuracy([1] * 40 + [0] * 60)], [accuracy([1] * 70 + [0] * 30)]
    up, down = bootstrap_gain(low, high), bootstrap_gain(high, low)
    assert up.is_significant
    assert down.is_significant
    assert up.mean == pytest.approx(30.0)
    assert down.mean == pytest.approx(-30.0)
    assert 0 < up.low < 30 < up.high


def test_the_interval_of_one_seed_is_that_of_the_paired_difference():
    rng = np.random.default_rng(3)
    before, after = rng.integers(2, size=(2, 3000))
    found = bootstrap_gain([accuracy(before)], [accuracy(after)])
    difference = 100.0 * (after - before)
    spread = 1.96 * difference.std() / len(difference) ** 0.5
    assert found.mean == pytest.approx(difference.mean())
    assert found.low == pytest.approx(difference.mean() - spread, abs=0.25 * spread)
    assert found.high == pytest.approx(difference.mean() + spread, abs=0.25 * spread)


def test_seeds_that_differ_widen_the_interval():
    half = [1, 0] * 200
    same = bootstrap_gain([accuracy(half)] * 2, [accuracy(half)] * 2)
    apart = bootstrap_gain([accuracy([1] * 100 + [0] * 300), accuracy([1] * 300 + [0] * 100)], [accuracy(half)] * 2)
    assert apart.mean == pytest.approx(same.mean)
    assert apart.high - apart.low > 20 + same.high - same.low


def test_runs_on_other_examples_are_not_compared():
    with pytest.raises(ValueError, match="4 and 3 examples"):
        bootstrap_gain([accuracy([1, 0, 1, 1])], [accuracy([1, 0, 1])])
