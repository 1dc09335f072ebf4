"""The engine against the reference driven as older software does, in one run. Run: engine.py [small|full …]

The old way: batches of 32 in input order, every word through the character CNN, one step at a time. Weights are random,
words follow Zipf's law; figures are tokens per second, read the ratios.
"""

import random
import statistics
import sys
import time
from collections.abc import Callable

import torch

from stelmo.config import CharInput, LoadSettings, LstmConfig, ModelConfig
from stelmo.embed.model import Model
from stelmo.model.bilm import BiLM
from stelmo.store.saved import SavedModel
from stelmo.text import chars

FILTERS = ((1, 32), (2, 32), (3, 64), (4, 128), (5, 256), (6, 512), (7, 1024))
SIZES = {"small": (1024, 128, 1, 1000), "full": (4096, 512, 2, 256)}  # cells, projection, highways, sentences
OLD_SENTENCES, OLD_ROWS, ROUNDS = 64, 32, 3


def model_of(cells: int, projection: int, highways: int) -> Model:
    config = ModelConfig(
        input=CharInput(embedding=16, filters=FILTERS, highways=highways),
        lstm=LstmConfig(cells=cells, projection=projection, cell_clip=3.0, projection_clip=3.0),
    )
    bilm = BiLM(config).reset(0).requires_grad_(False)
    return Model(SavedModel(bilm, "random"), LoadSettings(state="fresh"))


def zipf_text(sentences: int, seed: int = 0, vocabulary: int = 100_000) -> list[list[str]]:
    chance = random.Random(seed)
    words = ["".join(chance.choices("etaoinshrdlu", k=2 + len(str(rank)))) + str(rank) for rank in range(vocabulary)]
    lengths = [max(5, min(60, int(chance.gammavariate(3.6, 6.1)))) for _ in range(sentences)]
    return [[words[int(vocabulary ** chance.random()) - 1] for _ in range(length)] for length in lengths]


@torch.inference_mode()
def old_way(model: Model, sentences: list[list[str]]) -> None:
    for first in range(0, len(sentences), OLD_ROWS):
        batch = [["<S>", *words, "</S>"] for words in sentences[first : first + OLD_ROWS]]
        ids_BTC = torch.from_numpy(chars.encode_sentences(batch))
        x_BTP = model.bilm.encoder(ids_BTC.flatten(0, 1)).view(*ids_BTC.shape[:2], -1)
        model.bilm(x_BTP, torch.tensor([len(words) for words in batch]), model.bilm.zero_state(len(batch)))


def rate(work: Callable[[], object], tokens: int) -> float:
    start = time.perf_counter()
    work()
    return tokens / (time.perf_counter() - start)


def measure(name: str) -> None:
    *sizes, count = SIZES[name]
    model, sentences = model_of(*sizes), zipf_text(count)
    few, one = sentences[:OLD_SENTENCES], sentences[:8]
    every, some, single = (sum(map(len, part)) for part in (sentences, few, one))
    model.embed(few)
    rows: dict[str, list[float]] = {"old": [], "empty": [], "cached": [], "old, single": [], "single": []}
    for _ in range(ROUNDS):
        rows["old"].append(rate(lambda: old_way(model, few), some))
        model.forget_words()
        rows["empty"].append(rate(lambda: model.embed(sentences), every))
        rows["cached"].append(rate(lambda: model.embed(sentences), every))
        rows["old, single"].append(rate(lambda: [old_way(model, [words]) for words in one], single))
        rows["single"].append(rate(lambda: [model.embed([words]) for words in one], single))
    found = {label: statistics.median(values) for label, values in rows.items()}
    print(
        f"| {name} | {found['old']:,.0f} | {found['empty']:,.0f} ({found['empty'] / found['old']:.1f}×) "
        f"| {found['cached']:,.0f} ({found['cached'] / found['old']:.1f}×) | {found['old, single']:,.0f} "
        f"| {found['single']:,.0f} ({found['single'] / found['old, single']:.1f}×) |",
        flush=True,
    )


def main(*names: str) -> None:
    print(f"{torch.get_num_threads()} threads, torch {torch.__version__}, median of {ROUNDS} interleaved rounds")
    print("| model | old way | engine, no word known | every word known | old way, one sentence | engine |")
    print("|---|---|---|---|---|---|")
    for name in names or SIZES:
        measure(name)


if __name__ == "__main__":
    main(*sys.argv[1:])
