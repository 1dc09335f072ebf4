"""Cells → their results: several chains in parallel; finished cells are not run again. Knows no table."""

import json
import os
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

from stelmo.corpus import folder as corpora
from stelmo.errors import DataError
from stelmo.paper.cells import Cell, Setup, folder_of, vectors_of
from stelmo.progress import stop_requested
from stelmo.store import atomic, runs
from stelmo.tasks import reading
from stelmo.tasks.experiment import is_trained, read_results, sentences, training_time
from stelmo.tasks.network import named
from stelmo.tasks.reading import Skipped

NOTE = "report.json"  # the settings that all cells of a report share
ENCODERS = "encoders.json"  # those that all trainings of encoders share
NOT_RUN = "not run"


class Spent(NamedTuple):
    """What a cell took, over all attempts to run it; processor time is unknown on Windows."""

    seconds: float = 0.0
    processor: float | None = 0.0
    attempts: int = 0


class Outcome(NamedTuple):
    """How a cell ended."""

    cell: Cell
    seconds: float
    failure: str | None = None  # the last line of its log


def begin(setup: Setup, fingerprint: str) -> None:
    """Refuse to mix cells of different models, sizes or static vectors in one report."""
    made_with = {"bilm": fingerprint, "size": setup.size, "vectors": vectors_of(setup)}
    trained_with = None
    if "encoders" in setup.parts and setup.corpus is not None:
        trained_with = {
            "corpus": corpora.read(setup.corpus).fingerprint(),
            "processor_time": setup.processor_time,
            "settings": list(setup.settings),
            "vectors": setup.vectors,
        }
    runs.make(setup.to)
    runs.write_or_compare(setup.to / NOTE, made_with)
    if trained_with is not None:
        runs.write_or_compare(setup.to / ENCODERS, trained_with)


def run(cells: Sequence[Cell], to: Path, jobs: int, report: Callable[[Outcome], None]) -> list[Outcome] | None:
    """Run the unfinished cells, up to `jobs` chains at once; a failed cell is reported and the others continue.

    None if a signal arrived: the running commands are then asked to stop as well, and no other is started.
    """
    for folder in ("runs", "logs"):
        (to / folder).mkdir(parents=True, exist_ok=True)
    waiting = sorted((cell for cell in cells if is_waiting(cell, to)), key=lambda cell: cell.chain)
    chains = [list(chain) for _, chain in groupby(waiting, key=lambda cell: cell.chain)]
    stages = [chain for chain in chains if not chain[0].last], [chain for chain in chains if chain[0].last]

    def run_chain(chain: Sequence[Cell]) -> list[Outcome]:
        outcomes: list[Outcome] = []
        for cell in chain:
            if stop():
                break
            outcome = _run(cell, to, stop)
            if not stop():
                outcomes.append(outcome)
                report(outcome)
        return outcomes

    found: list[Outcome] = []
    with stop_requested() as stop, ThreadPoolExecutor(jobs) as pool:
        for stage in stages:
            futures = [pool.submit(run_chain, chain) for chain in stage]
            # A signal that another thread receives is handled when this one runs again, so it must not wait forever.
            while wait(futures, timeout=0.2).not_done:
                pass
            found += [outcome for future in futures for outcome in future.result()]
    return None if stop() else found


def is_finished(cell: Cell, to: Path) -> bool:
    return (to / "runs" / cell.result_file).is_file()


def is_waiting(cell: Cell, to: Path) -> bool:
    """Not finished, or finished with fewer seeds than requested, or with an earlier and lower limit of steps."""
    if not is_finished(cell, to):
        return True
    if cell.seeds is None:
        return False
    folder = to / "runs" / cell.name
    seeds = read_results(folder).seeds
    if len(seeds) < cell.seeds:
        return True
    limit = cell.steps
    return limit is not None and not all(is_trained(folder / f"seed-{seed}", limit, cell.patience) for seed in seeds)


def log_of(cell: Cell, to: Path) -> Path:
    return to / "logs" / f"{cell.name}.log"


def command_line(cell: Cell) -> str:
    """The command as typed in a shell."""
    return shlex.join(("stelmo", *cell.command))


def spent(cell: Cell, to: Path) -> Spent | None:
    """None if the cell was never run, or was run by an earlier version, which did not note it."""
    try:
        return Spent(**json.loads(_time_of(cell, to).read_text()))
    except (OSError, ValueError, TypeError):
        return None


