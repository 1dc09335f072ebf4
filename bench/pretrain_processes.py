"""Two processes of one thread against one process of one thread, tokens a second. Run: pretrain_processes.py [PRESET]

The text is random (Zipf); the median rate of some steps, the first ones left out. Two processes share the batch of the
one (each computes the words it meets, so what the halves have in common is computed twice), or have a batch each.
Runs alternate, and a ratio is of one round: a machine that others use is faster in one minute than in the next. Start
it on an idle machine: the two processes need a core each.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
from itertools import pairwise
from pathlib import Path

from stelmo.benchmark import zipf_text
from stelmo.corpus.prepare import prepare
from stelmo.settings import PrepareSettings
from stelmo.train import presets

STEPS, SKIPPED, ROUNDS = 14, 4, 3


def corpus(folder: Path, words: int = 50_000, sentences: int = 8_000) -> Path:
    text = zipf_text(sentences, vocabulary=words)
    (folder / "text.tok").write_text("".join(f"{' '.join(tokens)}\n" for tokens in text))
    prepare([folder / "text.tok"], folder / "corpus", PrepareSettings(format="tokens", heldout=10))
    return folder / "corpus"


def seconds_of_a_step(preset: str, data: Path, processes: int, batch: int) -> float:
    with tempfile.TemporaryDirectory() as folder:
        start = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(processes)]
        settings = [
            "threads=1",
            f"batch={batch}",
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
        batch = presets.plan(preset).train.batch
        ways = [(1, batch), (2, batch), (2, 2 * batch)]
        rounds = [[seconds_of_a_step(preset, data, *way) for way in ways] for _ in range(ROUNDS)]
    print("| preset | batch of both | 1 process, s a step | 2 processes | tokens a second, ratio of each round |")
    print("|---|---|---|---|---|")
    for place, ((_, both), name) in enumerate(zip(ways[1:], ("shared", f"{batch} each"), strict=True), 1):
        ratios = sorted(both / batch * times[0] / times[place] for times in rounds)
        one, two = (statistics.median(times[way] for times in rounds) for way in (0, place))
        told = f"{statistics.median(ratios):.2f}× ({ratios[0]:.2f} to {ratios[-1]:.2f})"
        print(f"| {preset} | {both}, {name} | {one:.3f} | {two:.3f} | {told} |")


if __name__ == "__main__":
    main(*sys.argv[1:])
