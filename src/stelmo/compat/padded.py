"""Arrays of different lengths → one with zeros past the end, as the old programs return them. Knows no model."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stelmo.errors import DataError

Array = NDArray[Any]


def padded(arrays: Sequence[Array], length: int | None = None) -> Array:
    """(…, T, D) each → (N, …, longest, D); `length` asks for more than the longest."""
    if not arrays:
        raise DataError("no sentences; expected at least one")
    longest = max(array.shape[-2] for array in arrays)
    shape = (*arrays[0].shape[:-2], longest if length is None else length, arrays[0].shape[-1])
    result = np.zeros((len(arrays), *shape), arrays[0].dtype)
    for row, array in zip(result, arrays, strict=True):
        row[..., : array.shape[-2], :] = array
    return result
