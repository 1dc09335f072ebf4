"""Uses of words in sentences → one vector each. Knows no model and no files.   N uses, T words, D width."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float32]
Embed = Callable[[list[tuple[str, ...]]], Sequence[NDArray[Any]]]  # sentences → a (T, D) array for each
BLOCK = 256  # sentences embedded at once: the layers of a whole corpus fit into no memory
TIE = 1e-5  # cosines nearer to each other are equal: what differs is the rounding of one and the same vector

_Item = TypeVar("_Item")


class Use(NamedTuple):
    """Words `start` to `end` (exclusive) of a sentence: "took place" is one use of two words."""

    tokens: tuple[str, ...]
    start: int
    end: int


def vectors(uses: Iterable[Use], embed: Embed, block: int = BLOCK) -> Vector:
    """(N, D): the vector of each use. The no-context control is the same call with `embed` giving layer 0."""
    found: list[Vector] = []
    for some in blocks(uses, block):
        embedded = embed([use.tokens for use in some])
        found += [vector(words_TD, use.start, use.end) for use, words_TD in zip(some, embedded, strict=True)]
    return np.stack(found) if found else np.zeros((0, 0), np.float32)


def vector(words_TD: NDArray[Any], start: int, end: int) -> Vector:
    """The mean over the words of an expression."""
    assert 0 <= start < end <= len(words_TD), "embed gives a vector for each word"
    mean: Vector = words_TD[start:end].mean(0, dtype=np.float32)
    return mean


def unit(vectors_ND: NDArray[Any]) -> Vector:
    """Of length 1, so that a product is a cosine; a vector of zeros stays as it is, unlike everything."""
    exact_ND = vectors_ND.astype(np.float32)
    length_N1 = np.linalg.norm(exact_ND, axis=-1, keepdims=True)
    scaled: Vector = (exact_ND / np.where(length_N1 > 0, length_N1, 1)).astype(np.float32, copy=False)
    return scaled


def cosines(a_ND: NDArray[Any], b_ND: NDArray[Any]) -> Vector:
    """(N,): row by row; of several kinds of vectors, (N, K)."""
    product: Vector = np.einsum("...d,...d->...", unit(a_ND), unit(b_ND))
    return product


def blocks(items: Iterable[_Item], size: int = BLOCK) -> Iterator[list[_Item]]:
    rest = iter(items)
    while some := list(islice(rest, size)):
        yield some
