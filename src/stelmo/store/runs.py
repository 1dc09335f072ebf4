"""A training run on disk: its settings, checkpoints, log and learned mixes. Knows no training.

run.json                    the settings of the run; a command with others is refused (of a task: task.json)
checkpoints/N.safetensors   everything needed to resume at step N, complete or absent, with a checksum; the last few
log.jsonl                   one line for some steps and for every validation
model/, last/               model folders: of the best validation, and of the end if that is another
mixes.json                  of a task: the weights it learned for ELMo's layers
curve.svg, tensorboard/
softmax/                    a run like this one, if a softmax was learned before the rest
"""

import json
import re
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
import torch
from pydantic import Field, model_validator
from torch import Tensor

from stelmo.config import Settings, parse
from stelmo.errors import DataError, ModelError, OutputError
from stelmo.store import atomic
from stelmo.store.folder import read_safetensors, write_safetensors

VERSION = 1
SETTINGS_FILE, LOCK, MIXES = "run.json", ".lock", "mixes.json"
ABOUT, CHECKSUM = "about", "checksum"  # tensors of a checkpoint beside those of the training
SOFTMAX = "softmax"  # the preceding run of a model that had no softmax


class Checkpoint(NamedTuple):
    about: dict[str, Any]
    tensors: dict[str, Tensor]


class Run:
    def __init__(self, path: Path, settings_file: str = SETTINGS_FILE) -> None:
        self.path, self.settings_file = path, path / settings_file
        self.log = Log(path / "log.jsonl")
        self._checkpoints = path / "checkpoints"

    def start(
        self, about: Mapping[str, Any], may_differ: frozenset[str], defaults: Mapping[str, Any] | None = None
    ) -> None:
        """Create the folder, or find the one created with the same settings; see `write_or_compare`."""
        if not self.settings_file.is_file():
            self.refuse_foreign()
            make(self._checkpoints)
        write_or_compare(self.settings_file, about, may_differ, defaults)
        for folder in (self.path, self._checkpoints):  # what a killed process was writing
            for draft in folder.glob(".*.partial*"):
                atomic.remove(draft)

    @contextmanager
    def held(self) -> Iterator[None]:
        """Keep other processes out of this run during the block."""
        self.refuse_foreign()
        make(self.path)
        with atomic.locked(self.path / LOCK, "training"):
            yield

    def save(self, step: int, tensors: Mapping[str, Tensor], about: Mapping[str, Any], keep: int) -> None:
        """Write a checkpoint; when it is complete, delete the oldest beyond `keep`."""
        whole = {**tensors, ABOUT: torch.from_numpy(np.frombuffer(json.dumps(about).encode(), np.uint8).copy())}
        whole[CHECKSUM] = torch.tensor(_checksum(whole))
        with atomic.new_file(self._checkpoints / f"{step:09d}.safetensors", overwrite=True) as draft:
            write_safetensors(whole, draft)
        for old in self.checkpoints()[keep:]:
            atomic.remove(old)

    def checkpoints(self) -> list[Path]:
        """The newest first."""
        return sorted(self._checkpoints.glob("[0-9]*.safetensors"), reverse=True)

    def newest(self, say: Callable[[str], None]) -> Path | None:
        """The newest complete checkpoint. A damaged one is reported and gets another name, so that it replaces none."""
        for path in self.checkpoints():
            try:
                read(path)
            except ModelError as problem:
                say(f"{problem}; going back to the previous checkpoint")
                path.replace(path.with_suffix(".damaged"))
                continue
            return path
        return None

    def refuse_foreign(self) -> None:
        """Never write into a folder of something else."""
        if not self.path.exists() or self.settings_file.is_file():
            return
        # What a process leaves behind if it is killed before it has written the settings.
        early = re.compile(rf"{re.escape(LOCK)}|checkpoints|warm-start|{SOFTMAX}|\..*\.partial.*")
        if not self.path.is_dir() or any(not early.fullmatch(entry.name) for entry in self.path.iterdir()):
            raise OutputError(f"{self.path}: exists and is not a training run; choose another folder")


