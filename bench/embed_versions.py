"""Two versions of the source in turns: tokens per second of `Model.embed`.

python bench/embed_versions.py MODEL OLD/src src [--sentences 400] [--rounds 5]

Each round starts one process per version, with the same model folder and the same random text. Printed are the medians
of the first pass (few words cached) and of the better of two further passes (every word cached), and their ratios.
"""

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import time
from pathlib import Path

WORDS = 3000


def worker(model: str, sentences: int) -> None:
    import stelmo

    loaded, chance = stelmo.load(model, state="fresh"), random.Random(0)
    draw = [min(WORDS - 1, int(chance.paretovariate(0.6))) for _ in range(40 * sentences)]
    text = []
    for _ in range(sentences):
        length = chance.randint(5, 40)
        text.append([f"w{draw.pop()}" for _ in range(length)])
    tokens = sum(map(len, text))
    loaded.embed(text[:50])
    rates = []
    for _ in range(3):
        started = time.perf_counter()
        loaded.embed(text)
        rates.append(tokens / (time.perf_counter() - started))
    print(json.dumps([rates[0], max(rates[1:])]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("sources", nargs="+")
    parser.add_argument("--sentences", type=int, default=400)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.worker:
        worker(given.model, given.sentences)
        return
    rates: dict[str, list[list[float]]] = {source: [] for source in given.sources}
    command = [sys.executable, __file__, given.model, "-", "--worker", "--sentences", str(given.sentences)]
    for _ in range(given.rounds):
        for source, found in rates.items():
            environment = {**os.environ, "PYTHONPATH": str(Path(source).resolve())}
            done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
            found.append(json.loads(done.stdout))
    first = [statistics.median(column) for column in zip(*rates[given.sources[0]], strict=True)]
    for source, found in rates.items():
        ours = [statistics.median(column) for column in zip(*found, strict=True)]
        print(source, *(f"{rate:,.0f} ({rate / base:.2f}×)" for rate, base in zip(ours, first, strict=True)))


if __name__ == "__main__":
    main()
