"""A configuration and a data folder → trained networks, their predictions and scores, in a run folder.

RUN/results.json           the score of each seed, their mean and deviation; written last
RUN/mixes.json             the learned mixes of ELMo's layers, mean over the seeds
RUN/layers/                frozen layers, computed once (elsewhere if a cache is given)
RUN/seed-N/task.json       the settings the run was started with; a command with other settings is refused
RUN/seed-N/log.jsonl       one line per evaluation; curve.svg plots them
RUN/seed-N/model/          the network with the best dev score
RUN/seed-N/dev.predictions, test.predictions   in the task's official format
RUN/seed-N/counts.npz      what each example counts towards the score, to compare runs
RUN/seed-N/mixes.json      the learned mixes of ELMo's layers
RUN/seed-N/result.json     the scores; written last
"""

import copy
import json
import math
import statistics
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from stelmo import plots
from stelmo.config import Settings
from stelmo.embed.elmo import Cached
from stelmo.embed.model import Model
from stelmo.embed.transformer import TransformerVectors
from stelmo.errors import ConfigError, DataError, ModelError, OutputError
from stelmo.jobs.precompute import precompute
from stelmo.settings import ElmoSettings
from stelmo.store import atomic
from stelmo.store.runs import LearnedMix, Run, write_mixes
from stelmo.tasks import network, reading
from stelmo.tasks.inputs import StaticTable, moved, static_table, with_words_of
from stelmo.tasks.loop import LayersReport, RunState, TaskProgress, Training, predict, sample, share, step_limit, train
from stelmo.tasks.network import AssembledNetwork, BilmSource, TaskConfig
from stelmo.tasks.reading import ExampleError, Skipped
from stelmo.tasks.task import AnyTask, Floats, Gain, Splits, Tokens, bootstrap_gain

NOTE = "task.json"
RESULT, RESULTS = "result.json", "results.json"
# Settings that may differ when a run is resumed.
MAY_DIFFER = frozenset({"data", "train.score_tokens", "train.precision"})
LIMITS = frozenset({"train.steps", "train.epochs"})  # may be raised, unless the learning rate depends on them
# Settings that earlier versions did not have, with the values they worked with.
DEFAULTS_OF_OLD_RUNS = {"elmo.gamma": 1.0, "train.decay": "none", "train.bilm_lr_factor": 1.0}
COUNTS = "counts.npz"  # split → what each example counts towards the headline score, (N, K)


class Materials(NamedTuple):
    """What all seeds of a run share."""

    data: Splits[Any]
    static: StaticTable | None
    model: Model | Cached | None
    source: BilmSource | None
    epoch_steps: int  # steps of one pass through the training data before a fraction of it is taken
    about: dict[str, Any]  # the configuration, the data and the biLM, as JSON


class Results(Settings):
    """The results of all seeds; the scores of a split are in the order of the seeds."""

    task: str
    metric: str
    seeds: tuple[int, ...]
    dev: tuple[float, ...]
    test: tuple[float, ...]  # empty if there is no test split
    epochs: tuple[int, ...]
    examples: dict[str, int]
    figures: dict[str, dict[str, float]]  # split → every score, mean over the seeds
    mixes: dict[str, dict[str, Any]]  # placement → weights and gamma, mean over the seeds

    @property
    def headline(self) -> tuple[float, ...]:
        """Test scores; dev scores if there is no test split."""
        return self.test or self.dev


def run(
    config: TaskConfig,
    folder: Path,
    to: Path,
    seeds: Sequence[int],
    model: Model | TransformerVectors | None,
    name: str | None,
    cache: Path | None,
    skipped: Skipped | None,
    progress: TaskProgress,
) -> Results | None:
    """Train and score each seed. None if the run was asked to stop; the same call resumes it.

    `name` is the path the model was loaded from. A Transformer's token vectors are mixed and placed as ELMo's layers.
    """
    try:
        materials = prepare(config, folder, model, name, cache or to / "layers", skipped, progress)
    except ExampleError as flaw:
        raise DataError(f"{flaw} (--skip-bad skips such examples)") from flaw
    for seed in seeds:
        if not run_seed(config, materials, seed, to / f"seed-{seed}", progress):
            return None
    return gather(config.task, to, seeds, materials.about["examples"])


