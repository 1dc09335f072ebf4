"""A model → an epoch of mixing its layers, from the model and from a folder. Run: precompute.py MODEL [TEXT [N]]

The text has a tokenised sentence a line, of which N are taken; without one, sentences are made up. An epoch is forward
and backward of `Elmo` over batches of 32; its time is the median of several, interleaved. The folder's files are in
the system's page cache, as in the later epochs of a training.
"""

import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import stelmo

ROWS, TIMES = 32, 3
DTYPES = ("float32", "float16")


def made_up(count: int) -> list[list[str]]:
    """Of about 20 words, common words common."""
    chance = random.Random(0)
    return [[f"word{int(50_000 ** chance.random())}" for _ in range(chance.randint(5, 35))] for _ in range(count)]


def read(path: str, count: int) -> list[list[str]]:
    with Path(path).open() as lines:
        return [line.split() for line, _ in zip(lines, range(count), strict=False)]


def epoch(elmo: stelmo.Elmo, sentences: list[list[str]]) -> None:
    for first in range(0, len(sentences), ROWS):
        vectors, _ = elmo(sentences[first : first + ROWS])
        vectors.square().mean().backward()


def seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def main(name: str, text: str | None = None, count: str = "2000") -> None:
    model = stelmo.load(name)
    sentences = read(text, int(count)) if text else made_up(int(count))
    with tempfile.TemporaryDirectory() as folder:
        sources: dict[str, stelmo.Elmo] = {"model": stelmo.Elmo(model)}
        once: dict[str, float] = {}
        for dtype in DTYPES:
            place = Path(folder, dtype)
            once[dtype] = seconds(
                lambda place=place, dtype=dtype: stelmo.precompute(model, sentences, place, dtype=dtype)
            )
            sources[dtype] = stelmo.Elmo(stelmo.precompute(model, [], place, dtype=dtype))
        times: dict[str, list[float]] = {source: [] for source in sources}
        for _ in range(TIMES):
            for source, elmo in sources.items():
                times[source].append(seconds(lambda elmo=elmo: epoch(elmo, sentences)))
        sizes = {dtype: Path(folder, dtype, "layers.bin").stat().st_size / 2**20 for dtype in DTYPES}
    report(Path(name).name, sentences, times, once, sizes)


def report(
    name: str,
    sentences: list[list[str]],
    times: dict[str, list[float]],
    once: dict[str, float],
    sizes: dict[str, float],
) -> None:
    print(f"{name}: {len(sentences):,} sentences, {sum(map(len, sentences)):,} tokens, batches of {ROWS}\n")
    print("| layers from | epoch | ratio | computed once in | on disk |\n|---|---|---|---|---|")
    model = statistics.median(times["model"])
    for source, found in times.items():
        median = statistics.median(found)
        kept = f"{once[source]:.2f} s | {sizes[source]:,.0f} MB" if source in once else "– | –"
        print(f"| {source} | {median:.2f} s | {model / median:.1f} | {kept} |")


if __name__ == "__main__":
    main(*sys.argv[1:])
