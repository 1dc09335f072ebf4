"""Training in real processes: killed at any moment, stopped politely, shared by two, on a full disk."""

import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import corpora
import pytest
from safetensors.torch import load_file

pytestmark = pytest.mark.long

STEPS = 100
SETTINGS = {
    "tokens": 64 * STEPS,
    "batch": 8,
    "unroll": 8,
    "validate_every": 40,
    "log_every": 10,
    "checkpoint_every": 5,
    "threads": 1,
    "negatives": 16,
    "lstm.cells": 24,
}
TORCHRUN = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2")


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    return corpora.make(tmp_path_factory.mktemp("data") / "corpus", corpora.sentences(400), heldout=20)


def command(corpus, run, processes=1, **settings):
    words = [f"--set={name}={value}" for name, value in (SETTINGS | settings).items()]
    start = TORCHRUN if processes == 2 else ()
    return [sys.executable, *start, "-m", "stelmo", "pretrain", "tiny", "--data", str(corpus), "--to", str(run), *words]


def train(*arguments, expect=0, **options):
    """To the end, or to the exit code expected."""
    preexec = options.pop("preexec_fn", None)
    line = command(*arguments, **options)
    done = subprocess.run(line, capture_output=True, text=True, check=False, preexec_fn=preexec, timeout=120)
    assert done.returncode == expect, done.stderr
    return done


def start(*arguments, **options):
    return subprocess.Popen(command(*arguments, **options), stderr=subprocess.PIPE, text=True)


def newest(run):
    return max((int(path.stem) for path in (run / "checkpoints").glob("[0-9]*.safetensors")), default=0)


def wait_for_a_checkpoint_after(step, run, process):
    while newest(run) <= step:
        assert process.poll() is None, process.communicate()[1]
        time.sleep(0.01)


def workers(process):
    """The processes that torchrun started."""
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text()
    return [int(number) for number in children.split()]


def model_bytes(run):
    return {str(path.relative_to(run)): path.read_bytes() for path in sorted(run.glob("[ml]*/*"))}


def log(run):
    """Without the clock."""
    lines = (run / "log.jsonl").read_text().splitlines()
    return [{name: value for name, value in json.loads(line).items() if name != "seconds"} for line in lines]


@pytest.fixture(scope="module")
def whole(corpus, tmp_path_factory):
    """The run that nobody disturbs."""
    run = tmp_path_factory.mktemp("whole") / "run"
    train(corpus, run)
    return run


def test_killed_at_random_moments_it_ends_in_the_same_bits(corpus, whole, tmp_path):
    run, chance = tmp_path / "run", random.Random(7)
    for _ in range(2):
        process = start(corpus, run)
        wait_for_a_checkpoint_after(newest(run), run, process)
        time.sleep(chance.uniform(0, 0.15))
        process.kill()
        process.communicate()
    assert 0 < newest(run) < STEPS
    train(corpus, run)
    assert model_bytes(run) == model_bytes(whole)
    assert log(run) == log(whole)
    assert not list(run.rglob(".*.partial*"))


def test_a_signal_saves_and_says_that_the_same_command_goes_on(corpus, whole, tmp_path):
    run = tmp_path / "run"
    process = start(corpus, run, checkpoint_every=1000)
    while not (run / "log.jsonl").is_file() or not log(run):
        assert process.poll() is None, process.communicate()[1]
        time.sleep(0.01)
    process.send_signal(signal.SIGTERM)
    assert "run the same command again to resume" in process.communicate()[1]
    assert process.returncode == 130
    assert "resuming from step" in train(corpus, run).stderr
    assert model_bytes(run) == model_bytes(whole)


def test_a_full_disk_is_reported_and_training_continues_to_a_clear_end(corpus, tmp_path):
    """The limit lets the log through, but no checkpoint."""

    def limit():
        resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))

    done = train(corpus, tmp_path / "run", expect=2, preexec_fn=limit)
    assert "disk is full or a size limit was reached" in done.stderr
    assert "training continues" in done.stderr
    assert "free some space and run the command again" in done.stderr
    assert "Traceback" not in done.stderr
    train(corpus, tmp_path / "run")


