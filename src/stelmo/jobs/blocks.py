"""A stream of sentences → blocks of vectors, each kept in a file: what every long run is made of.

The cuts depend on the text and the settings alone, and a block's bits on the block alone (except with state "carry"),
so an interrupted run can reuse the blocks it has finished.
"""

import hashlib
import json
import math
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import accumulate
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from stelmo.embed.model import Array, Model, Reduce, all_layers, mean_of_tokens, picking
from stelmo.engine import planning
from stelmo.errors import DataError, OutputError, StelmoError
from stelmo.model.bilm import State
from stelmo.settings import OutputSettings
from stelmo.store import atomic, vectors
from stelmo.store.containers import read_npz
from stelmo.text.formats import Sentence

NO_SENTENCE = "the input contains no sentence; nothing was written"


# Computing


def cut(model: Model, sentences: Iterable[Sentence], settings: OutputSettings) -> Iterator[list[Sentence]]:
    """Blocks of about `block_tokens` tokens; with state "carry", of whole batches."""
    tokens = min(settings.block_tokens, model.plan.block_tokens)
    rows = model.settings.batch_rows if model.settings.state == "carry" else 1
    return planning.by_tokens(sentences, tokens, lambda sentence: len(sentence.tokens), rows)


def checked_keys(sentences: Iterable[Sentence], settings: OutputSettings) -> Iterator[Sentence]:
    """With `use_sentence_keys`, refuse sentences that cannot name a dataset of their own. This keeps all in memory."""
    if not settings.use_sentence_keys:
        yield from sentences
        return
    first: dict[str, str] = {}
    for sentence in sentences:
        text, where = " ".join(sentence.tokens), f"{sentence.source}:{sentence.line}"
        vectors.refuse_as_key(text, where)
        if text in first:
            raise DataError(f"{where}: the same sentence as {first[text]}; keys must differ, so use numbers instead")
        first[text] = where
        yield sentence


def compute(
    model: Model, block: Sequence[Sentence], settings: OutputSettings, carried: State | None = None
) -> tuple[list[Array], State | None]:
    """The vectors of a block in the dtype of the file; with state "carry", also the state after the block."""
    model.forget_words()  # so that a block has the same bits whether or not others ran before it
    reduce = reduction(settings, model.config.depth)
    arrays, carried = model.run([sentence.tokens for sentence in block], reduce, carried=carried)
    return [array.astype(settings.dtype, copy=False) for array in arrays], carried


def reduction(settings: OutputSettings, depth: int) -> Reduce:
    """The function from a sentence's layers to the numbers that are kept."""
    pick = all_layers if settings.layer == "all" else picking(settings.layer, depth)
    if settings.sentence_vectors:
        return lambda layers_LTD: mean_of_tokens(pick(layers_LTD))
    return pick


def run_settings(model: Model, settings: OutputSettings) -> dict[str, Any]:
    """Everything that decides the numbers, except the text. Blocks of other settings are not reused."""
    saved, warm = model.saved(), None
    if saved.start is not None and model.settings.state == "warm":  # it can be changed, and is not in the fingerprint
        warm = hashlib.sha256(b"".join(part.cpu().double().numpy().tobytes() for part in saved.start)).hexdigest()[:32]
    decided_by = {"model": saved.fingerprint(), "warm_state": warm}
    return decided_by | model.settings.model_dump() | settings.model_dump()


def output_shape(model: Model, settings: OutputSettings) -> vectors.Shape:
    layers = model.config.depth if settings.layer == "all" else None
    return vectors.Shape(model.config.width, layers, not settings.sentence_vectors, settings.dtype)


def token_count(block: Iterable[Sentence]) -> int:
    return sum(len(sentence.tokens) for sentence in block)


# The working folder


def working_folder_of(path: Path) -> Path:
    return path.with_name(f"{path.name}.partial")


def working_folder(path: Path, settings: dict[str, Any], overwrite: bool) -> Path:
    """The folder of finished blocks beside the output: new, or left by an interrupted run with the same settings."""
    folder = working_folder_of(path)
    atomic.remove_dead_drafts(folder)
    note = folder / "settings.json"
    if note.is_file():
        found = atomic.read_json(note, OutputError, "delete its folder")
        found = found if isinstance(found, dict) else {"settings": found}
        differing = [name for name, value in found.items() if settings.get(name) != value]
        if not differing:
            return folder
        if not overwrite:
            raise OutputError(
                f"{folder} was left by a run with another {' and '.join(differing)}; "
                "repeat that command to finish it, or delete the folder"
            )
    if foreign := _foreign_files(folder):
        raise OutputError(f"{folder} is needed for unfinished work but contains {foreign[0]}; choose another output")
    atomic.remove(folder)
    with atomic.new_folder(folder) as draft:
        (draft / note.name).write_text(json.dumps(settings))
    return folder


