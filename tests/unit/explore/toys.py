"""Indexes without a model: random vectors of chosen words; and words of two topics."""

import numpy as np

from stelmo.explore import index
from stelmo.explore.contexts import Contexts
from stelmo.store import uses as store
from stelmo.store.uses import Manifest, Sentence
from stelmo.text.ids import Vocabulary

DEPTH, WIDTH = 3, 4
TOPICS = {"money": range(0, 20), "river": range(20, 40)}
WORDS = ["<S>", "</S>", "<UNK>", "the", *(f"{topic}{n}" for topic, numbers in TOPICS.items() for n in numbers)]
RARE = [f"rare{n}" for n in range(400)]


def rows():
    """A direction for each topic, one that all words share, and noise."""
    rng = np.random.default_rng(0)
    rows_VP = 0.3 * rng.normal(size=(len(WORDS) + len(RARE), 6)) + 3 * np.eye(6)[5]
    for number, word in enumerate(WORDS):
        rows_VP[number] += 3 * np.eye(6)[0] * word.startswith("money") + 3 * np.eye(6)[1] * word.startswith("river")
    return rows_VP


CONTEXTS = Contexts(Vocabulary.of([*WORDS, *RARE]), rows())


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
