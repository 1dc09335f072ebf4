"""Vectors by hand for the probes: a word's own part, and the part its neighbours lend it."""

import numpy as np

from stelmo.probes.embedding import Source

OWN = {"bank": [1.0, 0, 0, 0], "banks": [0.9, 0.1, 0, 0], "river": [0, 0, 1.0, 0], "money": [0, 0, 0, 1.0]}


def static(sentences):
    """No context: the same vector for a word wherever it stands."""
    return [np.array([OWN.get(word, [0.0, 0, 0, 0]) for word in words], np.float32) for words in sentences]


def contextual(sentences):
    """A word's own vector and half the mean of its sentence."""
    return [words_TD + 0.5 * words_TD.mean(0) for words_TD in static(sentences)]


def of(embed, name="toy", identity=None):
    """A source of one kind of vectors."""
    return Source((name,), lambda sentences: [words_TD[:, None] for words_TD in embed(sentences)], identity)
