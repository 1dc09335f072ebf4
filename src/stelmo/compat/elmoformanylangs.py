"""`elmoformanylangs.Embedder` over any model stelmo loads. Knows no format.

    from elmoformanylangs import Embedder   →   from stelmo.compat.elmoformanylangs import Embedder

The original batches in random order and carries the LSTM state from one batch to the next, so that its vectors
change from call to call; here the same sentence gives the same vectors.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from stelmo.config import Layer, choose
from stelmo.embed.load import load

Array = NDArray[Any]
MEAN, ALL = -1, -2


class Embedder:
    """`batch_size` is kept for its name: sentences are computed together by their number of tokens."""

    def __init__(self, model_dir: str | Path = "zht.model", batch_size: int = 64, **settings: Any) -> None:
        self.model_dir, self.batch_size = model_dir, batch_size
        self.model = load(model_dir, batch_rows=batch_size, **settings)

    def sents2elmo(self, sents: Iterable[Sequence[str]], output_layer: int = MEAN) -> list[Array]:
        """Lists of tokens → a (T, 2P) array each: layer 0 (words alone), 1, 2, −1 their mean; −2 all, (3, T, 2P)."""
        choose("output_layer", output_layer, (ALL, MEAN, *range(self.model.config.depth)))
        if output_layer == ALL:
            return self.model.layers(sents)
        layer: Layer = "mean" if output_layer == MEAN else output_layer
        return self.model.embed(sents, layer)
