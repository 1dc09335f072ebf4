"""A configuration and a data folder → trained networks, their predictions and scores, in a run folder.

RUN/results.json           the score of each seed, their mean and deviation; written last
RUN/mixes.json             the learned mixes of ELMo's layers, mean over the seeds
RUN/layers/                frozen layers, computed once (elsewhere if a cache is given)
RUN/seed-N/task.json       the settings the run was started with; a command with other settings is refused
RUN/seed-N/log.jsonl       one line per evaluation; curve.svg plots them
RUN/seed-N/model/          the network with the best dev score
RUN/seed-N/dev.predictions, test.predictions   in the task's official format
RUN/seed-N/mixes.json      the learned mixes of ELMo's layers
RUN/seed-N/result.json     the scores; written last
"""

import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch

from stelmo.embed.elmo import Cached
from stelmo.embed.model import Model
from stelmo.embed.transformer import TransformerVectors
from stelmo.jobs.precompute import precompute
from stelmo.store.runs import Run
from stelmo.tasks import network, reading, results, saved
from stelmo.tasks.inputs import StaticTable, static_table
from stelmo.tasks.loop import LayersReport, TaskProgress, Training, sample, train
from stelmo.tasks.network import AssembledNetwork, BilmSource, TaskConfig
from stelmo.tasks.reading import Skipped
from stelmo.tasks.results import Results
from stelmo.tasks.task import AnyTask, Splits, Tokens

NOTE = "task.json"


class Materials(NamedTuple):
    """What all seeds of a run share."""

    data: Splits[Any]
    static: StaticTable | None
    model: Model | Cached | None
    source: BilmSource | None
    epoch_steps: int  # steps of one pass through the training data before a fraction of it is taken
    about: dict[str, Any]  # the configuration, the data and the biLM, as JSON


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
    materials = prepare(config, folder, model, name, cache or to / "layers", skipped, progress)
    for seed in seeds:
        if not run_seed(config, materials, seed, to / f"seed-{seed}", progress):
            return None
    return results.gather(config.task, to, seeds, materials.about["examples"])


def read_data(config: TaskConfig, folder: Path, skipped: Skipped | None) -> tuple[Splits[Any], int]:
    """The splits, sampled as the settings say, and the number of training examples before a fraction is taken."""
    task, settings = config.task, config.train
    paths = reading.find(folder, task.data.FILES, ("train", "dev"))
    learn = task.read_train(paths["train"], skipped)
    dev = task.data.read(paths["dev"], skipped)
    test = task.data.read(paths["test"], skipped) if "test" in paths else []
    data = Splits(
        sample(learn, settings.train_examples, config.fraction),
        sample(dev, settings.dev_examples),
        sample(test, settings.test_examples) if test else [],
    )
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
    torch.manual_seed(seed)
    inventory = config.task.model.inventory(materials.data.train, config.size)
    return network.assemble(config, inventory, materials.static, materials.model, materials.source)


def run_seed(config: TaskConfig, materials: Materials, seed: int, folder: Path, progress: TaskProgress) -> bool:
    """Train and score one network, unless that is already done; False if it was asked to stop before the end."""
    run = Run(folder, NOTE)
    with run.held():
        free = {"data", "train.score_tokens"}  # they may differ when a run is resumed
        if not config.elmo.layer_norm:
            free.add("elmo.layer_norm_over")
        run.start({**materials.about, "seed": seed}, frozenset(free))
        if (folder / results.RESULT).is_file():
            return True
        built = new_network(config, materials, seed)
        training = Training(built.net, config.train, seed)

        def keep_best(predictions: list[Any]) -> None:
            saved.write(built, folder / "model")
            config.task.data.write(folder / "dev.predictions", materials.data.dev, predictions)

        data, epoch_steps = materials.data, materials.epoch_steps
        state, finished = train(training, config.task, data, epoch_steps, run, keep_best, progress)
        if not finished:
            return False
        saved.read_weights(built, folder / "model")
        results.write(built, data, state, run)
    return True
