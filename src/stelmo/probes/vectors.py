"""A model's layers, or static vectors → a source of vectors for the probes. Knows no probe.

K kinds of vectors, T words, D width.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stelmo.config import choose
from stelmo.embed.model import Model
from stelmo.probes.uses import Embed
from stelmo.store import static
from stelmo.store.static import StaticVectors

CONTROL = 0  # the layer that sees no context
Advance = Callable[[int, float], None]  # told the tokens finished since the last call, and the share done so far


class Source(NamedTuple):
    """Vectors of several kinds, computed in one pass: `embed` gives (T, K, D) for a sentence, a kind for each name."""

    names: tuple[str, ...]
    embed: Embed


def of_model(model: Model, layers: Sequence[int] | None = None) -> Source:
    """The layers asked for, unset all; layer 0, the control without context, is always among them."""
    chosen = sorted({CONTROL, *(range(model.config.depth) if layers is None else layers)})
    for layer in chosen:
        choose("layer", layer, range(model.config.depth))

    def embed(sentences: list[tuple[str, ...]]) -> list[NDArray[Any]]:
        return [layers_LTD[chosen].swapaxes(0, 1) for layers_LTD in model.layers(sentences)]

    return Source(tuple(f"layer {layer}" for layer in chosen), embed)


def of_static(vectors: StaticVectors, name: str) -> Source:
    """A second control: a word's vector is the same in every sentence, zeros where there is none."""

    def embed(sentences: list[tuple[str, ...]]) -> list[NDArray[np.float32]]:
        return [vectors.of(words)[:, None] for words in sentences]

    return Source((name,), embed)


def read_static(path: Path) -> Source:
    """Named by its folder or file: glove.6B.100d."""
    named = path.parent if path.suffix == ".npy" else path
    return of_static(static.read(path), named.name.removesuffix(".gz").removesuffix(".txt").removesuffix(".bin"))


def watched(sources: Sequence[Source], tokens: int, advance: Advance) -> list[Source]:
    """The same sources; `advance` hears of every block. `tokens` is what each of them will be asked for in all."""
    done, total = 0, tokens * len(sources)

    def watch(embed: Embed) -> Embed:
        def embed_and_tell(sentences: list[tuple[str, ...]]) -> Sequence[NDArray[Any]]:
            nonlocal done
            embedded = embed(sentences)
            finished = sum(map(len, sentences))
            done += finished
            advance(finished, done / max(1, total))
            return embedded

        return embed_and_tell

    return [Source(source.names, watch(source.embed)) for source in sources]
