"""A stream of sentences of any length → a file of vectors.

Finished blocks are kept beside the output, so an interrupted run resumes where it stopped. Memory holds one block.
"""

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import torch

from stelmo.config import OutputSettings
from stelmo.embed.model import Array, Model
from stelmo.errors import DataError
from stelmo.jobs import blocks
from stelmo.jobs.blocks import Block
from stelmo.model.state import State
from stelmo.store import atomic, vectors
from stelmo.text.formats import Sentence

Advance = Callable[[int], None]  # called with the number of tokens finished since the last call


def embed_to_file(
    model: Model,
    sentences: Iterable[Sentence],
    path: Path,
    settings: OutputSettings,
    *,
    overwrite: bool = False,
    advance: Advance = lambda tokens: None,
) -> int:
    """Write the vectors of all sentences, in order → the number of sentences."""
    writer_class = refuse_output(path, overwrite)
    used = blocks.run_settings(model, settings)
    folder = blocks.working_folder(path, used, overwrite)
    with blocks.removed_if_empty(folder):
        files = list(_finished_blocks(model, sentences, settings, folder, advance))
        if not files:
            raise DataError(blocks.NO_SENTENCE)
    with (
        atomic.new_file(path, overwrite) as draft,
        vectors.writing(draft, writer_class, blocks.output_shape(model, settings), used) as writer,
    ):
        count = write_blocks(map(blocks.read, files), writer)
    atomic.remove(folder)
    return count


def refuse_output(path: Path, overwrite: bool) -> type[vectors.VectorWriter]:
    """Refuse a path that cannot be written, before any work → the writer of its format."""
    atomic.refuse_existing(path, overwrite)
    return vectors.writer_for(path)


def stream(model: Model, sentences: Iterable[Sentence], settings: OutputSettings) -> Iterator[tuple[Sentence, Array]]:
    """Sentences with their vectors, in order, without a file."""
    reduce, carried = blocks.reduction(settings, model.config.depth), None
    for block in blocks.cut(model, sentences, settings):
        arrays, carried = model.run([sentence.tokens for sentence in block], reduce, carried=carried)
        yield from zip(block, arrays, strict=True)


def write_blocks(found: Iterable[Block], writer: vectors.VectorWriter) -> int:
    """All blocks, in order → the number of sentences."""
    count = 0
    for block in found:
        for sentence, array in zip(block.sentences, block.vectors, strict=True):
            writer.add(count, sentence, array)
            count += 1
    return count


def _finished_blocks(
    model: Model, sentences: Iterable[Sentence], settings: OutputSettings, folder: Path, advance: Advance
) -> Iterator[Path]:
    """The files of all blocks, in order; blocks finished by an earlier run are reused.

    Only leading blocks are reused, because with state "carry" a changed text changes everything after it.
    """
    reusing, carried = True, None
    for number, block in enumerate(blocks.cut(model, blocks.checked_keys(sentences, settings), settings)):
        file = folder / blocks.file_name(number)
        reusing = reusing and blocks.is_finished(file, block)
        if reusing:
            carried = _state(blocks.read_carried(file))
        else:
            arrays, carried = blocks.compute(model, block, settings, carried)
            blocks.write(Block(block, arrays, _arrays(carried)), file)
        advance(blocks.token_count(block))
        yield file


def _arrays(state: State | None) -> tuple[Array, ...]:
    return () if state is None else tuple(part.cpu().numpy() for part in state)


def _state(arrays: tuple[Array, ...]) -> State | None:
    return State(*map(torch.from_numpy, arrays)) if arrays else None
