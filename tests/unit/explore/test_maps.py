"""Flat maps: the same picture for the same vectors, equal to other implementations where there are some."""

import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.decomposition import PCA
from sklearn.manifold import trustworthiness as sklearn_trustworthiness

from stelmo.errors import ConfigError
from stelmo.explore import maps


def vectors(count, width=6, seed=0):
    return np.random.default_rng(seed).normal(size=(count, width)) * np.arange(1, width + 1)


def two_heaps(count=20, width=6, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(2 * count, width)) + 20 * (np.arange(2 * count) < count)[:, None]


def assert_parted(points_N2):
    """Every point is nearer to all of its own heap than to any of the other."""
    near, far = np.split(points_N2, 2)
    within = max(np.ptp(near, axis=0).max(), np.ptp(far, axis=0).max())
    assert np.linalg.norm(near.mean(0) - far.mean(0)) > within


# PCA


@pytest.mark.parametrize("shape", [(30, 6), (5, 40), (3, 2)])
def test_pca_is_scikit_learns_but_for_the_signs(shape):
    vectors_ND = vectors(*shape)
    points_N2, expected_N2 = maps.flatten(vectors_ND), PCA(2, svd_solver="full").fit_transform(vectors_ND)
    np.testing.assert_allclose(np.abs(points_N2), np.abs(expected_N2), atol=1e-8)


@given(seed=st.integers(0, 10**6), count=st.integers(2, 12))
@settings(max_examples=40)
def test_the_signs_of_pca_are_of_the_points_and_not_of_the_factorisation(seed, count):
    vectors_ND = vectors(count, seed=seed)
    points_N2 = maps.flatten(vectors_ND)
    for axis in range(2):
        farthest = np.abs(points_N2[:, axis]).max()
        assert points_N2[:, axis].max() == pytest.approx(farthest, rel=1e-5, abs=1e-9)
    # A rotation of the space, and a mirror, give the factorisation other signs; the picture is the same.
    turn_DD, _ = np.linalg.qr(np.random.default_rng(seed + 1).normal(size=(6, 6)))
    np.testing.assert_allclose(maps.flatten(vectors_ND @ turn_DD), points_N2, atol=1e-6)
    np.testing.assert_allclose(maps.flatten(vectors_ND + 5), points_N2, atol=1e-6)


def test_of_two_points_equally_far_the_first_is_on_the_right_side():
    np.testing.assert_allclose(maps.flatten(np.array([[0.0, 0.0], [3.0, 4.0]])), [[2.5, 0.0], [-2.5, 0.0]], atol=1e-9)


@pytest.mark.parametrize("count", [0, 1, 2, 50])
def test_equal_vectors_are_one_point_and_not_a_cloud_of_rounding(count):
    vector_D = np.random.default_rng(0).normal(size=7).astype(np.float32)
    np.testing.assert_array_equal(maps.flatten(np.tile(vector_D, (count, 1))), np.zeros((count, 2)))


def test_vectors_of_one_number_lie_on_a_line():
    points_N2 = maps.flatten(np.array([[1.0], [2.0], [6.0]]))
    np.testing.assert_allclose(points_N2, [[-2, 0], [-1, 0], [3, 0]], atol=1e-9)


# Trustworthiness