def about(cell: Cell, to: Path) -> str:
    """What was run of a cell: "seeds 0, 1, 2; 12.5 min, 11.9 min of processor time"."""
    if not is_finished(cell, to):
        return NOT_RUN
    parts, training = [], None
    if cell.seeds is not None:
        folder = to / "runs" / cell.name
        seeds, training = read_results(folder).seeds, training_time(folder)
        parts.append(f"seed{'s' if len(seeds) > 1 else ''} {', '.join(map(str, seeds))}")
    if (taken := spent(cell, to)) is not None:
        processor = "" if taken.processor is None else f", {duration(taken.processor)} of processor time"
        parts.append(f"{duration(taken.seconds)}{processor}")
    elif training is not None:
        parts.append(f"{duration(training)} of training")
    else:
        parts.append("time unknown")
    return "; ".join(parts)


def duration(seconds: float) -> str:
    """90.0 → "1.5 min"."""
    if seconds < 60:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.1f} min" if seconds < 3600 else f"{seconds / 3600:.1f} h"


def _time_of(cell: Cell, to: Path) -> Path:
    return to / "logs" / f"{cell.name}.time.json"


def printed(cell: Cell, to: Path) -> Any:
    """The JSON that a command printed: one value, or one per line; None if it was not run."""
    if not is_finished(cell, to):
        return None
    path = to / "runs" / cell.result_file
    text = path.read_text(encoding="utf-8")
    try:
        return json.loads(text)
    except ValueError:
        pass
    try:
        return [json.loads(line) for line in text.splitlines() if line.strip()]
    except ValueError as problem:
        raise DataError(
            f"{path}: not the JSON that {command_line(cell)} prints ({problem}); delete it and run again"
        ) from None


def _run(cell: Cell, to: Path, stop: Callable[[], bool]) -> Outcome:
    """In a separate process: its standard output is its result, its standard error is added to its log.

    Another `stelmo paper` on the same report may be running the cell at the moment, and writing to that log.
    """
    begun = (to / "runs" / cell.name).exists() or is_finished(cell, to)
    before = (spent(cell, to) if begun else None) or Spent()
    started = time.monotonic()
    with log_of(cell, to).open("a") as log, tempfile.TemporaryFile() as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "stelmo", *cell.command],
            stdout=output,
            stderr=log,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )
        processor = _wait(process, stop)
        output.seek(0)
        said = output.read().decode("utf-8")
    seconds = time.monotonic() - started
    total = None if processor is None or before.processor is None else before.processor + processor
    with atomic.new_file(_time_of(cell, to), overwrite=True) as draft:
        draft.write_text(json.dumps(Spent(before.seconds + seconds, total, before.attempts + 1)._asdict()) + "\n")
    if process.returncode:
        # A killed process may leave half a character.
        lines = log_of(cell, to).read_text(encoding="utf-8", errors="replace").strip().splitlines()
        return Outcome(cell, seconds, lines[-1] if lines else f"exit code {process.returncode}")
    if cell.printed:
        with atomic.new_file(to / "runs" / cell.result_file, overwrite=True) as draft:
            draft.write_text(said, encoding="utf-8")
    return Outcome(cell, seconds)


def _wait(process: subprocess.Popen[bytes], stop: Callable[[], bool]) -> float | None:
    """Until it ends, which it is asked to do if `stop` says so; its processor time in seconds, if it is known."""
    processor, asked = None, False
    while process.returncode is None:
        if stop() and not asked:
            process.terminate()
            asked = True
            continue  # `terminate` may have found that it has ended
        if not hasattr(os, "wait4"):  # Windows
            process.poll()
        elif (ended := os.wait4(process.pid, os.WNOHANG))[0]:
            _, status, usage = ended
            process.returncode = os.waitstatus_to_exitcode(status)
            processor = usage.ru_utime + usage.ru_stime
        if process.returncode is None:
            time.sleep(0.05)
    return processor


def write_text(setup: Setup, task: str) -> Path:
    """A file of a task's distinct training sentences, for tuning a biLM. An existing file is kept."""
    path = setup.to / "texts" / f"{task}.txt"
    if path.is_file():
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    data = named(task).data
    file = reading.find(folder_of(setup.data, task), data.FILES)["train"]
    found = dict.fromkeys(sentences(named(task), data.read(file, Skipped())))
    with atomic.new_file(path) as draft:
        draft.write_text("".join(f"{' '.join(sentence)}\n" for sentence in found), encoding="utf-8")
    return path
