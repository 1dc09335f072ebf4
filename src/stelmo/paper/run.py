"""Cells → their results: several chains in parallel; finished cells are not run again. Knows no table."""

import os
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

from stelmo.paper.cells import Cell, Setup, folder_of, vectors_of
from stelmo.store import atomic, runs
from stelmo.tasks import reading, results
from stelmo.tasks.experiment import sentences
from stelmo.tasks.network import named
from stelmo.tasks.reading import Skipped

NOTE = "report.json"  # the settings that all cells of a report share


class Outcome(NamedTuple):
    """How a cell ended."""

    cell: Cell
    seconds: float
    failure: str | None = None  # the last line of its log


def begin(setup: Setup, fingerprint: str) -> None:
    """Refuse to mix cells of different models, sizes or static vectors in one report."""
    made_with = {"bilm": fingerprint, "size": setup.size, "vectors": vectors_of(setup)}
    runs.make(setup.to)
    runs.note_or_compare(setup.to / NOTE, made_with)


def run(cells: Sequence[Cell], to: Path, jobs: int, report: Callable[[Outcome], None]) -> list[Outcome]:
    """Run the unfinished cells, up to `jobs` chains at once; a failed cell is reported and the others continue."""
    for folder in ("runs", "logs"):
        (to / folder).mkdir(parents=True, exist_ok=True)
    waiting = sorted((cell for cell in cells if is_waiting(cell, to)), key=lambda cell: cell.chain)
    chains = [list(chain) for _, chain in groupby(waiting, key=lambda cell: cell.chain)]

    def run_chain(chain: Sequence[Cell]) -> list[Outcome]:
        outcomes = []
        for cell in chain:
            outcomes.append(_run(cell, to))
            report(outcomes[-1])
        return outcomes

    with ThreadPoolExecutor(jobs) as pool:
        return [outcome for outcomes in pool.map(run_chain, chains) for outcome in outcomes]


def is_finished(cell: Cell, to: Path) -> bool:
    return (to / "runs" / cell.proof).is_file()


def is_waiting(cell: Cell, to: Path) -> bool:
    """Not finished, or finished with fewer seeds than requested."""
    if not is_finished(cell, to):
        return True
    return cell.seeds is not None and len(results.read(to / "runs" / cell.name).seeds) < cell.seeds


def log_of(cell: Cell, to: Path) -> Path:
    return to / "logs" / f"{cell.name}.log"


def command_line(cell: Cell) -> str:
    """The command as typed in a shell."""
    return shlex.join(("stelmo", *cell.command))


def _run(cell: Cell, to: Path) -> Outcome:
    """In a separate process: its standard output is its result, its standard error goes to its log."""
    started = time.monotonic()
    with log_of(cell, to).open("w") as log:
        done = subprocess.run(
            [sys.executable, "-m", "stelmo", *cell.command],
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
            check=False,
        )
    seconds = time.monotonic() - started
    if done.returncode:
        said = log_of(cell, to).read_text().strip().splitlines()
        return Outcome(cell, seconds, said[-1] if said else f"exit code {done.returncode}")
    if cell.printed:
        with atomic.new_file(to / "runs" / cell.proof, overwrite=True) as draft:
            draft.write_text(done.stdout)
    return Outcome(cell, seconds)


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
