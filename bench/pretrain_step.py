"""A training step against the reference step, in one run, with Adagrad. Run: pretrain_step.py [--help]

The reference: every position through the character CNN, one LSTM step after another, autograd, dense Adagrad over
everything. Weights are random, words follow Zipf's law; figures are tokens a second of one direction, read the ratio.
Where other work runs on the machine, `--clock cpu` counts this process's time alone; with one thread that is fair.
"""

import argparse
import statistics
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from functools import partial
from typing import NamedTuple

import numpy as np
import torch
from torch import nn

from stelmo.benchmark import FILTERS, zipf_text
from stelmo.config import CharInput, LstmConfig, ModelConfig
from stelmo.corpus.windows import Sentences, Streams
from stelmo.model.bilm import BiLM, Softmax
from stelmo.ops import arithmetic, losses, trainable
from stelmo.settings import TrainSettings
from stelmo.train.batches import Batch, Batches, negatives, word_ids
from stelmo.train.optimizers import Optimizer
from stelmo.train.step import StepBuffers, step

LR = 0.2
FILTER_SETS = {"full": FILTERS, "small": ((1, 32), (2, 64), (3, 128), (4, 128), (5, 128))}


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    sizes = {"cells": 1024, "projection": 128, "batch": 128, "steps": 20, "negatives": 8192, "vocabulary": 100_000}
    for name, size in (sizes | {"highways": 1, "threads": 2, "rounds": 3, "fast-steps": 4}).items():
        parser.add_argument(f"--{name}", type=int, default=size)
    parser.add_argument("--filters", choices=FILTER_SETS, default="full")
    parser.add_argument("--clock", choices=["wall", "cpu"], default="wall")
    parser.add_argument("--no-reference", action="store_true")
    return parser.parse_args()


class Words:
    """The types of a made-up corpus."""

    def __init__(self, words: Sequence[str]) -> None:
        self._words = words

    def __len__(self) -> int:
        return len(self._words)

    def bytes_of(self, types: np.ndarray) -> list[bytes]:
        return [self._words[number].encode() for number in types]


class Run:
    """A model in training, by the reference or not."""

    def __init__(self, sizes: argparse.Namespace, reference: bool) -> None:
        self.sizes, self.reference, self.number = sizes, reference, 0
        reads = CharInput(embedding=16, filters=FILTER_SETS[sizes.filters], highways=sizes.highways)
        lstm = LstmConfig(cells=sizes.cells, projection=sizes.projection, cell_clip=3.0, projection_clip=3.0)
        self.config = ModelConfig(input=reads, lstm=lstm)
        self.bilm, self.softmax = BiLM(self.config).reset(0), Softmax(sizes.vocabulary, sizes.projection)
        self.softmax.reset(torch.Generator().manual_seed(1))
        self.state, self.buffers = self.bilm.zero_state(sizes.batch), StepBuffers()
        self.optimizer = Optimizer(self.bilm, self.softmax, TrainSettings(optimizer="adagrad", lr=LR, epochs=1))
        everything = [*self.bilm.parameters(), *self.softmax.parameters()]
        self.dense = torch.optim.Adagrad(everything, LR, initial_accumulator_value=1.0)

    def step(self, batch: Batch) -> None:
        self.number += 1
        self.bilm.zero_grad(set_to_none=True)
        sampled = negatives(0, self.number, self.sizes.vocabulary, self.sizes.negatives)
        options = {"scale": float(self.sizes.steps), "dropout": 0.1, "seed": (0, self.number)}
        with arithmetic.of_torch() if self.reference else nullcontext():
            found = step(
                self.bilm,
                self.softmax,
                batch,
                self.state,
                sampled,
                reference=self.reference,
                buffers=self.buffers,
                **options,
            )
        self.state = found.state
        if self.reference:
            self.softmax.weight.grad, self.softmax.bias.grad = found.rows.weight_nP, found.rows.bias_n
            self.dense.step()
        else:
            self.optimizer.step(found.rows, LR, self.number)


def batches(sizes: argparse.Namespace, config: ModelConfig) -> Callable[[], Batch]:
    """Windows of Zipf text; a word's type is its number in the vocabulary."""
    sentences = zipf_text(20 * sizes.batch, vocabulary=sizes.vocabulary - 3)
    number = {word: 2 + rank for rank, word in enumerate(dict.fromkeys(word for words in sentences for word in words))}
    types = np.array([number[word] for words in sentences for word in words], np.uint32)
    ends = np.cumsum([len(words) for words in sentences])
    streams = Streams(Sentences([(types, ends)]), rows=range(sizes.batch), of=sizes.batch, seed=0)
    words = Words(["<S>", "</S>", *number])
    make = Batches(word_ids(config, None), words, np.arange(len(words), dtype=np.int32) % sizes.vocabulary)
    return lambda: make(streams.next(sizes.steps))


