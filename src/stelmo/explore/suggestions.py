"""An index → words worth looking at; an unknown word → the known words that are spelled most like it. Knows no server.

N uses, D width, A axes.
"""

from difflib import SequenceMatcher
from itertools import islice

import numpy as np

from stelmo.explore import clusters
from stelmo.explore.index import Index
from stelmo.explore.mixing import mixed, of_layer, squared_distances, units

# English words with several unrelated or clearly different meanings. In the vectors alone a difference of grammar
# ("north of", "the north") looks like a difference of meaning, so a word of this list comes before any other.
_AMBIGUOUS = """
    bank bar bark bass bat bear board bow can capital case cell change charge chip club court crane current date
    deck draft duck fall fan figure file fire fly interest jam key lead letter light line match mean mine mint
    mouse note organ palm park party pen pitch plant play plot point pool pound present press race record right
    ring rock rose row ruler saw scale seal season second sentence shot sink spring square stage staff star
    state stock strike table tank tie tire train trunk turkey watch wave well yard"""
AMBIGUOUS = frozenset(_AMBIGUOUS.split())
CANDIDATES = 48  # most frequent words that are compared
FEWEST = 20  # uses of a candidate: fewer do not show a meaning
ENOUGH = 48  # uses of a candidate that are looked at
SMALLEST = 0.15  # of the uses in the smaller group: otherwise it consists of outliers
AXES = 16  # the variance along further axes is mostly noise
KNOWN = 50_000  # most frequent words among which a spelling is looked up
ALIKE = 0.6  # ratio of matching letters from which two spellings are similar


def separating(index: Index, count: int) -> list[str]:
    """Ambiguous words of the index, those whose uses separate best on the top layer first.

    If it has fewer than `count` such words, other frequent words follow.
    """
    frequent = [
        word
        for word, uses in index.words.items()
        if uses >= FEWEST and word.isalpha() and len(word) > 1 and word not in clusters.FUNCTION_WORDS
    ]
    known = [word for word in frequent if word in AMBIGUOUS][:CANDIDATES]
    others = [word for word in frequent if word not in AMBIGUOUS][: max(0, min(CANDIDATES, count) - len(known))]
    return [*_ranked(index, known), *_ranked(index, others)][:count]


def _ranked(index: Index, words: list[str]) -> list[str]:
    scores = {word: _separation(index, word) for word in words}
    return sorted(words, key=lambda word: -scores[word])


def _separation(index: Index, word: str) -> float:
    """The silhouette of two groups of uses; -1 if one of them is only a few outliers."""
    ids_N = index.ids_of(word)
    some = ids_N[np.linspace(0, len(ids_N) - 1, min(ENOUGH, len(ids_N))).astype(int)]
    units_ND = units(mixed(index.layers(some), of_layer("top", index.depth)))
    groups_N = clusters.clusters(units_ND, 2)
    if np.bincount(groups_N, minlength=2).min() < SMALLEST * len(some):
        return -1.0
    left_NA, spread_A, _ = np.linalg.svd(units_ND - units_ND.mean(0), full_matrices=False)
    axes_NA = (left_NA * spread_A)[:, :AXES]
    return clusters.silhouette(np.sqrt(squared_distances(axes_NA)), groups_N)


def similar(index: Index, word: str, count: int) -> list[str]:
    """The words of the index spelled most like this one, best first; of equally similar ones the more frequent."""
    matcher = SequenceMatcher(b=word.lower(), autojunk=False)
    scores = {}
    for known in islice(index.words, KNOWN):
        matcher.set_seq1(known)
        if matcher.real_quick_ratio() >= ALIKE and matcher.quick_ratio() >= ALIKE and matcher.ratio() >= ALIKE:
            scores[known] = matcher.ratio()
    return sorted(scores, key=lambda known: -scores[known])[:count]
