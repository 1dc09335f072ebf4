"""Groups of uses: found where there are some, one heap where there are none, and named by what stands near."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import adjusted_rand_score, silhouette_score

from stelmo.errors import ConfigError
from stelmo.explore import clusters as module
from stelmo.explore.clusters import central, clusters, labels
from stelmo.explore.index import Use
from stelmo.explore.mixing import squared_distances


def heaps(*sizes, width=20, seed=0, spread=0.15):
    """Points around as many directions."""
    rng = np.random.default_rng(seed)
    centres = np.eye(width)[: len(sizes)]
    return np.concatenate(
        [c + spread * rng.normal(size=(n, width)) for c, n in zip(centres, sizes, strict=True)]
    ).astype(np.float32)


def parts(groups_N, sizes):
    return [set(piece.tolist()) for piece in np.split(groups_N, np.cumsum(sizes)[:-1])]


# Groups


@pytest.mark.parametrize("sizes", [(40, 25), (30, 20, 12), (40, 30, 20, 10)])
def test_heaps_that_part_are_found_and_numbered_by_size(sizes):
    assert parts(clusters(heaps(*sizes)), sizes) == [{number} for number in range(len(sizes))]


def test_the_most_stable_number_counts(monkeypatch):
    monkeypatch.setattr(module, "stability", lambda _, count, rng: {2: 0.5, 3: 0.9, 4: 0.8}.get(count, 0))
    axes_NA = heaps(20, 20, 20, 20)
    assert module._number_of_groups(axes_NA, np.random.default_rng(0)) == 3


@pytest.mark.parametrize("sizes", [(40, 30), (40, 30, 20)])
def test_groups_that_are_there_are_stable_and_others_less_so(sizes):
    axes_NA = module.axes(heaps(*sizes))
    found = [module.stability(axes_NA, count, np.random.default_rng(0)) for count in range(2, 6)]
    assert found[len(sizes) - 2] > 0.99
    assert all(other < 0.95 for place, other in enumerate(found) if place != len(sizes) - 2)


@given(first=st.lists(st.integers(0, 3), min_size=2, max_size=30), seed=st.integers(0, 1000))
def test_the_agreement_is_scikit_learns(first, seed):
    second = np.random.default_rng(seed).integers(0, 3, len(first))
    assert module.agreement(np.array(first), second) == pytest.approx(adjusted_rand_score(first, second))


def test_the_order_of_the_uses_changes_no_group():
    vectors_ND, order = heaps(40, 25, 12), np.random.default_rng(1).permutation(77)
    np.testing.assert_array_equal(clusters(vectors_ND[order]), clusters(vectors_ND)[order])


@pytest.mark.parametrize("seed", range(12))
def test_one_gaussian_is_one_heap(seed):
    rng = np.random.default_rng(seed)
    vectors_ND = 5 + rng.normal(size=(60, 10)) * np.arange(1, 11) / 5
    assert clusters(vectors_ND, seed=seed).max() == 0


def test_the_length_of_a_vector_does_not_count():
    vectors_ND = heaps(30, 20)
    lengths_N1 = np.random.default_rng(0).uniform(0.1, 10, size=(50, 1)).astype(np.float32)
    np.testing.assert_array_equal(clusters(vectors_ND * lengths_N1), clusters(vectors_ND))


@given(seed=st.integers(0, 1000), count=st.integers(1, 9), k=st.integers(1, 12))
@settings(max_examples=40)
def test_a_number_that_is_given_is_kept_as_far_as_there_are_vectors(seed, count, k):
    vectors_ND = np.random.default_rng(seed).normal(size=(count, 5))
    groups_N = clusters(vectors_ND, k)
    sizes = np.bincount(groups_N)
    assert len(sizes) == min(k, count)
    assert sizes.tolist() == sorted(sizes, reverse=True)
    np.testing.assert_array_equal(clusters(vectors_ND, k), groups_N)


@pytest.mark.parametrize("k", [None, 3])
@pytest.mark.parametrize("count", [0, 1, 30])
def test_equal_vectors_are_one_heap(k, count):
    np.testing.assert_array_equal(clusters(np.ones((count, 4)), k), np.zeros(count))


def test_many_uses_are_grouped_like_few():
    sizes = (400, 300)
    assert parts(clusters(heaps(*sizes)), sizes) == [{0}, {1}]


def test_no_group_is_refused():
    with pytest.raises(ConfigError, match="0 groups; expected at least 1"):
        clusters(np.ones((3, 2)), 0)


@given(seed=st.integers(0, 1000), count=st.integers(4, 30), k=st.integers(2, 3))
@settings(max_examples=40)
def test_the_silhouette_is_scikit_learns(seed, count, k):
    rng = np.random.default_rng(seed)
    points_NA, groups_N = rng.normal(size=(count, 3)), np.arange(count) % k
    found = module.silhouette(np.sqrt(squared_distances(points_NA)), groups_N)
    assert found == pytest.approx(silhouette_score(points_NA, groups_N), abs=1e-6)


def test_kmeans_finds_the_tightest_grouping_of_few_points():
    points_NA = np.array([[0.0], [1.0], [1.5], [9.0], [10.0], [30.0]])
    groups_N = module.kmeans(points_NA, 3, np.random.default_rng(0))
    assert [len(set(groups_N[part])) for part in (slice(0, 3), slice(3, 5), slice(5, 6))] == [1, 1, 1]
    assert len(set(groups_N.tolist())) == 3


# Examples


def test_the_examples_of_a_group_are_the_uses_nearest_its_centre():
    rng = np.random.default_rng(0)
    vectors_ND = np.eye(3)[[0, 0, 1, 0, 1, 1]] + np.array([0.0, 0.2, 0.3, 0.6, 0.0, 0.1])[:, None] * np.eye(3)[2]
    lengths_N1 = rng.uniform(0.1, 10, size=(6, 1))
    groups_N = np.array([0, 0, 1, 0, 1, 1])
    assert central(vectors_ND * lengths_N1, groups_N) == [[1, 0, 3], [5, 4, 2]]
    assert central(vectors_ND, groups_N, 1) == [[1], [5]]


def test_no_uses_have_no_examples():
    assert central(np.zeros((0, 3)), np.zeros(0, np.int64)) == []


# Labels


def use(text, position=0):
    return Use(0, tuple(text.split()), position)


def test_a_label_is_a_word_that_the_other_groups_lack():
    uses = [use("bank of the river water flow")] * 3 + [use("bank with the money account flow")] * 4
    assert labels(uses, [1, 1, 1, 0, 0, 0, 0], 2) == [["account", "money"], ["river", "water"]]


def test_function_words_the_word_itself_and_marks_are_no_labels():
    uses = [use("Bank BANK of in 12 . river")] * 3 + [use("bank money the and")] * 3
    assert labels(uses, [0, 0, 0, 1, 1, 1], 5) == [["river"], ["money"]]


def test_words_far_from_the_use_do_not_count():
    uses = [use("bank " + "x " * 20 + "river"), use("bank money")]
    assert labels(uses, [0, 1]) == [["x"], ["money"]]


def test_a_single_group_is_set_apart_from_nothing():
    assert labels([use("bank of the river")] * 3, [0, 0, 0]) == [[]]


def test_no_uses_have_no_labels():
    assert labels([], []) == []


def test_a_word_of_all_groups_tells_of_the_one_that_has_more_than_its_share():
    uses = [use("bank river")] * 9 + [use("bank river")] + [use("bank money")] * 9
    assert labels(uses, [0] * 9 + [1] * 10) == [["river"], ["money"]]
