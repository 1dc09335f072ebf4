"""Blocks of text and their vectors in one folder that many processes share. Knows no cluster.

settings.json    what decides the numbers, as beside any long run
000007.json      the text of a block: the number of its first sentence, and the sentences
000007.tries     a line for every worker that has begun with it: its machine and process
000007.parquet   its vectors, once they are finished
"""

import json
import os
import socket
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from stelmo.config import OutputSettings
from stelmo.embed.model import Array, Model
from stelmo.errors import DataError, ModelError, OutputError
from stelmo.jobs import work
from stelmo.store import atomic, vectors
from stelmo.text.formats import Sentence

FINER = 4  # pieces in place of one where memory ran out
WHOLE_TRIES = 2  # a worker can be killed for reasons of its own; only then memory is suspected
MOST_TRIES = 6


class Filled(NamedTuple):
    blocks: int
    sentences: int
    unfinished: list[int]  # numbers of blocks
    finished_tokens: int


class Done(NamedTuple):
    place: str  # of its first sentence, for a person
    tokens: int
    tries: int  # workers that began with the block
    pieces: int  # it was computed in


def fill(folder: Path, found: Iterable[Sequence[Sentence]]) -> Filled:
    """The text of every block on disk; vectors of the very same text are kept from an earlier run."""
    blocks = sentences = finished_tokens = 0
    unfinished = []
    for number, block in enumerate(found):
        if _keep(folder, number, sentences, block):
            finished_tokens += work.token_count(block)
        else:
            unfinished.append(number)
        blocks, sentences = blocks + 1, sentences + len(block)
    if not blocks:
        raise DataError(work.NO_SENTENCE)
    return Filled(blocks, sentences, unfinished, finished_tokens)


class Worker:
    """One model that computes block after block; several may work on one folder."""

    def __init__(self, folder: Path, model: Model, settings: OutputSettings, about: dict[str, Any]) -> None:
        if model.saved().fingerprint() != about["model"]:
            raise ModelError("a worker finds another model under the name; every machine needs the same files")
        self._folder, self._model, self._settings, self._about = folder, model, settings, about
        self._shape = work.shape(model, settings)

    def compute(self, number: int) -> Done:
        """Write a block's vectors. A block that keeps ending its worker, as when the system takes a process for
        its memory, is cut finer each time."""
        start, sentences = _text(self._folder, number)
        tries = _begin(self._folder, number)
        if tries > MOST_TRIES:
            raise OutputError(
                f"the block that begins at {_place(sentences[0])} ended its worker {MOST_TRIES} times; "
                "give fewer workers more memory each, or smaller batches (--memory, --batch-tokens)"
            )
        pieces = FINER ** max(0, tries - WHOLE_TRIES)
        arrays, pieces = _in_pieces(self._model, sentences, self._settings, pieces)
        path = _file(self._folder, number, "parquet")
        with (
            atomic.new_file(path, overwrite=True) as draft,
            vectors.writing(draft, vectors.writer_for(path), self._shape, self._about) as writer,
        ):
            for place, (sentence, array) in enumerate(zip(sentences, arrays, strict=True), start):
                writer.add(place, sentence, array)
        return Done(_place(sentences[0]), work.token_count(sentences), tries, pieces)


def finish(folder: Path, blocks: int, output: Path) -> None:
    """The finished files alone, in the place of the output."""
    wanted = {_file(folder, number, "parquet").name for number in range(blocks)}
    missing = wanted - {file.name for file in folder.iterdir()}
    if missing:
        raise OutputError(f"{folder}: {min(missing)} is missing; do all machines see this folder?")
    for file in folder.iterdir():
        if file.name not in wanted:
            file.unlink()
    atomic.remove(output)
    folder.replace(output)


def refuse_output(output: Path, overwrite: bool) -> None:
    """Refused before any work; a folder is replaced only if it is such a one itself."""
    if output.suffix != ".parquet":
        raise OutputError(f"{output}: workers write a folder of Parquet files; give it a name such as vectors.parquet")
    vectors.writer_for(output)
    atomic.refuse_existing(output, overwrite)
    foreign = [file.name for file in output.iterdir() if file.suffix != ".parquet"] if output.is_dir() else []
    if foreign:
        raise OutputError(f"{output}: overwriting would delete {foreign[0]}; choose another folder")


def _keep(folder: Path, number: int, start: int, block: Sequence[Sentence]) -> bool:
    """Whether the block's vectors are there; else its text is, and no try."""
    note, result = (_file(folder, number, ending) for ending in ("json", "parquet"))
    text = json.dumps([start, block]).encode()
    atomic.remove(_file(folder, number, "tries"))
    if note.is_file() and note.read_bytes() == text:
        return result.is_file()
    atomic.remove(result)
    with atomic.new_file(note, overwrite=True) as draft:
        draft.write_bytes(text)
    return False


def _text(folder: Path, number: int) -> tuple[int, list[Sentence]]:
    try:
        start, rows = json.loads(_file(folder, number, "json").read_bytes())
    except OSError:
        raise OutputError(f"{folder}: a worker does not see this folder; all machines must share it") from None
    return start, [Sentence(*row) for row in rows]


def _begin(folder: Path, number: int) -> int:
    """How many workers have begun with the block, this one among them."""
    with _file(folder, number, "tries").open("a+") as marks:
        marks.write(f"{socket.gethostname()} {os.getpid()}\n")
        marks.seek(0)
        return len(marks.readlines())


def _in_pieces(
    model: Model, sentences: Sequence[Sentence], settings: OutputSettings, pieces: int
) -> tuple[list[Array], int]:
    """The vectors, and in how many pieces they fitted into memory."""
    size = -(-len(sentences) // min(pieces, len(sentences)))
    cuts = range(0, len(sentences), size)
    try:
        parts = [work.compute(model, sentences[at : at + size], settings)[0] for at in cuts]
    except (MemoryError, RuntimeError) as problem:
        if not _is_out_of_memory(problem):
            raise
    else:
        return [array for part in parts for array in part], len(cuts)
    if size == 1:
        longest = max(sentences, key=lambda sentence: len(sentence.tokens))
        raise DataError(
            f"{_place(longest)}: a sentence of {len(longest.tokens):,} tokens does not fit into a "
            "worker's memory; give fewer workers more memory each"
        )
    return _in_pieces(model, sentences, settings, len(cuts) * FINER)


def _is_out_of_memory(problem: BaseException) -> bool:
    """Torch says so in words alone: of a GPU, of the CPU."""
    words = "out of memory", "DefaultCPUAllocator"
    return isinstance(problem, MemoryError) or any(word in str(problem) for word in words)


def _place(sentence: Sentence) -> str:
    return f"{sentence.source}:{sentence.line}"


def _file(folder: Path, number: int, ending: str) -> Path:
    return folder / f"{number:06d}.{ending}"
