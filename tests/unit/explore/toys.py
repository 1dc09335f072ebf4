"""Indexes without a model: random vectors of chosen words."""

import numpy as np

from stelmo.explore import index
from stelmo.store import uses as store
from stelmo.store.uses import Manifest, Sentence

DEPTH, WIDTH = 3, 4


def random_index(folder, words, seed=0, depth=DEPTH, width=WIDTH):
    """Every word a sentence of its own, behind its number."""
    rng = np.random.default_rng(seed)
    return index_of(folder, words, rng.normal(size=(len(words), depth, width)))


def index_of(folder, words, layers_NLD):
    _, depth, width = layers_NLD.shape
    store.prepare(folder, Manifest(model="toy", settings={}, depth=depth, width=width))
    with store.writing(folder) as writer:
        sentences = [Sentence((str(number), word), (1,)) for number, word in enumerate(words)]
        writer.add(sentences, layers_NLD.astype(np.float16))
    return index.open(folder)
