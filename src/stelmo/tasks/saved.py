"""A task's trained network ↔ a folder. Knows no training.

model.json            the plan, what the network remembers of its training data, its words, and which biLM it reads
weights.safetensors   its weights; a biLM that was not trained along stays in its own file
"""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from torch import nn

from stelmo.config import ElmoSettings
from stelmo.embed.cached import Cached
from stelmo.embed.elmo import Elmo
from stelmo.embed.load import load
from stelmo.embed.model import Model
from stelmo.errors import ModelError
from stelmo.store import atomic
from stelmo.store.folder import read_safetensors, write_safetensors
from stelmo.tasks import plan as plans
from stelmo.tasks import training, vectors
from stelmo.tasks.plan import Plan
from stelmo.tasks.words import StaticTable, WordReader, places

NOTE, WEIGHTS = "model.json", "weights.safetensors"
VERSION = 1
Inventory = Mapping[str, list[str]]


class Source(NamedTuple):
    """Which biLM: where it was, empty for the bundled one, and its fingerprint."""

    path: str
    fingerprint: str


class Network(NamedTuple):
    plan: Plan
    inventory: Inventory
    source: Source | None  # without ELMo there is none
    words: WordReader
    net: nn.Module


def elmo_of(settings: ElmoSettings, model: Model | Cached) -> Elmo:
    """A mix for each place."""
    return Elmo(
        model,
        outputs=len(places(settings.placement)),
        dropout=settings.dropout,
        trainable=settings.finetune,
        layer_norm=settings.layer_norm,
        top_only=settings.layers == "top",
        l2=settings.l2,
    )


def assemble(
    plan: Plan, inventory: Inventory, static: StaticTable | None, model: Model | Cached | None, source: Source | None
) -> Network:
    """An untrained network."""
    words = WordReader(static, None if model is None else elmo_of(plan.elmo, model), plan.elmo.placement)
    return Network(plan, inventory, source, words, plan.task.model.Net(words, inventory, plan.size))


def write(network: Network, folder: Path) -> None:
    """Whole or not at all, over what was there."""
    static = network.words.static
    note = {
        "stelmo": VERSION,
        "plan": network.plan.described(),
        "inventory": dict(network.inventory),
        "words": None if static is None else static.words,
        "width": None if static is None else static.width,
        "bilm": None if network.source is None else network.source._asdict(),
    }
    with atomic.new_folder(folder, overwrite=True) as draft:
        (draft / NOTE).write_text(json.dumps(note, ensure_ascii=False) + "\n", encoding="utf-8")
        write_safetensors(training.weights(network.net), draft / WEIGHTS)


def read(folder: Path, bilm: str | None = None, open_model: Callable[[str | None], Model] = load) -> Network:
    """Ready to predict. `bilm` says where the biLM is by now, if it is no longer where it was."""
    note = _note(folder / NOTE)
    plan = plans.remembered(note["plan"])
    source = None if note["bilm"] is None else Source(**note["bilm"])
    static = None if note["words"] is None else vectors.blank(note["words"], note["width"], plan.train.tuned_vectors)
    model = None if source is None else _model(source, bilm, plan, folder, open_model)
    network = assemble(plan, note["inventory"], static, model, source)
    read_weights(network, folder)
    network.net.eval()
    return network


def read_weights(network: Network, folder: Path) -> None:
    training.load_weights(network.net, read_safetensors(folder / WEIGHTS))


def _note(path: Path) -> dict[str, Any]:
    try:
        note = json.loads(path.read_bytes())
    except (OSError, ValueError) as problem:
        raise ModelError(f"{path}: no trained task there ({problem}); name a run of `stelmo task`") from None
    if not isinstance(note, dict) or note.get("stelmo") != VERSION:
        raise ModelError(f"{path}: not a task's model of this version of stelmo; train it anew")
    return note


def _model(
    source: Source, bilm: str | None, plan: Plan, folder: Path, open_model: Callable[[str | None], Model]
) -> Model:
    model = open_model(bilm or source.path or None)
    if model.saved().fingerprint() != source.fingerprint and not plan.elmo.finetune:
        raise ModelError(
            f"{folder}: was trained on another biLM (fingerprint {source.fingerprint[:8]}) than "
            f"{bilm or source.path or 'the bundled one'}; name it with --model"
        )
    return model
