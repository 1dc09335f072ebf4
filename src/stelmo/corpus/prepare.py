"""Text files → a corpus folder, in parallel. An interrupted run resumes when it is started again.

1. Every chunk of lines is tokenised and numbered separately, and kept in DIR.partial.
2. The words of all chunks are counted: types, vocabulary, the held-out part.
3. The chunks are renumbered and concatenated; the folder gets its final name when it is complete.
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

from stelmo.corpus import chunks
from stelmo.corpus import folder as corpus_folder
from stelmo.corpus.assemble import Advance, Progress, assemble
from stelmo.corpus.chunks import ChunkReader, Lines, describe_input, find_inputs, identity_of, number_words
from stelmo.corpus.folder import SPLITS, Manifest, Recipe
from stelmo.errors import OutputError, StelmoError
from stelmo.settings import PrepareSettings
from stelmo.store import atomic

_OWN_ENDINGS = (".npz", ".partial", "corpus")  # of our files in the working folder


@contextmanager
def silent(label: str, fraction: Callable[[], float | None]) -> Iterator[Advance]:
    yield lambda tokens: None


class Prepared(NamedTuple):
    manifest: Manifest
    made: bool  # False: the folder existed already


def prepare(
    inputs: Sequence[str | Path],
    folder: Path,
    settings: PrepareSettings,
    *,
    processes: int = 1,
    overwrite: bool = False,
    progress: Progress = silent,
) -> Prepared:
    """Make the corpus folder, unless it was already made from the same files with the same settings."""
    place = folder.resolve()  # a link stays, and what it points to is written
    work = place.with_name(f"{place.name}.partial")
    given = None if settings.vocabulary is None else Path(settings.vocabulary)
    files = find_inputs(inputs, (folder, work))
    recipe = Recipe(settings, files, None if given is None else describe_input(given))
    if (finished := _find_finished(folder, recipe, overwrite)) is not None:
        if not _foreign_files(work):  # left by a run that was killed when its folder was in place
            atomic.remove(work)
        return Prepared(finished, False)
    vocabulary = None if given is None else corpus_folder.read_vocabulary(given)
    _open_working_folder(work)
    text = ChunkReader(files, settings.format)
    try:
        with progress("tokenising", text.fraction) as advance:
            done = list(_finished_chunks(text, work, settings, processes, advance))
        manifest = assemble(done, work / "corpus", recipe, vocabulary, progress)
    except StelmoError:
        if not any(work.glob("*.npz")):
            atomic.remove(work)
        raise
    try:
        atomic.remove(place)
        (work / "corpus").replace(place)
    except OSError as problem:
        raise OutputError(f"{folder}: {atomic.reason(problem)}; the finished corpus is {work / 'corpus'}") from problem
    atomic.remove(work)
    return Prepared(manifest, True)


# What exists already


def _find_finished(folder: Path, recipe: Recipe, overwrite: bool) -> Manifest | None:
    """The corpus made by the same recipe, if it exists; anything else in its place is refused."""
    if not folder.absolute().parent.is_dir():
        raise OutputError(f"{folder}: the folder {folder.parent} does not exist; create it first")
    if os.path.ismount(folder) or folder.resolve() == Path.cwd():
        raise OutputError(
            f"{folder}: a mount point or the current folder, which cannot be replaced; name a new folder inside it"
        )
    if not folder.exists() or (folder.is_dir() and not any(folder.iterdir())):
        return None
    if not corpus_folder.recognises(folder):
        raise OutputError(f"{folder} exists and is not a corpus; choose another name")
    if overwrite:
        ours = ("manifest.json", "vocab.txt", "types.", "targets.npy", *(f"{split}-" for split in SPLITS))
        lost = sorted(path.name for path in folder.iterdir() if not path.name.startswith(ours))
        if lost:
            raise OutputError(f"{folder}: overwriting would delete {', '.join(lost[:3])}; choose another folder")
        return None
    manifest = corpus_folder.read(folder).manifest
    different = _differences(manifest.recipe, recipe)
    if different:
        raise OutputError(f"{folder} was made with {different}; choose another name or allow overwriting (--overwrite)")
    return manifest


def _differences(old: Recipe, new: Recipe) -> str:
    """A description of how the recipes differ; empty if they do not."""
    before, after = old.settings.model_dump(), new.settings.model_dump()
    found = [f"{name} {before[name]}, not {after[name]}" for name in after if after[name] != before[name]]
    if old.vocabulary_file != new.vocabulary_file and before["vocabulary"] == after["vocabulary"]:
        found.append("an earlier version of the vocabulary file")
    if old.inputs != new.inputs:
        more_or_fewer = {file.name for file in old.inputs} ^ {file.name for file in new.inputs}
        changed = [file.name for file in new.inputs if file not in old.inputs]
        names = sorted(more_or_fewer) or changed or ["in another order"]
        found.append(f"other inputs ({', '.join(names[:3])}{' …' if len(names) > 3 else ''})")
    return "; ".join(found)


def _foreign_files(work: Path) -> list[str]:
    """Names in the working folder that are not those of our own files."""
    return [path.name for path in work.iterdir() if not path.name.endswith(_OWN_ENDINGS)] if work.is_dir() else []


def _open_working_folder(work: Path) -> None:
    """The folder of finished chunks beside the output: new, or left by an interrupted run."""
    if foreign := _foreign_files(work):
        raise OutputError(
            f"{work} is needed for unfinished work but contains {foreign[0]}; choose another output folder"
        )
    try:
        work.mkdir(exist_ok=True)
    except OSError as problem:
        raise OutputError(f"{work}: {atomic.reason(problem)}") from problem


# Chunks in parallel


def _finished_chunks(
    text: Iterable[Lines], work: Path, settings: PrepareSettings, processes: int, advance: Advance
) -> Iterator[Path]:
    """The files of all chunks, in order; chunks finished by an earlier run are reused."""

    def first_finished() -> Path:
        path, future = waiting.popleft()
        advance(future.result())
        return path

    with _workers(processes) as submit:
        waiting: deque[tuple[Path, Future[int]]] = deque()
        for number, lines in enumerate(text):
            path = work / f"{number:06d}.npz"
            waiting.append((path, submit(_make_chunk, path, lines, settings)))
            while len(waiting) > 2 * processes:  # limits the text held in memory
                yield first_finished()
        while waiting:
            yield first_finished()


def _make_chunk(path: Path, lines: Lines, settings: PrepareSettings) -> int:
    """Runs in a worker; returns the number of tokens."""
    chunk = chunks.read_finished(path, identity_of(lines, settings))
    if chunk is None:
        chunk = number_words(lines, settings)
        chunks.write(chunk, path)
    return len(chunk.ids_N)


@contextmanager
def _workers(processes: int) -> Iterator[Callable[..., Future[int]]]:
    """A `submit` function: of a process pool or, for one process, of this process."""

    def run_here(work: Callable[..., int], *arguments: Any) -> Future[int]:
        future: Future[int] = Future()
        future.set_result(work(*arguments))
        return future

    if processes == 1:
        yield run_here
        return
    # Spawned, because a forked process can hang if its parent has threads, as torch does.
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(processes, context, initializer=_end_with_parent)
    try:
        yield pool.submit
    except BrokenProcessPool:
        raise OutputError(
            "a worker died, possibly because memory ran out; run the same command again to resume, "
            "with fewer --processes to use less memory"
        ) from None
    finally:
        pool.shutdown(cancel_futures=True)


def _end_with_parent() -> None:
    """A worker ignores Ctrl-C, which its parent handles, and ends when its parent dies."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    assert parent is not None

    def watch() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
