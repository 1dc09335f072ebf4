"""A stream of sentences of any length → a file of vectors. Knows no file format.

Finished blocks are kept beside the output, so that a run that was interrupted goes on where it stopped;
memory holds one block.
"""

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import torch

from stelmo.config import OutputSettings
from stelmo.embed.model import Array, Model
from stelmo.errors import DataError
from stelmo.jobs import blocks, work
from stelmo.jobs.blocks import Block
from stelmo.model.state import State
from stelmo.store import atomic, vectors
from stelmo.text.formats import Sentence

Advance = Callable[[int], None]  # told the number of tokens finished since the last call


def embed_to_file(
    model: Model,
    sentences: Iterable[Sentence],
    path: Path,
    settings: OutputSettings,
    *,
    overwrite: bool = False,
    advance: Advance = lambda tokens: None,
) -> int:
    """Write the vectors of all sentences, in order, and say how many there were."""
    kind = refuse_output(path, overwrite)
    about = work.about(model, settings)
    folder = work.working_folder(path, about, overwrite)
    with work.kept_if_begun(folder):
        files = list(_finished_blocks(model, sentences, settings, folder, advance))
        if not files:
            raise DataError(work.NO_SENTENCE)
    with (
        atomic.new_file(path, overwrite) as draft,
        vectors.writing(draft, kind, work.shape(model, settings), about) as writer,
    ):
        count = assemble(map(blocks.read, files), writer)
    atomic.remove(folder)
    return count


def refuse_output(path: Path, overwrite: bool) -> type[vectors.VectorWriter]:
    """A name no vectors can go to, refused before any work; else what writes the file."""
    atomic.refuse_existing(path, overwrite)
    return vectors.writer_for(path)


def stream(model: Model, sentences: Iterable[Sentence], settings: OutputSettings) -> Iterator[tuple[Sentence, Array]]:
    """Sentences with their vectors, in order, without a file."""
    reduce, carried = work.reducing(settings, model.config.depth), None
    for block in work.cut(model, sentences, settings):
        arrays, carried = model.run([sentence.tokens for sentence in block], reduce, carried=carried)
        yield from zip(block, arrays, strict=True)


def _finished_blocks(
    model: Model, sentences: Iterable[Sentence], settings: OutputSettings, folder: Path, advance: Advance
) -> Iterator[Path]:
    """The files of all blocks, computed where an earlier run has not left them.

    Only the leading blocks are used again: under carry, what follows a changed text is changed, too.
    """
    reusing, carried = True, None
    for number, block in enumerate(work.cut(model, work.keyed(sentences, settings), settings)):
        file = folder / blocks.name(number)
        reusing = reusing and blocks.finished(file, block)
        if reusing:
            carried = _state(blocks.carried(file))
        else:
            arrays, carried = work.compute(model, block, settings, carried)
            blocks.write(Block(block, arrays, _arrays(carried)), file)
        advance(work.token_count(block))
        yield file


def _arrays(state: State | None) -> tuple[Array, ...]:
    return () if state is None else tuple(part.cpu().numpy() for part in state)


def _state(arrays: tuple[Array, ...]) -> State | None:
    return State(*map(torch.from_numpy, arrays)) if arrays else None


def assemble(found: Iterable[Block], writer: vectors.VectorWriter) -> int:
    """All blocks in order into one file, and how many sentences they hold."""
    count = 0
    for block in found:
        for sentence, array in zip(block.sentences, block.vectors, strict=True):
            writer.add(count, sentence, array)
            count += 1
    return count
