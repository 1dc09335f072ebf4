"""Maps of a word: the place of a further use, and the nearest uses, against brute force."""

import numpy as np
import pytest
from unit.explore.toys import index_of

from stelmo.explore import maps
from stelmo.explore.mixing import Mix, mixed
from stelmo.explore.word_map import nearest, place, word_map

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
