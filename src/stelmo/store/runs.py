"""A training run on disk: its settings, checkpoints and log. Knows no training.

run.json                    what the run was started with; a command of other settings is refused (of a task: task.json)
checkpoints/N.safetensors   all that step N needs to go on, whole or absent, with a checksum; the last few are kept
log.jsonl                   a line for some steps and for every validation
model/, last/               model folders: of the best validation, and of the end where that is another
curve.svg, tensorboard/
softmax/                    a run like this one, where a softmax was learned before the rest
"""

import fcntl
import json
import re
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from stelmo.errors import ModelError, OutputError
from stelmo.store import atomic
from stelmo.store.folder import read_safetensors, write_safetensors

VERSION = 1
NOTE = "run.json"
ABOUT, CHECKSUM = "about", "checksum"
SOFTMAX = "softmax"  # the run before, of a model that had none
Say = Callable[[str], None]


class Checkpoint(NamedTuple):
    about: dict[str, Any]
    tensors: dict[str, Tensor]


class Run:
    def __init__(self, path: Path, note: str = NOTE) -> None:
        self.path, self.note = path, path / note
        self.log = Log(path / "log.jsonl")
        self._checkpoints = path / "checkpoints"

    def start(self, about: Mapping[str, Any], free: frozenset[str]) -> None:
        """Make the folder, or find the one that the same settings made; those named `free` may differ."""
        if not self.note.is_file():
            self.refuse_foreign()
            make(self._checkpoints)
        note_or_compare(self.note, about, free)
        self._sweep()

    @contextmanager
    def held(self) -> Iterator[None]:
        """Keep other processes off this run while the block lasts."""
        self.refuse_foreign()
        make(self.path)
        with (self.path / ".lock").open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise OutputError(f"{self.path}: another process is training in this folder; wait for it") from None
            yield

    def save(self, step: int, tensors: Mapping[str, Tensor], about: Mapping[str, Any], keep: int) -> None:
        """A checkpoint; when it is whole, the oldest beyond `keep` go."""
        whole = {**tensors, ABOUT: torch.from_numpy(np.frombuffer(json.dumps(about).encode(), np.uint8).copy())}
        whole[CHECKSUM] = torch.tensor(_checksum(whole))
        with atomic.new_file(self._checkpoints / f"{step:09d}.safetensors", overwrite=True) as draft:
            write_safetensors(whole, draft)
        for old in self.checkpoints()[keep:]:
            atomic.remove(old)

    def checkpoints(self) -> list[Path]:
        """The newest first."""
        return sorted(self._checkpoints.glob("[0-9]*.safetensors"), reverse=True)

    def newest(self, say: Say) -> Path | None:
        """The newest checkpoint that is whole; damaged ones are named and passed over."""
        for path in self.checkpoints():
            try:
                read(path)
            except ModelError as problem:
                say(f"{problem}; going back to the checkpoint before")
                continue
            return path
        return None

    def refuse_foreign(self) -> None:
        """A folder of something else: nothing is put into it."""
        if not self.path.exists() or self.note.is_file():
            return
        if not self.path.is_dir() or any(not _left_early(entry.name) for entry in self.path.iterdir()):
            raise OutputError(f"{self.path}: exists and is no training run; choose another folder")

    def _sweep(self) -> None:
        """What a killed process was about to write."""
        for folder in (self.path, self._checkpoints):
            for draft in folder.glob(".*.partial*"):
                atomic.remove(draft)


def recognises(folder: Path) -> bool:
    return (folder / NOTE).is_file()


def describe(folder: Path) -> list[tuple[str, str]]:
    """In lines for a person."""
    run, about = Run(folder), _flat(read_note(folder / NOTE))
    entries = run.log.entries()
    validations = [entry for entry in entries if "perplexity" in entry]
    reached = "nothing logged yet"
    if entries:
        last = entries[-1]
        reached = f"step {last['step']:,}, {last['tokens']:,} tokens, {last['seconds'] / 60:,.0f} minutes"
    best = min(validations, key=lambda entry: entry["perplexity"], default=None)
    measured = "not measured yet" if best is None else f"{best['perplexity']:,.2f} at step {best['step']:,}"
    settings = ", ".join(f"{name} {value}" for name, value in about.items() if value is not None)
    return [
        ("format", "stelmo training run"),
        ("reached", reached),
        ("perplexity", f"{measured} (held-out text, both directions, full softmax)"),
        ("model", str(folder / "model") if (folder / "model").is_dir() else "none yet: it comes with a validation"),
        ("checkpoints", ", ".join(path.name for path in run.checkpoints()) or "none"),
        ("settings", settings),
    ]


