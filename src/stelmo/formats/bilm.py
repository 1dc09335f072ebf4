"""The published layout (options.json, weights.hdf5, vocabulary, softmax) ↔ a model. Knows no other format.

Quirks that live here: the table of 261 characters without the row for "no token here", the option
`n_characters` that says 261 or 262 for the same file, kernels with a height of 1, and options that
training wrote beside those of the architecture.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from stelmo.config import CharInput, ModelConfig, WordInput, parse
from stelmo.errors import ConfigError, DataError, ModelError
from stelmo.formats.untrusted import hdf5
from stelmo.model.softmax import Softmax
from stelmo.store.saved import SavedModel, filled_bilm, filled_softmax
from stelmo.text import chars
from stelmo.text.vocabulary import Vocabulary

FORMAT = "bilm HDF5"
DIRECTIONS = ("lstm_forward", "lstm_backward")


def read(weights: Path, options: Path, vocabulary: Path | None = None, softmax: Path | None = None) -> SavedModel:
    config = read_options(options)
    words = None if vocabulary is None else read_vocabulary(vocabulary)
    saved = assembled(config, weights, words)
    if softmax is None:
        return saved
    return replace(saved, read_softmax=partial(read_softmax, softmax, saved.config, words))


def assembled(config: ModelConfig, weights: Path, words: Vocabulary | None) -> SavedModel:
    """The model without a softmax, its options and vocabulary already read."""
    if isinstance(config.input, WordInput):
        config = _sized_by_vocabulary(config, words)
    return SavedModel(filled_bilm(config, _read_weights(weights, config), str(weights)), FORMAT, words)


def write(saved: SavedModel, folder: Path) -> None:
    """options.json, weights.hdf5 and what else the model has; the original software loads them."""
    (folder / "options.json").write_text(json.dumps(options_of(saved.config), indent=2) + "\n")
    _write_datasets(folder / "weights.hdf5", _published(saved))
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
    """What options.json holds, the training run's own options included."""
    try:
        return json.loads(path.read_bytes())
    except OSError as problem:
        raise ModelError(
            f"{path}: cannot be read ({problem.strerror}); a weights file needs its options.json"
        ) from None
    except (ValueError, RecursionError) as problem:
        raise ModelError(f"{path}: not JSON ({problem})") from None


def config_of(options: Any, where: str) -> ModelConfig:
    """The architecture in published options; keys of the training run are passed over."""
    lstm, char_cnn = _section(options, "lstm", where), None
    if "char_cnn" in options:
        char_cnn = _section(options, "char_cnn", where)
    if options.get("bidirectional") is False:
        raise ModelError(f"{where}: bidirectional is false; only models of both directions are supported")
    values = {"input": _input_values(options, char_cnn, where), "lstm": _lstm_values(lstm)}
    return parse(ModelConfig, values, where, ModelError)


def _section(options: Any, name: str, where: str) -> dict[str, Any]:
    section = options.get(name) if isinstance(options, dict) else None
    if not isinstance(section, dict):
        raise ModelError(f"{where}: no section {name!r}; expected the options.json of a biLM")
    return section


def _lstm_values(lstm: dict[str, Any]) -> dict[str, Any]:
    renamed = {
        "cells": lstm.get("dim"),
        "projection": lstm.get("projection_dim"),
        "layers": lstm.get("n_layers", 1),
    }
    clips = {"cell_clip": lstm.get("cell_clip"), "projection_clip": lstm.get("proj_clip")}
    return renamed | clips | {"skip": bool(lstm.get("use_skip_connections"))}


def _input_values(options: dict[str, Any], char_cnn: dict[str, Any] | None, where: str) -> dict[str, Any]:
    if char_cnn is None:
        return {"kind": "words", "words": options.get("n_tokens_vocab") or 1}
    if char_cnn.get("projection_after_highway") is False:
        raise ModelError(f"{where}: projection_after_highway is false; only a projection behind the highways is known")
    if char_cnn.get("n_characters", 262) not in (261, 262):
        raise ModelError(
            f"{where}: n_characters is {char_cnn['n_characters']}; a biLM has 261 (or 262, the same table)"
        )
    return {
        "kind": "chars",
        "embedding": _section(char_cnn, "embedding", where).get("dim"),
        "filters": char_cnn.get("filters"),
        "highways": char_cnn.get("n_highway") or 0,
        "activation": char_cnn.get("activation", "relu"),
        "max_characters": char_cnn.get("max_characters_per_token", 50),
    }


