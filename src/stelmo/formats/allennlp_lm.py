"""An AllenNLP language model (`language_model`, `bidirectional_language_model`) → a model, with its softmax.

The state may be that of the language model itself, or that of a task's model around it. Shapes determine the
architecture; an archive's config.json adds what they do not show: the activation, dilations, and where words are
projected if they are as wide before as after. Heads are always 8. Layer norms add 1e-6 to the deviation in archives of
AllenNLP 0.x, whose training has an `iterator`, and 1e-13 in later ones; a state alone counts as one of 0.x.

D width of a direction, V lines of the vocabulary.
"""

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from stelmo.config import CharInput, GatedCnnConfig, ModelConfig, TransformerConfig, parse
from stelmo.errors import ModelError
from stelmo.formats.allennlp_tensors import StateTensors, below, char_encoder, published_gates
from stelmo.model.bilm import Softmax
from stelmo.ops.reference import FORGET_BIAS
from stelmo.store.saved import Mix, SavedModel, filled_bilm, filled_softmax
from stelmo.text import chars
from stelmo.text.ids import MOST_BYTES, UNKNOWN, Vocabulary, parse_vocabulary

CONTEXT, EMBEDDER, SOFTMAX = "_contextualizer.", "_text_field_embedder.", "_softmax_loss."
TASK = "_lm."  # what a task's model calls the language model inside it
HEADS = 8
EPSILON = {"0.x": 1e-6, "later": 1e-13}
ITS_UNKNOWN, ITS_NEWLINE, NO_WORD = "@@UNKNOWN@@", "@@NEWLINE@@", "@@PADDING@@"
KNOWN = "expected a transformer, a gated CNN or an LSTM"
_SIDES = ("forward", "backward")
_OUTSIDE_STRINGS = re.compile(r'("(?:[^"\\]|\\.)*")|//[^\n]*|/\*.*?\*/|,(?=\s*[}\]])', re.DOTALL)

Config = Mapping[str, Any]


def recognises(state: Mapping[str, Tensor], prefix: str = "") -> bool:
    return any(name.startswith(prefix) and CONTEXT in name for name in state)


def has_softmax(state: Mapping[str, Tensor], prefix: str = "") -> bool:
    return any(name.startswith(prefix) and f".{SOFTMAX}" in f".{name}" for name in state)


def model(
    state: Mapping[str, Tensor], path: str, format: str, about: Path | None, words: Path | None, prefix: str = ""
) -> SavedModel:
    """The language model in the state, without its softmax. `about` is config.json, `words` vocabulary/tokens.txt."""
    source = _source(state, path, prefix)
    config = {} if about is None else read_jsonnet(about)
    own = _section(config, "model") if source.root == "" else {}  # a task's configuration is not the language model's
    _refuse_other_readers(config if own else {}, path)
    epsilon = EPSILON["0.x" if about is None or "iterator" in config or source.root else "later"]
    encoder = _encoder(source, _section(own, "contextualizer"), epsilon)
    width = int(encoder["projection" if encoder["kind"] == "lstm" else "width"])
    values = {"input": _input(source, own, width, epsilon), "encoder": encoder}
    architecture = parse(ModelConfig, values, path, ModelError)
    tensors = dict(_tensors(source, architecture))
    vocabulary = None if words is None else _vocabulary(words)
    mixes = _mixes(state, source.root, architecture.depth, path)
    return SavedModel(
        filled_bilm(architecture, tensors, path), f"{format} of a language model", vocabulary, mixes=mixes
    )


def softmax(state: Mapping[str, Tensor], config: ModelConfig, path: str, prefix: str = "") -> Softmax:
    """One row for every vocabulary line, and a last one that is never a target but counts in the denominator."""
    source = _source(state, path, prefix)
    width, name = config.projection, f"{SOFTMAX}softmax_w"
    if f"{name}.weight" in source.tensors:  # trained with sparse gradients
        rows = source.shape(f"{name}.weight", 2)[0]
        weight = source.tensor(f"{name}.weight", rows, width)
        bias = source.tensor(f"{SOFTMAX}softmax_b.weight", rows, 1)[:, 0]
    else:
        (rows,) = source.shape(f"{SOFTMAX}softmax_b", 1)
        bias = source.tensor(f"{SOFTMAX}softmax_b", rows)
        # A softmax that was trained without sampling is stored transposed.
        transposed = source.shape(name, 2) == (width, rows) and rows != width
        weight = source.tensor(name, width, rows).T.contiguous() if transposed else source.tensor(name, rows, width)
    return filled_softmax(weight, bias, config, path)


