"""A source of static vectors and a task's words → their table. Knows no network.   V words, D width.

The source is a file or folder, "trained" on the task's own text, "random", or "none".
"""

import zlib
from collections.abc import Callable, Iterable, Sequence

import numpy as np
import torch
from torch import Tensor

from stelmo.errors import ConfigError
from stelmo.store import static
from stelmo.tasks.plan import NONE, RANDOM, TRAINED
from stelmo.tasks.words import StaticTable

WIDTH = 100  # of vectors that come from no file
EPOCHS = 5  # through the task's text, when they are trained on it
Say = Callable[[str], None]


def table(
    source: str, train: Iterable[Sequence[str]], others: Iterable[Sequence[str]], tuned: bool, say: Say
) -> StaticTable | None:
    """Vectors of the words of the data. Of a file also the words that training does not have are kept."""
    if source == NONE:
        return None
    sentences = list(train)
    seen = sorted({word for sentence in sentences for word in sentence})
    if source == RANDOM:
        say("static vectors start by chance and are learned; --vectors FILE takes GloVe or word2vec")
        return StaticTable(seen, _random(len(seen)), tuned)
    if source == TRAINED:
        words, vectors_VD = _trained(sentences)
        say(f"static vectors of {len(words):,} words were trained on the task's own text (word2vec)")
        return StaticTable(words, vectors_VD, tuned)
    wanted = {*seen, *(word for sentence in others for word in sentence)}
    found = static.read(source, wanted)
    covered = sum(found.row(word) is not None for word in wanted)
    say(f"static vectors of {covered:,} of the data's {len(wanted):,} words out of {source}")
    return StaticTable(found.words, torch.from_numpy(np.asarray(found.vectors_VD, np.float32)), tuned)


def blank(words: Sequence[str], width: int, tuned: bool) -> StaticTable:
    """The shape of a table whose numbers are loaded afterwards."""
    return StaticTable(words, torch.zeros(len(words), width), tuned)


def _random(count: int) -> Tensor:
    generator = torch.Generator().manual_seed(0)  # the seeds of a run differ in the network, not in its input
    return torch.randn(count, WIDTH, generator=generator) * 0.1


def _trained(sentences: list[Sequence[str]]) -> tuple[list[str], Tensor]:
    try:
        from gensim.models import Word2Vec
    except ImportError:
        raise ConfigError(
            f"--vectors {TRAINED}: gensim is not installed; pip install 'stelmo[baselines]', or give a file"
        ) from None
    model = Word2Vec(
        [list(sentence) for sentence in sentences],
        vector_size=WIDTH,
        min_count=2,
        sg=1,
        epochs=EPOCHS,
        seed=1,
        workers=1,  # the order of several threads would be another at each run
        hashfxn=_number,
    )
    words = list(model.wv.index_to_key)
    return words, torch.from_numpy(np.array(model.wv.vectors))


def _number(text: str) -> int:
    """Python's own hash of a string is another in every process."""
    return zlib.crc32(text.encode("utf-8", "surrogatepass"))