def difference(one, other):
    """Between the models of two runs."""
    files = [[load_file(run / "model" / name) for run in (one, other)] for name in MODEL_FILES]
    return max(float((a[name] - b[name]).abs().max()) for a, b in files for name in a)


MODEL_FILES = ("model.safetensors", "softmax.safetensors")


def figures(run):
    return [value for entry in log(run) for value in entry.values()]


def test_two_processes_learn_what_one_learns_in_single_precision(corpus, tmp_path):
    options = {"dropout": 0, "tokens": 2_560, "lr": 0.001}
    train(corpus, tmp_path / "one", **options)
    train(corpus, tmp_path / "two", 2, **options)
    assert difference(tmp_path / "one", tmp_path / "two") < 1e-5
    assert figures(tmp_path / "one") == pytest.approx(figures(tmp_path / "two"), rel=1e-5)


EXACT = {"dropout": 0, "precision": "float64"}


@pytest.fixture(scope="module")
def one(corpus, tmp_path_factory):
    run = tmp_path_factory.mktemp("one") / "run"
    train(corpus, run, **EXACT)
    return run


@pytest.fixture(scope="module")
def two(corpus, tmp_path_factory):
    run = tmp_path_factory.mktemp("two") / "run"
    train(corpus, run, 2, **EXACT)
    return run


@pytest.fixture(scope="module")
def lost(corpus, tmp_path_factory):
    """A run of two processes, one of which was killed."""
    run = tmp_path_factory.mktemp("lost") / "run"
    process = start(corpus, run, 2, **EXACT)
    wait_for_a_checkpoint_after(10, run, process)
    os.kill(workers(process)[1], signal.SIGKILL)
    errors = process.communicate(timeout=60)[1]
    assert process.returncode != 0
    assert "another process of this run was lost" in errors
    assert newest(run) < STEPS
    return run


def test_two_processes_learn_what_one_learns(one, two):
    assert difference(one, two) < 1e-10
    assert figures(one) == pytest.approx(figures(two), rel=1e-10)


LEAVE = """
import atexit, os, pathlib, sys
from stelmo.cli.main import main

here = pathlib.Path(sys.argv.pop(1))
threads = lambda: [path.read_text() for path in pathlib.Path("/proc/self/task").glob("*/comm")]
atexit.register(lambda: (here / os.environ["RANK"]).write_text(str(len(threads()))))
main()
"""


def test_no_thread_of_the_process_group_is_left_when_python_ends(corpus, tmp_path):
    (tmp_path / "leave.py").write_text(LEAVE)
    line = command(corpus, tmp_path / "run", 2, tokens=640)
    module = line.index("stelmo") - 1  # -m stelmo
    line[module : module + 2] = [str(tmp_path / "leave.py"), str(tmp_path)]
    subprocess.run(line, check=True, capture_output=True, timeout=120)
    assert [(tmp_path / rank).read_text() for rank in "01"] == ["1", "1"]


def test_when_one_of_two_processes_dies_the_run_goes_on_to_the_same_bits(corpus, lost, two, tmp_path):
    run = shutil.copytree(lost, tmp_path / "run")
    train(corpus, run, 2, **EXACT)
    assert model_bytes(run) == model_bytes(two)
    assert log(run) == log(two)


def test_another_number_of_processes_resumes_with_a_notice(corpus, lost, one, tmp_path):
    run = shutil.copytree(lost, tmp_path / "run")
    assert "2 processes before, 1 now" in train(corpus, run, **EXACT).stderr
    assert difference(run, one) < 1e-10


SLOW_START = r"""
import os
import time
from datetime import timedelta
import torch
from stelmo.train import world
world.TIMEOUT = timedelta(seconds=3)
with world.join(torch.device("cpu")) as joined:
    found = joined.on_rank_0(lambda: time.sleep(5) or "fitted", long=True)
    os.write(1, f"{joined.rank} {found}\n".encode())  # at once: two processes print parts of lines in any order
"""


def test_processes_wait_for_what_takes_longer_than_a_message_may(tmp_path):
    (tmp_path / "slow.py").write_text(SLOW_START)
    command = [sys.executable, *TORCHRUN, str(tmp_path / "slow.py")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert sorted(done.stdout.split("\n")) == ["", "0 fitted", "1 fitted"], done.stderr
