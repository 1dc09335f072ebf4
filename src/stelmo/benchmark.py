"""A size of model, or models → how fast this machine embeds with them. Knows no files.

Every figure is compared with one of the same run: machines are noisy, ratios less so. The baseline is what earlier
implementations do, with our own modules: batches of 32 in input order, every word through the character CNN, one step
at a time. Weights are random, which does not change the speed; words follow Zipf's law, so that they repeat as in real
text.
"""

import random
import statistics
import sys
import time
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from functools import partial
from typing import NamedTuple, TypeVar

import torch

from stelmo.config import CharInput, LstmConfig, ModelConfig
from stelmo.embed.model import Model
from stelmo.model.bilm import BiLM
from stelmo.ops import arithmetic
from stelmo.settings import LoadSettings, Precision
from stelmo.store.saved import SavedModel
from stelmo.text import chars

FILTERS = ((1, 32), (2, 32), (3, 64), (4, 128), (5, 256), (6, 512), (7, 1024))
SIZES = {"small": (1024, 128, 1), "medium": (2048, 256, 1), "full": (4096, 512, 2)}  # cells, projection, highways
SENTENCES = {"small": 1000, "medium": 512, "full": 256}
ROWS = (1, 4, 16, 64, 256, 1024)
BASELINE_SENTENCES, BASELINE_ROWS, SINGLE = 64, 32, 8

Sentences = list[list[str]]
Rates = dict[str, float]
Clock = Callable[[], float]  # seconds
CLOCKS: dict[str, Clock] = {"wall": time.perf_counter, "processor": time.process_time}

_Name = TypeVar("_Name", bound=Hashable)


class Speed(NamedTuple):
    """Tokens per second of each method; the engine's peak memory in MB; its share of the machine's sgemm limit."""

    rates: Rates
    peak: float
    share: float


def random_model(size: str, precision: Precision = "float32") -> Model:
    """A published architecture with the initial values of training."""
    cells, projection, highways = SIZES[size]
    config = ModelConfig(
        input=CharInput(embedding=16, filters=FILTERS, highways=highways),
        encoder=LstmConfig(cells=cells, projection=projection, cell_clip=3.0, projection_clip=3.0),
    )
    saved = SavedModel(BiLM(config).reset(0).requires_grad_(False), "random")
    return Model(saved, LoadSettings(state="fresh", precision=precision))


def zipf_text(sentences: int, seed: int = 0, vocabulary: int = 100_000) -> Sentences:
    """Lengths and repetitions as in real text: 22 tokens on average, at most 60."""
    chance = random.Random(seed)
    words = ["".join(chance.choices("etaoinshrdlu", k=2 + len(str(rank)))) + str(rank) for rank in range(vocabulary)]
    lengths = [max(5, min(60, int(chance.gammavariate(3.6, 6.1)))) for _ in range(sentences)]
    return [[words[int(vocabulary ** chance.random()) - 1] for _ in range(length)] for length in lengths]


@torch.inference_mode()
@arithmetic.of_torch()
def baseline(model: Model, sentences: Sentences) -> None:
    for first in range(0, len(sentences), BASELINE_ROWS):
        batch = [["<S>", *words, "</S>"] for words in sentences[first : first + BASELINE_ROWS]]
        ids_BTC = torch.from_numpy(chars.encode_sentences(batch))
        x_BTP = model.bilm.encoder(ids_BTC.flatten(0, 1)).view(*ids_BTC.shape[:2], -1)
        model.bilm(x_BTP, torch.tensor([len(words) for words in batch]), model.bilm.zero_state(len(batch)))


def measure(size: str, rounds: int) -> Speed:
    """The engine against the baseline, interleaved: no word known, every word known, one sentence at a time, 8 bits."""
    model, text = random_model(size), zipf_text(SENTENCES[size])
    few, one = text[:BASELINE_SENTENCES], text[:SINGLE]
    model.embed(text)
    peak = _peak()
    narrow = random_model(size, "int8")
    narrow.embed(text)
    rates = medians(
        {
            "baseline": (lambda: baseline(model, few), few),
            "no word known": (lambda: _without_known_words(model, text), text),
            "every word known": (lambda: model.embed(text), text),
            "int8, every word known": (lambda: narrow.embed(text), text),
            "baseline, one sentence": (lambda: [baseline(model, [words]) for words in one], one),
            "one sentence": (lambda: [model.embed([words]) for words in one], one),
        },
        rounds,
    )
    lstm = model.config.lstm
    # Multiplications and additions of the LSTMs for one token.
    operations = 2 * 2 * lstm.layers * (2 * lstm.projection * 4 * lstm.cells + lstm.cells * lstm.projection)
    return Speed(rates, peak, rates["every word known"] * operations / sgemm_limit(size))