@given(seed=st.integers(0, 10**6), count=st.integers(5, 40), k=st.integers(1, 12))
@settings(max_examples=40)
def test_trustworthiness_is_scikit_learns(seed, count, k):
    high_ND, low_N2 = vectors(count, seed=seed), vectors(count, 2, seed=seed + 1)
    used = min(k, (count - 1) // 2)
    expected = sklearn_trustworthiness(high_ND, low_N2, n_neighbors=used)
    assert maps.trustworthiness(high_ND, low_N2, k) == pytest.approx(expected, abs=1e-12)


def test_a_map_that_keeps_all_distances_is_trusted_wholly():
    points_N2 = vectors(30, 2)
    assert maps.trustworthiness(np.pad(points_N2, ((0, 0), (0, 5))), maps.flatten(points_N2)) == 1.0


@pytest.mark.parametrize("count", [0, 1, 2])
def test_of_too_few_points_there_is_nothing_to_doubt(count):
    assert maps.trustworthiness(vectors(count), np.zeros((count, 2))) == 1.0


def test_equal_points_are_trusted():
    assert maps.trustworthiness(np.ones((20, 3)), np.zeros((20, 2))) == 1.0


# t-SNE


def divergence(wanted_NN, points_N2):
    """KL(P ‖ Q) written out (eq. 2 of the paper)."""
    near_NN = 1 / (1 + ((points_N2[:, None] - points_N2) ** 2).sum(2))
    np.fill_diagonal(near_NN, 0)
    q_NN = np.maximum(near_NN / near_NN.sum(), 1e-300)
    off = ~np.eye(len(points_N2), dtype=bool)
    return (wanted_NN[off] * np.log(wanted_NN[off] / q_NN[off])).sum()


def test_the_gradient_of_tsne_is_that_of_the_divergence():
    points_N2, wanted_NN = vectors(7, 2), maps.affinities(vectors(7))
    np.fill_diagonal(wanted_NN, 0)
    found_N2 = maps.tsne_gradient(wanted_NN, points_N2)
    for place in np.ndindex(points_N2.shape):
        step_N2 = np.zeros_like(points_N2)
        step_N2[place] = 1e-6
        slope = (divergence(wanted_NN, points_N2 + step_N2) - divergence(wanted_NN, points_N2 - step_N2)) / 2e-6
        assert found_N2[place] == pytest.approx(slope, rel=1e-4, abs=1e-7)


def test_affinities_sum_to_one_and_have_the_perplexity_asked_for():
    squares_N = maps.squared_distances(vectors(200))[3]
    row_N = maps._row(squares_N / squares_N.mean(), 3, np.log(30.0))
    assert np.exp(-(row_N[row_N > 0] * np.log(row_N[row_N > 0])).sum()) == pytest.approx(30.0, rel=1e-3)
    wanted_NN = maps.affinities(vectors(200))
    assert wanted_NN.sum() == pytest.approx(1.0, abs=1e-6)
    np.testing.assert_array_equal(wanted_NN, wanted_NN.T)


def test_tsne_parts_two_heaps_and_is_the_same_every_time():
    points_N2 = maps.flatten(two_heaps(), "tsne")
    assert_parted(points_N2)
    np.testing.assert_array_equal(maps.flatten(two_heaps(), "tsne"), points_N2)


def test_tsne_of_equal_vectors_stays_one_point():
    assert np.ptp(maps.flatten(np.ones((8, 3)), "tsne")) < 1e-6


def test_tsne_tells_how_far_it_is_and_can_be_ended():
    told = []
    maps.flatten(vectors(6), "tsne", advance=told.append)
    assert told == sorted(told)
    assert told[-1] == 1.0

    def stop(share):
        raise InterruptedError

    with pytest.raises(InterruptedError):
        maps.flatten(vectors(6), "tsne", advance=stop)


def test_too_many_points_for_tsne_are_refused():
    with pytest.raises(ConfigError, match="t-SNE: 3001 points; expected at most 3000"):
        maps.flatten(np.zeros((3001, 2)), "tsne")


# Methods


@pytest.mark.parametrize("method", ["tsne", "umap"])
@pytest.mark.parametrize("count", [0, 1, 4])
def test_few_points_are_laid_out_by_pca(method, count):
    np.testing.assert_array_equal(maps.flatten(vectors(count), method), maps.flatten(vectors(count)))


def test_an_unknown_method_is_refused():
    with pytest.raises(ConfigError, match="'isomap' is not one of pca, tsne, umap"):
        maps.flatten(vectors(9), "isomap")


def test_umap_that_is_not_installed_is_named_with_the_way_out(monkeypatch):
    monkeypatch.setitem(sys.modules, "umap", None)
    with pytest.raises(ConfigError, match=r"pip install 'stelmo\[umap\]'"):
        maps.flatten(vectors(9), "umap")
