"""ELMoForManyLangs a second time, in plain NumPy and float64, one token after another. Knows nothing of stelmo.

Written from the description of the published models, so that a mistake would have to be made twice. `Folder` is a
model as its files hold it: the architecture's JSON, symbol → id of both .dic files, arrays by their published names.
"""

import json
from collections import OrderedDict
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

Array = NDArray[Any]
Arrays = dict[str, Array]

WORDS = ("<oov>", "<bos>", "<eos>", "<pad>", "the", "tree", "été", "\u3000", "木", "a" * 5)
CHARACTERS = (*"abcdefghtr", "é", "木", "\u3000", "<bos>", "<eos>", "<oov>", "<pad>", "<bow>", "<eow>")


class Folder(NamedTuple):
    architecture: dict[str, Any]
    word_ids: dict[str, int]
    char_ids: dict[str, int]
    embedder: Arrays
    encoder: Arrays


def sigmoid(x: Array) -> Array:
    return 1.0 / (1.0 + np.exp(-x))


def clip(x: Array, limit: float | None) -> Array:
    return np.clip(x, -limit, limit) if limit else x


# Words


def char_row(token: str, ids: dict[str, int], width: int) -> list[int]:
    """End of word first and begin of word last: the original has them the wrong way round."""
    row = [ids["<eow>"]]
    if token in ("<bos>", "<eos>"):
        row.append(ids[token])
    else:
        for character in token:
            row.append(ids[character] if character in ids else ids["<oov>"])
    row.append(ids["<bow>"])
    return row + [ids["<pad>"]] * (width - len(row))


def characters_vector(model: Folder, token: str) -> Array:
    options, arrays = model.architecture["token_embedder"], model.embedder
    row = char_row(token, model.char_ids, options["max_characters_per_token"])
    embedded = np.array([arrays["char_emb_layer.embedding.weight"][number] for number in row])  # (C, E)
    pooled = []
    for number, (width, _) in enumerate(options["filters"]):
        kernel = arrays[f"convolutions.{number}.weight"]  # (n, E, w)
        windows = [
            np.einsum("new,we->n", kernel, embedded[start : start + width]) for start in range(len(row) - width + 1)
        ]
        pooled.append(np.max(windows, axis=0) + arrays[f"convolutions.{number}.bias"])
    x = np.concatenate(pooled)
    x = np.tanh(x) if options["activation"] == "tanh" else np.maximum(x, 0)
    for number in range(options["n_highway"]):
        both = arrays[f"highways._layers.{number}.weight"] @ x + arrays[f"highways._layers.{number}.bias"]
        hidden, gate = np.maximum(both[: len(x)], 0), sigmoid(both[len(x) :])
        x = gate * x + (1 - gate) * hidden
    return x


def word_vector(model: Folder, token: str) -> Array:
    options = model.architecture["token_embedder"]
    parts = []
    if options["word_dim"]:
        number = model.word_ids.get(token, model.word_ids["<oov>"])
        parts.append(model.embedder["word_emb_layer.embedding.weight"][number])
    if options["char_dim"]:
        parts.append(characters_vector(model, token))
    return model.embedder["projection.weight"] @ np.concatenate(parts) + model.embedder["projection.bias"]


# Sentences


def one_direction(model: Folder, direction: str, xs: list[Array]) -> list[list[Array]]:
    """The tokens in reading order → the outputs of every layer, from a state of zeros."""
    options, arrays, layers = model.architecture["encoder"], model.encoder, []
    for number in range(options["n_layers"]):
        name = f"{direction}_layer_{number}"
        h, c = np.zeros(options["projection_dim"]), np.zeros(options["dim"])
        outputs = []
        for x in xs:
            gates = arrays[f"{name}.input_linearity.weight"] @ x
            gates = gates + arrays[f"{name}.state_linearity.weight"] @ h + arrays[f"{name}.state_linearity.bias"]
            i, f, g, o = np.split(gates, 4)
            c = clip(sigmoid(i) * np.tanh(g) + sigmoid(f) * c, options.get("cell_clip"))
            h = clip(arrays[f"{name}.state_projection.weight"] @ (sigmoid(o) * np.tanh(c)), options.get("proj_clip"))
            outputs.append(h)
        if number > 0:
            outputs = [output + x for output, x in zip(outputs, xs, strict=True)]
        layers.append(outputs)
        xs = outputs
    return layers