def _without_known_words(model: Model, sentences: Sentences) -> None:
    model.forget_words()
    model.embed(sentences)


def compare(
    models: Mapping[str, Model], rounds: int, clock: Clock = time.perf_counter, sentences: int = 200
) -> dict[str, Rates]:
    """Tokens a second of each model, interleaved: no word known, every word known, one sentence at a time."""
    text = zipf_text(sentences)
    one = text[:SINGLE]
    work: dict[tuple[str, str], tuple[Callable[[], object], Sentences]] = {}
    for name, model in models.items():
        work[name, "no word known"] = (partial(_without_known_words, model, text), text)
        work[name, "every word known"] = (partial(model.embed, text), text)
        work[name, "one sentence"] = (partial(_one_by_one, model, one), one)
    rates = medians(work, rounds, clock)
    return {name: {way: rate for (of, way), rate in rates.items() if of == name} for name in models}


def _one_by_one(model: Model, sentences: Sentences) -> None:
    for words in sentences:
        model.embed([words])


def by_rows(size: str, rounds: int, rows: Sequence[int] = ROWS, length: int = 20) -> dict[int, float]:
    """Tokens per second for batches of these numbers of rows, all of one length, every word known."""
    model = random_model(size)
    start = model.start_state("fresh")
    words = [word for sentence in zipf_text(400) for word in sentence]
    work: dict[str, tuple[Callable[[], object], Sentences]] = {}
    for count in rows:
        text = [[words[(row * length + place) % len(words)] for place in range(length)] for row in range(count)]
        work[str(count)] = (lambda text=text: model.engine.compute().run(text, start), text)  # type: ignore[misc]
    return {int(name): rate for name, rate in medians(work, rounds).items()}


def medians(
    work: Mapping[_Name, tuple[Callable[[], object], Sentences]], rounds: int, clock: Clock = time.perf_counter
) -> dict[_Name, float]:
    """Tokens a second of each, interleaved so that a disturbance affects all equally; the first round is ignored."""
    seconds: dict[_Name, list[float]] = {name: [] for name in work}
    for _ in range(rounds + 1):
        for name, (run, _) in work.items():
            seconds[name].append(_seconds(run, clock))
    tokens = {name: sum(map(len, sentences)) for name, (_, sentences) in work.items()}
    return {name: tokens[name] / statistics.median(taken[1:]) for name, taken in seconds.items()}


def sgemm_limit(size: str, rows: int = 256, rounds: int = 5) -> float:
    """Operations per second of the gates' matrix product with many rows: an upper bound for any LSTM."""
    cells, projection, _ = SIZES[size]
    x_nP, matrix_P4H = torch.randn(rows, projection), torch.randn(projection, 4 * cells)
    out = torch.empty(rows, 4 * cells)
    fastest = min(_seconds(lambda: arithmetic.write_product(out, x_nP, matrix_P4H)) for _ in range(10 * rounds))
    return 2 * rows * projection * 4 * cells / fastest


def _seconds(run: Callable[[], object], clock: Clock = time.perf_counter) -> float:
    start = clock()
    run()
    return clock() - start


def _peak() -> float:
    """MB of this process at its largest."""
    try:
        import resource
    except ImportError:  # Windows does not have it
        return float("nan")
    units_per_mb = 1024 if sys.platform == "linux" else 1024**2
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / units_per_mb


def table(speeds: dict[str, Speed]) -> Iterator[str]:
    """The lines of a Markdown table."""
    columns = "no word known | every word known | int8 | one sentence (baseline) | sgemm limit | peak"
    yield f"| model | baseline | {columns} |"
    yield "|---|---|---|---|---|---|---|---|"
    for size, (rates, peak, share) in speeds.items():
        old, alone = rates["baseline"], rates["baseline, one sentence"]
        times = {name: f"{rate:,.0f} ({rate / old:.1f}×)" for name, rate in rates.items()}
        yield (
            f"| {size} | {old:,.0f} | {times['no word known']} | {times['every word known']} "
            f"| {times['int8, every word known']} | {rates['one sentence']:,.0f} "
            f"({rates['one sentence'] / alone:.1f}× of {alone:,.0f}) | {share:.0%} | {peak:,.0f} MB |"
        )
