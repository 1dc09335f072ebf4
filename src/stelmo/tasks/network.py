"""A task's name, a preset and the user's settings → a network ↔ a folder. Knows no training.

The only file that lists the six tasks. The folder has

model.json            the configuration, labels and characters of the training data, words, and which biLM it reads
weights.safetensors   its weights; a frozen biLM is not included, it stays in its own file
"""

import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import NoneType
from typing import Any, NamedTuple, get_args

import torch

from stelmo.config import Settings, choose, parse
from stelmo.embed.elmo import Cached, Elmo
from stelmo.embed.load import load
from stelmo.embed.model import Model
from stelmo.errors import ConfigError, ModelError
from stelmo.model.mix import LayerNorm
from stelmo.settings import ElmoSettings, TaskSettings, parse_assignments
from stelmo.store import atomic
from stelmo.store.folder import read_safetensors, write_safetensors
from stelmo.tasks import loop
from stelmo.tasks.coref import data as coref_data
from stelmo.tasks.coref import model as coref_model
from stelmo.tasks.coref import score as coref_score
from stelmo.tasks.inputs import NONE, RANDOM, StaticTable, WordReader, places
from stelmo.tasks.ner import data as ner_data
from stelmo.tasks.ner import model as ner_model
from stelmo.tasks.snli import data as snli_data
from stelmo.tasks.snli import model as snli_model
from stelmo.tasks.squad import data as squad_data
from stelmo.tasks.squad import model as squad_model
from stelmo.tasks.srl import data as srl_data
from stelmo.tasks.srl import model as srl_model
from stelmo.tasks.sst5 import data as sst5_data
from stelmo.tasks.sst5 import model as sst5_model
from stelmo.tasks.task import AnyTask, Inventory, Task, TaskNetwork

# The type parameters are explicit so that mypy checks each module; inferred for a list of AnyTask they would be Any.
_TASKS: list[AnyTask] = [
    Task[squad_data.Example, squad_data.Prediction](
        "squad", squad_data, squad_model, squad_data.score, squad_data.count, squad_data.read
    ),
    Task[snli_data.Example, snli_data.Prediction](
        "snli", snli_data, snli_model, snli_data.score, snli_data.count, snli_data.read
    ),
    Task[srl_data.Example, srl_data.Prediction](
        "srl", srl_data, srl_model, srl_data.score, srl_data.count, srl_data.read
    ),
    Task[coref_data.Example, coref_data.Prediction](
        "coref", coref_data, coref_model, coref_score.score, coref_score.count, coref_data.read, coref_score.mean_f1
    ),
    Task[ner_data.Example, ner_data.Prediction](
        "ner", ner_data, ner_model, ner_data.score, ner_data.count, ner_data.read
    ),
    Task[sst5_data.Example, sst5_data.Prediction](
        "sst5", sst5_data, sst5_model, sst5_data.score, sst5_data.count, sst5_data.read_train, unit=sst5_data.tree
    ),
]
TASKS = {task.name: task for task in _TASKS}
NOTE, WEIGHTS = "model.json", "weights.safetensors"
VERSION = 1


def named(name: str) -> AnyTask:
    choose("task", name, tuple(TASKS))
    return TASKS[name]


class TaskConfig(NamedTuple):
    """Everything that determines the result of a run, except the data and the seed."""

    task: AnyTask
    preset: str
    size: Settings
    train: TaskSettings
    elmo: ElmoSettings
    vectors: str = RANDOM  # a path, or where else static vectors come from
    fraction: float = 1.0  # of the training examples

    def to_json(self) -> dict[str, Any]:
        """Runs with different values here are different runs."""
        return {
            "task": self.task.name,
            "preset": self.preset,
            "size": self.size.model_dump(mode="json"),
            "train": self.train.model_dump(mode="json"),
            "elmo": self.elmo.model_dump(mode="json"),
            "vectors": self.vectors,
            "fraction": self.fraction,
        }


def configure(
    name: str,
    preset: str = "cpu",
    elmo: Mapping[str, Any] | None = None,
    assignments: Iterable[str] = (),
    vectors: str = RANDOM,
    fraction: float = 1.0,
) -> TaskConfig:
    """The preset's settings of the task, its network and ELMo, changed by size.hidden=50 and the like."""
    task = named(name)
    if not 0 < fraction <= 1:
        raise ConfigError(f"--fraction {fraction}: expected a share of the training examples, above 0 and at most 1")
    size = task.size(preset).model_dump()
    changes = _unset(TaskSettings, parse_assignments(assignments))
    changed_size, changed_elmo = changes.pop("size", {}), changes.pop("elmo", {})
    if not isinstance(changed_size, dict):
        raise ConfigError(f"--set size={changed_size}: expected one setting of the size, such as size.hidden=50")
    if not isinstance(changed_elmo, dict):
        raise ConfigError(f"--set elmo={changed_elmo}: expected one of ELMo's settings, such as elmo.layer_norm=true")
    changed_size = _unset(type(task.size(preset)), changed_size)
    recipe = task.recipe(preset)
    if "epochs" in changes:
        if changes.get("steps") is not None:
            raise ConfigError("--set epochs and --set steps both limit the training; set one of them")
        # The preset's own schedule is in steps; a user who counts epochs also evaluates once per epoch.
        recipe = {name: value for name, value in recipe.items() if name not in ("steps", "evaluate_every")}
    if vectors == RANDOM:
        recipe["tuned_vectors"] = True  # random vectors are useless unless they are learned
    chosen = parse(ElmoSettings, {**task.elmo(preset), **(elmo or {}), **changed_elmo}, "ELMo", ConfigError)
    if vectors == NONE and chosen.placement in ("none", "output"):
        raise ConfigError(
            f"--vectors none with ELMo at {chosen.placement}: the network would have no input; change one of the two"
        )
    return TaskConfig(
        task,
        preset,
        parse(type(task.size(preset)), size | changed_size, f"--set size (of {name})", ConfigError),
        parse(TaskSettings, recipe | changes, "--set", ConfigError),
        chosen,
        vectors,
        fraction,
    )


