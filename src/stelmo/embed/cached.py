"""`Cached`: the layers of sentences computed before, read from their folder. Knows no file format.

L layers, B sentences, T tokens of the longest, P projection, D = 2P.
"""

import hashlib
from collections.abc import Sequence
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor

from stelmo.embed.model import Model
from stelmo.engine.inputs import Sentences, checked
from stelmo.errors import DataError
from stelmo.store.layers import KEY_BYTES, LayerFolder

Array = NDArray[Any]


class Cached:
    """The layers that `stelmo.precompute` stored; `Elmo` accepts it in place of the model. Pickled by its path."""

    def __init__(self, folder: LayerFolder, model: Model, dtype: torch.dtype) -> None:
        self.config, self.mixes = model.config, model.mixes
        self.state = folder.manifest.settings["state"]
        self.dtype = dtype  # of a batch: what the model computes in; the folder may hold float16
        self._folder = folder

    def __len__(self) -> int:
        """Distinct sentences."""
        return len(self._folder)

    def __contains__(self, sentence: Sequence[str]) -> bool:
        return key_of(checked([sentence])[0]) in self._folder

    def layers(self, sentence: Sequence[str]) -> Array:
        """(L+1, T, 2P) as stored: a view of the file, not to be written to."""
        return self._layers(checked([sentence])[0])

    def batch(self, sentences: Sentences) -> tuple[Tensor, Tensor]:
        """Layers (L+1, B, T, 2P), zero past a sentence's end, and the mask (B, T) of real tokens."""
        found = checked(sentences)
        if not found:
            raise DataError("batch: no sentences; expected at least one")
        lengths_B = torch.tensor([len(sentence) for sentence in found])
        shape = self.config.depth, len(found), int(lengths_B.max()), self.config.width
        layers_LBTD = torch.zeros(shape, dtype=self.dtype)
        numbers_LBTD = layers_LBTD.numpy()
        for row, sentence in enumerate(found):
            numbers_LBTD[:, row, : len(sentence)] = self._layers(sentence)
        return layers_LBTD, torch.arange(shape[2]) < lengths_B[:, None]

    def _layers(self, sentence: Sequence[str]) -> Array:
        key = key_of(sentence)
        if key not in self._folder:
            shown = " ".join(sentence)
            raise DataError(
                f"{self._folder.folder} has no layers of {shown!r:.60}; add the sentence with stelmo.precompute"
            )
        return self._folder[key]


def key_of(sentence: Sequence[str]) -> bytes:
    """Equal only for equal tokens: each is preceded by its length, so that ["ab"] differs from ["a", "b"]."""
    text = "".join(f"{len(token)}:{token}" for token in sentence)
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=KEY_BYTES).digest()
