"""What a task learned of a model's layers ↔ RUN/mixes.json. Knows no model and no task."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, model_validator

from stelmo.config import Settings, parse
from stelmo.errors import DataError
from stelmo.store import atomic

FILE = "mixes.json"
VERSION = 1
Finite = Annotated[float, Field(allow_inf_nan=False)]


class Output(Settings):
    """One mix γ · Σ s_l h_l: where it enters the task's network, its shares s_0 … s_L, and γ."""

    placement: str = Field(min_length=1, description="where the mix enters the network, such as input")
    weights: tuple[Annotated[Finite, Field(ge=0)], ...] = Field(min_length=1, description="s_0 … s_L, which sum to 1")
    gamma: Finite = Field(1.0, description="γ")

    @model_validator(mode="after")
    def _sums_to_one(self) -> "Output":
        if abs(sum(self.weights) - 1) > 1e-3:
            raise ValueError(f"the weights sum to {sum(self.weights):.4g}, not to 1")
        return self


class Mixes(Settings):
    """All of one task's network."""

    stelmo: int = Field(VERSION, description="version of the file's format")
    task: str = Field(min_length=1, description="the task's name, such as ner")
    outputs: tuple[Output, ...] = Field(min_length=1)


def write(path: str | Path, task: str, outputs: Sequence[Output], overwrite: bool = True) -> None:
    """The file, whole or absent; a run folder stands for its mixes.json."""
    text = Mixes(task=task, outputs=tuple(outputs)).model_dump_json(indent=2)
    with atomic.new_file(_file(path), overwrite) as draft:
        draft.write_text(text + "\n", encoding="utf-8")


def read(path: str | Path) -> Mixes:
    """From the file, or from the run folder that holds it."""
    place = _file(path)
    try:
        values: Any = json.loads(place.read_bytes())
    except (OSError, ValueError, RecursionError) as problem:
        reason = problem.strerror if isinstance(problem, OSError) else problem
        raise DataError(f"{place}: cannot be read as JSON ({reason}); expected the run of a task with ELMo") from None
    version = values.get("stelmo") if isinstance(values, dict) else None
    if version != VERSION:
        raise DataError(f"{place}: format version {version!r}; this stelmo reads version {VERSION}, update it")
    return parse(Mixes, values, str(place), DataError)


def _file(path: str | Path) -> Path:
    return Path(path) / FILE if Path(path).is_dir() else Path(path)