def _sized_by_vocabulary(config: ModelConfig, words: Vocabulary | None) -> ModelConfig:
    """Options of word-id models often leave out n_tokens_vocab; the vocabulary file decides."""
    if words is None:
        raise ModelError("the options have no char_cnn, so the model reads word ids and needs its vocab.txt")
    return config.model_copy(update={"input": WordInput(words=len(words))})


def options_of(config: ModelConfig) -> dict[str, Any]:
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
    reads = _published_input(config)
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
    if isinstance(config.input, CharInput | WordInput):
        return config.input
    raise ConfigError("a model that reads code points has no place in the published layout; save it as a stelmo folder")


# weights.hdf5


class Place(NamedTuple):
    """Where a tensor of ours lies. None in the shape: any length."""

    tensor: str
    dataset: str
    shape: tuple[int | None, ...]


def places(config: ModelConfig) -> Iterator[Place]:
    """One by one: options that promise a billion layers fail at the first that is not there."""
    reads = _published_input(config)
    if isinstance(reads, WordInput):
        yield Place("encoder.table", "embedding", (reads.words, config.lstm.projection))
    else:
        yield from _char_places(reads, config.lstm.projection)
    yield from _lstm_places(config)


def _char_places(cnn: CharInput, projection: int) -> Iterator[Place]:
    width = cnn.width
    yield Place("encoder.table", "char_embed", (None, cnn.embedding))
    for number, (window, count) in enumerate(cnn.filters):
        yield Place(f"encoder.kernels.{number}", f"CNN/W_cnn_{number}", (1, window, cnn.embedding, count))
        yield Place(f"encoder.biases.{number}", f"CNN/b_cnn_{number}", (count,))
    for number in range(cnn.highways):
        for gate in ("carry", "transform"):
            yield Place(f"encoder.highways.{number}.{gate}", f"CNN_high_{number}/W_{gate}", (width, width))
            yield Place(f"encoder.highways.{number}.{gate}_bias", f"CNN_high_{number}/b_{gate}", (width,))
    if width != projection:
        yield Place("encoder.projection", "CNN_proj/W_proj", (width, projection))
        yield Place("encoder.projection_bias", "CNN_proj/b_proj", (projection,))


def _lstm_places(config: ModelConfig) -> Iterator[Place]:
    cells, projection = config.lstm.cells, config.lstm.projection
    for number, direction in enumerate(DIRECTIONS):
        for layer in range(config.lstm.layers):
            cell = f"RNN_{number}/RNN/MultiRNNCell/Cell{layer}/LSTMCell"
            yield Place(f"{direction}.{layer}.kernel", f"{cell}/W_0", (2 * projection, 4 * cells))
            yield Place(f"{direction}.{layer}.bias", f"{cell}/B", (4 * cells,))
            if cells != projection:
                yield Place(f"{direction}.{layer}.projection", f"{cell}/W_P_0", (cells, projection))


def _read_weights(path: Path, config: ModelConfig) -> dict[str, Tensor]:
    with hdf5.opened(path) as file:
        arrays, read = {}, set()
        for place in places(config):
            name = _name_in(file, place.dataset, config)
            arrays[place.tensor] = hdf5.read(file, name, place.shape)
            read.add(name)
        _refuse_unread(hdf5.names(file), read, str(path))
    return tensors_of(arrays, config, str(path))


def _name_in(file: Any, dataset: str, config: ModelConfig) -> str:
    """Training does not wrap a single layer, so its exported names are shorter than those of the description."""
    short = dataset.replace("MultiRNNCell/Cell0/", "")
    return short if config.lstm.layers == 1 and dataset not in file and short in file else dataset


def _refuse_unread(names: Iterable[str], read: set[str], where: str) -> None:
    """A layer that the options leave out would be missed in silence."""
    for name in names:
        if name not in read and name.startswith(("CNN", "RNN")):
            raise ModelError(f"{where}: {name} has no place in the options, which belong to another model")


