"""Every long command, killed at random moments and repeated → a table of how often it ended as if undisturbed.

Run: kill_runs.py [KILLS] [SECONDS] [COMMAND ...], on a system that has fork: so many kills of each command, but no new
run after so many seconds; the table has the true numbers. A run is started, ended by signal 9 up to four times at
random moments of its duration, each time started again by the same command, and then left to finish.
Its files must be those of an undisturbed run, bit by bit, except for the seconds in logs; no draft may be left.
Commands run in forks of a process that has imported torch, so that most kills hit the work and not the start.
"""

import hashlib
import json
import os
import random
import shutil
import signal
import socket
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

os.environ["OMP_NUM_THREADS"] = "1"
TESTS = Path(__file__).parents[1] / "tests"
MOST_KILLS = 4  # of one run
CLOCKS = ("seconds", "tokens_per_second", "rate", "time")  # fields that an equal run has with other numbers
SETTINGS = {
    "tokens": 8 * 8 * 24,
    "batch": 8,
    "unroll": 8,
    "validate_every": 10,
    "log_every": 4,
    "checkpoint_every": 3,
    "threads": 1,
    "negatives": 16,
    "lstm.cells": 16,
}
SMALL_TASK = ("size.projected=8", "size.hidden=6", "size.classifier=[[8, 0.0]]", "epochs=3")


class Command(NamedTuple):
    arguments: Callable[[Path, Path], list[str]]  # of the folder of inputs and the output
    output: str
    processes: int = 1


def embed(inputs: Path, output: Path) -> list[str]:
    return ["embed", str(inputs / "text.tok"), "-o", str(output), "--model", str(inputs / "model"), "--memory", "352"]


def pretrain(inputs: Path, output: Path) -> list[str]:
    words = [f"--set={name}={value}" for name, value in SETTINGS.items()]
    return ["pretrain", "tiny", "--data", str(inputs / "corpus"), "--to", str(output), *words]


def prepare(inputs: Path, output: Path) -> list[str]:
    return ["prepare", str(inputs / "texts"), "--to", str(output), "--from", "tokens", "--processes", "1"]


def build_index(inputs: Path, output: Path) -> list[str]:
    return ["index", str(inputs / "text.tok"), "--to", str(output), "--model", str(inputs / "model")]


def task(inputs: Path, output: Path) -> list[str]:
    settings = [word for setting in SMALL_TASK for word in ("--set", setting)]
    start = ["task", "sst5", "--data", str(inputs / "sst5"), "--to", str(output), "--model", str(inputs / "model")]
    return [*start, "--elmo", "both", *settings]


COMMANDS = {
    "embed, hdf5": Command(embed, "v.hdf5"),
    "embed, parquet": Command(embed, "v.parquet"),
    "embed, npz": Command(embed, "v.npz"),
    "prepare": Command(prepare, "corpus"),
    "pretrain, 1 process": Command(pretrain, "run"),
    "pretrain, 2 processes": Command(pretrain, "run", processes=2),
    "index": Command(build_index, "index"),
    "task": Command(task, "run"),
}


def make_inputs(folder: Path) -> None:
    """A tiny model, texts, a corpus and a task's data."""
    sys.path[:0] = [str(TESTS), str(TESTS / "unit" / "tasks")]
    import corpora
    import samples
    import tiny

    tiny.folder(folder / "model")
    lines = corpora.sentences(1500)
    (folder / "text.tok").write_text("".join(f"{line}\n" for line in lines))
    (folder / "texts").mkdir()
    for number in range(15):
        (folder / "texts" / f"{number}.tok").write_text("".join(f"{line}\n" for line in lines[number::15]))
    corpora.make(folder / "corpus", lines[:400], heldout=20)
    (folder / "sst5").mkdir()
    for split in ("train", "dev", "test"):
        (folder / "sst5" / f"{split}.txt").write_text(samples.SST5 * 4)


# Processes


