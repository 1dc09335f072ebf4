"""Vectors of some sentences ↔ one block file: what a long run has finished. Knows no model and no output format."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from stelmo.store import atomic
from stelmo.text.formats import Sentence

Array = NDArray[Any]


class Block(NamedTuple):
    sentences: list[Sentence]
    vectors: list[Array]  # of each sentence: (T, D), (L+1, T, D), or without T for sentence vectors
    carried: tuple[Array, ...] = ()  # state of the LSTMs behind the block, where it goes on


def name(number: int) -> str:
    """The file of a run's block, so that names sort as the text goes."""
    return f"{number:06d}.npz"


def write(block: Block, path: Path) -> None:
    """Tokens and vectors end to end; the shapes say where to cut."""
    arrays: dict[str, Any] = {
        "sentences": np.frombuffer(encoded(block.sentences), np.uint8),
        "shapes": np.array([vector.shape for vector in block.vectors], np.int64),
        "numbers": np.concatenate([vector.ravel() for vector in block.vectors]),
    }
    arrays |= {f"carried_{place}": part for place, part in enumerate(block.carried)}
    with atomic.new_file(path, overwrite=True) as draft, draft.open("wb") as file:
        np.savez(file, allow_pickle=False, **arrays)


def read(path: Path) -> Block:
    with np.load(path, allow_pickle=False) as arrays:
        sentences = [Sentence(*fields) for fields in json.loads(arrays["sentences"].tobytes())]
        shapes, numbers = arrays["shapes"], arrays["numbers"]
    ends = np.cumsum(shapes.prod(1))
    pieces = np.split(numbers, ends[:-1])
    vectors = [piece.reshape(shape) for piece, shape in zip(pieces, shapes, strict=True)]
    return Block(sentences, vectors, carried(path))


def finished(path: Path, sentences: Sequence[Sentence]) -> bool:
    """Whether the block is there and holds these very sentences; a damaged one does not count."""
    try:
        with np.load(path, allow_pickle=False) as arrays:
            return bool(arrays["sentences"].tobytes() == encoded(sentences))
    except (OSError, ValueError, KeyError, BadZipFile):
        return False


def carried(path: Path) -> tuple[Array, ...]:
    """The state behind the block."""
    with np.load(path, allow_pickle=False) as arrays:
        return tuple(arrays[name] for name in sorted(arrays.files) if name.startswith("carried"))


def encoded(sentences: Sequence[Sentence]) -> bytes:
    """Equal for equal sentences of equal places alone."""
    return json.dumps(sentences).encode()
