"""A model → cold start, and peak memory of `stelmo embed` over a short and a long file. Run: embed_file.py [MODEL]

Each row is a process of its own; the long file is the short one ten times over.
"""

import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

WORDS = [f"word{number}" for number in range(50_000)]
SHORT, TIMES = 100_000, 10


def text(tokens: int, seed: int) -> str:
    """Sentences of about 20 words, common words common."""
    chance = random.Random(seed)
    lines = []
    while tokens > 0:
        length = chance.randint(5, 35)
        lines.append(" ".join(WORDS[int(len(WORDS) ** chance.random()) - 1] for _ in range(length)))
        tokens -= length
    return "\n".join(lines) + "\n"


def run(*arguments: str) -> tuple[float, float]:
    """Seconds and MB at the peak of `stelmo` with these arguments."""
    code = (
        "import resource, subprocess, sys; subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL); "
        "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)"
    )
    start = time.perf_counter()
    command = [sys.executable, "-c", code, sys.executable, "-m", "stelmo", *arguments]
    peak = int(subprocess.check_output(command)) / 1024
    return time.perf_counter() - start, peak


def cold_starts(model: list[str]) -> list[float]:
    return sorted(run("embed", "We sat by the bank.", *model)[0] for _ in range(5))


def main(*model: str) -> None:
    options = ["--model", *model] if model else []
    starts = cold_starts(options)
    print(f'cold start of `stelmo embed "…"`: median {starts[2]:.2f} s, fastest {starts[0]:.2f} s of 5')
    print("| tokens | output | peak memory | tokens/s |\n|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        short = text(SHORT, 0)
        for times in (1, TIMES):
            source, output = Path(folder, f"{times}.tok"), Path(folder, f"{times}.hdf5")
            source.write_text(short * times)
            seconds, peak = run("embed", str(source), "-o", str(output), *options)
            size = output.stat().st_size / 2**20
            print(
                f"| {SHORT * times:,} | {size:,.0f} MB | {peak:,.0f} MB | {SHORT * times / seconds:,.0f} |", flush=True
            )


if __name__ == "__main__":
    main(*sys.argv[1:])