def start(arguments: list[str], processes: int, log: Path) -> list[int]:
    """The command in forks of this process; as many ranks as there are processes."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    found = []
    for rank in range(processes):
        process = os.fork()
        if not process:
            run_here(arguments, rank, processes, port, log)
        found.append(process)
    return found


def run_here(arguments: list[str], rank: int, processes: int, port: int, log: Path) -> None:
    code: Any = 1
    try:
        output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(output, 1)
        os.dup2(output, 2)
        if processes > 1:
            world = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": processes, "MASTER_PORT": port}
            os.environ.update({name: str(value) for name, value in world.items()}, MASTER_ADDR="127.0.0.1")
        sys.argv = ["stelmo", *arguments]
        from stelmo.cli.main import main as run

        run()
    except SystemExit as end:
        code = end.code or 0
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code if isinstance(code, int) else 1)


def ended(processes: list[int], seconds: float) -> bool:
    """Whether all processes end by themselves in this time; the ids of those that did are removed."""
    end = time.monotonic() + seconds
    while processes and time.monotonic() < end:
        for process in processes.copy():
            number, status = os.waitpid(process, os.WNOHANG)
            if number:
                processes.remove(process)
                if os.waitstatus_to_exitcode(status):
                    raise RuntimeError(f"the command ended with status {os.waitstatus_to_exitcode(status)}")
        time.sleep(0.002)
    return not processes


def kill(processes: list[int]) -> None:
    for process in processes:
        os.kill(process, signal.SIGKILL)
    for process in processes:
        os.waitpid(process, 0)


# Results


def without_clocks(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: without_clocks(inner) for name, inner in value.items() if name not in CLOCKS}
    return [without_clocks(inner) for inner in value] if isinstance(value, list) else value


def contents(output: Path) -> dict[str, str]:
    """Digests of the files of a finished run, by name. Locks and checkpoints are what a run needs while it runs."""
    files = sorted(output.rglob("*")) if output.is_dir() else [output]
    found = {}
    for file in files:
        name = str(file.relative_to(output.parent))
        if not file.is_file() or file.name in ("lock", ".lock") or "checkpoints" in file.parts or file.suffix == ".svg":
            continue
        data = file.read_bytes()
        if file.suffix in (".json", ".jsonl"):
            text = data.decode()
            values = [json.loads(line) for line in (text.splitlines() if file.suffix == ".jsonl" else [text])]
            data = json.dumps(without_clocks(values)).encode()
        found[name] = hashlib.sha256(data).hexdigest()
    return found


def drafts(folder: Path) -> list[str]:
    """What was being written: ours, and those of the library that writes tensors."""
    found = (path for path in folder.rglob("*") if ".partial" in path.name or path.name.startswith(".tmp"))
    return sorted(str(path.relative_to(folder)) for path in found)


class Row(NamedTuple):
    kills: int
    runs: int
    equal: int
    left: int  # runs that left a draft behind


def measure(command: Command, inputs: Path, folder: Path, kills: int, seconds: float, name: str) -> Row:
    """Runs of one command until it has been killed so often."""
    chance, whole = random.Random(name), folder / "whole"
    whole.mkdir()
    started = time.monotonic()
    arguments = command.arguments(inputs, whole / command.output)
    if not ended(start(arguments, command.processes, folder / "log"), 600):
        raise RuntimeError("the undisturbed run does not end")
    duration, expected = time.monotonic() - started, contents(whole / command.output)
    row = Row(0, 0, 0, 0)
    while row.kills < kills and time.monotonic() - started < seconds:
        here = folder / "killed"
        here.mkdir()
        arguments = command.arguments(inputs, here / command.output)
        count = 0
        for _ in range(min(chance.randint(1, MOST_KILLS), kills - row.kills)):
            processes = start(arguments, command.processes, folder / "log")
            if ended(processes, chance.uniform(0, duration)):
                continue
            kill(processes)
            count += 1
        if not ended(start(arguments, command.processes, folder / "log"), 600):
            raise RuntimeError("the resumed run does not end")
        found, left = contents(here / command.output), drafts(here)
        different = sorted(key for key in found.keys() | expected.keys() if found.get(key) != expected.get(key))
        if different or left:
            print(
                f"{name}: after {count} kills: different {different[:5]}, left {left[:5]}", file=sys.stderr, flush=True
            )
        row = Row(row.kills + count, row.runs + 1, row.equal + (not different), row.left + bool(left))
        shutil.rmtree(here)
    return row


def main(kills: int = 100, seconds: int = 3600, *names: str) -> None:
    # Everything is imported here, so that every fork has it.
    import matplotlib.pyplot  # noqa: F401
    import pandas  # noqa: F401 by pyarrow
    import torch

    import stelmo.cli.main
    import stelmo.embed.load
    import stelmo.tasks.experiment
    import stelmo.train.pretrain  # noqa: F401

    torch.set_num_threads(1)
    torch.optim.Adam([torch.zeros(1, requires_grad=True)])  # imports seconds' worth of torch
    print("| command | kills | runs | equal to the undisturbed run | drafts left |\n|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as inputs:
        make_inputs(Path(inputs))
        for name in names or COMMANDS:
            with tempfile.TemporaryDirectory() as folder:
                row = measure(COMMANDS[name], Path(inputs), Path(folder), kills, seconds, name)
            print(f"| {name} | {row.kills} | {row.runs} | {row.equal} of {row.runs} | {row.left} |", flush=True)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:3]), *sys.argv[3:])
