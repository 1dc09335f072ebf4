"""Text → static word vectors, trained by word2vec (skip-gram). Needs gensim."""

import zlib
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from stelmo.errors import ConfigError
from stelmo.store.static import StaticVectors

TRAINED = "trained"  # in place of a file's name
WIDTH = 100
EPOCHS = 5


def train_vectors(
    sentences: Iterable[Sequence[str]], say: Callable[[str], None], min_count: int = 2, width: int = WIDTH
) -> StaticVectors:
    """Vectors of the words that occur `min_count` times; the same for the same sentences. Read several times over."""
    try:
        from gensim.models import Word2Vec
        from gensim.models.callbacks import CallbackAny2Vec
    except ImportError:
        raise ConfigError(
            f"--vectors {TRAINED}: gensim is not installed; pip install 'stelmo[baselines]', or give a file"
        ) from None

    class Epochs(CallbackAny2Vec):  # type: ignore[misc]
        def __init__(self) -> None:
            self.done = 0

        def on_epoch_end(self, model: Any) -> None:
            self.done += 1
            say(f"word2vec: epoch {self.done} of {EPOCHS}")

    model = Word2Vec(
        sentences,
        vector_size=width,
        min_count=min_count,
        sg=1,
        epochs=EPOCHS,
        seed=1,
        workers=1,  # with several threads the order of updates differs from run to run
        hashfxn=_number,
        callbacks=[Epochs()],
    )
    return StaticVectors(list(model.wv.index_to_key), np.array(model.wv.vectors, np.float32))


def _number(text: str) -> int:
    """Python's own hash of a string differs from process to process."""
    return zlib.crc32(text.encode("utf-8", "surrogatepass"))