def _unset(kind: type[Settings], changes: Mapping[str, Any]) -> dict[str, Any]:
    """The changes, with None where a setting that may be unset is to be "none": presets set some of them."""
    optional = {name for name, field in kind.model_fields.items() if NoneType in get_args(field.annotation)}
    return {name: None if value == "none" and name in optional else value for name, value in changes.items()}


def from_json(values: Mapping[str, Any]) -> TaskConfig:
    """The inverse of `TaskConfig.to_json`."""
    task = named(values["task"])
    # Networks saved before the setting existed were trained with statistics over the batch.
    elmo = {"layer_norm_over": "batch", **values["elmo"]}
    return TaskConfig(
        task,
        values["preset"],
        parse(type(task.size(values["preset"])), values["size"], "size", ConfigError),
        parse(TaskSettings, values["train"], "train", ConfigError),
        parse(ElmoSettings, elmo, "elmo", ConfigError),
        values["vectors"],
        values["fraction"],
    )


class BilmSource(NamedTuple):
    """Which biLM a network reads: its path (empty for the bundled model) and its fingerprint."""

    path: str
    fingerprint: str


class AssembledNetwork(NamedTuple):
    """A network with everything needed to save it and to build it again."""

    config: TaskConfig
    inventory: Inventory
    source: BilmSource | None  # None without ELMo
    words: WordReader
    net: TaskNetwork[Any, Any]


def assemble(
    config: TaskConfig,
    inventory: Inventory,
    static: StaticTable | None,
    model: Model | Cached | None,
    source: BilmSource | None,
) -> AssembledNetwork:
    """An untrained network, with one mix of ELMo's layers for each place where ELMo enters it."""
    elmo, settings = None, config.elmo
    if model is not None:
        over: LayerNorm = "sentence" if settings.layer_norm_over == "sentence" else "bilm"
        elmo = Elmo(
            model,
            outputs=len(places(settings.placement)),
            dropout=settings.dropout,
            trainable=settings.finetune,
            layer_norm=over if settings.layer_norm else False,
            top_only=settings.layers == "top",
            l2=settings.l2,
            gamma=settings.gamma,
        )
    words = WordReader(static, elmo, settings.placement)
    return AssembledNetwork(config, inventory, source, words, config.task.model.Net(words, inventory, config.size))


# Files


def save(built: AssembledNetwork, folder: Path) -> None:
    """Replaces the folder, completely or not at all."""
    static = built.words.static
    note = {
        "stelmo": VERSION,
        "plan": built.config.to_json(),
        "inventory": dict(built.inventory),
        "words": None if static is None else static.words,
        "width": None if static is None else static.width,
        "bilm": None if built.source is None else built.source._asdict(),
    }
    with atomic.new_folder(folder, overwrite=True) as draft:
        (draft / NOTE).write_text(json.dumps(note) + "\n", encoding="utf-8")
        write_safetensors(loop.weights(built.net), draft / WEIGHTS)


def read(folder: Path, bilm: str | None = None, open_model: Callable[[str | None], Model] = load) -> AssembledNetwork:
    """A network ready to predict. `bilm` is the path of the biLM if it is no longer where it was."""
    path = folder / NOTE
    try:
        note = json.loads(path.read_bytes())
    except (OSError, ValueError) as problem:
        raise ModelError(f"{path}: no trained task there ({problem}); pass a run folder of `stelmo task`") from None
    if not isinstance(note, dict) or note.get("stelmo") != VERSION:
        raise ModelError(f"{path}: not a task model of this version of stelmo; train it again")
    config = from_json(note["plan"])
    source = None if note["bilm"] is None else BilmSource(**note["bilm"])
    static = None
    if note["words"] is not None:  # the numbers are loaded below
        static = StaticTable(note["words"], torch.zeros(len(note["words"]), note["width"]), config.train.tuned_vectors)
    model = None if source is None else _open_bilm(source, bilm, config, folder, open_model)
    built = assemble(config, note["inventory"], static, model, source)
    read_weights(built, folder)
    built.net.eval()
    return built


def read_weights(built: AssembledNetwork, folder: Path) -> None:
    loop.load_weights(built.net, read_safetensors(folder / WEIGHTS))


def _open_bilm(
    source: BilmSource,
    bilm: str | None,
    config: TaskConfig,
    folder: Path,
    open_model: Callable[[str | None], Model],
) -> Model:
    if bilm is None and _is_transformer(Path(source.path)):
        raise ModelError(
            f"{folder}: reads the token vectors of {source.path}, a Transformer; such runs are for comparison and only "
            "score the data they were trained with; train one with ELMo to predict on new text"
        )
    model = open_model(bilm or source.path or None)
    if model.saved().fingerprint() != source.fingerprint and not config.elmo.finetune:
        raise ModelError(
            f"{folder}: was trained with another biLM (fingerprint {source.fingerprint[:8]}) than "
            f"{bilm or source.path or 'the bundled one'}; pass the right one with --model"
        )
    return model


def _is_transformer(folder: Path) -> bool:
    """A folder in Hugging Face's layout, and not one of ours."""
    try:
        note = json.loads((folder / "config.json").read_bytes())
    except (OSError, ValueError):
        return False
    return isinstance(note, dict) and note.get("model_type") not in (None, "stelmo")
