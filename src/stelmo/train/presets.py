"""A preset, a TOML file and `name=value` assignments → the settings of a run, checked against its corpus.

Each overrides the one before it. Settings of training have plain names (`lr`); those of the architecture and of the
warm start are prefixed (`lstm.cells`, `encoder.hidden`, `input.filters`, `vectors.steps`).
"""

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import BaseModel

from stelmo.config import (
    CharInput,
    CodePointInput,
    GatedCnnConfig,
    LstmConfig,
    ModelConfig,
    TransformerConfig,
    WordInput,
    parse,
)
from stelmo.corpus.folder import Corpus
from stelmo.errors import ConfigError, DataError
from stelmo.settings import BUDGETS, TrainSettings, VectorSettings, parse_assignments, read_toml
from stelmo.train.learner import Start
from stelmo.train.warm_start import WarmStart, read_vectors

Layer = Mapping[str, Any]


class Plan(NamedTuple):
    """Everything that decides the result of a run, except the text."""

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
_QUICK = {"optimizer": "adam", "lr": 0.003, "warmup": 0.02, "decay": "linear", "count_biases": True}

_LAPTOP_CHARS = {"input": _architecture(0, 0, [[1, 32], [2, 64], [3, 128], [4, 128], [5, 128]], 16, 1)["input"]}
# As many words a step as laptop, in fewer and longer rows: where a row is cut, a sentence loses its context.
_CONCATENATED = {
    **_QUICK,
    "lr": 0.002,
    "warmup": 500,
    "batch": 8,
    "unroll": 160,
    "negatives": 4096,
    "validate_tokens": 50_000,
    "epochs": 10,
}

PRESETS: dict[str, Layer] = {
    # Very small, for trying out a corpus and for tests.
    "tiny": {
        **_architecture(64, 16, [[1, 8], [2, 16], [3, 24]], 8, 1),
        **_QUICK,
        "batch": 16,
        "negatives": "all",
        "epochs": 10,
    },
    # For a laptop's CPU, in a day or less.
    "laptop": {
        **_architecture(1024, 128, [[1, 32], [2, 64], [3, 128], [4, 128], [5, 128]], 16, 1),
        **_QUICK,
        "warmup": 100,  # steps: a share of a short budget would be too few, and Adam's first steps would be too large
        "decay": "late",
        "batch": 64,
        "negatives": 4096,
        "validate_tokens": 50_000,
        "epochs": 10,
    },
    # The published models: 13.6, 28.0 and 93.6 million parameters without the softmax.
    "small": {**_architecture(1024, 128, _PAPER_FILTERS, 16, 1), **_PAPER},
    "medium": {**_architecture(2048, 256, _PAPER_FILTERS, 16, 1), **_PAPER},
    "original": {**_architecture(4096, 512, _PAPER_FILTERS, 16, 2), **_PAPER},
    # The other encoders, with about as many parameters as laptop and vectors of the same width.
    "laptop-transformer": {
        **_LAPTOP_CHARS,
        "encoder": {"kind": "transformer", "width": 128, "hidden": 2048, "layers": 4, "positions": 512},
        **_CONCATENATED,
    },
    "laptop-gated-cnn": {
        **_LAPTOP_CHARS,
        "encoder": {"kind": "gated-cnn", "width": 128, "blocks": [[[4, 368], [1, 128]]] * 5},
        **_CONCATENATED,
    },
}


def plan(preset: str, file: Path | None = None, assignments: Iterable[str] = (), vocabulary: int | None = None) -> Plan:
    """The preset, overridden by the file, overridden by the assignments. `vocabulary` sizes a word-id input."""
    if preset not in PRESETS:
        raise ConfigError(f"{preset!r} is not a preset; presets are {', '.join(PRESETS)}")
    values = overridden(PRESETS[preset], file, assignments)
    model = {part: values.pop(part) for part in ("input", "encoder")}
    if model["input"].get("kind") == "words" and vocabulary is not None:
        model["input"] = {"words": vocabulary} | model["input"]
    vectors = values.pop("vectors", None)
    return Plan(
        parse(ModelConfig, model, "settings", ConfigError),
        parse(TrainSettings, values, "settings", ConfigError),
        vectors=None if vectors is None else parse(VectorSettings, vectors, "settings: vectors", ConfigError),
    )