def read_jsonnet(path: Path) -> Config:
    """config.json, which may have trailing commas and comments."""
    try:
        text = path.read_text(encoding="utf-8")
        values = json.loads(_OUTSIDE_STRINGS.sub(lambda found: found[1] or "", text))
    except (OSError, ValueError, RecursionError) as problem:
        raise ModelError(f"{path}: not JSON ({problem}); evaluate it with jsonnet and pack the result") from None
    if not isinstance(values, dict):
        raise ModelError(f"{path}: not an object; expected the configuration of an AllenNLP model")
    return values


def _section(config: Config, *names: str) -> Config:
    """A nested object; empty where it is missing."""
    for name in names:
        inner = config.get(name)
        config = inner if isinstance(inner, Mapping) else {}
    return config


def _source(state: Mapping[str, Tensor], path: str, prefix: str) -> StateTensors:
    """The tensors of the one language model in the state."""
    roots = {name[: name.index(CONTEXT)] for name in state if name.startswith(prefix) and CONTEXT in name}
    if len(roots) != 1:
        raise ModelError(f"{path}: {len(roots)} language models, {' and '.join(sorted(roots))}; choose one by prefix=…")
    (root,) = roots
    return StateTensors(root, below(state, root, (CONTEXT, EMBEDDER, SOFTMAX), path), path)


def _refuse_other_readers(config: Config, path: str) -> None:
    reader = _section(config, "dataset_reader")
    reader = _section(reader, "base_reader") or reader
    embedders = _section(config, "model", "text_field_embedder", "token_embedders")
    indexers = _section(reader, "token_indexers")
    for name in embedders:
        kind = _section(indexers, name).get("type", "elmo_characters")
        if _section(embedders, name).get("type") != "empty" and kind != "elmo_characters":
            raise ModelError(f"{path}: words are read by the indexer {kind!r:.40}; only elmo_characters is supported")
    for key, marker in (("start_tokens", chars.BEGIN_SENTENCE), ("end_tokens", chars.END_SENTENCE)):
        if reader.get(key, [marker]) != [marker]:
            raise ModelError(f"{path}: {key} is {reader[key]!r:.40}; only [{marker!r}] is supported")
    if _section(config, "model").get("bidirectional") is False:
        raise ModelError(f"{path}: bidirectional is false; only bidirectional models are supported")


# The architecture


def _words_at(source: StateTensors) -> str:
    """What the names of the character encoder's tensors start with; the author of a model chooses that name."""
    end = "_embedding._module.weight"
    found = [name.removesuffix(end) for name in source.tensors if name.startswith(EMBEDDER) and name.endswith(end)]
    if len(found) != 1:
        raise ModelError(f"{source.path}: {len(found)} character encoders in {source.root}{EMBEDDER}…; expected one")
    return found[0]


def _input(source: StateTensors, own: Config, width: int, epsilon: float) -> dict[str, Any]:
    at = _words_at(source)
    cnn = f"{at}_encoder._module."
    kernels = [source.shape(name, 3) for name in source.numbered(f"{cnn}char_conv_{{}}.weight")]
    highways = source.numbered(f"{cnn}_highways._layers.{{}}.weight")
    name = at.removeprefix(f"{EMBEDDER}token_embedder_").removesuffix(".")
    said = _section(own, "text_field_embedder", "token_embedders", name, "encoder")
    projection = None
    if said.get("projection_location", "") is not None:  # null: there is none; otherwise it may even be square
        first = said.get("projection_location") == "after_cnn"
        if highways and sum(number for number, _, _ in kernels) != width:  # the shapes show it
            first = source.shape(highways[0], 2)[1] == width
        projection = "after_convolution" if first else "after_highways"
    return {
        "kind": "chars",
        "embedding": source.shape(f"{at}_embedding._module.weight", 2)[1],
        "filters": [(window, number) for number, _, window in kernels],
        "highways": len(highways),
        "activation": said.get("activation", "relu"),
        "projection": projection,
        "layer_norm": epsilon if f"{cnn}_layer_norm.gamma" in source.tensors else None,
    }


