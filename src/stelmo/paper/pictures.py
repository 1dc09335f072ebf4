"""Results of cells → the report's pictures, written beside it. Runs nothing."""

from collections.abc import Iterator, Mapping
from typing import Any

from stelmo import plots
from stelmo.paper import cells
from stelmo.paper.cells import Cell, Setup
from stelmo.paper.published import TABLE_1, TITLES
from stelmo.store.runs import Run
from stelmo.tasks.experiment import Results, mean_and_deviation
from stelmo.tasks.task import Gain


def gains(setup: Setup, gains: Mapping[str, Gain]) -> str:
    file = "table1.svg"
    ours = {TITLES[task]: (gain.mean, gain.low, gain.high) for task, gain in gains.items()}
    published = {TITLES[task]: TABLE_1[task].elmo - TABLE_1[task].baseline for task in gains}
    names = ("here, with 95 % interval", "published")
    plots.intervals(setup.to / file, ours, published, names=names, x="points", title="Gain by ELMo")
    return file


def sample_efficiency(
    setup: Setup, task: str, shares: Mapping[float, tuple[Results | None, Results | None]]
) -> Iterator[tuple[str, str]]:
    """Plots of the score by share of the data, and by epoch on all data: (file, description) of each with points."""
    lines = {
        name: [
            (100 * share, mean_and_deviation(result.headline)[0])
            for share, pair in shares.items()
            if (result := pair[which]) is not None
        ]
        for which, name in enumerate(("baseline", "+ ELMo"))
    }
    if all(lines.values()):
        file = f"figure1-{task}-data.svg"
        plots.lines(setup.to / file, lines, x="% of the training examples", y="score", title=TITLES[task], log_x=True)
        yield file, f"{TITLES[task]}: score against the share of the training data, with and without ELMo"
    epochs = {
        "baseline": _epochs(setup, cells.baseline(setup, task)),
        "+ ELMo": _epochs(setup, cells.with_elmo(setup, task)),
    }
    if all(epochs.values()):
        file = f"figure1-{task}-epochs.svg"
        plots.lines(setup.to / file, epochs, x="epoch", y="dev score", title=TITLES[task])
        yield file, f"{TITLES[task]}: dev score after each epoch, with and without ELMo"


def _epochs(setup: Setup, cell: Cell) -> list[tuple[float, float]]:
    """Dev scores of the first seed. Runs of earlier versions logged the epoch as their step."""
    entries = Run(cells.run_of(setup, cell.name) / "seed-0").log.entries()
    return [(entry.get("epoch", entry["step"]), next(iter(entry["dev"].values()))) for entry in entries]


def layers(setup: Setup, learned: Mapping[str, Mapping[str, Any]]) -> str:
    file = "figure2.svg"
    shares = {name: mix["weights"] for name, mix in learned.items()}
    plots.heat(setup.to / file, shares, x="layer", title="Softmax weights of the layers")
    return file
