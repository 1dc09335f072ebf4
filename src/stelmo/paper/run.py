"""Cells → their results, several chains at once; what is finished is not run again. Knows no table."""

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

from stelmo.paper.cells import Cell, Setup, vectors_of
from stelmo.store import atomic, runs
from stelmo.tasks import results

NOTE = "report.json"  # what all cells of a report have in common


class Told(NamedTuple):
    """How a cell ended."""

    cell: Cell
    seconds: float
    failure: str | None = None  # the last line that it said


Tell = Callable[[Told], None]


def begin(setup: Setup, fingerprint: str) -> None:
    """A report is of one model, one size and one table of static vectors: cells of another would pass for these."""
    made_with = {"bilm": fingerprint, "size": setup.size, "vectors": vectors_of(setup)}
    runs.make(setup.to)
    runs.note_or_compare(setup.to / NOTE, made_with)


def run(cells: Sequence[Cell], to: Path, jobs: int, tell: Tell) -> list[Told]:
    """Each unfinished cell, one chain after another in each of `jobs` rows; what failed is told and passed over."""
    for folder in ("runs", "logs"):
        (to / folder).mkdir(parents=True, exist_ok=True)
    waiting = [cell for cell in cells if is_waiting(cell, to)]
    chains = [list(chain) for _, chain in groupby(sorted(waiting, key=_chain), key=_chain)]
    with ThreadPoolExecutor(jobs) as pool:
        return [told for chain in pool.map(lambda chain: _run_chain(chain, to, tell), chains) for told in chain]


def is_finished(cell: Cell, to: Path) -> bool:
    return (to / "runs" / cell.proof).is_file()


def is_waiting(cell: Cell, to: Path) -> bool:
    """Not finished, or with fewer seeds than are asked for now."""
    if not is_finished(cell, to):
        return True
    return cell.seeds is not None and len(results.read(to / "runs" / cell.name).seeds) < cell.seeds


def log_of(cell: Cell, to: Path) -> Path:
    return to / "logs" / f"{cell.name}.log"


def shown(cell: Cell) -> str:
    """The command as a person types it."""
    return shlex.join(("stelmo", *cell.command))


def _chain(cell: Cell) -> str:
    return cell.chain


def _run_chain(chain: Sequence[Cell], to: Path, tell: Tell) -> list[Told]:
    told = []
    for cell in chain:
        told.append(_run(cell, to))
        tell(told[-1])
    return told


def _run(cell: Cell, to: Path) -> Told:
    """In a process of its own: what it prints is its result, what it says goes into its log."""
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
        return Told(cell, seconds, said[-1] if said else f"exit code {done.returncode}")
    if cell.printed:
        with atomic.new_file(to / "runs" / cell.proof, overwrite=True) as draft:
            draft.write_text(done.stdout)
    return Told(cell, seconds)
