"""Two processes of one thread against one process of one thread, tokens a second. Run: pretrain_processes.py [PRESET]

The text is random (Zipf), the batch of all processes the same; the median rate of some steps, the first ones left out.
Runs alternate; read the ratio. Start it on an idle machine: the two processes need a core each.
"""

import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
from itertools import pairwise
from pathlib import Path

from stelmo.config import PrepareSettings
from stelmo.train.prepare import prepare

STEPS, SKIPPED, ROUNDS = 14, 4, 3


def corpus(folder: Path, words: int = 50_000, sentences: int = 8_000) -> Path:
    chance = random.Random(0)
    names = ["".join(chance.choices("etaoinshrdlu", k=2 + len(str(rank)))) + str(rank) for rank in range(words)]
    with (folder / "text.tok").open("w") as file:
        for _ in range(sentences):
            length = max(5, min(60, int(chance.gammavariate(3.6, 6.1))))
            file.write(" ".join(names[int(words ** chance.random()) - 1] for _ in range(length)) + "\n")
    prepare([folder / "text.tok"], folder / "corpus", PrepareSettings(format="tokens", heldout=10))
    return folder / "corpus"


def seconds_of_a_step(preset: str, data: Path, processes: int) -> float:
    with tempfile.TemporaryDirectory() as folder:
        start = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(processes)]
        settings = [
            "threads=1",
            "epochs=9",
            f"validate_every={STEPS}",
            "log_every=1",
            "patience=1",
            "validate_tokens=9",
        ]
        words = [f"--set={setting}" for setting in settings]
        verb = ["-m", "stelmo", "pretrain", preset, "--data", str(data), "--to", f"{folder}/run", *words]
        process = subprocess.Popen(
            [sys.executable, *start, *verb], stderr=subprocess.DEVNULL, env={**os.environ, "OMP_NUM_THREADS": "1"}
        )
        times = _times(Path(folder) / "run" / "log.jsonl", process)
        process.terminate()
        process.wait()
    steps = [after - before for before, after in pairwise(times)]
    return statistics.median(steps[SKIPPED:])


def _times(log: Path, process: "subprocess.Popen[bytes]") -> list[float]:
    """When each step ended, by the run's own clock."""
    while True:
        lines = log.read_text().splitlines() if log.is_file() else []
        if len(lines) >= STEPS or process.poll() is not None:
            return [json.loads(line)["seconds"] for line in lines[:STEPS]]
        try:
            process.wait(0.2)
        except subprocess.TimeoutExpired:
            continue


def main(preset: str = "laptop") -> None:
    with tempfile.TemporaryDirectory() as folder:
        data = corpus(Path(folder))
        rounds = [[seconds_of_a_step(preset, data, count) for count in (1, 2)] for _ in range(ROUNDS)]
    one, two = (statistics.median(times) for times in zip(*rounds, strict=True))
    print("| preset | 1 process, s a step | 2 processes | ratio |")
    print("|---|---|---|---|")
    print(f"| {preset} | {one:.3f} | {two:.3f} | {one / two:.2f}× |")


if __name__ == "__main__":
    main(*sys.argv[1:])
