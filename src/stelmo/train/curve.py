"""The log of a run → its picture. Knows no training."""

import math
from collections.abc import Mapping

from stelmo import plots as pictures
from stelmo.store.runs import Run


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
        pictures.lines(run.path / "curve.svg", drawn, x="tokens", y="perplexity", title=run.path.name, log_y=True)


def _mean_perplexity(entry: Mapping[str, float]) -> float:
    return math.exp(min(50.0, (entry["loss_forward"] + entry["loss_backward"]) / 2))