def tensors_of(arrays: dict[str, NDArray[Any]], config: ModelConfig, where: str) -> dict[str, Tensor]:
    """What lay in those places, in our shapes."""
    if isinstance(config.input, CharInput):
        arrays = arrays | {"encoder.table": _with_empty_row(arrays["encoder.table"], where)}
    return {name: torch.from_numpy(_without_height(name, array)) for name, array in arrays.items()}


def _without_height(name: str, array: NDArray[Any]) -> NDArray[Any]:
    return array[0] if name.startswith("encoder.kernels") else array


def _with_empty_row(table: NDArray[Any], where: str) -> NDArray[Any]:
    """The table with its row for "no token here", which training does not have.

    262 rows come from two habits: someone put the zero row in already, or training ran with
    n_characters 262 and the last row was never used. A trained first row is never exactly zero.
    """
    if len(table) not in (chars.ROWS - 1, chars.ROWS):
        raise ModelError(f"{where}: char_embed has {len(table)} rows; a biLM has 261 (or 262)")
    if len(table) == chars.ROWS and not table[0].any():
        return table
    empty = np.zeros((1, table.shape[1]), table.dtype)
    return np.concatenate([empty, table[: chars.ROWS - 1]])


def _published(saved: SavedModel) -> dict[str, Tensor]:
    """The tensors under their datasets' names, in the datasets' shapes."""
    tensors = saved.bilm.state_dict()
    if isinstance(saved.config.input, CharInput):
        tensors["encoder.table"] = tensors["encoder.table"][1:]
    return {
        dataset: tensors[name].reshape(len(tensors[name]) if None in shape else shape[0] or 0, *shape[1:])
        for name, dataset, shape in places(saved.config)
    }


def _write_datasets(path: Path, tensors: Mapping[str, Tensor]) -> None:
    with hdf5.NewFile(path) as file:
        for name, tensor in tensors.items():
            file[name] = tensor.detach().cpu().numpy()


# softmax, vocabulary and token embeddings


def read_softmax(path: Path, config: ModelConfig, words: Vocabulary | None) -> Softmax:
    rows = None if words is None else len(words)
    with hdf5.opened(path) as file:
        weight = hdf5.read(file, "softmax/W", (rows, config.lstm.projection))
        bias = hdf5.read(file, "softmax/b", (len(weight),))
    return filled_softmax(torch.from_numpy(weight), torch.from_numpy(bias), config, str(path))


def read_vocabulary(path: Path) -> Vocabulary:
    try:
        return vocabulary_of(path.read_bytes(), str(path))
    except OSError as problem:
        raise ModelError(f"{path}: cannot be read ({problem.strerror})") from None


def vocabulary_of(raw: bytes, where: str) -> Vocabulary:
    """One word a line; only the line feed ends a line, since a word may be any other separator."""
    try:
        lines = raw.decode("utf-8").split("\n")
    except UnicodeDecodeError as problem:
        line = raw[: problem.start].count(b"\n") + 1
        raise ModelError(f"{where}:{line}: not UTF-8; a vocabulary has one word a line in UTF-8") from None
    words = (line.removesuffix("\r") for line in lines[: -1 if not lines[-1] else None])
    try:
        return Vocabulary.of(words, where)
    except DataError as problem:  # as a part of a model it is a flaw of the model
        raise ModelError(str(problem)) from None


def write_vocabulary(vocabulary: Vocabulary, path: Path) -> None:
    with path.open("w", encoding="utf-8", newline="\n") as file:
        file.writelines(f"{word}\n" for word in vocabulary)


def with_token_embeddings(saved: SavedModel, path: Path) -> SavedModel:
    """The model reading words by their row in a cache of layer 0 (V, P) instead of by their characters."""
    if saved.vocabulary is None:
        raise ModelError(f"{path}: token embeddings follow a vocabulary's lines; name the vocabulary, too")
    config = saved.config.model_copy(update={"input": WordInput(words=len(saved.vocabulary))})
    with hdf5.opened(path) as file:
        table = torch.from_numpy(hdf5.read(file, "embedding", (len(saved.vocabulary), config.lstm.projection)))
    lstms = {name: tensor for name, tensor in saved.bilm.state_dict().items() if name.startswith("lstm")}
    return replace(saved, bilm=filled_bilm(config, {"encoder.table": table} | lstms, str(path)))
