"""A preset's name, a TOML file and `name=value` words → the settings of a run. Knows no corpus.

A later layer overrides an earlier one: preset, file, words. Settings of training stand alone (`lr`); those of the
architecture behind their part (`lstm.cells`, `input.filters`).
"""

import tomllib
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import BaseModel

from stelmo.config import (
    BUDGETS,
    CharInput,
    CodePointInput,
    LstmConfig,
    ModelConfig,
    TrainSettings,
    VectorSettings,
    WordInput,
    parse,
)
from stelmo.corpus.folder import Corpus
from stelmo.errors import ConfigError
from stelmo.train.start import Start
from stelmo.train.warm_start import WarmStart, read_vectors

Layer = Mapping[str, Any]


class Plan(NamedTuple):
    """All that decides what a run turns out, but the text."""

    model: ModelConfig
    train: TrainSettings
    start: Start | None = None  # unset: random weights
    warm: WarmStart | None = None  # static vectors to start from
    vectors: VectorSettings | None = None  # what was set for them; None: nothing


def _architecture(
    cells: int, projection: int, filters: list[list[int]], embedding: int, highways: int
) -> dict[str, Any]:
    return {
        "input": {"kind": "chars", "embedding": embedding, "filters": filters, "highways": highways},
        "lstm": {"cells": cells, "projection": projection, "cell_clip": 3.0, "projection_clip": 3.0},
    }


_PAPER_FILTERS = [[1, 32], [2, 32], [3, 64], [4, 128], [5, 256], [6, 512], [7, 1024]]
_PAPER = {
    "optimizer": "adagrad",
    "lr": 0.2,
    "accumulator": 1.0,
    "batch": 128,
    "negatives": 8192,
    "clip": 10.0,
    "window_loss": True,
    "epochs": 10,
}
_QUICK = {"optimizer": "adam", "lr": 0.003, "warmup": 0.02, "decay": "linear"}

PRESETS: dict[str, Layer] = {
    # A toy, for trying out a corpus and for tests.
    "tiny": {
        **_architecture(64, 16, [[1, 8], [2, 16], [3, 24]], 8, 1),
        **_QUICK,
        "batch": 16,
        "negatives": "all",
        "epochs": 10,
    },
    # A day of a laptop's CPU, or less.
    "laptop": {
        **_architecture(1024, 128, [[1, 32], [2, 64], [3, 128], [4, 128], [5, 128]], 16, 1),
        **_QUICK,
        "warmup": 100,  # steps: a share of a short budget would be too few, and Adam starts too hot
        "batch": 64,
        "negatives": 4096,
        "validate_tokens": 50_000,
        "epochs": 10,
    },
    # The published models: 13.6, 28.0 and 93.6 million parameters without the softmax.
    "small": {**_architecture(1024, 128, _PAPER_FILTERS, 16, 1), **_PAPER},
    "medium": {**_architecture(2048, 256, _PAPER_FILTERS, 16, 1), **_PAPER},
    "original": {**_architecture(4096, 512, _PAPER_FILTERS, 16, 2), **_PAPER},
}


def plan(preset: str, file: Path | None = None, words: Iterable[str] = (), vocabulary: int | None = None) -> Plan:
    """The preset's settings, overridden by the file's and then by the words. `vocabulary` sizes a word-id input."""
    if preset not in PRESETS:
        raise ConfigError(f"{preset!r} is no preset; presets are {', '.join(PRESETS)}")
    values = overridden(PRESETS[preset], file, words)
    model = {part: values.pop(part) for part in ("input", "lstm")}
    if model["input"].get("kind") == "words" and vocabulary is not None:
        model["input"] = {"words": vocabulary} | model["input"]
    vectors = values.pop("vectors", None)
    return Plan(
        parse(ModelConfig, model, "settings", ConfigError),
        parse(TrainSettings, values, "settings", ConfigError),
        vectors=None if vectors is None else parse(VectorSettings, vectors, "settings: vectors", ConfigError),
    )


def with_vectors(plan: Plan, source: str | None, corpus: Corpus, say: Callable[[str], None]) -> Plan:
    """The plan, starting from the static vectors of `source` where it is given."""
    if source is None:
        if plan.vectors is not None:
            raise ConfigError("vectors.*: these settings require --vectors FILE (or --vectors trained)")
        return plan
    settings = plan.vectors or VectorSettings()
    return plan._replace(warm=read_vectors(source, corpus, settings, plan.model.lstm.projection, say))


def overridden(values: Layer, file: Path | None = None, words: Iterable[str] = ()) -> dict[str, Any]:
    """By the settings of the file, then by the words."""
    if file is not None:
        values = _over(dict(values), read_toml(file), str(file))
    return _over(dict(values), parse_words(words), "--set")


def read_toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as problem:
        raise ConfigError(f"{path}: cannot be read as TOML ({problem})") from None


def parse_words(words: Iterable[str]) -> dict[str, Any]:
    """["lr=0.002", "lstm.cells=512"] → {"lr": 0.002, "lstm": {"cells": 512}}"""
    values: dict[str, Any] = {}
    for word in words:
        name, equals, text = word.partition("=")
        if not equals or not name.strip():
            raise ConfigError(f"--set {word}: no name and value; write it like lr=0.002")
        *parts, last = name.strip().split(".")
        place = values
        for part in parts:
            place = place.setdefault(part, {})
        place[last] = _value(text.strip())
    return values


def _value(text: str) -> Any:
    """A TOML value; what is none is a string, so that it needs no quotes."""
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


def _over(values: dict[str, Any], new: Layer, where: str) -> dict[str, Any]:
    _refuse_unknown(new, where)
    kept = {name: value for name, value in values.items() if name not in BUDGETS or not set(BUDGETS) & set(new)}
    return kept | {name: _part_over(kept.get(name), value) for name, value in new.items()}


def _part_over(old: Any, new: Any) -> Any:
    if not isinstance(old, Mapping) or not isinstance(new, Mapping):
        return new
    another_kind = new.get("kind", old.get("kind")) != old.get("kind")
    return dict(new) if another_kind else dict(old) | dict(new)


_PARTS: dict[str, tuple[type[BaseModel], ...]] = {
    "input": (CharInput, WordInput, CodePointInput),
    "lstm": (LstmConfig,),
    "vectors": (VectorSettings,),
}


def _refuse_unknown(new: Layer, where: str) -> None:
    known = {*TrainSettings.model_fields, *_PARTS}
    for name, value in new.items():
        if name not in known:
            raise ConfigError(f"{where}: no setting {name!r}; settings are {', '.join(sorted(known))}")
        if name in _PARTS:
            _refuse_unknown_part(name, value, where)


def _refuse_unknown_part(part: str, values: Any, where: str) -> None:
    known = {field for kind in _PARTS[part] for field in kind.model_fields}
    if not isinstance(values, Mapping):
        raise ConfigError(f"{where}: {part} is {values!r}; expected settings like {part}.{sorted(known)[0]}")
    for name in set(values) - known:
        raise ConfigError(f"{where}: no setting {part}.{name}; {part} has {', '.join(sorted(known))}")
