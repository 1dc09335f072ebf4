"""The log of a run → curve.svg; and TensorBoard's event files, if TensorBoard is installed."""

import math
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from pathlib import Path

from stelmo import plots
from stelmo.store.runs import Run

Write = Callable[[int, Mapping[str, float]], None]  # called with a step and its figures


def draw(run: Run) -> None:
    """log.jsonl → curve.svg"""
    entries = run.log.entries()
    trained = [(entry["tokens"], _mean_perplexity(entry)) for entry in entries if "loss_forward" in entry]
    series = {"training (among the sampled words)": trained}
    for direction in ("forward", "backward"):
        name = f"perplexity_{direction}"
        series[f"held-out, {direction}"] = [(entry["tokens"], entry[name]) for entry in entries if name in entry]
    drawn = {name: points for name, points in series.items() if points}
    if drawn:
        plots.lines(run.path / "curve.svg", drawn, x="tokens", y="perplexity", title=run.path.name, log_y=True)


def _mean_perplexity(entry: Mapping[str, float]) -> float:
    return math.exp(min(50.0, (entry["loss_forward"] + entry["loss_backward"]) / 2))


def tensorboard(folder: Path) -> Write:
    """A function that writes event files; without TensorBoard it does nothing."""
    if find_spec("tensorboard") is None:
        return lambda step, figures: None
    from torch.utils.tensorboard import SummaryWriter

    writer = SummaryWriter(str(folder))

    def write(step: int, figures: Mapping[str, float]) -> None:
        for name, value in figures.items():
            writer.add_scalar(name, value, step)
        writer.flush()

    return write
