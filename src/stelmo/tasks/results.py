"""A trained network → its predictions, figures and picture; the figures of several seeds → one. Knows no loop."""

import json
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from stelmo import plots as pictures
from stelmo.config import Settings
from stelmo.errors import DataError
from stelmo.store import atomic
from stelmo.store.runs import LearnedMix, Run, write_mixes
from stelmo.tasks.loop import Data, Progress, predict
from stelmo.tasks.saved import Network
from stelmo.tasks.table import Task
from stelmo.tasks.words import WordReader

RESULT, RESULTS = "result.json", "results.json"


class Results(Settings):
    """Of all seeds; a split's scores are in the order of the seeds."""

    task: str
    metric: str
    seeds: tuple[int, ...]
    dev: tuple[float, ...]
    test: tuple[float, ...]  # none where there is no test file
    epochs: tuple[int, ...]
    examples: dict[str, int]
    figures: dict[str, dict[str, float]]  # all figures of each split, the mean over the seeds
    mixes: dict[str, dict[str, Any]]  # placement → weights and gamma, the mean over the seeds

    @property
    def headline(self) -> tuple[float, ...]:
        """Test scores; dev scores where there is no test."""
        return self.test or self.dev


def spread(scores: Sequence[float]) -> tuple[float, float | None]:
    """The mean, and the sample's deviation, which one run does not have."""
    return statistics.fmean(scores), statistics.stdev(scores) if len(scores) > 1 else None


def write(network: Network, data: Data, progress: Progress, run: Run) -> None:
    """Score the network, and write down all that a reader may want; the result last."""
    task, batch = network.plan.task, network.plan.train.batch
    figures: dict[str, dict[str, float]] = {}
    for split, examples in (("dev", data.dev), ("test", data.test)):
        if examples:
            predictions = predict(network.net, task, examples, batch)
            task.data.write(run.path / f"{split}.predictions", examples, predictions)
            figures[split] = task.score(predictions, examples)
    learned = _learned(network.words)
    if learned:
        write_mixes(run.path, task.name, learned)
    _draw(task, network.plan.elmo.placement, run)
    about = {"best_epoch": progress.best_epoch, "epochs": progress.epoch, "seconds": round(progress.seconds, 1)}
    result = {**figures, **about, "mixes": [output.model_dump() for output in learned]}
    with atomic.new_file(run.path / RESULT, overwrite=True) as draft:
        draft.write_text(json.dumps(result, indent=1) + "\n")


def _learned(words: WordReader) -> list[LearnedMix]:
    return [
        LearnedMix(placement=place, weights=tuple(mix.weights), gamma=mix.scale.item())
        for place, mix in words.mixes().items()
    ]


def _draw(task: Task, placement: str, run: Run) -> None:
    points = [(entry["step"], entry["dev"][task.metric]) for entry in run.log.entries()]
    title = task.name if placement == "none" else f"{task.name}, ELMo at {placement}"
    pictures.lines(run.path / "curve.svg", {"dev": points}, x="epoch", y=f"{task.metric} on dev", title=title)


def gather(task: Task, to: Path, seeds: Sequence[int], examples: dict[str, int]) -> Results:
    """The results of finished seeds → results.json."""
    found = [json.loads((to / f"seed-{seed}" / RESULT).read_text()) for seed in seeds]
    metric = task.metric
    results = Results(
        task=task.name,
        metric=metric,
        seeds=tuple(seeds),
        dev=tuple(one["dev"][metric] for one in found),
        test=tuple(one["test"][metric] for one in found if "test" in one),
        epochs=tuple(one["epochs"] for one in found),
        examples=examples,
        figures={split: _mean([one[split] for one in found]) for split in ("dev", "test") if split in found[0]},
        mixes=_mean_mixes([one["mixes"] for one in found]),
    )
    if results.mixes:
        outputs = [LearnedMix(placement=place, **mix) for place, mix in results.mixes.items()]
        write_mixes(to, task.name, outputs)
    with atomic.new_file(to / RESULTS, overwrite=True) as draft:
        draft.write_text(results.model_dump_json(indent=1) + "\n")
    return results


def _mean(figures: Sequence[dict[str, float]]) -> dict[str, float]:
    """Of the figures that every run has: a rare label may be absent from one."""
    names = [name for name in figures[0] if all(name in one for one in figures)]
    return {name: statistics.fmean(one[name] for one in figures) for name in names}


def _mean_mixes(runs: Sequence[Sequence[dict[str, Any]]]) -> dict[str, dict[str, Any]]:
    return {
        outputs[0]["placement"]: {
            "weights": [statistics.fmean(shares) for shares in zip(*(o["weights"] for o in outputs), strict=True)],
            "gamma": statistics.fmean(output["gamma"] for output in outputs),
        }
        for outputs in zip(*runs, strict=True)
    }


def read(folder: Path) -> Results:
    try:
        return Results.model_validate_json((folder / RESULTS).read_bytes())
    except (OSError, ValueError) as problem:
        raise DataError(f"{folder / RESULTS}: cannot be read ({problem}); run `stelmo task` to its end") from None