def _encoder(source: StateTensors, said: Config, epsilon: float) -> dict[str, Any]:
    positions = f"{CONTEXT}_position.positional_encoding"
    if positions in source.tensors:
        hidden, width = source.shape(f"{CONTEXT}_forward_transformer.layers.0.feed_forward.w_1.weight", 2)
        return {
            "kind": "transformer",
            "width": width,
            "hidden": hidden,
            "layers": _layers(source, "transformer.layers.{}.feed_forward.w_1.weight"),
            "heads": HEADS,
            "epsilon": epsilon,
            "positions": source.shape(positions, 3)[1],
        }
    if any(name.startswith(f"{CONTEXT}_forward_residual_blocks.") for name in source.tensors):
        return _gated_cnn(source, said)
    if f"{CONTEXT}_module.weight_ih_l0" in source.tensors:
        return _lstm(source)
    raise ModelError(f"{source.path}: an unknown contextualizer; {KNOWN}")


def _layers(source: StateTensors, pattern: str) -> int:
    """How many there are, the same number in both directions."""
    forward, backward = (len(source.numbered(f"{CONTEXT}_{side}_{pattern}")) for side in _SIDES)
    if forward != backward or not forward:
        raise ModelError(f"{source.path}: {forward} forward and {backward} backward layers; a biLM has equally many")
    return forward


