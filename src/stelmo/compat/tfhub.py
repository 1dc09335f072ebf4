"""The TF-Hub module `google/elmo`, called the same way, over any model that stelmo loads; TensorFlow is not needed.

    hub.Module("https://tfhub.dev/google/elmo/3")   →   stelmo.compat.tfhub.Module("path")
    hub.load("https://tfhub.dev/google/elmo/3")     →   stelmo.compat.tfhub.load("path")

  word_emb         (b, t, P)    layer 0, without context
  lstm_outputs1 …  (b, t, 2P)   one key per LSTM layer
  elmo             (b, t, 2P)   their weighted sum; with untrained weights, the mean of all layers
  default          (b, 2P)      the mean of `elmo` over each sentence's own tokens

Returns NumPy arrays with zeros past a sentence's end. Every sentence starts from zeros, so it has the same vectors in
any batch and call.
"""

import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stelmo.compat import loaded, padded
from stelmo.config import choose
from stelmo.errors import DataError

IMPORTS = {"tensorflow_hub": ("Module", "load")}
ABSENT = {
    "tensorflow_hub.KerasLayer": "a layer of Keras; `Module` to read vectors, `stelmo.Elmo` to train",
    "tensorflow_hub.Module.export": "there is no graph to export; `model.save`",
    "tensorflow_hub.Module.variables": "`module.model.bilm.state_dict()`",
}

Array = NDArray[Any]
SIGNATURES = ("default", "tokens")


class ElmoModule:
    """The loaded module; `model` is the stelmo model inside. `name` and `tags` are accepted and not used."""

    def __init__(
        self, spec: str | Path, trainable: bool = False, name: str = "module", tags: object = None, **settings: Any
    ) -> None:
        self.model, self.name = loaded(spec, **settings), name
        if trainable:
            warnings.warn(
                "trainable: the module returns arrays, so nothing is trained; stelmo.Elmo(model) is a trainable layer",
                stacklevel=2,
            )

    def __call__(
        self,
        inputs: Any = None,
        signature: str = "default",
        as_dict: bool = False,
    ) -> dict[str, Array] | Array:
        """Strings, or {"tokens": (b, t), "sequence_len": (b,)} → the dictionary, or only its entry "default".

        Strings can be str or UTF-8 bytes, in lists, arrays or tensors.
        """
        choose("signature", signature, SIGNATURES)
        sentences, length = _split(inputs) if signature == "default" else _cut(inputs)
        layers_BLTD = padded(self.model.layers(sentences), length)
        elmo_BTD = layers_BLTD.mean(1)
        counts_B1 = np.maximum(1, [len(tokens) for tokens in sentences])[:, None].astype(elmo_BTD.dtype)
        default_BD: Array = elmo_BTD.sum(1) / counts_B1
        if not as_dict:
            return default_BD
        outputs = {"word_emb": layers_BLTD[:, 0, :, : layers_BLTD.shape[-1] // 2]}
        for number in range(1, layers_BLTD.shape[1]):
            outputs[f"lstm_outputs{number}"] = layers_BLTD[:, number]
        return outputs | {"elmo": elmo_BTD, "default": default_BD}

    @property
    def signatures(self) -> dict[str, Callable[..., dict[str, Array]]]:
        """As `hub.load(…)` has them: signatures["default"](texts) and ["tokens"](tokens=…, sequence_len=…)."""
        return {name: partial(self._signature, name) for name in SIGNATURES}

    def _signature(self, name: str, text: Any = None, **tokens: Any) -> dict[str, Array]:
        outputs = self(text if name == "default" else tokens, name, as_dict=True)
        assert isinstance(outputs, dict)
        return outputs


Module = ElmoModule


def load(handle: str | Path, tags: object = None, **settings: Any) -> ElmoModule:
    """As `hub.load`: the module, called through its `signatures`."""
    return ElmoModule(handle, **settings)


def _split(inputs: Any) -> tuple[list[list[str]], None]:
    """Strings, split at spaces only."""
    inputs = inputs.get("text") if isinstance(inputs, Mapping) else inputs
    texts = _listed(inputs)
    if not isinstance(texts, list):
        raise DataError(f'{type(inputs).__name__}; the signature "default" takes a list of strings')
    strings = [_string(text, f"inputs[{number}]") for number, text in enumerate(texts)]
    return [[token for token in text.split(" ") if token] for text in strings], None


def _cut(inputs: Any) -> tuple[list[list[str]], int]:
    """The rows of tokens, each cut at its own length, and their common length."""
    if not isinstance(inputs, Mapping) or not {"tokens", "sequence_len"} <= set(inputs):
        raise DataError('the signature "tokens" takes {"tokens": rows of one length, "sequence_len": their lengths}')
    rows = [_listed(row) for row in _listed(inputs["tokens"])]
    lengths = [int(length) for length in _listed(inputs["sequence_len"])]
    width = max(map(len, rows), default=0)
    if len(rows) != len(lengths) or any(len(row) != width for row in rows):
        raise DataError(f"{len(rows)} rows of tokens, {len(lengths)} lengths; expected rows of one length, padded")
    for number, length in enumerate(lengths):
        if not 0 <= length <= width:
            raise DataError(f"sequence_len[{number}] is {length}; the rows have {width} tokens")
    sentences = [
        [_string(token, f"tokens[{number}][{place}]") for place, token in enumerate(row[:length])]
        for number, (row, length) in enumerate(zip(rows, lengths, strict=True))
    ]
    return sentences, width


def _listed(values: Any) -> Any:
    """A tensor, array, Series or tuple → a list; anything else as it is."""
    values = values.numpy() if hasattr(values, "numpy") else values
    if hasattr(values, "tolist"):
        return values.tolist()
    return list(values) if isinstance(values, Sequence) and not isinstance(values, str | bytes) else values


def _string(value: Any, where: str) -> str:
    """A string, or the text of UTF-8 bytes."""
    if isinstance(value, bytes):
        try:
            return value.decode("utf-8")
        except UnicodeDecodeError:
            raise DataError(f"{where} is {value!r:.60}, which is not UTF-8") from None
    if not isinstance(value, str):
        raise DataError(f'{where} is {value!r:.60}; expected a string (lists of tokens need the signature "tokens")')
    return value
