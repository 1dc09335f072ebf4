"""An AllenNLP archive (model.tar.gz) or state (.th) → the ELMo inside a task's model, with its trained mixes.

A language model of AllenNLP, whatever its encoder, is read by `allennlp_lm`.

Knows AllenNLP's names and its PyTorch conventions, which differ from the published files:

              AllenNLP                              published
 convolution  (count, character width, width)       (width, character width, count)
 highway      [transform; gate] in one, gate · x    two matrices, gate · transformed x: the gate changes its sign
 LSTM gates   i, f, j, o; forget bias includes 1    i, j, f, o; 1 is added at run time

The shapes in a state determine the architecture except clips, activation and the longest word, which are in an
options.json that an archive may contain (fta/…options_file). AllenNLP always has skip connections.
"""

import re
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any

import torch
from torch import Tensor

from stelmo.config import CharInput, ModelConfig, parse
from stelmo.errors import ModelError
from stelmo.formats import allennlp_lm, bilm
from stelmo.formats.allennlp_tensors import StateTensors, below, char_encoder, published_gates
from stelmo.formats.untrusted import archives, pickles
from stelmo.model.bilm import Softmax
from stelmo.ops.reference import FORGET_BIAS
from stelmo.store.saved import Mix, SavedModel, filled_bilm

ASSUMED = "clips and activation assumed as published"
NORMED = "mixes trained over layer norm"
WEIGHTS, VOCABULARY = ("weights.th", "best.th"), "vocabulary/tokens.txt"
OWNER, ENCODER, STACK = "_elmo_lstm.", "_token_embedder.", "_elmo_lstm."  # the owner and the stack share a name
DIRECTIONS = ("forward", "backward")
TABLE = f"{ENCODER}_char_embedding_weights"

# The same in all published models, and not visible in any shape.
_PUBLISHED: dict[str, dict[str, Any]] = {
    "input": {"activation": "relu", "max_characters": 50},
    "lstm": {"cell_clip": 3.0, "projection_clip": 3.0, "skip": True},
}
_INVISIBLE = {"input": {"activation", "max_characters"}, "encoder": {"cell_clip", "projection_clip", "skip"}}


def recognises(path: Path) -> bool:
    """By its name: an archive, a state, or a folder with an unpacked archive."""
    if path.is_dir():
        return any((path / name).is_file() for name in WEIGHTS)
    return path.name.endswith((".th", ".pt", ".pth", ".tar.gz", ".tgz"))


def read(path: Path, options: Path | None = None, prefix: str = "") -> SavedModel:
    """The ELMo in the state; of several different ones, the one whose tensor names start with `prefix`."""
    if path.is_file() and not path.stat().st_size:
        raise ModelError(f"{path}: the file is empty; expected an AllenNLP archive or state, copy it again")
    with _opened(path) as files:
        state = pickles.read_state(_weights(files, path))
        if allennlp_lm.recognises(state, prefix):
            about, words = _one(files, "config.json"), _one(files, VOCABULARY)
            saved = allennlp_lm.model(state, str(path), _format(path, []), about, words, prefix)
            head = partial(_language_model_softmax, path, saved.config, prefix)
            return replace(saved, read_softmax=head) if allennlp_lm.has_softmax(state, prefix) else saved
        found = [options] if options is not None else [file for name, file in files.items() if _is_options(name)]
        configs = [bilm.read_options(file) for file in found]
        normed = _has_layer_norm(files)
    elmos = _elmos(state, prefix, str(path))
    config = _config(elmos[0], configs)
    mixes = _mixes(elmos, config.depth)
    notes = [*([] if configs else [ASSUMED]), *([NORMED] if normed and mixes else [])]
    return SavedModel(
        filled_bilm(config, dict(_tensors(elmos[0], config)), str(path)), _format(path, notes), mixes=mixes
    )


def _language_model_softmax(path: Path, config: ModelConfig, prefix: str) -> Softmax:
    """Read when it is first needed: it can be larger than the rest of the archive."""
    with _opened(path) as files:
        return allennlp_lm.softmax(pickles.read_state(_weights(files, path)), config, str(path), prefix)