def _gated_cnn(source: StateTensors, said: Config) -> dict[str, Any]:
    """Dilations are in the configuration alone; without it, a convolution has none."""
    listed = said.get("layers")
    blocks: list[list[tuple[int, ...]]] = []
    inputs = 0
    for number in range(_layers(source, "residual_blocks.{}._convolutions.0.weight_v")):
        at = f"{CONTEXT}_forward_residual_blocks.{number}._convolutions."
        shapes = [source.shape(name, 3) for name in source.numbered(f"{at}{{}}.weight_v")]
        inputs = inputs or shapes[0][1]
        blocks.append([(window, outputs // 2) for outputs, _, window in shapes])
    if isinstance(listed, list):
        try:
            dilated = [[tuple(conv) for conv in block] for block in listed]
            fits = [[conv[:2] for conv in block] for block in dilated] == blocks
        except TypeError:
            fits = False
        if not fits:
            raise ModelError(
                f"{source.path}: the layers of the configuration do not fit the tensors; they belong to another model"
            )
        blocks = dilated
    return {"kind": "gated-cnn", "width": inputs, "blocks": blocks}


def _lstm(source: StateTensors) -> dict[str, Any]:
    gates, inputs = source.shape(f"{CONTEXT}_module.weight_ih_l0", 2)
    cells = source.shape(f"{CONTEXT}_module.weight_hh_l0", 2)[1]
    if gates != 4 * cells:
        raise ModelError(f"{source.path}: a recurrent network of {gates} gates over {cells} cells; {KNOWN}")
    if f"{CONTEXT}_module.weight_ih_l1" in source.tensors:
        raise ModelError(
            f"{source.path}: an LSTM of several layers, whose second reads both directions of the first; such a model "
            "sees the word that it predicts and is not supported"
        )
    if inputs != cells:
        raise ModelError(f"{source.path}: an LSTM of {cells} cells over vectors of {inputs}; expected as many as cells")
    return {"kind": "lstm", "cells": cells, "projection": cells, "layers": 1}


# The tensors


def _tensors(source: StateTensors, config: ModelConfig) -> Iterator[tuple[str, Tensor]]:
    assert isinstance(config.input, CharInput)
    at = _words_at(source)
    yield from char_encoder(
        source, f"{at}_embedding._module.weight", f"{at}_encoder._module.", config.input, config.projection
    )
    if isinstance(config.encoder, TransformerConfig):
        yield from _transformer_tensors(source, config.encoder)
    elif isinstance(config.encoder, GatedCnnConfig):
        yield from gated_cnn_tensors(source, config.encoder, CONTEXT)
    else:
        yield from _lstm_tensors(source, config.encoder.cells)


def _transformer_tensors(source: StateTensors, config: TransformerConfig) -> Iterator[tuple[str, Tensor]]:
    width, hidden = config.width, config.hidden
    table = source.tensor(f"{CONTEXT}_position.positional_encoding", 1, config.positions, width)
    yield "context.positions", table[0].clone()
    for side in _SIDES:
        stack, ours = f"{CONTEXT}_{side}_transformer.", f"context.{side}_stack."
        yield from _norm(source, f"{stack}norm", f"{ours}norm", width)
        for number in range(config.layers):
            layer, our = f"{stack}layers.{number}.", f"{ours}layers.{number}."
            yield from _norm(source, f"{layer}sublayer.0.norm", f"{our}attention_norm", width)
            yield from _norm(source, f"{layer}sublayer.1.norm", f"{our}hidden_norm", width)
            linears = [f"{layer}self_attn.linears.{part}" for part in range(4)]
            for part in ("weight", "bias"):
                shape = (width, width) if part == "weight" else (width,)
                *read, out = (source.tensor(f"{name}.{part}", *shape) for name in linears)
                yield f"{our}attention_in.{part}", torch.cat(read)
                yield f"{our}attention_out.{part}", out
            yield f"{our}hidden_in.weight", source.tensor(f"{layer}feed_forward.w_1.weight", hidden, width)
            yield f"{our}hidden_in.bias", source.tensor(f"{layer}feed_forward.w_1.bias", hidden)
            yield f"{our}hidden_out.weight", source.tensor(f"{layer}feed_forward.w_2.weight", width, hidden)
            yield f"{our}hidden_out.bias", source.tensor(f"{layer}feed_forward.w_2.bias", width)


def _norm(source: StateTensors, name: str, ours: str, width: int) -> Iterator[tuple[str, Tensor]]:
    yield f"{ours}.gain", source.tensor(f"{name}.gamma", width)
    yield f"{ours}.shift", source.tensor(f"{name}.beta", width)


def gated_cnn_tensors(source: StateTensors, config: GatedCnnConfig, at: str) -> Iterator[tuple[str, Tensor]]:
    """A word is read by the last column of a forward kernel and by the first of a backward one; ours begin with it."""
    for side in _SIDES:
        for number, block in enumerate(config.blocks):
            inputs = config.width
            for place, conv in enumerate(block):
                name = f"{at}_{side}_residual_blocks.{number}._convolutions.{place}"
                ours = f"context.{side}_stack.{number}.convolutions.{place}"
                direction = source.tensor(f"{name}.weight_v", 2 * conv[1], inputs, conv[0])
                direction = direction.flip(2) if side == "forward" else direction
                yield f"{ours}.direction", direction.permute(2, 1, 0).contiguous()
                yield f"{ours}.gain", source.tensor(f"{name}.weight_g", 2 * conv[1], 1, 1).flatten()
                yield f"{ours}.bias", source.tensor(f"{name}.bias", 2 * conv[1])
                inputs = conv[1]


def _lstm_tensors(source: StateTensors, cells: int) -> Iterator[tuple[str, Tensor]]:
    """torch's own: both biases count, and the forget bias includes the 1 that ours adds at run time."""
    for side, end in zip(_SIDES, ("", "_reverse"), strict=True):
        halves = [source.tensor(f"{CONTEXT}_module.weight_{half}_l0{end}", 4 * cells, cells) for half in ("ih", "hh")]
        yield f"lstm_{side}.0.kernel", torch.cat([published_gates(half).T for half in halves])
        biases = [source.tensor(f"{CONTEXT}_module.bias_{half}_l0{end}", 4 * cells) for half in ("ih", "hh")]
        bias = published_gates(biases[0] + biases[1])
        bias[2 * cells : 3 * cells] -= FORGET_BIAS
        yield f"lstm_{side}.0.bias", bias


def _mixes(state: Mapping[str, Tensor], root: str, depth: int, path: str) -> tuple[Mix, ...]:
    """What a task's model learned around the language model."""
    outer = root.removesuffix(TASK)
    if not root.endswith(TASK) or f"{outer}_scalar_mix.gamma" not in state:
        return ()
    mix = StateTensors(outer, below(state, outer, ("_scalar_mix.",), path), path)
    names = mix.numbered("_scalar_mix.scalar_parameters.{}")
    if len(names) != depth:
        raise ModelError(f"{path}: {outer}_scalar_mix has {len(names)} layers; the language model has {depth}")
    return (Mix(torch.cat([mix.tensor(name, 1) for name in names]), mix.tensor("_scalar_mix.gamma", 1)[0]),)


def _vocabulary(path: Path) -> Vocabulary:
    """The lines of tokens.txt under our names for special words, and a last word for the softmax's last row."""
    if path.stat().st_size > MOST_BYTES:
        raise ModelError(f"{path}: more than {MOST_BYTES:,} bytes; expected a vocabulary")
    lines = parse_vocabulary(path.read_bytes(), str(path)).words
    # Where both names occur, they are swapped: every word keeps a row, and unknown words have the right one.
    ours = {ITS_UNKNOWN: UNKNOWN, UNKNOWN: ITS_UNKNOWN, ITS_NEWLINE: "\n"}
    words = [ours.get(line, line) for line in lines]
    return Vocabulary((*words, NO_WORD), str(path))
