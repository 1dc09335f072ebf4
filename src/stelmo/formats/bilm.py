"""The published layout (options.json, weights.hdf5, vocabulary, softmax) ↔ a model. Knows no other format.

Its quirks: a table of 261 characters without the row for "no token here", the option `n_characters` that is 261 or 262
for the same file, kernels with a height of 1, and options of the training among those of the architecture.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from stelmo.config import CharInput, ModelConfig, WordInput, parse
from stelmo.errors import ConfigError, MissingModelError, ModelError
from stelmo.formats.untrusted import hdf5
from stelmo.model.bilm import Softmax
from stelmo.store import atomic
from stelmo.store.containers import NewHdf5
from stelmo.store.saved import SavedModel, filled_bilm, filled_softmax
from stelmo.text import chars
from stelmo.text.ids import Vocabulary, read_vocabulary, write_vocabulary

FORMAT = "bilm HDF5"
DIRECTIONS = ("lstm_forward", "lstm_backward")
ONE_DIRECTION = "a model of one direction is not read, because every layer here joins the vectors of both directions"


def read(
    weights: Path,
    options: Path,
    vocabulary: Path | None = None,
    softmax: Path | None = None,
    vocabulary_given: bool = True,
) -> SavedModel:
    """A vocabulary that was not given but found, and cannot be read, is left out if the model does not need it."""
    config = read_options(options)
    words, note = None, ""
    try:
        words = None if vocabulary is None else read_vocabulary(vocabulary)
    except ModelError as problem:
        if vocabulary_given or softmax is not None or isinstance(config.input, WordInput):
            raise
        note = f" (without its vocabulary: {problem})"
    saved = assembled(config, weights, words)
    saved = replace(saved, format=saved.format + note)
    if softmax is None:
        return saved
    return replace(saved, read_softmax=partial(read_softmax, softmax, saved.config, words))


def assembled(config: ModelConfig, weights: Path, words: Vocabulary | None) -> SavedModel:
    """The model without a softmax, from options and a vocabulary that are already read."""
    if isinstance(config.input, WordInput):
        if words is None:
            raise ModelError("the options have no char_cnn, so the model reads word ids and needs its vocab.txt")
        # Options of word-id models often lack n_tokens_vocab, so the vocabulary file decides.
        config = config.model_copy(update={"input": WordInput(words=len(words))})
    return SavedModel(filled_bilm(config, _read_weights(weights, config), str(weights)), FORMAT, words)


def write(saved: SavedModel, folder: Path) -> None:
    """options.json, weights.hdf5 and what else the model has, for the original software."""
    (folder / "options.json").write_text(json.dumps(options_of(saved.config), indent=2) + "\n")
    tensors = saved.bilm.state_dict()
    if isinstance(saved.config.input, CharInput):
        tensors["encoder.table"] = tensors["encoder.table"][1:]  # without the row for "no token here"
    weights = {
        dataset: tensors[name].reshape(len(tensors[name]) if None in shape else shape[0] or 0, *shape[1:])
        for name, dataset, shape in places(saved.config)
    }
    _write_datasets(folder / "weights.hdf5", weights)
    if saved.vocabulary is not None:
        write_vocabulary(saved.vocabulary, folder / "vocab.txt")
    if saved.read_softmax is not None:
        softmax = saved.read_softmax()
        _write_datasets(folder / "softmax_weights.hdf5", {"softmax/W": softmax.weight, "softmax/b": softmax.bias})
    if saved.token_vectors is not None:
        _write_datasets(folder / "token_embeddings.hdf5", {"embedding": saved.token_vectors})


# options.json


def read_options(path: Path) -> ModelConfig:
    return config_of(read_json(path), str(path))


def read_json(path: Path) -> Any:
    """All of options.json, including the options of the training run."""
    if not path.exists():
        raise MissingModelError(f"{path}: no such file; a weights file needs its options.json")
    return atomic.read_json(path, ModelError, "a weights file needs its options.json")


def config_of(options: Any, where: str) -> ModelConfig:
    """The architecture in published options; keys of the training run are ignored."""
    lstm = _section(options, "lstm", where)
    char_cnn = _section(options, "char_cnn", where) if "char_cnn" in options else None
    if options.get("bidirectional") is False:
        raise ModelError(f"{where}: bidirectional is false; {ONE_DIRECTION}")
    lstm_values = {
        "cells": lstm.get("dim"),
        "projection": lstm.get("projection_dim"),
        "layers": lstm.get("n_layers", 1),
        "cell_clip": lstm.get("cell_clip"),
        "projection_clip": lstm.get("proj_clip"),
        "skip": bool(lstm.get("use_skip_connections")),
    }
    values = {"input": _input_values(options, char_cnn, where), "lstm": lstm_values}
    return parse(ModelConfig, values, where, ModelError)


def _section(options: Any, name: str, where: str) -> dict[str, Any]:
    section = options.get(name) if isinstance(options, dict) else None
    if not isinstance(section, dict):
        raise ModelError(f"{where}: no section {name!r}; expected the options.json of a biLM")
    return section


def _input_values(options: dict[str, Any], char_cnn: dict[str, Any] | None, where: str) -> dict[str, Any]:
    if char_cnn is None:
        return {"kind": "words", "words": options.get("n_tokens_vocab") or 1}
    if char_cnn.get("projection_after_highway") is False:
        raise ModelError(
            f"{where}: projection_after_highway is false; only a projection after the highways is supported"
        )
    if char_cnn.get("n_characters", 262) not in (261, 262):
        raise ModelError(
            f"{where}: n_characters is {char_cnn['n_characters']!r:.40}; a biLM has 261 (or 262, the same table)"
        )
    return {
        "kind": "chars",
        "embedding": _section(char_cnn, "embedding", where).get("dim"),
        "filters": char_cnn.get("filters"),
        "highways": char_cnn.get("n_highway") or 0,
        "activation": char_cnn.get("activation", "relu"),
        "max_characters": char_cnn.get("max_characters_per_token", 50),
    }


def options_of(config: ModelConfig) -> dict[str, Any]:
    reads = _published_input(config)
    lstm = config.lstm
    options: dict[str, Any] = {
        "lstm": {
            "dim": lstm.cells,
            "projection_dim": lstm.projection,
            "n_layers": lstm.layers,
            "cell_clip": lstm.cell_clip,
            "proj_clip": lstm.projection_clip,
            "use_skip_connections": lstm.skip,
        }
    }
    if isinstance(reads, WordInput):
        return options | {"n_tokens_vocab": reads.words}
    return options | {
        "char_cnn": {
            "embedding": {"dim": reads.embedding},
            "filters": [list(pair) for pair in reads.filters],
            "n_highway": reads.highways,
            "activation": reads.activation,
            "max_characters_per_token": reads.max_characters,
            "n_characters": chars.ROWS,
        }
    }


def _published_input(config: ModelConfig) -> CharInput | WordInput:
    if not config.has_state:
        raise ConfigError(
            f"the published layout holds LSTMs only, not a {config.encoder.kind}; save it as a stelmo folder or as ONNX"
        )
    reads = config.input
    if isinstance(reads, CharInput) and (reads.projection is not None or reads.layer_norm is not None):
        raise ConfigError(
            "the published layout has no layer norm of words and no other place for their projection; "
            "save the model as a stelmo folder"
        )
    if isinstance(reads, CharInput | WordInput):
        return reads
    raise ConfigError("the published layout cannot hold a model that reads code points; save it as a stelmo folder")


# weights.hdf5


class Place(NamedTuple):
    """One of our tensors, and the dataset that holds it. None in the shape: any length."""

    tensor: str
    dataset: str
    shape: tuple[int | None, ...]


def places(config: ModelConfig) -> Iterator[Place]:
    """A generator: options with a billion layers fail at the first one that is missing."""
    reads, cells, projection = _published_input(config), config.lstm.cells, config.projection
    if isinstance(reads, WordInput):
        yield Place("encoder.table", "embedding", (reads.words, projection))
    else:
        width = reads.width
        yield Place("encoder.table", "char_embed", (None, reads.embedding))
        for number, (window, count) in enumerate(reads.filters):
            yield Place(f"encoder.kernels.{number}", f"CNN/W_cnn_{number}", (1, window, reads.embedding, count))
            yield Place(f"encoder.biases.{number}", f"CNN/b_cnn_{number}", (count,))
        for number in range(reads.highways):
            for gate in ("carry", "transform"):
                yield Place(f"encoder.highways.{number}.{gate}", f"CNN_high_{number}/W_{gate}", (width, width))
                yield Place(f"encoder.highways.{number}.{gate}_bias", f"CNN_high_{number}/b_{gate}", (width,))
        if width != projection:
            yield Place("encoder.projection", "CNN_proj/W_proj", (width, projection))
            yield Place("encoder.projection_bias", "CNN_proj/b_proj", (projection,))
    for number, direction in enumerate(DIRECTIONS):
        for layer in range(config.lstm.layers):
            cell = f"RNN_{number}/RNN/MultiRNNCell/Cell{layer}/LSTMCell"
            yield Place(f"{direction}.{layer}.kernel", f"{cell}/W_0", (2 * projection, 4 * cells))
            yield Place(f"{direction}.{layer}.bias", f"{cell}/B", (4 * cells,))
            if cells != projection:
                yield Place(f"{direction}.{layer}.projection", f"{cell}/W_P_0", (cells, projection))


def _read_weights(path: Path, config: ModelConfig) -> dict[str, Tensor]:
    with hdf5.opened(path) as file:
        names = hdf5.names(file)
        arrays, read = {}, set()
        for place in places(config):
            name = place.dataset
            # Training does not wrap a single layer, so its exported names are shorter than the documented ones.
            short = name.replace("MultiRNNCell/Cell0/", "")
            if config.lstm.layers == 1 and name not in file and short in file:
                name = short
            arrays[place.tensor] = hdf5.read(file, name, place.shape)
            read.add(name)
        for name in names:  # a layer that the options leave out would be lost silently
            if name not in read and name.startswith(("CNN", "RNN")):
                raise ModelError(f"{path}: {name} is not in the options, which belong to another model")
    return tensors_of(arrays, config, str(path))


def tensors_of(arrays: dict[str, NDArray[Any]], config: ModelConfig, where: str) -> dict[str, Tensor]:
    """Arrays by their `Place.tensor`, in our shapes."""
    if isinstance(config.input, CharInput):
        arrays = arrays | {"encoder.table": _with_empty_row(arrays["encoder.table"], where)}
    return {
        name: torch.from_numpy(array[0] if name.startswith("encoder.kernels") else array)  # [0]: the height of 1
        for name, array in arrays.items()
    }


def _with_empty_row(table: NDArray[Any], where: str) -> NDArray[Any]:
    """The table with its row for "no token here", which training does not have.

    262 rows have two causes: somebody has already added the zero row, or training ran with n_characters 262 and never
    used the last row. A trained first row is never exactly zero.
    """
    if len(table) not in (chars.ROWS - 1, chars.ROWS):
        raise ModelError(f"{where}: char_embed has {len(table)} rows; a biLM has 261 (or 262)")
    if len(table) == chars.ROWS and not table[0].any():
        return table
    empty = np.zeros((1, table.shape[1]), table.dtype)
    return np.concatenate([empty, table[: chars.ROWS - 1]])


def _write_datasets(path: Path, tensors: Mapping[str, Tensor]) -> None:
    with NewHdf5(path) as file:
        for name, tensor in tensors.items():
            file[name] = tensor.detach().cpu().numpy()


# softmax and token embeddings


def read_softmax(path: Path, config: ModelConfig, words: Vocabulary | None) -> Softmax:
    rows = None if words is None else len(words)
    with hdf5.opened(path) as file:
        weight = hdf5.read(file, "softmax/W", (rows, config.projection))
        bias = hdf5.read(file, "softmax/b", (len(weight),))
    return filled_softmax(torch.from_numpy(weight), torch.from_numpy(bias), config, str(path))


def with_token_embeddings(saved: SavedModel, path: Path) -> SavedModel:
    """The model with its characters replaced by a cache of layer 0 (V, P), one row for each vocabulary word."""
    if saved.vocabulary is None:
        raise ModelError(f"{path}: token embeddings are numbered by a vocabulary; name the vocabulary as well")
    config = saved.config.model_copy(update={"input": WordInput(words=len(saved.vocabulary))})
    with hdf5.opened(path) as file:
        table = torch.from_numpy(hdf5.read(file, "embedding", (len(saved.vocabulary), config.projection)))
    rest = {name: tensor for name, tensor in saved.bilm.state_dict().items() if not name.startswith("encoder.")}
    return replace(saved, bilm=filled_bilm(config, {"encoder.table": table} | rest, str(path)))
