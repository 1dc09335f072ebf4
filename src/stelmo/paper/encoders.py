"""Encoders trained on the same text for the same processor time → the part of the report about them. Runs nothing.

Peters et al. 2018b, "Dissecting Contextual Word Embeddings", compared an LSTM, a Transformer and a gated CNN.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from stelmo import plots
from stelmo.paper import cells
from stelmo.paper.cells import Setup
from stelmo.paper.document import Block, Heading, Link, Picture, Table, Text
from stelmo.paper.run import NOT_RUN, is_finished, printed
from stelmo.store.runs import Run

PICTURE = "encoders.svg"
SPEEDS = ("no word known", "every word known", "one sentence")


class Question(NamedTuple):
    """A figure of a probe that is followed through the layers."""

    title: str
    probe: str
    method: str
    figure: str


QUESTIONS = (
    Question("parts of speech", "pos", "linear classifier", "accuracy"),
    Question("word senses, averages", "wsd", "sense averages", "F1"),
    Question("word senses, nearest", "wsd", "k nearest examples", "F1"),
    Question("CoarseWSD-20", "coarse", "nearest example", "mean"),
)

# Parameters in millions, without and with the word encoder, computed from the shapes. Of the published perplexities
# only the first could be confirmed from a second source, so that only that one is printed.
PUBLISHED = (
    ("LSTM, 4096 cells, width 512", "2", "75.6 / 93.6", "39.7"),
    ("LSTM, 4096 cells, width 512", "4", "151.1 / 153.4", "–"),
    ("Transformer, width 512, inner 2048", "6", "37.8 / 55.9", "–"),
    ("gated CNN, width 512", "16", "67.2 / 85.2", "–"),
)


class Training(NamedTuple):
    """From the log of a run; `seconds` are processor time."""

    tokens: int
    seconds: float
    perplexity: float


def training_of(setup: Setup, preset: str) -> Training | None:
    cell = cells.training(setup, preset)
    if not is_finished(cell, setup.to):
        return None
    entries = Run(cells.run_of(setup, cell.name)).log.entries()
    last = entries[-1]
    return Training(
        last["tokens"], last["seconds"], min(line["perplexity"] for line in entries if "perplexity" in line)
    )


def report(setup: Setup) -> Iterator[Block]:
    yield Heading(2, "Encoders: LSTM, Transformer, gated CNN")
    start = "from static vectors" if cells.starts_from_vectors(setup) else "from random weights"
    yield Text(
        f"Each encoder was trained on the same corpus ({cells.corpus_of(setup).name}) for {setup.processor_time} of "
        f"processor time on one thread, validations included: the same shuffled text, vocabulary and seed, {start}"
        f"{', with ' + ', '.join(setup.settings) if setup.settings else ''}. Learning rates follow the processor time, "
        "so that each run ends its schedule. Perplexity is that of the best validation on held-out text. Speeds are "
        "tokens per second of processor time; those of embedding were measured in turns, relative to the first."
    )
    yield _costs(setup)
    scores = {preset: scores_of(setup, preset) for preset in setup.encoders}
    yield Text("What each layer encodes, in percent. Layer 0 sees no context.")
    yield Table(("encoder", "vectors", *(question.title for question in QUESTIONS)), tuple(_rows(setup, scores)))
    if lines := curves(scores):
        about = "Probe score by layer, one panel for each probe, one line for each encoder"
        plots.panels(setup.to / PICTURE, lines, x="layer", y="percent", title="Which layer knows what")
        yield Picture(PICTURE, about)
        yield Text(" ".join(_best(lines)))
    yield Text(
        "Published (Peters et al. 2018b): models trained on a billion words. All three encoders improved on word "
        "vectors in four tasks; low layers encoded local syntax, upper layers longer-range meaning. Parameters in "
        "millions, of the contextual layers and with the word encoder, are computed from the shapes; perplexities that "
        "could not be confirmed are left out."
    )
    yield Table(("published biLM", "layers", "parameters", "perplexity"), PUBLISHED)


def _costs(setup: Setup) -> Table:
    measured = cells.embedding_speed(setup)
    speeds = printed(measured, setup.to) or []
    speeds = [speeds] if isinstance(speeds, dict) else speeds  # of a single encoder
    rows: list[tuple[str | Link, ...]] = []
    for number, preset in enumerate(setup.encoders):
        trained = training_of(setup, preset)
        costs = (
            (NOT_RUN,) * 4
            if trained is None
            else (
                f"{trained.tokens:,}",
                f"{trained.seconds / 60:.1f} min",
                f"{trained.tokens / trained.seconds:,.0f}",
                Link(f"{trained.perplexity:,.1f}", cells.training(setup, preset).name),
            )
        )
        rates = (
            (
                Link(f"{speeds[number][way]:,.0f} ({speeds[number][way] / speeds[0][way]:.2f}×)", measured.name)
                for way in SPEEDS
            )
            if speeds
            else (NOT_RUN,) * len(SPEEDS)
        )
        size = f"{speeds[number]['parameters'] / 1e6:.2f} M" if speeds else NOT_RUN
        rows.append((preset, size, *costs, *rates))
    head = ("encoder", "parameters", "tokens", "processor time", "training, tokens/s", "held-out perplexity")
    return Table((*head, *(f"embedding, {way}" for way in SPEEDS)), tuple(rows))


Scores = Mapping[Question, Mapping[str, float]]  # question → vectors → figure


def scores_of(setup: Setup, preset: str) -> Scores | None:
    rows: list[dict[str, Any]] | None = printed(cells.probing(setup, preset), setup.to)
    if rows is None:
        return None
    return {
        question: {
            row["vectors"]: row[question.figure]
            for row in rows
            if (row["probe"], row["method"]) == (question.probe, question.method)
        }
        for question in QUESTIONS
    }


def _rows(setup: Setup, scores: Mapping[str, Scores | None]) -> Iterator[tuple[str | Link, ...]]:
    """A row for each layer of each encoder, and one for static vectors, which are the same for all."""
    static: dict[str, tuple[str | Link, ...]] = {}
    for preset, found in scores.items():
        if found is None:
            yield (preset, NOT_RUN, *("–" for _ in QUESTIONS))
            continue
        for vectors in dict.fromkeys(name for of_question in found.values() for name in of_question):
            figures = tuple(
                Link(f"{found[question][vectors]:.1f}", cells.probing(setup, preset).name)
                if vectors in found[question]
                else "–"
                for question in QUESTIONS
            )
            if _layer(vectors) is None:
                static[vectors] = figures
            else:
                yield (preset, vectors, *figures)
    yield from (("static vectors", vectors, *figures) for vectors, figures in static.items())


def curves(scores: Mapping[str, Scores | None]) -> dict[str, dict[str, list[tuple[float, float]]]]:
    """Question → encoder → points (layer, figure); encoders that were not run are left out."""
    found: dict[str, dict[str, list[tuple[float, float]]]] = {}
    for preset, of_preset in scores.items():
        for question, of_question in (of_preset or {}).items():
            points = [
                (float(layer), figure) for name, figure in of_question.items() if (layer := _layer(name)) is not None
            ]
            if points:
                found.setdefault(question.title, {})[preset] = points
    return found


def _layer(vectors: str) -> int | None:
    kind, _, number = vectors.partition(" ")
    return int(number) if kind == "layer" and number.isdecimal() else None


def _best(lines: Mapping[str, Mapping[str, Sequence[tuple[float, float]]]]) -> Iterator[str]:
    for title, of_encoders in lines.items():
        best = (
            f"{preset} layer {max(points, key=lambda point: point[1])[0]:.0f} of {len(points) - 1}"
            for preset, points in of_encoders.items()
        )
        yield f"Best for {title}: {', '.join(best)}."
