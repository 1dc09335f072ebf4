"""An index → words worth looking at; an unknown word → the known words that are spelled most like it. Knows no server.

N uses, D width. Words to begin with are computed when an index is made, and kept in its folder.
"""

from difflib import SequenceMatcher
from itertools import islice

import numpy as np
from pydantic import ValidationError

from stelmo.config import Settings
from stelmo.embed.model import Model
from stelmo.explore import clusters
from stelmo.explore.contexts import Contexts, of_model
from stelmo.explore.index import Index
from stelmo.explore.mixing import of_layer, squared_distances, units
from stelmo.store import atomic
from stelmo.store import uses as store

CANDIDATES = 120  # most frequent words that are compared
FEWEST = 20  # uses of a candidate: fewer do not show a meaning
ENOUGH = 60  # uses of a candidate that are looked at
SMALLEST = 0.15  # of the uses in the smaller group: otherwise it consists of outliers
KEPT = 30  # words that the folder of an index keeps
KNOWN = 50_000  # most frequent words among which a spelling is looked up
ALIKE = 0.6  # ratio of matching letters from which two spellings are similar


class Suggested(Settings):
    """The words, and the number of uses that they were computed from: an index that grew has others."""

    uses: int
    words: list[str]


def suggested(index: Index, count: int, contexts: Contexts | None = None) -> list[str]:
    """Words to begin with: those kept with the index, or computed if there are none or the index has changed."""
    kept = _read(index)
    return separating(index, count, contexts) if kept is None else kept.words[:count]


def keep(index: Index, model: Model) -> None:
    """Compute the words to begin with, and keep them in the folder of the index, unless they are there."""
    if _read(index) is None:
        words = separating(index, KEPT, of_model(model)) if _candidates(index) else []
        with atomic.new_file(index.folder / store.SUGGESTED, overwrite=True) as draft:
            draft.write_text(Suggested(uses=len(index), words=words).model_dump_json() + "\n", encoding="utf-8")


def _read(index: Index) -> Suggested | None:
    try:
        found = Suggested.model_validate_json((index.folder / store.SUGGESTED).read_bytes())
    except (OSError, ValidationError):  # an index without them, or a damaged file, has them computed again
        return None
    return found if found.uses == len(index) and all(word in index.words for word in found.words) else None


def separating(index: Index, count: int, contexts: Contexts | None = None) -> list[str]:
    """Frequent words of the index, those whose uses separate best into two groups first.

    Uses are grouped by the words around them; without `contexts`, by the top layer.
    """
    words = _candidates(index)
    scores = {word: _separation(index, word, contexts) for word in words}
    return sorted(words, key=lambda word: -scores[word])[:count]


def _candidates(index: Index) -> list[str]:
    wanted = (word for word in index.words if word.isalpha() and len(word) > 1 and word not in clusters.FUNCTION_WORDS)
    return [word for word in islice(wanted, CANDIDATES) if index.words[word] >= FEWEST]


def _separation(index: Index, word: str, contexts: Contexts | None) -> float:
    """The silhouette of two groups of uses; -1 if one of them is only a few outliers."""
    ids_N = index.ids_of(word)
    some = ids_N[np.linspace(0, len(ids_N) - 1, min(ENOUGH, len(ids_N))).astype(int)]
    if contexts is None:
        vectors_ND = index.mixed(some, of_layer("top", index.depth))
    else:
        vectors_ND = contexts.vectors([index.use(int(id)) for id in some])
    groups_N = clusters.clusters(vectors_ND, 2)
    if np.bincount(groups_N, minlength=2).min() < SMALLEST * len(some):
        return -1.0
    return clusters.silhouette(np.sqrt(squared_distances(clusters.axes(units(vectors_ND)))), groups_N)


def similar(index: Index, word: str, count: int) -> list[str]:
    """The words of the index spelled most like this one, best first; of equally similar ones the more frequent."""
    matcher = SequenceMatcher(b=word.lower(), autojunk=False)
    scores = {}
    for known in islice(index.words, KNOWN):
        matcher.set_seq1(known)
        if matcher.real_quick_ratio() >= ALIKE and matcher.quick_ratio() >= ALIKE and matcher.ratio() >= ALIKE:
            scores[known] = matcher.ratio()
    return sorted(scores, key=lambda known: -scores[known])[:count]
