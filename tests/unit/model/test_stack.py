"""The residual connection: which inputs are added to which outputs."""

import pytest

from stelmo.model.stack import ResidualStack


def outputs(skip, layers=3, **options):
    """Layer d adds 10^d to its input."""
    stack = ResidualStack(1, layers, skip, **options)
    for depth, x in stack:
        stack.put(x + 10**depth)
    return stack.outputs


def test_from_the_second_layer_on_the_input_is_added_to_the_output():
    first = 1 + 1
    second = (first + 10) + first
    third = (second + 100) + second
    assert outputs(skip=True) == [first, second, third]


def test_without_skip_the_output_is_the_next_input():
    assert outputs(skip=False) == [2, 12, 112]


@pytest.mark.parametrize("skip", [True, False])
def test_one_layer_has_no_residual(skip):
    assert outputs(skip, layers=1) == [2]


def test_what_a_layer_read_in_place_of_its_input_is_what_is_added():
    stack = ResidualStack(1.0, 2, True)
    for _, x in stack:
        stack.put(x * 0.5 + 1, x * 0.5)
    assert stack.outputs == [1.5, (0.75 + 1) + 0.75]


def test_the_sum_can_be_computed_in_another_way():
    assert outputs(skip=True, layers=2, add=max) == [2, 12]
