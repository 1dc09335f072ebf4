"""Results → the pictures of the report. Knows no tables."""

from collections.abc import Iterator, Mapping
from typing import Any

from stelmo import plots as pictures
from stelmo.paper import cells
from stelmo.paper.cells import Setup
from stelmo.paper.published import TITLES
from stelmo.store.runs import Run
from stelmo.tasks.results import Results, spread

Pair = tuple[Results | None, Results | None]


def draw_sample_efficiency(setup: Setup, task: str, shares: Mapping[float, Pair]) -> Iterator[tuple[str, str]]:
    """Score by the share of the data, and by the epoch on all of it: file and description of each that has points."""
    lines = {
        name: [(100 * share, spread(pair[which].headline)[0]) for share, pair in shares.items() if pair[which]]  # type: ignore[union-attr]
        for which, name in enumerate(("baseline", "+ ELMo"))
    }
    if all(lines.values()):
        file = f"figure1-{task}-data.svg"
        pictures.lines(
            setup.to / file, lines, x="% of the training examples", y="score", title=TITLES[task], log_x=True
        )
        yield file, f"{TITLES[task]}: score against the share of the training data, with and without ELMo"
    epochs = {
        "baseline": _epochs(setup, cells.baseline(setup, task)),
        "+ ELMo": _epochs(setup, cells.with_elmo(setup, task)),
    }
    if all(epochs.values()):
        file = f"figure1-{task}-epochs.svg"
        pictures.lines(setup.to / file, epochs, x="epoch", y="dev score", title=TITLES[task])
        yield file, f"{TITLES[task]}: dev score after each epoch, with and without ELMo"


def _epochs(setup: Setup, cell: cells.Cell) -> list[tuple[float, float]]:
    """Of the first seed."""
    entries = Run(cells.run_of(setup, cell.name) / "seed-0").log.entries()
    return [(entry["step"], next(iter(entry["dev"].values()))) for entry in entries]


def draw_layers(setup: Setup, learned: Mapping[str, Mapping[str, Any]]) -> str:
    file = "figure2.svg"
    shares = {name: mix["weights"] for name, mix in learned.items()}
    pictures.heat(setup.to / file, shares, x="layer", title="Softmax weights of the layers")
    return file
