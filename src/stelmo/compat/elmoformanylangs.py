"""`elmoformanylangs.Embedder` over any model that stelmo loads.

    from elmoformanylangs import Embedder   →   from stelmo.compat.elmoformanylangs import Embedder

The original batches in random order and carries the LSTM state from one batch to the next, so its vectors change
from call to call; here every sentence starts from zeros, as the original's first batch does.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from stelmo.compat import loaded, sentences_of
from stelmo.config import CodePointInput, choose
from stelmo.settings import Layer
from stelmo.text import chars

IMPORTS = {"elmoformanylangs": ("Embedder",)}
ABSENT = {
    "python -m elmoformanylangs test": "the command `stelmo embed`",
    "python -m elmoformanylangs.biLM train": "the command `stelmo pretrain`",
}

Array = NDArray[Any]
MEAN, ALL = -1, -2


class Embedder:
    """`batch_size` is accepted for compatibility: batches are formed by number of tokens."""

    def __init__(self, model_dir: str | Path = "zht.model", batch_size: int = 64, **settings: Any) -> None:
        self.model_dir, self.batch_size = model_dir, batch_size
        self.model = loaded(model_dir, batch_rows=batch_size, **settings)

    def sents2elmo(self, sents: Iterable[Sequence[str]], output_layer: int = MEAN) -> list[Array]:
        """Lists of tokens → one (T, 2P) array each: layer 0 (no context), 1, 2, −1 their mean; −2 all, (3, T, 2P)."""
        choose("output_layer", output_layer, (ALL, MEAN, *range(self.model.config.depth)))
        found = sentences_of(sents)
        if isinstance(self.model.config.input, CodePointInput):
            found = [[_Word(token) if token in _MARKERS else token for token in tokens] for tokens in found]
        if output_layer == ALL:
            return self.model.layers(found)
        layer: Layer = "mean" if output_layer == MEAN else output_layer
        return self.model.embed(found, layer)


_MARKERS = (chars.BEGIN_SENTENCE, chars.END_SENTENCE)


class _Word(str):
    """A token that is spelled like stelmo's sentence markers `<S>` and `</S>` but is a word for these models, whose own
    markers are `<bos>` and `<eos>`: not equal to the marker, so it keeps its own row among the words of a batch."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Word) and str.__eq__(self, other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash((_Word, str(self)))
