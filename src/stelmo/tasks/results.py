"""A trained network → its predictions, scores and plot; the scores of several seeds → one file. Knows no training."""

import json
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from stelmo import plots
from stelmo.config import Settings
from stelmo.errors import DataError
from stelmo.store import atomic
from stelmo.store.runs import LearnedMix, Run, write_mixes
from stelmo.tasks import significance
from stelmo.tasks.loop import RunState, predict
from stelmo.tasks.network import AssembledNetwork
from stelmo.tasks.significance import Floats, Gain
from stelmo.tasks.task import AnyTask, Splits

RESULT, RESULTS = "result.json", "results.json"
COUNTS = "counts.npz"  # split → what each example counts towards the headline score, (N, K)


class Results(Settings):
    """Of all seeds; the scores of a split are in the order of the seeds."""

    task: str
    metric: str
    seeds: tuple[int, ...]
    dev: tuple[float, ...]
    test: tuple[float, ...]  # empty if there is no test file
    epochs: tuple[int, ...]
    examples: dict[str, int]
    figures: dict[str, dict[str, float]]  # split → every score, mean over the seeds
    mixes: dict[str, dict[str, Any]]  # placement → weights and gamma, mean over the seeds

    @property
    def headline(self) -> tuple[float, ...]:
        """Test scores; dev scores if there is no test file."""
        return self.test or self.dev


def mean_and_deviation(scores: Sequence[float]) -> tuple[float, float | None]:
    """The mean, and the sample standard deviation, which needs at least two scores."""
    return statistics.fmean(scores), statistics.stdev(scores) if len(scores) > 1 else None


def write(built: AssembledNetwork, data: Splits[Any], state: RunState, run: Run) -> None:
    """Score the network on the test split, write predictions, mixes and plot, and the result last.

    The scores on dev are those of the best evaluation, whose predictions are already written.
    """
    task, entries = built.config.task, run.log.entries()
    dev = task.data.read_predictions(run.path / "dev.predictions", data.dev)
    counts = {"dev": task.counts(dev, data.dev)}
    scores = {"dev": next(entry["dev"] for entry in entries if entry["evaluation"] == state.best_evaluation)}
    if data.test:
        predictions = predict(built.net, task, data.test, built.config.train.score_tokens)
        task.data.write(run.path / "test.predictions", data.test, predictions)
        scores["test"] = task.score(predictions, data.test)
        counts["test"] = task.counts(predictions, data.test)
    with atomic.new_file(run.path / COUNTS, overwrite=True) as draft, draft.open("wb") as file:
        np.savez_compressed(file, allow_pickle=False, **counts)
    learned = [
        LearnedMix(placement=place, weights=tuple(mix.weights), gamma=mix.scale.item())
        for place, mix in built.words.mixes().items()
    ]
    if learned:
        write_mixes(run.path, task.name, learned)
    placement = built.config.elmo.placement
    plots.lines(
        run.path / "curve.svg",
        {"dev": [(entry["epoch"], entry["dev"][task.metric]) for entry in entries]},
        x="epoch",
        y=f"{task.metric} on dev",
        title=task.name if placement == "none" else f"{task.name}, ELMo at {placement}",
    )
    about = {
        "best_evaluation": state.best_evaluation,
        "evaluations": state.evaluations,
        "steps": state.step,
        "epochs": round(entries[-1]["epoch"]),
        "seconds": round(state.seconds, 1),
    }
    result = {**scores, **about, "mixes": [output.model_dump() for output in learned]}
    with atomic.new_file(run.path / RESULT, overwrite=True) as draft:
        draft.write_text(json.dumps(result, indent=1) + "\n")


def gather(task: AnyTask, to: Path, seeds: Sequence[int], examples: dict[str, int]) -> Results:
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


def _mean(scores: Sequence[dict[str, float]]) -> dict[str, float]:
    """Of the scores that every seed has: a rare label may be missing from one."""
    names = [name for name in scores[0] if all(name in one for one in scores)]
    return {name: statistics.fmean(one[name] for one in scores) for name in names}


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
        raise DataError(f"{folder / RESULTS}: cannot be read ({problem}); let `stelmo task` finish") from None


def gain(task: AnyTask, before: Path, after: Path) -> Gain | None:
    """Between two finished runs on the same examples; None if they cannot be compared.

    Runs of earlier versions have no counts; a run with other settings may have other examples.
    """
    split = "test" if read(after).test else "dev"
    try:
        return significance.gain(_counts(before, split), _counts(after, split), task.of_counts)
    except (OSError, ValueError, KeyError):
        return None


def _counts(run: Path, split: str) -> list[Floats]:
    """Of each seed."""
    found = []
    for seed in read(run).seeds:
        with np.load(run / f"seed-{seed}" / COUNTS) as counts:
            found.append(counts[split])
    return found
