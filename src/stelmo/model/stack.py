"""The residual connection between the LSTM layers of one direction, for the modules, the engine, training and ONNX."""

from collections.abc import Callable
from operator import add
from typing import TypeVar

X = TypeVar("X")


def with_residual(depth: int, y: X, x: X, skip: bool, add: Callable[[X, X], X] = add) -> X:
    """The output of layer `depth`, which read x and gave y: from the second layer on, with `skip`, x is added.

    The sum is the input of the next layer; it never reaches the state of the LSTM.
    """
    return add(y, x) if skip and depth else y
