"""Blocks of text and their vectors in a folder shared by many processes, as the workers of a cluster need them.

settings.json    everything that decides the numbers, as for any long run
000007.json      the text of a block: the number of its first sentence, and the sentences
000007.tries     a line for every worker that has started the block: its machine and process
000007.parquet   its vectors, when they are finished
"""

import json
import os
import socket
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from stelmo.embed.model import Array, Model
from stelmo.errors import DataError, ModelError, OutputError
from stelmo.jobs import blocks
from stelmo.settings import OutputSettings
from stelmo.store import atomic, vectors
from stelmo.text.formats import Sentence

FINER = 4  # pieces that replace one after memory ran out
WHOLE_TRIES = 2  # a worker can be killed for other reasons; after this many, lack of memory is assumed
MOST_TRIES = 6


class Filled(NamedTuple):
    blocks: int
    sentences: int
    unfinished: list[int]  # numbers of blocks
    finished_tokens: int


class Done(NamedTuple):
    place: str  # file:line of its first sentence
    tokens: int
    tries: int  # workers that have started the block
    pieces: int  # in which it was computed


def fill(folder: Path, found: Iterable[Sequence[Sentence]]) -> Filled:
    """Write the text of every block; vectors of the same text are kept from an earlier run."""
    count = sentences = finished_tokens = 0
    unfinished = []
    for number, block in enumerate(found):
        note, result = (_file(folder, number, ending) for ending in ("json", "parquet"))
        text = json.dumps([sentences, block]).encode()
        atomic.remove(_file(folder, number, "tries"))  # tries are counted anew in each run
        same = note.is_file() and note.read_bytes() == text
        if not same:
            atomic.remove(result)
            with atomic.new_file(note, overwrite=True) as draft:
                draft.write_bytes(text)
        if same and result.is_file():
            finished_tokens += blocks.token_count(block)
        else:
            unfinished.append(number)
        count, sentences = count + 1, sentences + len(block)
    if not count:
        raise DataError(blocks.NO_SENTENCE)
    return Filled(count, sentences, unfinished, finished_tokens)


class Worker:
    """Computes one block after another; several workers can share one folder."""

    def __init__(self, folder: Path, model: Model, settings: OutputSettings, used: dict[str, Any]) -> None:
        if model.saved().fingerprint() != used["model"]:
            raise ModelError("a worker has loaded another model from this path; every machine needs the same files")
        self._folder, self._model, self._settings, self._used = folder, model, settings, used
        self._shape = blocks.output_shape(model, settings)

    def compute(self, number: int) -> Done:
        """Write a block's vectors. A block whose workers keep dying (out of memory) is cut finer each time."""
        try:
            start, rows = json.loads(_file(self._folder, number, "json").read_bytes())
        except OSError:
            raise OutputError(
                f"{self._folder}: a worker does not see this folder; all machines must share it"
            ) from None
        sentences = [Sentence(*row) for row in rows]
        with _file(self._folder, number, "tries").open("a+") as marks:
            marks.write(f"{socket.gethostname()} {os.getpid()}\n")
            marks.seek(0)
            tries = len(marks.readlines())  # workers that have started the block, including this one
        if tries > MOST_TRIES:
            raise OutputError(
                f"the block that begins at {_place(sentences[0])} ended its worker {MOST_TRIES} times; "
                "use fewer workers with more memory each, or smaller batches (--memory, --batch-tokens)"
            )
        pieces = FINER ** max(0, tries - WHOLE_TRIES)
        arrays, pieces = _in_pieces(self._model, sentences, self._settings, pieces)
        path = _file(self._folder, number, "parquet")
        with (
            atomic.new_file(path, overwrite=True) as draft,
            vectors.writing(draft, vectors.writer_for(path), self._shape, self._used) as writer,
        ):
            for place, (sentence, array) in enumerate(zip(sentences, arrays, strict=True), start):
                writer.add(place, sentence, array)
        return Done(_place(sentences[0]), blocks.token_count(sentences), tries, pieces)


def finish(folder: Path, count: int, output: Path) -> None:
    """Remove everything but the `count` finished files and give the folder its final name."""
    wanted = {_file(folder, number, "parquet").name for number in range(count)}
    missing = wanted - {file.name for file in folder.iterdir()}
    if missing:
        raise OutputError(f"{folder}: {min(missing)} is missing; do all machines see this folder?")
    for file in folder.iterdir():
        if file.name not in wanted:
            file.unlink()
    atomic.remove(output)
    folder.replace(output)


def refuse_output(output: Path, overwrite: bool) -> None:
    """Refuse a path that cannot be written, before any work; only a folder of Parquet files can be overwritten."""
    if output.suffix != ".parquet":
        raise OutputError(f"{output}: workers write a folder of Parquet files; its name must end in .parquet")
    vectors.writer_for(output)
    atomic.refuse_existing(output, overwrite)
    foreign = [file.name for file in output.iterdir() if file.suffix != ".parquet"] if output.is_dir() else []
    if foreign:
        raise OutputError(f"{output}: overwriting would delete {foreign[0]}; choose another folder")


def _in_pieces(
    model: Model, sentences: Sequence[Sentence], settings: OutputSettings, pieces: int
) -> tuple[list[Array], int]:
    """The vectors, and the number of pieces in which they fitted into memory."""
    size = -(-len(sentences) // min(pieces, len(sentences)))
    cuts = range(0, len(sentences), size)
    try:
        parts = [blocks.compute(model, sentences[at : at + size], settings)[0] for at in cuts]
    except (MemoryError, RuntimeError) as problem:
        if not _is_out_of_memory(problem):
            raise
    else:
        return [array for part in parts for array in part], len(cuts)
    if size == 1:
        longest = max(sentences, key=lambda sentence: len(sentence.tokens))
        raise DataError(
            f"{_place(longest)}: a sentence of {len(longest.tokens):,} tokens does not fit into a "
            "worker's memory; use fewer workers with more memory each"
        )
    return _in_pieces(model, sentences, settings, len(cuts) * FINER)


def _is_out_of_memory(problem: BaseException) -> bool:
    """Torch reports it only in the message, with different words for GPU and CPU."""
    words = "out of memory", "DefaultCPUAllocator"
    return isinstance(problem, MemoryError) or any(word in str(problem) for word in words)


def _place(sentence: Sentence) -> str:
    return f"{sentence.source}:{sentence.line}"


def _file(folder: Path, number: int, ending: str) -> Path:
    return folder / f"{number:06d}.{ending}"
