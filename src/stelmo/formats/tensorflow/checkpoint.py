"""A training checkpoint of bilm-tf (options.json, model.ckpt-….index and .data-…) → a model with its softmax.

Knows the names that training gave the variables; the accumulators of the optimiser are not read.
TensorFlow is not needed: `bundle` reads its files.
"""

import re
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from stelmo.config import ModelConfig, WordInput
from stelmo.errors import ModelError
from stelmo.formats import bilm
from stelmo.formats.tensorflow.bundle import Bundle, latest_checkpoint, open_bundle
from stelmo.formats.untrusted.hdf5 import written_shape
from stelmo.model.bilm import Softmax
from stelmo.store.saved import SavedModel, filled_bilm, filled_softmax
from stelmo.text.ids import Vocabulary, read_vocabulary

FORMAT = "bilm-tf checkpoint"
SOFTMAX, BIAS, WORDS = "lm/softmax/W", "lm/softmax/b", "lm/embedding"
_ENDING = re.compile(r"\.(index|meta|data-\d+-of-\d+)$")
_CELL = re.compile(r"(RNN_\d)/RNN/MultiRNNCell/Cell(\d+)/LSTMCell/(\w+)")
_OF_CELL = {"W_0": "kernel", "B": "bias", "W_P_0": "projection/kernel"}


def recognises(path: Path) -> bool:
    """A folder with a checkpoint, one of a checkpoint's files, or the prefix they share."""
    if path.is_dir():
        return any(path.glob("*.index"))
    return path.name == "checkpoint" or Path(f"{_without_ending(path)}.index").is_file()


def read(path: Path, options: Path | None = None, vocabulary: Path | None = None) -> SavedModel:
    """The folder's latest checkpoint, or the one named. Options and vocabulary are found beside it unless given."""
    named = not path.is_dir() and path.name != "checkpoint"
    prefix = _without_ending(path) if named else latest_checkpoint(path if path.is_dir() else path.parent)
    bundle = open_bundle(prefix)
    _refuse_other_models(bundle)
    options = options or prefix.parent / "options.json"
    vocabulary = vocabulary or _vocabulary(prefix.parent)
    words = None if vocabulary is None else read_vocabulary(vocabulary)
    if not options.is_file():
        raise ModelError(
            f"{options}: no such file; training wrote options.json into the folder of its checkpoints, "
            "copy it from there, or name it: --options FILE, in Python options=FILE"
        )
    values = bilm.read_json(options)
    config = bilm.config_of(values, str(options))
    if isinstance(config.input, WordInput):
        config = config.model_copy(update={"input": WordInput(words=_shape(bundle, WORDS, 2)[0])})
    _refuse_other_words(values, bundle, words)
    model = filled_bilm(config, bilm.tensors_of(_arrays(bundle, config), config, str(prefix)), str(prefix))
    head = partial(_read_softmax, bundle, config) if BIAS in bundle else None
    return SavedModel(model, FORMAT, words, head)


# The files


def _without_ending(path: Path) -> Path:
    return path.with_name(_ENDING.sub("", path.name))


def _vocabulary(folder: Path) -> Path | None:
    found = sorted(folder.glob("vocab*.txt"))
    if len(found) > 1:
        names = ", ".join(file.name for file in found[:5])
        raise ModelError(
            f"{folder}: {len(found)} vocabularies ({names}); name the one used for training (vocabulary=…)"
        )
    return found[0] if found else None


# The model


def _refuse_other_models(bundle: Bundle) -> None:
    names = bundle.names()
    if any(name.startswith("lm/RNN_0/") for name in names):
        return
    if any(name.startswith("lm/rnn/") for name in names):
        raise ModelError(f"{bundle.prefix}: variables lm/rnn/… without RNN_0 and RNN_1; {bilm.ONE_DIRECTION}")
    there = ", ".join(names[:5]) or "nothing"
    raise ModelError(f"{bundle.prefix}: holds {there}; expected a biLM trained by bilm-tf (lm/RNN_0/…)")


def _refuse_other_words(values: dict[str, Any], bundle: Bundle, words: Vocabulary | None) -> None:
    """Options, vocabulary, softmax and word table must number the same words, or probabilities belong to others."""
    counts = {
        name: _shape(bundle, name, rank)[0] for name, rank in ((SOFTMAX, 2), (BIAS, 1), (WORDS, 2)) if name in bundle
    }
    if values.get("n_tokens_vocab") is not None:
        counts["n_tokens_vocab of options.json"] = values["n_tokens_vocab"]
    if words is not None:
        counts[words.name] = len(words)
    if len(set(map(str, counts.values()))) > 1:
        found = ", ".join(f"{name} {count}" for name, count in counts.items())
        raise ModelError(
            f"{bundle.prefix}: different numbers of words ({found}); expected the files of one training run"
        )


def _arrays(bundle: Bundle, config: ModelConfig) -> dict[str, NDArray[Any]]:
    """By our names. Layers that the options leave out are refused."""
    arrays, read = {}, set()
    for place in bilm.places(config):
        name = _variable(place.dataset, config.lstm.layers)
        arrays[place.tensor] = _read(bundle, name, place.shape)
        read.add(name)
    layers = [name for name in bundle.names() if name.startswith(("lm/CNN", "lm/RNN_"))]
    # The optimiser's variables, which are not read, are named below the model's.
    unread = [name for name in layers if not any(f"{name}/".startswith(f"{known}/") for known in read)]
    if unread:
        raise ModelError(f"{bundle.prefix}: {unread[0]} is not in the options, which belong to another model")
    return arrays


def _variable(dataset: str, layers: int) -> str:
    """The name of the variable that was published as that dataset."""
    cell = _CELL.fullmatch(dataset)
    if cell is None:
        return f"lm/{dataset}"
    stack = f"multi_rnn_cell/cell_{cell[2]}/" if layers > 1 else ""  # a single layer is not stacked
    return f"lm/{cell[1]}/rnn/{stack}lstm_cell/{_OF_CELL[cell[3]]}"


def _read(bundle: Bundle, name: str, expected: tuple[int | None, ...]) -> NDArray[Any]:
    shape = _shape(bundle, name, len(expected))
    if any(size not in (None, found) for size, found in zip(expected, shape, strict=True)):
        raise ModelError(f"{bundle.prefix}: {name} has shape {shape}; the options say {written_shape(expected)}")
    if bundle.dtype(name).kind != "f":
        raise ModelError(f"{bundle.prefix}: {name} holds {bundle.dtype(name)}; weights are floating-point numbers")
    return np.ascontiguousarray(bundle.read(name))


def _shape(bundle: Bundle, name: str, rank: int) -> tuple[int, ...]:
    shape = bundle.shape(name)
    if len(shape) != rank:
        raise ModelError(f"{bundle.prefix}: {name} has shape {shape}; expected {rank} dimensions")
    return shape


def _read_softmax(bundle: Bundle, config: ModelConfig) -> Softmax:
    # A word-id model may use its input table as output weights; then there is no other.
    weight = _read(bundle, SOFTMAX if SOFTMAX in bundle else WORDS, (None, config.lstm.projection))
    bias = _read(bundle, BIAS, (len(weight),))
    return filled_softmax(torch.from_numpy(weight), torch.from_numpy(bias), config, str(bundle.prefix))
