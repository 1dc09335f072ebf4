"""A plan and a folder of data → trained networks, their predictions and scores, in a run folder.

RUN/results.json           the score of each seed, their mean and deviation; written last
RUN/mixes.json             the mean of what the seeds learned of ELMo's layers
RUN/layers/                frozen layers, computed once (elsewhere where a cache is named)
RUN/seed-N/task.json       what the run was started with; a command of other settings is refused
RUN/seed-N/log.jsonl       a line for each epoch; curve.svg shows them
RUN/seed-N/model/          the network of the best epoch
RUN/seed-N/dev.predictions, test.predictions   in the task's official format
RUN/seed-N/mixes.json      what was learned of ELMo's layers
RUN/seed-N/result.json     the scores; written last
"""

from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch

from stelmo.embed.cached import Cached
from stelmo.embed.model import Model
from stelmo.jobs.precompute import precompute
from stelmo.store.runs import Run
from stelmo.tasks import batches, results, saved, splits, vectors
from stelmo.tasks.loop import Data, Watch, train
from stelmo.tasks.plan import Plan
from stelmo.tasks.results import Results
from stelmo.tasks.saved import Network, Source
from stelmo.tasks.splits import Skipped
from stelmo.tasks.table import Task
from stelmo.tasks.training import Training
from stelmo.tasks.words import StaticTable

NOTE = "task.json"


class Materials(NamedTuple):
    """What every seed shares."""

    data: Data
    static: StaticTable | None
    model: Model | Cached | None
    source: Source | None
    about: dict[str, Any]  # the plan, the data and the biLM, as JSON


def run(
    plan: Plan,
    folder: Path,
    to: Path,
    seeds: Sequence[int],
    model: Model | None,
    name: str | None,
    cache: Path | None,
    skipped: Skipped | None,
    watch: Watch,
) -> Results | None:
    """Every seed in turn; None: asked to stop, and the same call goes on. `name` is where the model was loaded from."""
    materials = prepare(plan, folder, model, name, cache or to / "layers", skipped, watch)
    for seed in seeds:
        if not run_seed(plan, materials, seed, to / f"seed-{seed}", watch):
            return None
    return results.gather(plan.task, to, seeds, materials.about["examples"])


def read_data(plan: Plan, folder: Path, skipped: Skipped | None) -> Data:
    """The splits, sampled as the plan says."""
    task, settings = plan.task, plan.train
    paths = splits.find(folder, task.data.FILES, ("train", "dev"))
    learn = task.read_train(paths["train"], skipped)
    dev = task.data.read(paths["dev"], skipped)
    test = task.data.read(paths["test"], skipped) if "test" in paths else []
    return Data(
        batches.sample(learn, settings.train_examples, plan.fraction),
        batches.sample(dev, settings.dev_examples),
        batches.sample(test, settings.test_examples) if test else [],
    )


def prepare(
    plan: Plan, folder: Path, model: Model | None, name: str | None, cache: Path, skipped: Skipped | None, watch: Watch
) -> Materials:
    """Data, static vectors and frozen layers; what was computed before is found again."""
    data = read_data(plan, folder, skipped)
    learn, others = (sentences(plan.task, part) for part in (data.train, [*data.dev, *data.test]))
    static = vectors.table(plan.vectors, learn, others, plan.train.tuned_vectors, watch.say)
    source = None if model is None else Source(str(Path(name).resolve()) if name else "", model.saved().fingerprint())
    about = {
        **plan.described(),
        "data": str(folder.resolve()),
        "examples": {split: len(part) for split, part in data._asdict().items()},
        "bilm": None if source is None else source.fingerprint,
    }
    if model is None or plan.elmo.finetune:
        return Materials(data, static, model, source, about)
    return Materials(data, static, _frozen(model, [*learn, *others], cache, watch), source, about)


def _frozen(model: Model, found: list[tuple[str, ...]], cache: Path, watch: Watch) -> Cached:
    """Half precision: ELMo's dropout is a far greater noise, and the files are half as large."""
    tokens = sum(map(len, set(found)))
    done = 0

    def advance(count: int) -> None:
        nonlocal done
        done += count
        watch.embedded(done, tokens)

    cache.parent.mkdir(parents=True, exist_ok=True)
    return precompute(model, found, cache, dtype="float16", advance=advance)


def sentences(task: Task, examples: Iterable[Any]) -> list[tuple[str, ...]]:
    return [sentence for example in examples for sentence in task.model.sentences(example)]


def run_seed(plan: Plan, materials: Materials, seed: int, folder: Path, watch: Watch) -> bool:
    """Train and score one network, or find that it is done; whether it came to its end."""
    run = Run(folder, NOTE)
    with run.held():
        run.start({**materials.about, "seed": seed}, frozenset({"data"}))
        if (folder / results.RESULT).is_file():
            return True
        network = _network(plan, materials, seed)
        training = Training(network.net, network.words, plan.train, seed)
        progress = train(
            training, plan.task, materials.data, run, partial(saved.write, network, folder / "model"), watch
        )
        if progress.epoch < plan.train.epochs and not progress.stopped:
            return False
        saved.read_weights(network, folder / "model")
        results.write(network, materials.data, progress, run)
    return True


def _network(plan: Plan, materials: Materials, seed: int) -> Network:
    torch.manual_seed(seed)
    inventory = plan.task.model.inventory(materials.data.train, plan.size)
    return saved.assemble(plan, inventory, materials.static, materials.model, materials.source)