def recognises(folder: Path) -> bool:
    return (folder / SETTINGS_FILE).is_file()


def describe(folder: Path) -> list[tuple[str, str]]:
    """Lines for `stelmo info`."""
    run, about = Run(folder), _flat(read_settings(folder / SETTINGS_FILE))
    entries = run.log.entries()
    validations = [entry for entry in entries if "perplexity" in entry]
    reached = "nothing logged yet"
    if entries:
        last = entries[-1]
        reached = f"step {last['step']:,}, {last['tokens']:,} tokens, {last['seconds'] / 60:,.0f} minutes"
    best = min(validations, key=lambda entry: entry["perplexity"], default=None)
    measured = "not measured yet" if best is None else f"{best['perplexity']:,.2f} at step {best['step']:,}"
    settings = ", ".join(f"{name} {value}" for name, value in about.items() if value is not None)
    model = folder / "model"
    return [
        ("format", "stelmo training run"),
        ("reached", reached),
        ("perplexity", f"{measured} (held-out text, both directions, full softmax)"),
        ("model", str(model) if model.is_dir() else "none yet: the first validation writes it"),
        ("checkpoints", ", ".join(path.name for path in run.checkpoints()) or "none"),
        ("settings", settings),
    ]


def model_of(folder: Path) -> Path:
    """The folder of a run's best model."""
    if not (folder / "model").is_dir():
        raise ModelError(f"{folder}: a training run without a model yet; the first validation writes it")
    return folder / "model"


# Checkpoints


def read(path: Path) -> Checkpoint:
    """A checkpoint whose checksum is right."""
    tensors = read_safetensors(path)
    if not {ABOUT, CHECKSUM} <= set(tensors) or int(tensors.pop(CHECKSUM)) != _checksum(tensors):
        raise ModelError(f"{path}: the checkpoint is damaged (its checksum is wrong)")
    return Checkpoint(json.loads(tensors.pop(ABOUT).numpy().tobytes()), tensors)


def _checksum(tensors: Mapping[str, Tensor]) -> int:
    found = 0
    for name, tensor in sorted(tensors.items()):
        found = zlib.crc32(name.encode(), found)
        found = zlib.crc32(tensor.cpu().flatten().view(torch.uint8).numpy().data, found)
    return found


# The log


