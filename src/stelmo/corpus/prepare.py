"""Text files → a corpus folder, in parallel, going on where it was interrupted. Knows no verb.

1. Every chunk of lines is tokenised and numbered by itself, and kept in DIR.partial.
2. The chunks' words are counted together: types, vocabulary, the held-out part.
3. The chunks are renumbered and written end to end; the folder takes its place when it is whole.
"""

import multiprocessing
import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from stelmo.config import PrepareSettings
from stelmo.corpus import chunk_files as chunks
from stelmo.corpus import folder as shards
from stelmo.corpus.assemble import Advance, Progress, assemble
from stelmo.corpus.chunks import Lines, Text, identity_of, number_words
from stelmo.corpus.manifest import Manifest
from stelmo.corpus.recipe import recipe_of, standing
from stelmo.errors import OutputError, StelmoError
from stelmo.store import atomic

_OURS = (".npz", ".partial", "corpus")  # in the working folder


@contextmanager
def silent(label: str, fraction: Callable[[], float | None]) -> Iterator[Advance]:
    yield lambda tokens: None


class Prepared(NamedTuple):
    manifest: Manifest
    made: bool  # False: it was there already


def prepare(
    inputs: Sequence[str | Path],
    folder: Path,
    settings: PrepareSettings,
    *,
    processes: int = 1,
    overwrite: bool = False,
    progress: Progress = silent,
) -> Prepared:
    """Make the corpus folder, unless the same files and settings have made it before."""
    work = folder.absolute().with_name(f"{folder.absolute().name}.partial")
    recipe = recipe_of(inputs, settings, (folder, work))
    if (there := standing(folder, recipe, overwrite)) is not None:
        return Prepared(there, False)
    vocabulary = None if settings.vocabulary is None else shards.read_vocabulary(Path(settings.vocabulary))
    _open_working_folder(work)
    text = Text([file.name for file in recipe.inputs], [file.bytes for file in recipe.inputs], settings.format)
    try:
        with progress("tokenising", text.fraction) as advance:
            finished = list(_finished_chunks(text, work, settings, processes, advance))
        manifest = assemble(finished, work / "corpus", recipe, vocabulary, progress)
    except StelmoError:
        _remove_if_nothing_is_finished(work)
        raise
    atomic.remove(folder)
    (work / "corpus").replace(folder)
    atomic.remove(work)
    return Prepared(manifest, True)


def _open_working_folder(work: Path) -> None:
    """The folder of finished chunks beside the output, empty or left by an interrupted run."""
    foreign = [path.name for path in work.iterdir() if not path.name.endswith(_OURS)] if work.is_dir() else []
    if foreign:
        raise OutputError(f"{work} is to hold unfinished work, but has {foreign[0]}; choose another name")
    try:
        work.mkdir(exist_ok=True)
    except OSError as problem:
        raise OutputError(f"{work}: {atomic.reason(problem)}") from problem


def _remove_if_nothing_is_finished(work: Path) -> None:
    if not any(work.glob("*.npz")):
        atomic.remove(work)


def _finished_chunks(
    text: Iterable[Lines], work: Path, settings: PrepareSettings, processes: int, advance: Advance
) -> Iterator[Path]:
    """The files of all chunks, in order, made where an earlier run has not left them."""
    with _workers(processes) as submit:
        waiting: deque[tuple[Path, Future[int]]] = deque()
        for number, lines in enumerate(text):
            path = work / f"{number:06d}.npz"
            waiting.append((path, submit(_make_chunk, path, lines, settings)))
            while len(waiting) > 2 * processes:  # all that memory holds of the text
                yield _result(waiting, advance)
        while waiting:
            yield _result(waiting, advance)


def _result(waiting: "deque[tuple[Path, Future[int]]]", advance: Advance) -> Path:
    path, future = waiting.popleft()
    advance(future.result())
    return path


def _make_chunk(path: Path, lines: Lines, settings: PrepareSettings) -> int:
    """In a worker: the tokens of the chunk."""
    chunk = chunks.left(path, identity_of(lines, settings))
    if chunk is None:
        chunk = number_words(lines, settings)
        chunks.write(chunk, path)
    return len(chunk.ids_N)


@contextmanager
def _workers(processes: int) -> Iterator[Callable[..., Future[int]]]:
    """What takes a function and its arguments: a pool, or this very process."""
    if processes == 1:
        yield _done_here
        return
    # Spawned: a fork of a process with threads, as torch has them, may hang.
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(processes, context, initializer=_end_with_parent)
    try:
        yield pool.submit
    except BrokenProcessPool:
        raise OutputError(
            "a worker died, perhaps for want of memory; the same command goes on where it stopped, "
            "with fewer --processes in less memory"
        ) from None
    finally:
        pool.shutdown(cancel_futures=True)


def _done_here(work: Callable[..., int], *arguments: Any) -> Future[int]:
    future: Future[int] = Future()
    future.set_result(work(*arguments))
    return future


def _end_with_parent() -> None:
    """A worker outlives neither an interrupt, which its parent reports, nor the parent's sudden death."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    assert parent is not None

    def watch() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