def model_of(folder: Path) -> Path:
    """Where the best model of a run is."""
    if not (folder / "model").is_dir():
        raise ModelError(f"{folder}: a training run without a model yet; it is written with the first validation")
    return folder / "model"


def read(path: Path) -> Checkpoint:
    """A checkpoint, once its checksum is right."""
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
        """All that can be read: of a killed process the last line may be torn."""
        if not self.path.is_file():
            return []
        return [entry for line in self.path.read_text().splitlines() if (entry := _entry(line)) is not None]

    def cut(self, step: int) -> None:
        """Forget what came after that step: it will be computed again."""
        kept = [entry for entry in self.entries() if entry["step"] <= step]
        with atomic.new_file(self.path, overwrite=True) as draft:
            draft.write_text("".join(json.dumps(entry) + "\n" for entry in kept))


def _entry(line: str) -> dict[str, Any] | None:
    try:
        entry = json.loads(line)
    except ValueError:
        return None
    return entry if isinstance(entry, dict) and isinstance(entry.get("step"), int) else None


def make(folder: Path) -> None:
    """The folder, and the one that it is in."""
    if not folder.absolute().parent.parent.is_dir():
        raise OutputError(f"{folder}: there is no folder {folder.parent} to write in; make it first")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        raise OutputError(f"{folder}: {atomic.reason(problem)}") from problem


def _left_early(name: str) -> bool:
    """What a process leaves that was killed before the run had its settings."""
    return name in (".lock", "checkpoints", "warm-start", SOFTMAX) or re.fullmatch(r"\..*\.partial.*", name) is not None


def note_or_compare(note: Path, about: Mapping[str, Any], free: frozenset[str] = frozenset()) -> None:
    """Write down what a folder is made with; where that is written, refuse what differs and is not `free`."""
    if note.is_file():
        _refuse_differences(note.parent, read_note(note), _plain(about), free)
        return
    with atomic.new_file(note) as draft:
        draft.write_text(json.dumps({"stelmo": VERSION, **about}, indent=2) + "\n")


def read_note(path: Path) -> dict[str, Any]:
    """What a run was started with."""
    try:
        values = json.loads(path.read_bytes())
    except (OSError, ValueError) as problem:
        raise OutputError(f"{path}: cannot be read as JSON ({problem}); choose another folder") from None
    if not isinstance(values, dict) or values.pop("stelmo", None) != VERSION:
        raise OutputError(f"{path}: not a run of this version of stelmo; choose another folder")
    return values


def _refuse_differences(path: Path, old: Mapping[str, Any], new: Mapping[str, Any], free: frozenset[str]) -> None:
    before, after = _flat(old), _flat(new)
    differing = [name for name in sorted({*before, *after}) if before.get(name) != after.get(name) and name not in free]
    if differing:
        listed = "; ".join(f"{name} is {before.get(name)} there, {after.get(name)} here" for name in differing)
        raise OutputError(f"{path} is a run of other settings ({listed}); repeat those, or choose another folder")


def _flat(values: Mapping[str, Any]) -> dict[str, Any]:
    """{"lstm": {"cells": 4}} → {"lstm.cells": 4}"""
    found: dict[str, Any] = {}
    for name, value in values.items():
        if isinstance(value, dict):
            found |= {f"{name}.{inner}": leaf for inner, leaf in _flat(value).items()}
        else:
            found[name] = value
    return found


def _plain(values: Mapping[str, Any]) -> dict[str, Any]:
    """As JSON gives it back: tuples become lists."""
    plain: dict[str, Any] = json.loads(json.dumps(values))
    return plain
