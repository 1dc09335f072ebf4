"""A model → cold start, peak memory of `stelmo embed` over a short and a long file, and what blank lines cost.

Run: embed_file.py [MODEL]. Each figure is of a process of its own; the long file is the short one ten times over.
Processor time is that of all threads, and says more than the clock when the machine has other work.
"""

import random
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

WORDS = [f"word{number}" for number in range(50_000)]
SHORT, TIMES = 100_000, 10
BLANK_LINES = 1_000_000
# Runs a command in a process of its own and prints its seconds, processor time and peak memory in kilobytes.
MEASURE = """
import resource, subprocess, sys, time
start = time.perf_counter()
subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(time.perf_counter() - start, used.ru_utime + used.ru_stime, used.ru_maxrss)
"""


def text(tokens: int, seed: int) -> str:
    """Sentences of about 20 words, common words common."""
    chance = random.Random(seed)
    lines = []
    while tokens > 0:
        length = chance.randint(5, 35)
        lines.append(" ".join(WORDS[int(len(WORDS) ** chance.random()) - 1] for _ in range(length)))
        tokens -= length
    return "\n".join(lines) + "\n"


def measured(*arguments: str) -> tuple[float, float, float]:
    """Seconds, seconds of processor time and MB at the peak of `python` with these arguments."""
    output = subprocess.check_output([sys.executable, "-c", MEASURE, sys.executable, *arguments])
    seconds, processor, peak = map(float, output.split())
    return seconds, processor, peak / 1024


def print_cold_start(options: list[str]) -> None:
    """Interleaved, since machines are noisy."""
    torch, ours = [], []
    for _ in range(5):
        torch.append(measured("-c", "import torch")[0])
        ours.append(measured("-m", "stelmo", "embed", "We sat by the bank.", *options)[0])
    print(f"`stelmo embed SENTENCE`: median {statistics.median(ours):.2f} s of 5, fastest {min(ours):.2f} s")
    print(f"`import torch` alone: median {statistics.median(torch):.2f} s, fastest {min(torch):.2f} s")


def print_memory(options: list[str]) -> None:
    print("| tokens | output | peak memory | tokens/s |\n|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        short = text(SHORT, 0)
        for times in (1, TIMES):
            source, output = Path(folder, f"{times}.tok"), Path(folder, f"{times}.hdf5")
            source.write_text(short * times)
            seconds, _, peak = measured("-m", "stelmo", "embed", str(source), "-o", str(output), *options)
            size, rate = output.stat().st_size / 2**20, SHORT * times / seconds
            print(f"| {SHORT * times:,} | {size:,.0f} MB | {peak:,.0f} MB | {rate:,.0f} |", flush=True)


def print_blank_lines(options: list[str]) -> None:
    print(
        f"| {BLANK_LINES:,} blank lines into | size | seconds | processor time | peak memory |\n|---|---|---|---|---|"
    )
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "blank.tok")
        source.write_text("\n" * BLANK_LINES)
        for kind in ("npz", "hdf5", "parquet", "jsonl"):
            output = Path(folder, f"blank.{kind}")
            seconds, processor, peak = measured("-m", "stelmo", "embed", str(source), "-o", str(output), *options)
            size = output.stat().st_size / 2**20
            print(f"| {kind} | {size:,.0f} MB | {seconds:,.0f} s | {processor:,.0f} s | {peak:,.0f} MB |", flush=True)


def main(*model: str) -> None:
    options = ["--model", *model] if model else []
    print_cold_start(options)
    print_memory(options)
    print_blank_lines(options)


if __name__ == "__main__":
    main(*sys.argv[1:])