class Clock(NamedTuple):
    read: Callable[[], float]

    def seconds(self, work: Callable[[], object]) -> float:
        start = self.read()
        work()
        return self.read() - start


def parts(run: Run, batch: Batch, clock: Clock) -> dict[str, float]:
    """Seconds of each part, alone on one thread."""
    encoder, cell, rows = run.bilm.encoder, run.bilm.lstm_forward[0], run.sizes.batch
    kernels, biases, found = list(encoder.kernels), list(encoder.biases), {}

    def both_ways(name: str, forward: Callable[[], torch.Tensor], leaves: Sequence[nn.Parameter], times: int) -> None:
        kept: list[torch.Tensor] = []
        found[f"{name}, forward"] = times * clock.seconds(lambda: kept.append(forward()))
        slope = torch.ones_like(kept[0])
        found[f"{name}, backward"] = times * clock.seconds(lambda: torch.autograd.grad(kept[0], leaves, slope))

    both_ways(
        "char CNN",
        lambda: trainable.char_cnn(batch.ids_U, encoder.table, kernels, biases, encoder.config.activation),
        [encoder.table, *kernels, *biases],
        1,
    )
    both_ways("encoder", lambda: encoder(batch.ids_U, trainable.char_cnn), list(encoder.parameters()), 1)
    for way in ("forward", "backward"):
        found[f"highways and projection, {way}"] = found.pop(f"encoder, {way}") - found[f"char CNN, {way}"]
    x_TBP = torch.randn(run.sizes.steps, rows, run.sizes.projection).requires_grad_()
    start, buffers = (run.state.h[0, 0], run.state.c[0, 0]), run.buffers.of(0, 0)
    leaves = [x_TBP, *cell.parameters()]
    layers = 2 * len(run.bilm.lstm_forward)
    both_ways("LSTM", lambda: trainable.lstm(x_TBP, cell.weights, cell.clips, *start, buffers)[0], leaves, layers)
    sampled = negatives(0, 0, run.sizes.vocabulary, run.sizes.negatives)
    head = x_TBP.detach().flatten(0, 1), batch.targets_2TB[0].flatten(), run.softmax.weight, run.softmax.bias
    found["softmax"] = 2 * clock.seconds(lambda: losses.sampled_softmax(*head, *sampled))
    rows_of = losses.merge([losses.sampled_softmax(*head, *sampled).rows])
    found["optimiser"] = clock.seconds(lambda: run.optimizer.step(rows_of, LR, 1))
    found["negatives"] = clock.seconds(lambda: negatives(0, 0, run.sizes.vocabulary, run.sizes.negatives))
    return found


def main() -> None:
    sizes = arguments()
    torch.set_num_threads(sizes.threads)
    clock = Clock({"wall": time.perf_counter, "cpu": time.process_time}[sizes.clock])
    fast = Run(sizes, False)
    slow = None if sizes.no_reference else Run(sizes, True)
    next_batch = batches(sizes, fast.config)
    tokens = sizes.batch * sizes.steps
    rates: dict[str, list[float]] = {"reference": [], "fast": []}
    distinct = []
    for _ in range(2):
        fast.step(next_batch())
    for _ in range(sizes.rounds):
        for run in [slow] * (slow is not None) + [fast] * sizes.fast_steps:
            batch = next_batch()
            distinct.append(len(batch.ids_U))
            rates["reference" if run.reference else "fast"].append(tokens / clock.seconds(partial(run.step, batch)))
    torch.set_num_threads(1)
    rounds = [parts(fast, next_batch(), clock) for _ in range(sizes.rounds)]
    report(sizes, rates, {name: statistics.median(found[name] for found in rounds) for name in rounds[0]}, distinct)


def report(
    sizes: argparse.Namespace, rates: dict[str, list[float]], shares: dict[str, float], distinct: list[int]
) -> None:
    print(", ".join(f"{name} {value}" for name, value in vars(sizes).items()))
    print(f"{statistics.median(distinct):.0f} distinct words a step, torch {torch.__version__}\n")
    middle = {name: statistics.median(found) for name, found in rates.items() if found}
    print("| step | tokens/s | ratio |\n|---|---|---|")
    for name, rate in middle.items():
        print(f"| {name} | {rate:,.0f} | {rate / middle.get('reference', rate):.1f}× |")
    print("\n| part, alone on one thread | ms | share |\n|---|---|---|")
    for name, seconds in shares.items():
        print(f"| {name} | {1000 * seconds:,.0f} | {seconds / sum(shares.values()):.0%} |")


if __name__ == "__main__":
    main()