class Log:
    """Lines of JSON, each with its step."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def add(self, entry: Mapping[str, Any]) -> None:
        try:
            with self.path.open("a") as file:
                file.write(json.dumps(entry) + "\n")
        except OSError as problem:
            raise OutputError(f"{self.path}: {atomic.reason(problem)}") from problem

    def entries(self) -> list[dict[str, Any]]:
        """All readable lines: a killed process may leave an incomplete last one."""
        if not self.path.is_file():
            return []
        found = []
        for line in self.path.read_text().splitlines():
            try:
                entry = json.loads(line)
            except ValueError:
                continue
            if isinstance(entry, dict) and isinstance(entry.get("step"), int):
                found.append(entry)
        return found

    def cut(self, step: int, repeated: str | None = None) -> None:
        """Delete the entries after that step, and those of the step that have the field `repeated`: they are computed
        again."""
        kept = [
            entry
            for entry in self.entries()
            if entry["step"] < step or (entry["step"] == step and repeated not in entry)
        ]
        with atomic.new_file(self.path, overwrite=True) as draft:
            draft.write_text("".join(json.dumps(entry) + "\n" for entry in kept))


# The settings of a run


def make(folder: Path) -> None:
    """Create the folder and, if needed, its parent."""
    if not folder.absolute().parent.parent.is_dir():
        raise OutputError(f"{folder}: there is no folder {folder.parent} to write in; create it first")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        raise OutputError(f"{folder}: {atomic.reason(problem)}") from problem


def write_or_compare(
    settings_file: Path,
    about: Mapping[str, Any],
    may_differ: frozenset[str] = frozenset(),
    defaults: Mapping[str, Any] | None = None,
) -> None:
    """Write the settings that a folder is made with; if the file exists, refuse differences, except in those that may.

    The file then has the newest. `defaults` are settings that earlier versions did not have, with the values they used.
    """
    written = json.dumps({"stelmo": VERSION, **about}, indent=2) + "\n"
    if not settings_file.is_file():
        with atomic.new_file(settings_file) as draft:
            draft.write_text(written)
        return
    before = {**(defaults or {}), **_flat(read_settings(settings_file))}
    after = _flat(json.loads(json.dumps(about)))  # JSON turns tuples into lists
    compared = sorted({*before, *after} - may_differ)
    differing = [name for name in compared if before.get(name) != after.get(name)]
    if differing:
        listed = "; ".join(f"{name} is {before.get(name)} there, {after.get(name)} here" for name in differing)
        raise OutputError(
            f"{settings_file.parent} is a run with other settings ({listed}); use the same ones, or choose another "
            "folder"
        )
    if before != after:
        with atomic.new_file(settings_file, overwrite=True) as draft:
            draft.write_text(written)


def read_settings(path: Path) -> dict[str, Any]:
    """The settings a run was started with."""
    values = atomic.read_json(path, OutputError, "choose another folder")
    if not isinstance(values, dict) or values.pop("stelmo", None) != VERSION:
        raise OutputError(f"{path}: not a run of this version of stelmo; choose another folder")
    return values


def _flat(values: Mapping[str, Any]) -> dict[str, Any]:
    """{"lstm": {"cells": 4}} → {"lstm.cells": 4}"""
    found: dict[str, Any] = {}
    for name, value in values.items():
        if isinstance(value, dict):
            found |= {f"{name}.{inner}": leaf for inner, leaf in _flat(value).items()}
        else:
            found[name] = value
    return found


# mixes.json

Finite = Annotated[float, Field(allow_inf_nan=False)]


class LearnedMix(Settings):
    """One mix γ · Σ s_l h_l: where it enters the task's network, its weights s_0 … s_L, and γ."""

    placement: str = Field(min_length=1, description="where the mix enters the network, such as input")
    weights: tuple[Annotated[Finite, Field(ge=0)], ...] = Field(min_length=1, description="s_0 … s_L, which sum to 1")
    gamma: Finite = Field(1.0, description="γ")

    @model_validator(mode="after")
    def _sums_to_one(self) -> "LearnedMix":
        if abs(sum(self.weights) - 1) > 1e-3:
            raise ValueError(f"the weights sum to {sum(self.weights):.4g}, not to 1")
        return self


class Mixes(Settings):
    """All mixes of one task's network."""

    stelmo: int = Field(VERSION, description="version of the file's format")
    task: str = Field(min_length=1, description="the task's name, such as ner")
    outputs: tuple[LearnedMix, ...] = Field(min_length=1)


def write_mixes(path: Path, task: str, outputs: Sequence[LearnedMix]) -> None:
    """Write mixes.json into the run folder."""
    text = Mixes(task=task, outputs=tuple(outputs)).model_dump_json(indent=2)
    with atomic.new_file(path / MIXES, overwrite=True) as draft:
        draft.write_text(text + "\n", encoding="utf-8")


def read_mixes(path: Path) -> Mixes:
    """From the file, or from the run folder that contains it."""
    place = path / MIXES if path.is_dir() else path
    values = atomic.read_json(place, DataError, "expected the run of a task with ELMo")
    version = values.get("stelmo") if isinstance(values, dict) else None
    if version != VERSION:
        raise DataError(f"{place}: format version {version!r}; this stelmo reads version {VERSION}, update it")
    return parse(Mixes, values, str(place), DataError)
