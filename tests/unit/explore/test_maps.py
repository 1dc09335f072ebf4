"""Maps: the same picture for the same vectors, equal to other implementations; a word's map against brute force."""

import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.decomposition import PCA
from sklearn.manifold import trustworthiness as sklearn_trustworthiness
from unit.explore.toys import index_of

from stelmo.errors import ConfigError
from stelmo.explore import maps
from stelmo.explore.maps import nearest, place, word_map
from stelmo.explore.mixing import Mix, mixed, squared_distances


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
    for at in np.ndindex(points_N2.shape):
        step_N2 = np.zeros_like(points_N2)
        step_N2[at] = 1e-6
        slope = (divergence(wanted_NN, points_N2 + step_N2) - divergence(wanted_NN, points_N2 - step_N2)) / 2e-6
        assert found_N2[at] == pytest.approx(slope, rel=1e-4, abs=1e-7)


def test_affinities_sum_to_one_and_have_the_perplexity_asked_for():
    squares_N = squared_distances(vectors(200))[3]
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


RNG = np.random.default_rng(0)
VECTORS = RNG.normal(size=(30, 8)).astype(np.float32)


@pytest.fixture
def index(tmp_path):
    return index_of(tmp_path / "uses", ["bank", "Bank", "bank", "river", "bank", "bank"], RNG.normal(size=(6, 3, 4)))


def cosine(a, b):
    return a @ b / np.linalg.norm(a) / np.linalg.norm(b)


@pytest.mark.parametrize("row", range(5))
def test_a_use_of_the_map_is_placed_on_its_own_point(row):
    points_N2 = maps.pca(VECTORS)
    found = place(VECTORS, points_N2, VECTORS[row], "pca", 3)
    np.testing.assert_allclose(found.point, points_N2[row], atol=1e-5)
    assert found.near[0] == (row, 1.0)


def test_a_further_use_is_projected_linearly():
    points_N2 = maps.pca(VECTORS)
    between = place(VECTORS, points_N2, (VECTORS[0] + VECTORS[1]) / 2, "pca", 3)
    np.testing.assert_allclose(between.point, points_N2[:2].mean(0), atol=1e-5)


def test_equal_uses_and_a_further_one_are_one_point():
    same = np.ones((6, 4), np.float32)
    assert place(same, maps.pca(same), np.array([1, 2, 3, 4], np.float32), "pca", 2).point == (0.0, 0.0)


def test_on_a_map_that_is_not_linear_it_stands_among_its_nearest_uses():
    points_N2 = RNG.normal(size=(30, 2))
    found = place(VECTORS, points_N2, VECTORS[7], "tsne", 8)
    order = sorted(range(30), key=lambda row: -cosine(VECTORS[row], VECTORS[7]))
    assert [use for use, _ in found.near] == order[:8]
    np.testing.assert_allclose(found.point, points_N2[order[:5]].mean(0))


def test_the_nearest_uses_are_those_of_brute_force():
    for row, found in enumerate(nearest(VECTORS, 4)):
        others = sorted((other for other in range(30) if other != row), key=lambda o: -cosine(VECTORS[o], VECTORS[row]))
        assert [use for use, _ in found] == others[:4]
        assert [value for _, value in found] == pytest.approx(
            [cosine(VECTORS[o], VECTORS[row]) for o in others[:4]], abs=1e-4
        )


@pytest.mark.parametrize(("uses", "k", "listed"), [(3, 9, 2), (1, 4, 0), (5, 0, None)])
def test_there_are_never_more_neighbours_than_other_uses(uses, k, listed):
    found = nearest(VECTORS[:uses], k)
    assert [len(near) for near in found] == ([] if listed is None else [listed] * uses)


def test_a_further_use_changes_nothing_else(index):
    mixes = [Mix((0, 0, 1)), Mix((1, 1, 1), 0.5)]
    own_LD = RNG.normal(size=(3, 4)).astype(np.float32)
    plain, with_own = word_map(index, "BANK", mixes, near=2), word_map(index, "bank", mixes, near=2, own_LD=own_LD)
    assert plain.total == len(plain.uses) == 5
    assert [flat.own for flat in plain.maps] == [None, None]
    for before, after, mix in zip(plain.maps, with_own.maps, mixes, strict=True):
        np.testing.assert_array_equal(before.points_N2, after.points_N2)
        assert before.near == after.near
        vectors_ND = mixed(index.layers([use.id for use in plain.uses]), mix)
        assert after.own == place(vectors_ND, before.points_N2, mixed(own_LD[None], mix)[0], "pca", 2)


def test_progress_reaches_one_over_all_maps(index):
    told = []
    word_map(index, "bank", [Mix((0, 0, 1)), Mix((1, 0, 0))], method="tsne", advance=told.append)
    assert told == sorted(told)
    assert told[-1] == 1.0
