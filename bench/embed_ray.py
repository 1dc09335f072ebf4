"""Two Ray workers of one thread against one, tokens a second, start-up excluded. Run: embed_ray.py [MODEL]

The text is random (Zipf). The clock starts when every worker has finished two blocks, so that starting processes,
loading models and meeting the commonest words are not counted, and stops with the last block but one of each worker,
so that no worker waits for the other. Runs alternate; read the ratio. Start it on an idle machine: each worker needs
a core, and the driver next to nothing.
"""

import statistics
import sys
import tempfile
import time
from pathlib import Path

from stelmo.benchmark import zipf_text
from stelmo.integrations import ray
from stelmo.text.formats import Sentence

WORDS, BLOCKS, BLOCK_TOKENS, SKIPPED, ROUNDS = 50_000, 24, 8_192, 2, 3
LENGTH = 22  # tokens of a sentence, on average


def text(tokens: int) -> list[Sentence]:
    return [Sentence(words, "random", 1) for words in zipf_text(tokens // LENGTH, vocabulary=WORDS)]


def rate(model: str | None, workers: int) -> float:
    """Tokens a second between the block after the first ones and the one before the last."""
    finished: list[tuple[float, int]] = []
    with tempfile.TemporaryDirectory() as folder:
        ray.embed_sentences(
            text(BLOCKS * BLOCK_TOKENS),
            Path(folder) / "v.parquet",
            model=model,
            workers=workers,
            block_tokens=BLOCK_TOKENS,
            advance=lambda tokens: finished.append((time.perf_counter(), tokens)),
        )
    counted = finished[
        1 + SKIPPED * workers : len(finished) - workers
    ]  # the first call tells of an earlier run's blocks
    start = finished[SKIPPED * workers][0]
    return sum(tokens for _, tokens in counted) / (counted[-1][0] - start)


def main(model: str | None = None) -> None:
    with ray.cluster(cores=2):
        rounds = [[rate(model, workers) for workers in (1, 2)] for _ in range(ROUNDS)]
    one, two = (statistics.median(rates) for rates in zip(*rounds, strict=True))
    print("| model | 1 worker, tokens/s | 2 workers | ratio |")
    print("|---|---|---|---|")
    print(f"| {model or 'bundled'} | {one:,.0f} | {two:,.0f} | {two / one:.2f}× |")


if __name__ == "__main__":
    main(*sys.argv[1:])
