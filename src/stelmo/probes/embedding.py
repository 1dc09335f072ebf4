"""Sources of word vectors, and the vectors of word occurrences. Knows no probe.

N occurrences, T words, K kinds of vectors (such as layers), D width.
"""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from stelmo.config import choose
from stelmo.embed.model import Model
from stelmo.embed.transformer import TransformerVectors, digest
from stelmo.store import static
from stelmo.store.static import StaticVectors

Vector = NDArray[np.float32]
Embed = Callable[[list[tuple[str, ...]]], Sequence[NDArray[Any]]]  # sentences → a (T, D) or (T, K, D) array for each
Advance = Callable[[int, float], None]  # receives the tokens finished since the last call, and the share done so far
LayerOrDifference = int | tuple[int, int | None]
BLOCK = 256  # sentences embedded at once: the layers of a whole corpus would not fit in memory
TIE = 1e-5  # cosines closer than this are equal: the difference is rounding of the same vector
CONTROL = 0  # the layer that sees no context

_Item = TypeVar("_Item")


# Sources


class Source(NamedTuple):
    """Several kinds of vectors from one pass: `embed` returns (T, K, D) for a sentence, one kind for each name."""

    names: tuple[str, ...]
    embed: Embed
    identity: Callable[[], str] | None = None  # a digest of what decides the vectors; unset: unknown


def of_model(model: Model, layers: Sequence[LayerOrDifference] | None = None) -> Source:
    """The given layers, by default all; layer 0, the control without context, is always included.

    (2, 1) is layer 2 minus layer 1: what the second LSTM adds, without the residual connection around it.
    """
    asked = range(model.config.depth) if layers is None else layers
    pairs = {(layer, None) if isinstance(layer, int) else layer for layer in (CONTROL, *asked)}
    chosen = sorted(pairs, key=lambda pair: (pair[1] is not None, pair[0], pair[1] or 0))
    for pair in chosen:
        for layer in pair:
            if layer is not None:
                choose("layer", layer, range(model.config.depth))

    def embed(sentences: list[tuple[str, ...]]) -> list[NDArray[Any]]:
        return [
            np.stack([h_LTD[one] if less is None else h_LTD[one] - h_LTD[less] for one, less in chosen], 1)
            for h_LTD in model.layers(sentences)
        ]

    def identity() -> str:
        found = hashlib.sha256(f"{model.saved().fingerprint()} {model.settings.precision}".encode())
        for part in model.start_state(model.settings.state):  # can be changed, and is not part of the fingerprint
            found.update(part.cpu().double().numpy().tobytes())
        return found.hexdigest()

    names = (f"layer {one}" if less is None else f"layer {one} − {less}" for one, less in chosen)
    return Source(tuple(names), embed, identity)


def of_static(vectors: StaticVectors, name: str, identity: Callable[[], str] | None = None) -> Source:
    """A second control: a word has the same vector in every sentence, zeros if it has none."""

    def embed(sentences: list[tuple[str, ...]]) -> list[NDArray[np.float32]]:
        return [vectors.of(words)[:, None] for words in sentences]

    return Source((name,), embed, identity)


def read_static(path: Path) -> Source:
    """Named after its folder or file: glove.6B.100d."""
    named = path.parent if path.suffix == ".npy" else path
    name = named.name.removesuffix(".gz").removesuffix(".txt").removesuffix(".bin")
    return of_static(static.read(path), name, partial(digest, named))


def of_transformer(folder: Path) -> Source:
    """For comparison; see `TransformerVectors`."""
    transformer = TransformerVectors(folder)

    def embed(sentences: list[tuple[str, ...]]) -> list[NDArray[Any]]:
        return [layers_LTD.swapaxes(0, 1) for layers_LTD in transformer.layers(sentences)]

    return Source((folder.name,), embed, transformer.fingerprint)


def with_progress(sources: Sequence[Source], tokens: int, advance: Advance) -> list[Source]:
    """The same sources, which call `advance` after every block. `tokens` is the total each source will embed."""
    done, total = 0, tokens * len(sources)

    def reporting(embed: Embed) -> Embed:
        def embed_and_report(sentences: list[tuple[str, ...]]) -> Sequence[NDArray[Any]]:
            nonlocal done
            embedded = embed(sentences)
            finished = sum(map(len, sentences))
            done += finished
            advance(finished, done / max(1, total))
            return embedded

        return embed_and_report

    return [source._replace(embed=reporting(source.embed)) for source in sources]


# Occurrences


class Occurrence(NamedTuple):
    """Words `start` to `end` (exclusive) of a sentence: "took place" is one occurrence of two words."""

    tokens: tuple[str, ...]
    start: int
    end: int


def occurrence_vectors(occurrences: Iterable[Occurrence], embed: Embed, block: int = BLOCK) -> Vector:
    """(N, D): the vector of each occurrence. For the control without context, let `embed` return layer 0."""
    found: list[Vector] = []
    for some in blocks(occurrences, block):
        embedded = embed([occurrence.tokens for occurrence in some])
        found += [mean_vector(words_TD, one.start, one.end) for one, words_TD in zip(some, embedded, strict=True)]
    return np.stack(found) if found else np.zeros((0, 0), np.float32)


def mean_vector(words_TD: NDArray[Any], start: int, end: int) -> Vector:
    """The mean over the words of an expression."""
    assert 0 <= start < end <= len(words_TD), "embed returns a vector for each word"
    mean: Vector = words_TD[start:end].mean(0, dtype=np.float32)
    return mean


def unit(vectors_ND: NDArray[Any]) -> Vector:
    """Scaled to length 1, so that a product is a cosine; a zero vector is unchanged, its cosines are 0."""
    exact_ND = vectors_ND.astype(np.float32)
    length_N1 = np.linalg.norm(exact_ND, axis=-1, keepdims=True)
    scaled: Vector = (exact_ND / np.where(length_N1 > 0, length_N1, 1)).astype(np.float32, copy=False)
    return scaled


def cosines(a_ND: NDArray[Any], b_ND: NDArray[Any]) -> Vector:
    """(N,): row by row; (N, K) for several kinds of vectors."""
    product: Vector = np.einsum("...d,...d->...", unit(a_ND), unit(b_ND))
    return product


def pair_cosines(pairs: Iterable[tuple[Occurrence, Occurrence]], embed: Embed) -> Vector:
    """(N,): the cosine of the two words of each pair, each in its sentence; (N, K) for K kinds of vectors."""
    both_ND = occurrence_vectors([one for pair in pairs for one in pair], embed)
    return cosines(both_ND[0::2], both_ND[1::2])


def blocks(items: Iterable[_Item], size: int = BLOCK) -> Iterator[list[_Item]]:
    rest = iter(items)
    while some := list(islice(rest, size)):
        yield some
