"""What flair costs beside `model.layers`. Run: embed_flair.py [MODEL], where tests/environments/flair.sh put flair.

The 2,000 sentences are random (Zipf). flair's sentences are made before the clock starts, and given as one list and in
mini-batches of 32, as its trainers do. Rounds alternate; medians are compared. Start it on an idle machine.
"""

import statistics
import sys
import time
from collections.abc import Callable

from flair.data import Sentence

import stelmo
from stelmo.benchmark import zipf_text
from stelmo.integrations.flair import StelmoEmbeddings

SENTENCES, WORDS, ROUNDS, BATCH = 2000, 50_000, 5, 32


def ways(name: str | None, texts: list[list[str]]) -> dict[str, Callable[[], object]]:
    model, embeddings = stelmo.load(name), StelmoEmbeddings(name)
    sentences = [Sentence(words) for words in texts]

    def together() -> None:
        embeddings.embed(sentences)

    def in_batches() -> None:
        for first in range(0, len(sentences), BATCH):
            embeddings.embed(sentences[first : first + BATCH])

    def ours_in_batches() -> None:
        for first in range(0, len(texts), BATCH):
            model.layers(texts[first : first + BATCH])

    def forgetting(way: Callable[[], None]) -> Callable[[], None]:
        def run() -> None:
            for sentence in sentences:
                sentence.clear_embeddings()
            way()

        return run

    return {
        "model.layers": lambda: model.layers(texts),
        "StelmoEmbeddings.embed": forgetting(together),
        "model.layers, batches of 32": ours_in_batches,
        "StelmoEmbeddings.embed, batches of 32": forgetting(in_batches),
    }


def seconds(way: Callable[[], object]) -> float:
    start = time.perf_counter()
    way()
    return time.perf_counter() - start


def main(name: str | None = None) -> None:
    texts = zipf_text(SENTENCES, vocabulary=WORDS)
    found = ways(name, texts)
    rounds = [[seconds(way) for way in found.values()] for _ in range(ROUNDS + 1)][1:]
    medians = [statistics.median(times) for times in zip(*rounds, strict=True)]
    print("| way | seconds | beside ours |\n|---|---|---|")
    for number, (way, median) in enumerate(zip(found, medians, strict=True)):
        print(f"| {way} | {median:.2f} | {median / medians[number - number % 2] - 1:+.1%} |")


if __name__ == "__main__":
    main(*sys.argv[1:])