def remove_working_folder(path: Path) -> None:
    """Delete what was kept beside a finished output."""
    folder = working_folder_of(path)
    if not _foreign_files(folder):
        atomic.remove(folder)


# Settings, blocks, those of a folder that workers share, and drafts.
_OWN = re.compile(r"(settings|part)\.json|\d+\.(npz|json|tries|parquet)|\..*")


def _foreign_files(folder: Path) -> list[str]:
    """Names in a working folder that are not those of our files."""
    return [path.name for path in folder.iterdir() if not _OWN.fullmatch(path.name)] if folder.is_dir() else []


@contextmanager
def removed_if_empty(folder: Path, pattern: str = "*.npz") -> Iterator[None]:
    """After an error, keep the working folder only if it has finished blocks."""
    try:
        yield
    except StelmoError:
        if not any(folder.glob(pattern)):
            atomic.remove(folder)
        raise


# Files


class Block(NamedTuple):
    sentences: list[Sentence]
    vectors: list[Array]  # per sentence (T, D) or (L+1, T, D); without T for sentence vectors
    carried: tuple[Array, ...] = ()  # with state "carry", the LSTM state after the block


def file_name(number: int) -> str:
    """Names sort in the order of the text."""
    return f"{number:06d}.npz"


def write(block: Block, path: Path) -> None:
    """Vectors are concatenated; the sentences give the boundaries."""
    arrays: dict[str, Any] = {
        "sentences": np.frombuffer(encode(block.sentences), np.uint8),
        "numbers": np.concatenate([vector.ravel() for vector in block.vectors]),
    }
    arrays |= {f"carried_{place}": part for place, part in enumerate(block.carried)}
    with atomic.new_file(path, overwrite=True) as draft, draft.open("wb") as file:
        np.savez(file, allow_pickle=False, **arrays)


def read(path: Path, shape: vectors.Shape) -> Block:
    """A damaged block, or one whose vectors are not of this shape, is refused."""
    way_out = f"delete the folder {path.parent} and run the command again"
    arrays = read_npz(path, way_out)
    try:
        sentences = [Sentence(*fields) for fields in json.loads(arrays["sentences"].tobytes())]
        numbers, shapes = arrays["numbers"], [shape.of(len(sentence.tokens)) for sentence in sentences]
    except (ValueError, TypeError, KeyError, RecursionError):
        raise DataError(f"{path}: not a block of sentences; {way_out}") from None
    ends = list(accumulate(map(math.prod, shapes)))
    if numbers.shape != (ends[-1] if ends else 0,) or numbers.dtype != shape.dtype:
        raise DataError(f"{path}: {numbers.shape} numbers of {numbers.dtype}, which do not match the text; {way_out}")
    places = zip([0, *ends[:-1]], ends, shapes, strict=True)
    found = [numbers[start:end].reshape(one) for start, end, one in places]
    return Block(sentences, found, tuple(arrays[name] for name in sorted(arrays) if name.startswith("carried")))


def find_finished(path: Path, sentences: Sequence[Sentence], shape: vectors.Shape) -> Block | None:
    """The block in the file, if it exists, is not damaged and holds exactly these sentences."""
    try:
        block = read(path, shape)
    except DataError:
        return None
    return block if encode(block.sentences) == encode(sentences) else None


def encode(sentences: Sequence[Sentence]) -> bytes:
    """Equal only for equal tokens from equal places."""
    return json.dumps(sentences).encode()


class Totals:
    """The number of blocks and sentences of a text, and a digest of it."""

    def __init__(self) -> None:
        self.blocks = self.sentences = 0
        self._digest = hashlib.blake2b(digest_size=16)

    def add(self, block: Sequence[Sentence]) -> None:
        self.blocks += 1
        self.sentences += len(block)
        self._digest.update(encode(block))

    def text(self) -> str:
        return self._digest.hexdigest()
