"""Accuracy, against scikit-learn and by hand."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import accuracy_score

from stelmo.tasks.sst5.data import Example
from stelmo.tasks.sst5.score import score


def examples(labels):
    return [Example(("a",), label, "") for label in labels]


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=1))
def test_accuracy_is_that_of_scikit_learn(pairs):
    predicted, wanted = zip(*pairs, strict=True)
    assert score(predicted, examples(wanted)) == {"accuracy": pytest.approx(100 * accuracy_score(wanted, predicted))}


def test_a_near_miss_is_a_miss():
    assert score([3, 4, 0, 2], examples([3, 3, 0, 2])) == {"accuracy": 75.0}


def test_nothing_out_of_nothing_is_zero():
    assert score([], []) == {"accuracy": 0.0}
