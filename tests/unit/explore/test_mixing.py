"""Mixing kept layers is eq. 1 of the paper, with the shares as they are."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stelmo.errors import ConfigError
from stelmo.explore import mixing
from stelmo.explore.mixing import Mix

LAYERS_NLD = np.random.default_rng(0).normal(size=(5, 3, 4)).astype(np.float16)
shares = st.floats(-2, 2, width=32)


@given(weights=st.tuples(shares, shares, shares), gamma=shares)
def test_a_mix_is_the_weighted_sum(weights, gamma):
    expected_ND = gamma * np.einsum("l,nld->nd", np.array(weights), LAYERS_NLD.astype(np.float64))
    found_ND = mixing.mixed(LAYERS_NLD, Mix(weights, gamma))
    assert found_ND.dtype == np.float32
    np.testing.assert_allclose(found_ND, expected_ND, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("layer", "number"), [(0, 0), (1, 1), (2, 2), ("top", 2)])
def test_a_single_layer_is_itself(layer, number):
    np.testing.assert_array_equal(
        mixing.mixed(LAYERS_NLD, mixing.of_layer(layer, 3)), LAYERS_NLD[:, number].astype(np.float32)
    )


def test_the_mean_is_the_mean():
    found_ND = mixing.mixed(LAYERS_NLD, mixing.of_layer("mean", 3))
    np.testing.assert_allclose(found_ND, LAYERS_NLD.astype(np.float32).mean(1), atol=1e-6)


@pytest.mark.parametrize("layer", [3, -1, "bottom"])
def test_an_unknown_layer_is_refused(layer):
    with pytest.raises(ConfigError, match="is not one of mean, top, 0, 1, 2"):
        mixing.of_layer(layer, 3)


def test_a_mix_asked_for_is_taken_as_it_is():
    assert mixing.checked([1, 0, 2], 3, depth=3) == Mix((1.0, 0.0, 2.0), 3.0)


@pytest.mark.parametrize(
    ("weights", "gamma", "message"),
    [
        ([1, 2], 1, "2 weights; the model has 3 layers"),
        ([1, float("nan"), 0], 1, "expected finite numbers"),
        ([1, 0, 0], float("inf"), "expected finite numbers"),
    ],
)
def test_a_mix_that_cannot_be_is_refused(weights, gamma, message):
    with pytest.raises(ConfigError, match=message):
        mixing.checked(weights, gamma, depth=3)


def test_units_have_length_one_and_zeros_stay_zeros():
    vectors_ND = np.array([[3.0, 4.0], [0.0, 0.0]])
    np.testing.assert_allclose(mixing.units(vectors_ND), [[0.6, 0.8], [0.0, 0.0]], rtol=1e-6)