def layers(model: Folder, tokens: list[str]) -> Array:
    """One sentence → (L+1, n, 2P), from a state of zeros."""
    longest = model.architecture["token_embedder"]["max_characters_per_token"] - 2
    xs = [word_vector(model, token) for token in ("<bos>", *(token[:longest] for token in tokens), "<eos>")]
    ahead = one_direction(model, "forward", xs)
    behind = one_direction(model, "backward", xs[::-1])
    found = [np.concatenate([xs, xs], 1)]
    found += [np.concatenate([a, b[::-1]], 1) for a, b in zip(ahead, behind, strict=True)]
    return np.array(found)[:, 1:-1]


# Making models


def architecture(word_dim: int = 4, char_dim: int = 3, **changes: Any) -> dict[str, Any]:
    """A tiny one, its clips tight enough to bite. Changes go where their name is."""
    made: dict[str, Any] = {
        "encoder": {
            "name": "elmo", "projection_dim": 3, "cell_clip": 0.3, "proj_clip": 0.2, "dim": 5, "n_layers": 2,
        },
        "token_embedder": {
            "name": "cnn", "activation": "relu", "filters": [[1, 3], [2, 2], [3, 4]], "n_highway": 2,
            "word_dim": word_dim, "char_dim": char_dim, "max_characters_per_token": 12,
        },
        "classifier": {"name": "sampled_softmax", "n_samples": 8192},
        "dropout": 0.1,
    }  # fmt: skip
    for name, value in changes.items():
        made["encoder" if name in made["encoder"] else "token_embedder"][name] = value
    return made


def random_model(options: dict[str, Any], seed: int = 0, words: Any = WORDS, characters: Any = CHARACTERS) -> Folder:
    """Random numbers in the published layout, float64."""
    generator = np.random.default_rng(seed)
    shapes = embedder_shapes(options, len(words), len(characters)), encoder_shapes(options["encoder"])
    embedder, encoder = ({name: generator.normal(0, 0.6, shape) for name, shape in part.items()} for part in shapes)
    numbered = ({symbol: number for number, symbol in enumerate(table)} for table in (words, characters))
    return Folder(options, *numbered, embedder, encoder)


def embedder_shapes(options: dict[str, Any], words: int, characters: int) -> dict[str, tuple[int, ...]]:
    part, shapes, width = options["token_embedder"], {}, options["token_embedder"]["word_dim"]
    if part["word_dim"]:
        shapes["word_emb_layer.embedding.weight"] = (words, part["word_dim"])
    if part["char_dim"]:
        total = sum(count for _, count in part["filters"])
        width += total
        shapes["char_emb_layer.embedding.weight"] = (characters, part["char_dim"])
        for number, (window, count) in enumerate(part["filters"]):
            shapes[f"convolutions.{number}.weight"] = (count, part["char_dim"], window)
            shapes[f"convolutions.{number}.bias"] = (count,)
        for number in range(part["n_highway"]):
            shapes[f"highways._layers.{number}.weight"] = (2 * total, total)
            shapes[f"highways._layers.{number}.bias"] = (2 * total,)
    shapes["projection.weight"] = (options["encoder"]["projection_dim"], width)
    shapes["projection.bias"] = (options["encoder"]["projection_dim"],)
    return shapes


def encoder_shapes(part: dict[str, Any]) -> dict[str, tuple[int, ...]]:
    cells, projection, shapes = part["dim"], part["projection_dim"], {}
    for direction in ("forward", "backward"):
        for number in range(part["n_layers"]):
            name = f"{direction}_layer_{number}"
            shapes[f"{name}.input_linearity.weight"] = (4 * cells, projection)
            shapes[f"{name}.state_linearity.weight"] = (4 * cells, projection)
            shapes[f"{name}.state_linearity.bias"] = (4 * cells,)
            shapes[f"{name}.state_projection.weight"] = (projection, cells)
    return shapes


def write(model: Folder, folder: Any, dtype: torch.dtype = torch.float64, zipped: bool = True) -> Any:
    """The files as the original leaves them, its architecture named by a path on another disk."""
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(json.dumps({"config_path": "/users7/someone/configs/tiny.json", "seed": 1}))
    (folder / "tiny.json").write_text(json.dumps(model.architecture))
    for name, ids in (("word.dic", model.word_ids), ("char.dic", model.char_ids)):
        text = "".join(f"{symbol}\t{number}\n" for symbol, number in ids.items())
        (folder / name).write_bytes(text.encode())
    for name, arrays in (("token_embedder.pkl", model.embedder), ("encoder.pkl", model.encoder)):
        state = OrderedDict((key, torch.from_numpy(array).to(dtype)) for key, array in arrays.items())
        torch.save(state, folder / name, _use_new_zipfile_serialization=zipped)
    return folder
