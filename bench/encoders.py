"""The three encoders beside each other, in one run: embedding and training. Run: encoders.py [--help]

The presets laptop, laptop-transformer and laptop-gated-cnn have about the same number of parameters. Weights are
random and words follow Zipf's law. Read the ratios: the three take turns, so that a disturbance meets all alike. Where
other work runs on the machine, `--clock cpu` counts this process's time alone; with one thread that is fair.
`--profile` prints instead where the time of one training step goes.
"""

import argparse
import statistics
import time
from collections.abc import Callable

import numpy as np
import torch

from stelmo.benchmark import zipf_text
from stelmo.config import ModelConfig
from stelmo.corpus.windows import Sentences
from stelmo.embed.model import Model
from stelmo.model.bilm import BiLM
from stelmo.settings import TrainSettings
from stelmo.store.saved import SavedModel
from stelmo.train.batches import Batches, word_ids
from stelmo.train.learner import Learner
from stelmo.train.presets import plan
from stelmo.train.world import World

PRODUCTS = ("aten::mm", "aten::addmm", "aten::addmm_", "aten::bmm", "aten::baddbmm", "aten::baddbmm_")
PRESETS = ("laptop", "laptop-transformer", "laptop-gated-cnn")


class Types:
    """The types of a made-up corpus."""

    def __init__(self, words: list[str]) -> None:
        self._words = words

    def __len__(self) -> int:
        return len(self._words)

    def bytes_of(self, types: np.ndarray) -> list[bytes]:
        return [self._words[number].encode() for number in types]


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, size in {"sentences": 500, "vocabulary": 50_000, "threads": 2, "rounds": 5, "steps": 3}.items():
        parser.add_argument(f"--{name}", type=int, default=size)
    parser.add_argument("--clock", choices=["wall", "cpu"], default="wall")
    parser.add_argument("--profile", action="store_true")
    parser.add_argument("--set", action="append", default=[], help="settings of all three presets")
    return parser.parse_args()


def embedding(config: ModelConfig, sentences: list[list[str]]) -> dict[str, Callable[[], object]]:
    model = Model(SavedModel(BiLM(config).reset(0).requires_grad_(False), "random"))

    def no_word_known() -> None:
        model.forget_words()
        model.embed(sentences)

    one = sentences[:20]
    return {
        "no word known": no_word_known,
        "every word known": lambda: model.embed(sentences),
        "one at a time": lambda: [model.embed([words]) for words in one],
    }


def training(
    config: ModelConfig, settings: TrainSettings, sentences: list[list[str]], vocabulary: int, steps: int
) -> Callable[[], object]:
    number = {word: 2 + rank for rank, word in enumerate(dict.fromkeys(word for words in sentences for word in words))}
    types = np.array([number[word] for words in sentences for word in words], np.uint32)
    text = Sentences([(types, np.cumsum([len(words) for words in sentences]))])
    names = ["<S>", "</S>", *number]
    batches = Batches(word_ids(config, None), Types(names), np.arange(len(names), dtype=np.int32) % vocabulary)
    learner = Learner(config, settings, vocabulary, text, batches, World())
    done = iter(range(1, 10**9))
    return lambda: [learner.step(next(done), 1e-4) for _ in range(steps)]


def profile(given: argparse.Namespace, sentences: list[list[str]]) -> None:
    print("| preset | milliseconds of a step | matrix products | share |\n|---|---|---|---|")
    for preset in PRESETS:
        chosen = plan(preset, assignments=given.set)
        step = training(chosen.model, chosen.train, sentences, given.vocabulary, 1)
        step()
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as measured:
            step()
        own = {event.key: event.self_cpu_time_total / 1e3 for event in measured.key_averages()}
        products, whole = sum(own.get(name, 0.0) for name in PRODUCTS), sum(own.values())
        print(f"| {preset} | {whole:,.0f} | {products:,.0f} | {products / whole:.0%} |")


def main() -> None:
    given = arguments()
    torch.set_num_threads(given.threads)
    if given.profile:
        profile(given, zipf_text(given.sentences, vocabulary=given.vocabulary - 3))
        return
    clock = time.perf_counter if given.clock == "wall" else time.process_time
    sentences = zipf_text(given.sentences, vocabulary=given.vocabulary - 3)
    tokens = {"no word known": sum(map(len, sentences)), "one at a time": sum(map(len, sentences[:20]))}
    tokens["every word known"] = tokens["no word known"]
    work, sizes = {}, {}
    for preset in PRESETS:
        chosen = plan(preset, assignments=given.set)
        sizes[preset] = sum(parameter.numel() for parameter in BiLM(chosen.model).parameters())
        tokens["training"] = given.steps * chosen.train.batch * chosen.train.unroll
        runs = embedding(chosen.model, sentences)
        runs["training"] = training(chosen.model, chosen.train, sentences, given.vocabulary, given.steps)
        work |= {(preset, what): run for what, run in runs.items()}
    seconds: dict[tuple[str, str], list[float]] = {key: [] for key in work}
    for _ in range(given.rounds + 1):
        for key, run in work.items():
            start = clock()
            run()
            seconds[key].append(clock() - start)
    rates = {key: tokens[key[1]] / statistics.median(taken[1:]) for key, taken in seconds.items()}
    kinds = list(dict.fromkeys(what for _, what in work))
    print("| preset | parameters |", " | ".join(kinds), "|")
    print("|---|---|" + "---|" * len(kinds))
    for preset in PRESETS:
        cells = [f"{rates[preset, what]:,.0f} ({rates[preset, what] / rates['laptop', what]:.2f}×)" for what in kinds]
        print(f"| {preset} | {sizes[preset] / 1e6:.2f} M |", " | ".join(cells), "|")


if __name__ == "__main__":
    main()
