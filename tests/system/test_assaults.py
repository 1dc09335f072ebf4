"""Small runs of the two scripts that attack files and long runs; they print the tables of docs/reliability.md."""

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.long

BENCH = Path(__file__).parents[2] / "bench"
COMMANDS = (
    "embed, hdf5",
    "embed, parquet",
    "embed, npz",
    "prepare",
    "pretrain, 1 process",
    "pretrain, 2 processes",
    "index",
    "task",
)


def table(script, *arguments):
    """The cells of the rows that the script prints."""
    line = [sys.executable, str(BENCH / script), *map(str, arguments)]
    done = subprocess.run(line, capture_output=True, text=True, check=False, timeout=1200)
    assert done.returncode == 0, done.stderr
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in done.stdout.splitlines()[2:]]


def test_no_mutated_file_of_any_format_gets_through():
    *rows, total = table("fuzz_formats.py", 460, 10_000)
    assert total[:2] == ["all", "460"]
    assert [row for row in rows if row[-1] != "0"] == []


@pytest.mark.parametrize("command", COMMANDS)
def test_a_killed_command_ends_as_if_undisturbed(command):
    ((name, kills, runs, equal, left),) = table("kill_runs.py", 3, 600, command)
    assert (name, kills, equal, left) == (command, "3", f"{runs} of {runs}", "0")
