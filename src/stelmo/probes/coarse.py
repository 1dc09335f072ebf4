"""CoarseWSD-20 folders → occurrences of twenty ambiguous nouns; their vectors → accuracy. Knows no model.

WORD/train.data.txt   one occurrence per line: the word's position (from 0) TAB the tokens; also test.data.txt
WORD/train.gold.txt   one class per line
WORD/classes_map.txt  {"0": "apple_apple_inc.", …}
"""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from stelmo.errors import DataError
from stelmo.probes.embedding import TIE, Occurrence, Vector, unit
from stelmo.text.files import LineReader

METHODS = ("nearest example", "class mean", "most frequent")


class Example(NamedTuple):
    occurrence: Occurrence
    label: str
    where: str


class Noun(NamedTuple):
    name: str
    train: tuple[Example, ...]
    test: tuple[Example, ...]


def read(folder: Path) -> list[Noun]:
    """Every noun that has a folder."""
    folders = sorted(path.parent for path in folder.glob("*/train.data.txt"))
    if not folders:
        raise DataError(f"{folder}: no WORD/train.data.txt in it; expected a folder for each word of CoarseWSD-20")
    return [read_noun(path) for path in folders]


def read_noun(folder: Path) -> Noun:
    path = folder / "classes_map.txt"
    with LineReader(path) as reader:
        text = "\n".join(line for _, line in reader)
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path}: not a JSON value ({error}); expected an object from class to name") from error
    if not isinstance(found, dict) or not found:
        raise DataError(f"{path}: {text[:40]!r}; expected an object from class to name")
    classes = set(found)
    return Noun(folder.name, _split(folder, "train", classes), _split(folder, "test", classes))


def _split(folder: Path, split: str, classes: set[str]) -> tuple[Example, ...]:
    data, gold = (_lines(folder / f"{split}.{kind}.txt") for kind in ("data", "gold"))
    if len(data) != len(gold):
        raise DataError(
            f"{folder / split}.gold.txt: {len(gold)} classes; expected {len(data)}, one for each occurrence"
        )
    if not data:
        raise DataError(f"{folder / split}.data.txt: no occurrences; expected one per line")
    for where, label in gold:
        if label.strip() not in classes:
            raise DataError(f"{where}: class {label.strip()!r}; expected one of {', '.join(sorted(classes))}")
    return tuple(
        Example(_use(line, where), label.strip(), where) for (where, line), (_, label) in zip(data, gold, strict=True)
    )


def _lines(path: Path) -> list[tuple[str, str]]:
    with LineReader(path) as reader:
        return [(f"{path}:{number}", line) for number, line in reader if line.strip()]


def _use(line: str, where: str) -> Occurrence:
    """Positions count words separated by any white space, so that a double or no-break space does not shift them."""
    place, tab, text = line.partition("\t")
    if not tab or not place.isdecimal():
        raise DataError(f"{where}: {line[:40]!r}; expected a position, a tab and the tokens")
    tokens = tuple(text.split())
    if int(place) >= len(tokens):
        raise DataError(f"{where}: position {place}; the sentence has words 0 to {len(tokens) - 1}")
    return Occurrence(tokens, int(place), int(place) + 1)


# The probe


def by_method(nouns: Sequence[Noun], results: Mapping[str, Mapping[str, float]]) -> dict[str, dict[str, float]]:
    """Noun → method → score becomes method → noun → score, with the mean over the nouns and over all test uses."""
    found = {}
    for method in METHODS:
        by_noun = {noun.name: results[noun.name][method] for noun in nouns}
        uses = sum(len(noun.test) for noun in nouns)
        pooled = sum(by_noun[noun.name] * len(noun.test) for noun in nouns) / uses
        found[method] = {"mean": sum(by_noun.values()) / len(by_noun), "all uses": pooled, **by_noun}
    return found


def score(noun: Noun, train_ND: Vector, test_ND: Vector) -> dict[str, float]:
    """Method → percent correct."""
    train, gold = [example.label for example in noun.train], [example.label for example in noun.test]
    answers = (
        nearest_example(train_ND, train, test_ND),
        class_mean(train_ND, train, test_ND),
        _by_frequency(train)[:1] * len(gold),
    )
    return {
        method: 100 * sum(map(str.__eq__, labels, gold)) / len(gold)
        for method, labels in zip(METHODS, answers, strict=True)
    }


def nearest_example(train_ND: Vector, labels: Sequence[str], test_MD: Vector) -> list[str]:
    """The class of the nearest training occurrence; if several are equally near, the most frequent class among them."""
    classes = _by_frequency(labels)
    of_NC = np.array(labels)[:, None] == np.array(classes)
    similarity_MN = unit(test_MD) @ unit(train_ND).T
    nearest_MN = similarity_MN >= similarity_MN.max(1, keepdims=True) - TIE
    return [classes[best] for best in (nearest_MN.astype(np.float32) @ of_NC).argmax(1)]


def class_mean(train_ND: Vector, labels: Sequence[str], test_MD: Vector) -> list[str]:
    """The class whose mean vector has the largest cosine."""
    classes = _by_frequency(labels)
    means_CD = np.stack([train_ND[np.array(labels) == label].mean(0) for label in classes])
    return nearest_example(means_CD, classes, test_MD)


def _by_frequency(labels: Sequence[str]) -> list[str]:
    return [label for label, _ in Counter(labels).most_common()]