def with_vectors(plan: Plan, source: str | None, corpus: Corpus, say: Callable[[str], None]) -> Plan:
    """The plan, starting from the static vectors of `source` if one is given."""
    if source is None:
        if plan.vectors is not None:
            raise ConfigError("vectors.*: these settings require --vectors FILE (or --vectors trained)")
        return plan
    settings = plan.vectors or VectorSettings()
    return plan._replace(warm=read_vectors(source, corpus, settings, plan.model.projection, say))


def refuse_misfit(plan: Plan, corpus: Corpus) -> None:
    """Refuse a plan that contradicts itself or does not fit the corpus, before anything is written."""
    if plan.train.device.startswith("mps"):
        raise ConfigError("device: mps has no float64, in which training sums losses and norms; use cpu or cuda")
    if plan.train.optimizer == "muon" and not plan.model.has_state:
        raise ConfigError("optimizer: muon is for the matrices of LSTMs; choose adam or adamw for this encoder")
    found, batch = corpus.manifest.train.sentences, plan.train.batch
    if found < batch:
        raise DataError(
            f"{corpus.path}: {found} training sentences for a batch of {batch} rows; "
            f"each row reads its own, so prepare more text or set batch to {max(1, found)} or less"
        )
    if not corpus.heldout:
        raise DataError(f"{corpus.path}: no held-out sentences to validate on; prepare the text with --heldout 0.01")
    if plan.start is not None:
        return
    reads, words = plan.model.input, len(corpus.vocabulary)
    if isinstance(reads, CodePointInput):
        raise ConfigError(
            "input.kind: pretraining of models that read code points is not supported; use chars or words"
        )
    if isinstance(reads, WordInput) and reads.words != words:
        raise ConfigError(f"input.words is {reads.words}, but {corpus.path} has a vocabulary of {words}; leave it out")


def overridden(values: Layer, file: Path | None = None, assignments: Iterable[str] = ()) -> dict[str, Any]:
    """The values, overridden by the settings of the file, then by the assignments."""
    if file is not None:
        values = _over(dict(values), read_toml(file), str(file))
    return _over(dict(values), parse_assignments(assignments), "--set")


def _over(values: dict[str, Any], new: Layer, where: str) -> dict[str, Any]:
    _refuse_unknown(new, where)
    values, new = _by_kind(values, where), _by_kind(new, where)
    if set(BUDGETS) & set(new):  # there is one budget: a new one replaces the old
        values = {name: value for name, value in values.items() if name not in BUDGETS}
    for name, value in new.items():
        old = values.get(name)
        if isinstance(old, Mapping) and isinstance(value, Mapping):
            same_kind = value.get("kind", old.get("kind")) == old.get("kind")
            value = {**old, **value} if same_kind else dict(value)
        values[name] = value
    return values


def _by_kind(values: Layer, where: str) -> dict[str, Any]:
    """The values with `lstm` as an encoder of that kind."""
    if "lstm" not in values:
        return dict(values)
    if "encoder" in values:
        raise ConfigError(f"{where}: both lstm and encoder; a model has one of them")
    rest = {name: value for name, value in values.items() if name != "lstm"}
    return {**rest, "encoder": {"kind": "lstm", **values["lstm"]}}


_PARTS: dict[str, tuple[type[BaseModel], ...]] = {
    "input": (CharInput, WordInput, CodePointInput),
    "lstm": (LstmConfig,),
    "encoder": (LstmConfig, TransformerConfig, GatedCnnConfig),
    "vectors": (VectorSettings,),
}


def _refuse_unknown(new: Layer, where: str) -> None:
    known = {*TrainSettings.model_fields, *_PARTS}
    for name, value in new.items():
        if name not in known:
            raise ConfigError(f"{where}: no setting {name!r}; settings are {', '.join(sorted(known))}")
        if name not in _PARTS:
            continue
        fields = {field for kind in _PARTS[name] for field in kind.model_fields}
        fields -= {"kind"} if name == "lstm" else set()
        if not isinstance(value, Mapping):
            raise ConfigError(f"{where}: {name} is {value!r}; expected settings like {name}.{sorted(fields)[0]}")
        for unknown in sorted(set(value) - fields):
            raise ConfigError(f"{where}: no setting {name}.{unknown}; {name} has {', '.join(sorted(fields))}")