def read_data(config: TaskConfig, folder: Path, skipped: Skipped | None) -> tuple[Splits[Any], int]:
    """The splits, sampled as the settings say, and the number of training examples before a fraction is taken.

    Without a test file, the dev examples that are not in the sample are the test split.
    """
    task, settings = config.task, config.train
    paths = reading.find(folder, task.data.FILES, ("train", "dev"))
    learn = task.read_train(paths["train"], skipped)
    every_dev = task.data.read(paths["dev"], skipped)
    dev = sample(every_dev, settings.dev_examples)
    if "test" in paths:
        test = task.data.read(paths["test"], skipped)
    else:
        chosen = {id(example) for example in dev}
        test = [example for example in every_dev if id(example) not in chosen]
    learned = share(sample(learn, settings.train_examples), config.fraction, task.unit)
    data = Splits(learned, dev, sample(test, settings.test_examples))
    return data, min(len(learn), settings.train_examples or len(learn))


def prepare(
    config: TaskConfig,
    folder: Path,
    model: Model | TransformerVectors | None,
    name: str | None,
    cache: Path,
    skipped: Skipped | None,
    progress: TaskProgress,
) -> Materials:
    """Data, static vectors and frozen layers; layers that the cache already has are not computed again."""
    data, whole = read_data(config, folder, skipped)
    epoch_steps = math.ceil(whole / config.train.batch)
    learn, others = (sentences(config.task, part) for part in (data.train, [*data.dev, *data.test]))
    static = static_table(config.vectors, learn, others, config.train.tuned_vectors, progress.message)
    source = None
    if model is not None:
        fingerprint = model.fingerprint() if isinstance(model, TransformerVectors) else model.saved().fingerprint()
        source = BilmSource(str(Path(name).resolve()) if name else "", fingerprint)
    about = {
        **config.to_json(),
        "data": str(folder.resolve()),
        "examples": {split: len(part) for split, part in data._asdict().items()},
        "bilm": None if source is None else source.fingerprint,
    }
    layers: Model | Cached | None = None
    if config.elmo.finetune and not isinstance(model, TransformerVectors):
        layers = model
    elif model is not None:
        layers = _frozen_layers(model, [*learn, *others], cache, progress)
    return Materials(data, static, layers, source, epoch_steps, about)


def _frozen_layers(
    model: Model | TransformerVectors, found: list[Tokens], cache: Path, progress: TaskProgress
) -> Cached:
    """Half precision: ELMo's dropout adds much more noise, and the files are half as large."""
    tokens = sum(map(len, set(found)))
    done = 0

    def advance(count: int) -> None:
        nonlocal done
        done += count
        progress.update(LayersReport(done, tokens))

    cache.parent.mkdir(parents=True, exist_ok=True)
    return precompute(model, found, cache, dtype="float16", advance=advance)


def sentences(task: AnyTask, examples: Iterable[Any]) -> list[Tokens]:
    return [sentence for example in examples for sentence in task.model.sentences(example)]


def new_network(config: TaskConfig, materials: Materials, seed: int) -> AssembledNetwork:
    """Training changes copies of the materials, so that a seed does not depend on those trained before it."""
    torch.manual_seed(seed)
    inventory = config.task.model.inventory(materials.data.train, config.size)
    model = copy.deepcopy(materials.model) if config.elmo.finetune else materials.model
    return network.assemble(config, inventory, copy.deepcopy(materials.static), model, materials.source)


