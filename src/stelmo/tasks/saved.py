"""A task's trained network ↔ a folder, and its predictions on new text. Knows no training.

model.json            the configuration, labels and characters of the training data, words, and which biLM it reads
weights.safetensors   its weights; a frozen biLM is not included, it stays in its own file
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from stelmo.config import choose
from stelmo.embed.load import load
from stelmo.embed.model import Model
from stelmo.errors import ModelError
from stelmo.store import atomic
from stelmo.store.folder import read_safetensors, write_safetensors
from stelmo.tasks import loop, network, results
from stelmo.tasks.inputs import StaticTable
from stelmo.tasks.network import AssembledNetwork, BilmSource, TaskConfig

NOTE, WEIGHTS = "model.json", "weights.safetensors"
VERSION = 1


def write(built: AssembledNetwork, folder: Path) -> None:
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
        (draft / NOTE).write_text(json.dumps(note, ensure_ascii=False) + "\n", encoding="utf-8")
        write_safetensors(loop.weights(built.net), draft / WEIGHTS)


def read(folder: Path, bilm: str | None = None, open_model: Callable[[str | None], Model] = load) -> AssembledNetwork:
    """A network ready to predict. `bilm` is the path of the biLM if it is no longer where it was."""
    note = _read_note(folder / NOTE)
    config = network.from_json(note["plan"])
    source = None if note["bilm"] is None else BilmSource(**note["bilm"])
    static = None
    if note["words"] is not None:  # the numbers are loaded below
        static = StaticTable(note["words"], torch.zeros(len(note["words"]), note["width"]), config.train.tuned_vectors)
    model = None if source is None else _open_bilm(source, bilm, config, folder, open_model)
    built = network.assemble(config, note["inventory"], static, model, source)
    read_weights(built, folder)
    built.net.eval()
    return built


def read_weights(built: AssembledNetwork, folder: Path) -> None:
    loop.load_weights(built.net, read_safetensors(folder / WEIGHTS))


def _read_note(path: Path) -> dict[str, Any]:
    try:
        note = json.loads(path.read_bytes())
    except (OSError, ValueError) as problem:
        raise ModelError(f"{path}: no trained task there ({problem}); pass a run folder of `stelmo task`") from None
    if not isinstance(note, dict) or note.get("stelmo") != VERSION:
        raise ModelError(f"{path}: not a task model of this version of stelmo; train it again")
    return note


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


# Using a trained task


def find(run: Path) -> Path:
    """The model folder of a run or of one of its seeds, or the folder itself; of several seeds the best on dev."""
    for folder in (run, run / "model"):
        if (folder / NOTE).is_file():
            return folder
    if (run / results.RESULTS).is_file():
        found = results.read(run)
        best = max(zip(found.dev, found.seeds, strict=True))[1]
        return run / f"seed-{best}" / "model"
    seeds = sorted(run.glob(f"seed-*/model/{NOTE}"))
    if not seeds:
        raise ModelError(f"{run}: no trained task there; pass the folder that `stelmo task … --to` wrote")
    return seeds[0].parent


def read_run(run: Path, task: str, bilm: str | None = None) -> AssembledNetwork:
    built = read(find(run), bilm)
    choose(f"the task of {run}", task, (built.config.task.name,))
    return built


def predict_file(built: AssembledNetwork, source: Path, to: Path) -> int:
    """Write predictions for every example of a file, in the task's official format; returns their number."""
    task = built.config.task
    examples = task.data.read_new(source)
    task.data.write(to, examples, loop.predict(built.net, task, examples, built.config.train.score_tokens))
    return len(examples)
