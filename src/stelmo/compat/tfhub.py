"""The TF-Hub module `google/elmo`, called the same way, over any model stelmo loads. Knows no TensorFlow.

    hub.Module("https://tfhub.dev/google/elmo/3")   →   stelmo.compat.tfhub.ElmoModule("path")

  word_emb         (b, t, P)    layer 0: the words alone
  lstm_outputs1 …  (b, t, 2P)   one key for each LSTM layer
  elmo             (b, t, 2P)   their weighted sum; with weights nobody trained, the mean of all layers
  default          (b, 2P)      the mean of `elmo` over each sentence's own tokens

NumPy arrays, zeros past a sentence's end. The same sentence gives the same vectors in any batch.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stelmo.compat.padded import padded
from stelmo.config import choose
from stelmo.embed.load import load
from stelmo.errors import ConfigError, DataError

Array = NDArray[Any]
SIGNATURES = ("default", "tokens")


class ElmoModule:
    """The loaded module; `model` is the stelmo model behind it."""

    def __init__(self, path: str | Path, trainable: bool = False, **settings: Any) -> None:
        if trainable:
            raise ConfigError("trainable: the module returns arrays; to train with ELMo, stelmo.Elmo(model) is a layer")
        self.model = load(path, **settings)

    def __call__(
        self,
        inputs: Sequence[str] | Mapping[str, Any] | None = None,
        signature: str = "default",
        as_dict: bool = False,
    ) -> dict[str, Array] | Array:
        """Strings, or {"tokens": (b, t), "sequence_len": (b,)} → the dictionary, or its entry "default" alone."""
        choose("signature", signature, SIGNATURES)
        sentences, length = _split(inputs) if signature == "default" else _cut(inputs)
        outputs = self._outputs(padded(self.model.layers(sentences), length), list(map(len, sentences)))
        return outputs if as_dict else outputs["default"]

    def _outputs(self, layers_BLTD: Array, lengths: list[int]) -> dict[str, Array]:
        outputs = {"word_emb": layers_BLTD[:, 0, :, : layers_BLTD.shape[-1] // 2]}
        for number in range(1, layers_BLTD.shape[1]):
            outputs[f"lstm_outputs{number}"] = layers_BLTD[:, number]
        elmo_BTD = layers_BLTD.mean(1)
        counts_B1 = np.maximum(1, lengths)[:, None].astype(elmo_BTD.dtype)
        return outputs | {"elmo": elmo_BTD, "default": elmo_BTD.sum(1) / counts_B1}


def _split(inputs: Any) -> tuple[list[list[str]], None]:
    """Strings split at spaces, and nowhere else."""
    if isinstance(inputs, str | Mapping) or inputs is None:
        raise DataError(f'{type(inputs).__name__}; the signature "default" takes a list of strings')
    texts = list(inputs)
    for number, text in enumerate(texts):
        if not isinstance(text, str):
            raise DataError(f'inputs[{number}] is {text!r:.60}; expected a string, or the signature "tokens"')
    return [[token for token in text.split(" ") if token] for text in texts], None


def _cut(inputs: Any) -> tuple[list[list[str]], int]:
    """The rows of tokens, each cut at its own length, and their common length."""
    if not isinstance(inputs, Mapping) or not {"tokens", "sequence_len"} <= set(inputs):
        raise DataError('the signature "tokens" takes {"tokens": rows of one length, "sequence_len": their lengths}')
    rows = [list(row) for row in inputs["tokens"]]
    lengths = [int(length) for length in inputs["sequence_len"]]
    width = max(map(len, rows), default=0)
    if len(rows) != len(lengths) or any(len(row) != width for row in rows):
        raise DataError(f"{len(rows)} rows of tokens, {len(lengths)} lengths; expected rows of one length, padded")
    for number, length in enumerate(lengths):
        if not 0 <= length <= width:
            raise DataError(f"sequence_len[{number}] is {length}; the rows have {width} tokens")
    return [[str(token) for token in row[:length]] for row, length in zip(rows, lengths, strict=True)], width