def tensors(state: Mapping[str, Tensor], config: ModelConfig, where: str) -> dict[str, Tensor]:
    """One biLM's tensors under AllenNLP's names (`_token_embedder.…`, `_elmo_lstm.…`) → under ours."""
    return dict(_tensors(_Elmo("", state, where, {}), config))


# The files


def _opened(path: Path) -> AbstractContextManager[dict[str, Path]]:
    """The needed files by their names in the archive."""
    if path.is_dir():
        found = [file for file in (*path.iterdir(), *path.glob("fta/*"), path / VOCABULARY) if file.is_file()]
        names = {file.relative_to(path).as_posix(): file for file in found}
        return nullcontext({name: file for name, file in names.items() if _wanted(name)})
    return (
        archives.unpacked(path, _wanted, is_text=lambda name: not name.endswith(WEIGHTS))
        if archives.is_gzip(path)
        else nullcontext({WEIGHTS[0]: path})
    )


def _wanted(name: str) -> bool:
    return PurePosixPath(name).name in (*WEIGHTS, "config.json") or _is_options(name) or name.endswith(VOCABULARY)


def _one(files: Mapping[str, Path], end: str) -> Path | None:
    """The file whose path ends with these names; of several, the one in the topmost folder."""
    found = sorted((name.count("/"), name) for name in files if f"/{name}".endswith(f"/{end}"))
    return files[found[0][1]] if found else None


def _is_options(name: str) -> bool:
    return name.endswith(("options_file", "options.json"))


def _weights(files: Mapping[str, Path], path: Path) -> Path:
    for wanted in WEIGHTS:
        found = [file for name, file in files.items() if PurePosixPath(name).name == wanted]
        if len(found) == 1:
            return found[0]
    raise ModelError(
        f"{path}: no {WEIGHTS[0]}, or more than one, among {', '.join(files) or 'its members'}; expected one"
    )


def _has_layer_norm(files: Mapping[str, Path]) -> bool:
    """Whether the task's configuration sets it: no tensor shows it, and it changes the meaning of a mix."""
    configs = [file for name, file in files.items() if PurePosixPath(name).name == "config.json"]
    try:
        return any(re.search(rb'"do_layer_norm"\s*:\s*true', file.read_bytes()) for file in configs)
    except OSError as problem:
        raise ModelError(f"{problem.filename}: cannot be read ({problem.strerror})") from None


def _format(path: Path, notes: list[str]) -> str:
    kind = "folder" if path.is_dir() else "archive" if archives.is_gzip(path) else "state"
    return f"AllenNLP {kind}" + (f" ({'; '.join(notes)})" if notes else "")


# The ELMos of a state


@dataclass(frozen=True)
class _Elmo(StateTensors):
    """The tensors of one biLM; `mixes` are those of the mixes around it."""

    mixes: Mapping[str, Tensor]

    def same_weights(self, other: "_Elmo") -> bool:
        mine, theirs = self.tensors, other.tensors
        return mine.keys() == theirs.keys() and all(
            mine[name].dtype == theirs[name].dtype and torch.equal(mine[name], theirs[name]) for name in mine
        )

    def names(self) -> Iterator[str]:
        yield from (*self.tensors, *self.mixes)

    def found(self, name: str) -> Tensor:
        return self.mixes[name] if name in self.mixes else super().found(name)


def _elmos(state: Mapping[str, Tensor], prefix: str, path: str) -> list[_Elmo]:
    """All ELMos in the state, which must share one biLM."""
    roots = [name.removesuffix(TABLE) for name in state if name.startswith(prefix) and name.endswith(TABLE)]
    elmos = []
    for root in roots:
        # Caches of word vectors, which AllenNLP may have saved as well, have other names.
        own = below(state, root, (ENCODER, STACK), path)
        mixes = below(state, root.removesuffix(OWNER), ("scalar_mix_",), path) if root.endswith(OWNER) else {}
        elmos.append(_Elmo(root, own, path, mixes))
    if not elmos:
        there = ", ".join(list(state)[:3]) or "nothing"
        raise ModelError(f"{path}: no ELMo inside (no tensor {prefix}…{TABLE}); it holds {there}")
    if not all(elmos[0].same_weights(other) for other in elmos[1:]):
        raise ModelError(f"{path}: {len(roots)} different ELMos, {' and '.join(roots)}; choose one with prefix=…")
    return elmos


