"""The residual connection between the LSTM layers of one direction. Knows neither layers nor tensors."""

from collections.abc import Callable, Iterator
from operator import add
from typing import Generic, TypeVar

X = TypeVar("X")


class ResidualStack(Generic[X]):
    """Iterating gives the number and the input of each layer; `put` takes its output.

    With `skip`, from the second layer on, the input of a layer is added to its output. The sum is the input of the
    next layer; it never reaches the state of the LSTM.

        stack = ResidualStack(x, layers=2, skip=True)
        for depth, x in stack:
            stack.put(run_layer(depth, x))
    """

    def __init__(self, x: X, layers: int, skip: bool, add: Callable[[X, X], X] = add) -> None:
        self.outputs: list[X] = []  # of each layer, the residual included
        self._x, self._layers, self._skip, self._add = x, layers, skip, add

    def __iter__(self) -> Iterator[tuple[int, X]]:
        for depth in range(self._layers):
            yield depth, self._x

    def put(self, y: X, x: X | None = None) -> None:
        """The output of a layer; `x` is what the layer read if that was not its input as given (dropout)."""
        residual = self._x if x is None else x
        self._x = self._add(y, residual) if self._skip and self.outputs else y
        self.outputs.append(self._x)