def run_seed(config: TaskConfig, materials: Materials, seed: int, folder: Path, progress: TaskProgress) -> bool:
    """Train and score one network, unless that is already done; False if it was asked to stop before the end."""
    run, limit = Run(folder, NOTE), step_limit(config.train, materials.epoch_steps)
    with run.held():
        reached = max((entry["step"] for entry in run.log.entries()), default=0)
        if reached > limit:
            raise OutputError(
                f"{folder}: was trained for {reached:,} steps, and the limit is {limit:,}; raise it (--set steps or "
                "epochs), or choose another folder"
            )
        run.start({**materials.about, "seed": seed}, _free(config), DEFAULTS_OF_OLD_RUNS)
        if is_trained(folder, limit, config.train.patience):
            return True
        if (folder / RESULT).is_file():
            if run.newest(progress.message) is None:
                raise OutputError(
                    f"{folder}: was trained for {reached:,} steps, the limit is now {limit:,}, and there is no "
                    "checkpoint to continue from; use the old limit, or choose another folder"
                )
            progress.message(f"seed {seed} continues after step {reached:,}, its previous limit")
        built = new_network(config, materials, seed)
        training = Training(built.net, config.train, seed)

        def keep_best(predictions: list[Any]) -> None:
            network.save(built, folder / "model")
            config.task.data.write(folder / "dev.predictions", materials.data.dev, predictions)

        data, epoch_steps = materials.data, materials.epoch_steps
        state, finished = train(training, config.task, data, epoch_steps, run, keep_best, progress)
        if not finished:
            return False
        network.read_weights(built, folder / "model")
        write_result(built, data, state, run, training.precision)
    return True


def _free(config: TaskConfig) -> frozenset[str]:
    """The settings that may differ, and those that have no effect in this run."""
    free = MAY_DIFFER | LIMITS if config.train.decay == "none" else MAY_DIFFER
    if not config.elmo.finetune:
        free |= {"train.bilm_lr_factor"}
    if config.elmo.placement == "none":
        return free | {f"elmo.{name}" for name in ElmoSettings.model_fields if name != "placement"}
    return free if config.elmo.layer_norm else free | {"elmo.layer_norm_over"}


def is_trained(folder: Path, limit: int, patience: int | None) -> bool:
    """Whether a seed has a result, of the last step or of a score that stopped rising before it."""
    try:
        result = json.loads((folder / RESULT).read_bytes())
    except FileNotFoundError:
        return False
    if "evaluations" not in result:  # of an earlier stelmo
        return True
    stopped = patience is not None and result["evaluations"] - result["best_evaluation"] >= patience
    return stopped or bool(result["steps"] >= limit)


# Results


def mean_and_deviation(scores: Sequence[float]) -> tuple[float, float | None]:
    """The mean, and the sample standard deviation, which needs at least two scores."""
    return statistics.fmean(scores), statistics.stdev(scores) if len(scores) > 1 else None


def write_result(built: AssembledNetwork, data: Splits[Any], state: RunState, run: Run, precision: str) -> None:
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
        "precision": precision,
    }
    result = {**scores, **about, "mixes": [output.model_dump() for output in learned]}
    with atomic.new_file(run.path / RESULT, overwrite=True) as draft:
        draft.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