def _mixes(elmos: list[_Elmo], depth: int) -> tuple[Mix, ...]:
    """In the order of the state; one module with two names counts once."""
    distinct: dict[str, list[Mix]] = {}
    for elmo in elmos:
        mixes = []
        for gamma in elmo.numbered("scalar_mix_{}.gamma"):
            weights = elmo.numbered(gamma.replace("gamma", "scalar_parameters.{}"))
            if len(weights) != depth:
                raise ModelError(f"{elmo.path}: {gamma} scales a mix of {len(weights)} layers; the biLM has {depth}")
            mixes.append(Mix(torch.cat([elmo.tensor(name, 1) for name in weights]), elmo.tensor(gamma, 1)[0]))
        distinct.setdefault(repr([(mix.logits_L.tolist(), mix.scale.item()) for mix in mixes]), mixes)
    return tuple(mix for mixes in distinct.values() for mix in mixes)


# The architecture


def _config(elmo: _Elmo, configs: list[ModelConfig]) -> ModelConfig:
    """The architecture in the shapes, completed by the options that fit it."""
    shown = _shown(elmo)
    if not configs:
        return shown
    visible = shown.model_dump(exclude=_INVISIBLE)
    fitting = [config for config in configs if config.model_dump(exclude=_INVISIBLE) == visible]
    if not fitting or any(config != fitting[0] for config in fitting):
        raise ModelError(
            f"{elmo.path}: {len(fitting)} of {len(configs)} options fit the tensors; name the one with options=…"
        )
    if not fitting[0].lstm.skip:
        raise ModelError(f"{elmo.path}: use_skip_connections is not set in the options; AllenNLP has no such model")
    return fitting[0]


def _shown(elmo: _Elmo) -> ModelConfig:
    """What the shapes show; the rest as published."""
    kernels = [elmo.shape(name, 3) for name in elmo.numbered(f"{ENCODER}char_conv_{{}}.weight")]
    projection, cells = elmo.shape(f"{STACK}forward_layer_0.state_projection.weight", 2)
    cnn = {
        "kind": "chars",
        "embedding": elmo.shape(TABLE, 2)[1],
        "filters": [(width, number) for number, _, width in kernels],
        "highways": len(elmo.numbered(f"{ENCODER}_highways._layers.{{}}.weight")),
    }
    forward, backward = (
        len(elmo.numbered(f"{STACK}{direction}_layer_{{}}.state_projection.weight")) for direction in DIRECTIONS
    )
    if forward != backward:
        raise ModelError(f"{elmo.path}: {forward} forward and {backward} backward layers; a biLM has equally many")
    lstm = {"cells": cells, "projection": projection, "layers": forward}
    values = {"input": cnn | _PUBLISHED["input"], "lstm": lstm | _PUBLISHED["lstm"]}
    config = parse(ModelConfig, values, elmo.path, ModelError)
    assert isinstance(config.input, CharInput)
    if projection in (cells, config.input.width):
        raise ModelError(
            f"{elmo.path}: a projection from {projection} numbers to {projection}; published models have no square "
            "projection, and such a model is not supported"
        )
    return config


# The tensors


def _tensors(elmo: _Elmo, config: ModelConfig) -> Iterator[tuple[str, Tensor]]:
    assert isinstance(config.input, CharInput)
    yield from char_encoder(elmo, TABLE, ENCODER, config.input, config.projection)
    cells, projection = config.lstm.cells, config.lstm.projection
    for direction in DIRECTIONS:
        for layer in range(config.lstm.layers):
            name, ours = f"{STACK}{direction}_layer_{layer}", f"lstm_{direction}.{layer}"
            halves = [
                elmo.tensor(f"{name}.{half}_linearity.weight", 4 * cells, projection) for half in ("input", "state")
            ]
            yield f"{ours}.kernel", torch.cat([published_gates(half).T for half in halves])
            bias = published_gates(elmo.tensor(f"{name}.state_linearity.bias", 4 * cells))
            bias[2 * cells : 3 * cells] -= FORGET_BIAS
            yield f"{ours}.bias", bias
            weight = elmo.tensor(f"{name}.state_projection.weight", projection, cells)
            yield f"{ours}.projection", weight.T.contiguous()
