"""The residual connection: which inputs are added to which outputs."""

import pytest

from stelmo.model.stack import with_residual


@pytest.mark.parametrize(
    ("depth", "skip", "expected"), [(0, True, 10), (1, True, 13), (2, True, 13), (0, False, 10), (1, False, 10)]
)
def test_from_the_second_layer_on_the_input_is_added_to_the_output(depth, skip, expected):
    assert with_residual(depth, 10, 3, skip) == expected


def test_the_sum_can_be_computed_in_another_way():
    assert with_residual(1, 10, 3, True, max) == 10
