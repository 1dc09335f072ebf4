"""Answers → exact match and F1, as the official script of SQuAD 1.1 counts them. Knows no files.

A question has several gold answers; the best match counts. As in the script, an answer that consists of articles and
punctuation only can match exactly, but its F1 is 0, because it has no words in common with anything.
"""

import re
import string
from collections import Counter
from collections.abc import Sequence

from stelmo.tasks.squad.data import Example

_ARTICLE = re.compile(r"\b(?:a|an|the)\b")
_PUNCTUATION = str.maketrans("", "", string.punctuation)


def score(predictions: Sequence[str], examples: Sequence[Example]) -> dict[str, float]:
    """Means over the questions, in percent."""
    f1 = exact = 0.0
    for prediction, example in zip(predictions, examples, strict=True):
        golds = [normalised(answer.text) for answer in example.answers]
        found = normalised(prediction)
        f1 += max(overlap(found, gold) for gold in golds)
        exact += found in golds
    return {"f1": 100.0 * f1 / len(examples), "exact match": 100.0 * exact / len(examples)}


def normalised(answer: str) -> list[str]:
    """The words that count: lower-cased, without ASCII punctuation, then without articles."""
    return _ARTICLE.sub(" ", answer.lower().translate(_PUNCTUATION)).split()


def overlap(found: list[str], gold: list[str]) -> float:
    """F1 of two bags of words: 2PR/(P+R), which equals 2·shared/(found + gold)."""
    shared = (Counter(found) & Counter(gold)).total()
    return 2.0 * shared / (len(found) + len(gold)) if shared else 0.0