def gather(task: AnyTask, to: Path, seeds: Sequence[int], examples: dict[str, int]) -> Results:
    """The results of finished seeds → results.json."""
    found = [json.loads((to / f"seed-{seed}" / RESULT).read_text()) for seed in seeds]
    metric, mean = task.metric, statistics.fmean
    figures: dict[str, dict[str, float]] = {}
    for split in ("dev", "test"):
        if split in found[0]:
            scores = [one[split] for one in found]
            names = [name for name in scores[0] if all(name in one for one in scores)]  # one may lack a rare label
            figures[split] = {name: mean(one[name] for one in scores) for name in names}
    mixes: dict[str, dict[str, Any]] = {}
    for outputs in zip(*(one["mixes"] for one in found), strict=True):
        weights = [mean(shares) for shares in zip(*(output["weights"] for output in outputs), strict=True)]
        mixes[outputs[0]["placement"]] = {"weights": weights, "gamma": mean(output["gamma"] for output in outputs)}
    results = Results(
        task=task.name,
        metric=metric,
        seeds=tuple(seeds),
        dev=tuple(one["dev"][metric] for one in found),
        test=tuple(one["test"][metric] for one in found if "test" in one),
        epochs=tuple(one["epochs"] for one in found),
        examples=examples,
        figures=figures,
        mixes=mixes,
    )
    if mixes:
        write_mixes(to, task.name, [LearnedMix(placement=place, **mix) for place, mix in mixes.items()])
    with atomic.new_file(to / RESULTS, overwrite=True) as draft:
        draft.write_text(results.model_dump_json(indent=1) + "\n", encoding="utf-8")
    return results


def read_results(folder: Path) -> Results:
    try:
        return Results.model_validate_json((folder / RESULTS).read_bytes())
    except (OSError, ValueError) as problem:
        raise DataError(f"{folder / RESULTS}: cannot be read ({problem}); let `stelmo task` finish") from None


def training_time(folder: Path) -> float | None:
    """The seconds that training took, all seeds together; None if a seed's result is missing or has no time."""
    try:
        results = [json.loads((folder / f"seed-{seed}" / RESULT).read_bytes()) for seed in read_results(folder).seeds]
        return math.fsum(result["seconds"] for result in results)
    except (OSError, ValueError, KeyError, TypeError):
        return None


# Using a trained task


def gain(task: AnyTask, before: Path, after: Path) -> Gain | None:
    """The gain between two finished runs on the same examples; None if they cannot be compared.

    Runs of earlier versions have no counts; a run with other settings may have other examples.
    """
    split = "test" if read_results(after).test else "dev"
    try:
        return bootstrap_gain(_counts(before, split), _counts(after, split), task.of_counts)
    except (OSError, ValueError, KeyError):
        return None


def _counts(run: Path, split: str) -> list[Floats]:
    """The counts of each seed."""
    found = []
    for seed in read_results(run).seeds:
        with np.load(run / f"seed-{seed}" / COUNTS) as counts:
            found.append(counts[split])
    return found


def find_model(run: Path) -> Path:
    """The model folder of a run or of one of its seeds, or the folder itself; of several seeds the best on dev."""
    for folder in (run, run / "model"):
        if (folder / network.NOTE).is_file():
            return folder
    if (run / RESULTS).is_file():
        found = read_results(run)
        best = max(zip(found.dev, found.seeds, strict=True))[1]
        return run / f"seed-{best}" / "model"
    seeds = sorted(run.glob(f"seed-*/model/{network.NOTE}"))
    if not seeds:
        raise ModelError(f"{run}: no trained task there; pass the folder that `stelmo task … --to` wrote")
    return seeds[0].parent


def read_run(run: Path, task: str, bilm: str | None = None, vectors: str | None = None) -> AssembledNetwork:
    """A network ready to predict. `bilm` and `vectors` are paths, if these files are no longer where they were."""
    built = network.read(find_model(run), bilm)
    if built.config.task.name != task:
        raise ConfigError(f"{run}: a run of {built.config.task.name}, not of {task}; name its own task")
    return built._replace(config=built.config._replace(vectors=moved(built.config.vectors, vectors)))


def predict_file(built: AssembledNetwork, source: Path, to: Path, message: Callable[[str], None]) -> int:
    """Write predictions for every example of a file, in the task's official format; returns their number."""
    task, words = built.config.task, built.words
    examples = task.data.read_new(source)
    if words.static is not None:
        words.static = with_words_of(words.static, built.config.vectors, sentences(task, examples), message)
    task.data.write(to, examples, predict(built.net, task, examples, built.config.train.score_tokens))
    return len(examples)
