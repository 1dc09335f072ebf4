"""A stream of sentences of any length → a file of vectors.

Finished blocks are kept beside the output, so an interrupted run resumes where it stopped. Memory holds one block.
A hidden note beside a finished output (.NAME.run.json) says what it was made from, so that a repeated run ends at once.
"""

import json
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import torch

from stelmo.embed.model import Array, Model
from stelmo.errors import DataError, OutputError
from stelmo.jobs import blocks
from stelmo.jobs.blocks import Block, Totals
from stelmo.model.bilm import State
from stelmo.settings import OutputSettings
from stelmo.store import atomic, vectors
from stelmo.text.formats import Sentence

Advance = Callable[[int], None]  # called with the number of tokens finished since the last call


class Embedded(NamedTuple):
    sentences: int
    made: bool  # False: the same run had already finished


def embed_to_file(
    model: Model,
    sentences: Iterable[Sentence],
    path: Path,
    settings: OutputSettings,
    *,
    overwrite: bool = False,
    advance: Advance = lambda tokens: None,
) -> Embedded:
    """Write the vectors of all sentences, in order, unless the output was already made from the same sentences."""
    writer_class = refuse_output(path, overwrite)
    used = blocks.run_settings(model, settings)
    if path.exists() and not overwrite:
        totals = Totals()
        for block in blocks.cut(model, sentences, settings) if _noted(path, used) else ():
            totals.add(block)
        refuse_unfinished(path, used, totals.text())
        blocks.remove_working_folder(path)
        return Embedded(totals.sentences, False)
    remove_dead_drafts(path)
    folder = blocks.working_folder(path, used, overwrite)
    with blocks.removed_if_empty(folder):
        files = list(_finished_blocks(model, sentences, settings, folder, advance))
        if not files:
            raise DataError(blocks.NO_SENTENCE)
    totals, shape = Totals(), blocks.output_shape(model, settings)
    with atomic.new_file(path, overwrite) as draft:
        with vectors.writing(draft, writer_class, shape, used) as writer:
            write_blocks((blocks.read(file, shape) for file in files), writer, totals)
        write_note(path, draft, used, totals.text())
    atomic.remove(folder)
    return Embedded(totals.sentences, True)


def refuse_output(path: Path, overwrite: bool) -> type[vectors.VectorWriter]:
    """Refuse a path that cannot be written, before any work → the writer of its format.

    An output with a note may be finished, which shows when the text has been read: see `refuse_unfinished`.
    """
    atomic.refuse_existing(path, overwrite or _note(path).is_file())
    return vectors.writer_for(path)


# What a finished output was made from


def _note(path: Path) -> Path:
    return path.with_name(f".{path.name}.run.json")


def remove_dead_drafts(path: Path) -> None:
    """Delete what killed processes have left of the output and of its note."""
    for file in (path, _note(path)):
        atomic.remove_dead_drafts(file)


def write_note(path: Path, draft: Path, used: dict[str, Any], text: str) -> None:
    """Written before the draft gets its name, so that a finished output always has its note."""
    status = draft.stat()
    note = {"settings": used, "text": text, "bytes": status.st_size, "modified": status.st_mtime_ns}
    with atomic.new_file(_note(path), overwrite=True) as file:
        file.write_text(json.dumps(note))


def _noted(path: Path, used: dict[str, Any]) -> str | None:
    """The digest of the text the output was made from, if it was made with these settings and not changed since."""
    try:
        note, status = atomic.read_json(_note(path), OutputError), path.stat()
        unchanged = (note["bytes"], note["modified"]) == (status.st_size, status.st_mtime_ns)
        return str(note["text"]) if unchanged and note["settings"] == json.loads(json.dumps(used)) else None
    except (OSError, OutputError, KeyError, TypeError):
        return None


def refuse_unfinished(path: Path, used: dict[str, Any], text: str) -> None:
    """Refuse an existing output, unless it was made from this text with these settings."""
    atomic.refuse_existing(path, _noted(path, used) == text)


def stream(model: Model, sentences: Iterable[Sentence], settings: OutputSettings) -> Iterator[tuple[Sentence, Array]]:
    """Sentences with their vectors, in order, without a file."""
    reduce, carried = blocks.reduction(settings, model.config.depth), None
    for block in blocks.cut(model, sentences, settings):
        arrays, carried = model.run([sentence.tokens for sentence in block], reduce, carried=carried)
        yield from zip(block, arrays, strict=True)


def write_blocks(found: Iterable[Block], writer: vectors.VectorWriter, totals: Totals) -> None:
    """All blocks, in order; they are added to the totals."""
    for block in found:
        for number, (sentence, array) in enumerate(zip(block.sentences, block.vectors, strict=True), totals.sentences):
            writer.add(number, sentence, array)
        totals.add(block.sentences)


def _finished_blocks(
    model: Model, sentences: Iterable[Sentence], settings: OutputSettings, folder: Path, advance: Advance
) -> Iterator[Path]:
    """The files of all blocks, in order; blocks finished by an earlier run are reused.

    Only leading blocks are reused, because with state "carry" a changed text changes everything after it.
    """
    reusing, carried, shape = True, None, blocks.output_shape(model, settings)
    for number, block in enumerate(blocks.cut(model, blocks.checked_keys(sentences, settings), settings)):
        file = folder / blocks.file_name(number)
        finished = blocks.find_finished(file, block, shape) if reusing else None
        if finished is not None:
            carried = State(*map(torch.from_numpy, finished.carried)) if finished.carried else None
        else:
            reusing = False
            arrays, carried = blocks.compute(model, block, settings, carried)
            state = () if carried is None else tuple(part.cpu().numpy() for part in carried)
            blocks.write(Block(block, arrays, state), file)
        advance(blocks.token_count(block))
        yield file
