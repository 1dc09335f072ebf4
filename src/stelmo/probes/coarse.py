"""CoarseWSD-20 folders → uses of twenty ambiguous nouns; their vectors → accuracy. Knows no model.

WORD/train.data.txt   a use a line: the word's place (from 0) TAB the tokens; likewise test.data.txt
WORD/train.gold.txt   its class a line
WORD/classes_map.txt  {"0": "apple_apple_inc.", …}
"""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from stelmo.errors import DataError
from stelmo.probes.uses import TIE, Embed, Use, Vector, unit, vectors
from stelmo.text.files import LineReader

METHODS = ("nearest example", "class mean", "most frequent")


class Example(NamedTuple):
    use: Use
    label: str
    where: str


class Word(NamedTuple):
    name: str
    train: tuple[Example, ...]
    test: tuple[Example, ...]


def read(folder: Path) -> list[Word]:
    """Every word that has a folder."""
    folders = sorted(path.parent for path in folder.glob("*/train.data.txt"))
    if not folders:
        raise DataError(f"{folder}: no WORD/train.data.txt in it; expected a folder for each word of CoarseWSD-20")
    return [read_word(path) for path in folders]


def read_word(folder: Path) -> Word:
    classes = _classes(folder / "classes_map.txt")
    return Word(folder.name, _split(folder, "train", classes), _split(folder, "test", classes))


def _classes(path: Path) -> set[str]:
    with LineReader(path) as reader:
        text = "\n".join(line for _, line in reader)
    try:
        classes = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path}: not a JSON value ({error}); expected an object from class to name") from error
    if not isinstance(classes, dict) or not classes:
        raise DataError(f"{path}: {text[:40]!r}; expected an object from class to name")
    return set(classes)


def _split(folder: Path, split: str, classes: set[str]) -> tuple[Example, ...]:
    data, gold = (_lines(folder / f"{split}.{kind}.txt") for kind in ("data", "gold"))
    if len(data) != len(gold):
        raise DataError(f"{folder / split}.gold.txt: {len(gold)} classes; expected {len(data)}, one for each use")
    if not data:
        raise DataError(f"{folder / split}.data.txt: no uses; expected one a line")
    for where, label in gold:
        if label.strip() not in classes:
            raise DataError(f"{where}: class {label.strip()!r}; expected one of {', '.join(sorted(classes))}")
    return tuple(
        Example(_use(line, where), label.strip(), where) for (where, line), (_, label) in zip(data, gold, strict=True)
    )


def _lines(path: Path) -> list[tuple[str, str]]:
    with LineReader(path) as reader:
        return [(f"{path}:{number}", line) for number, line in reader if line.strip()]


def _use(line: str, where: str) -> Use:
    """The places count words between any white space, so that a doubled or no-break space does not shift them."""
    place, tab, text = line.partition("\t")
    if not tab or not place.isdecimal():
        raise DataError(f"{where}: {line[:40]!r}; expected a place, a tab and the tokens")
    tokens = tuple(text.split())
    if int(place) >= len(tokens):
        raise DataError(f"{where}: place {place}; the sentence has words 0 to {len(tokens) - 1}")
    return Use(tokens, int(place), int(place) + 1)


# The probe


def probe(words: Sequence[Word], embed: Embed) -> dict[str, dict[str, float]]:
    """Method → percent right: the mean over the words, then each word. The control: `embed` giving layer 0."""
    results = {word.name: probe_word(word, embed) for word in words}
    return by_method(results)


def by_method(results: Mapping[str, Mapping[str, float]]) -> dict[str, dict[str, float]]:
    """Word → method → figure, turned round, with the mean over the words."""
    return {method: _with_mean({name: result[method] for name, result in results.items()}) for method in METHODS}


def _with_mean(by_word: dict[str, float]) -> dict[str, float]:
    return {"mean": sum(by_word.values()) / len(by_word), **by_word}


def probe_word(word: Word, embed: Embed) -> dict[str, float]:
    return score(word, *(vectors([e.use for e in examples], embed) for examples in (word.train, word.test)))


def score(word: Word, train_ND: Vector, test_ND: Vector) -> dict[str, float]:
    """Method → percent right."""
    train, gold = [example.label for example in word.train], [example.label for example in word.test]
    answers = (
        nearest_example(train_ND, train, test_ND),
        class_mean(train_ND, train, test_ND),
        _by_frequency(train)[:1] * len(gold),
    )
    return {method: _accuracy(labels, gold) for method, labels in zip(METHODS, answers, strict=True)}


def nearest_example(train_ND: Vector, labels: Sequence[str], test_MD: Vector) -> list[str]:
    """The class of the training use with the largest cosine; of equals, as without context, the most frequent class."""
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


def _accuracy(answers: Sequence[str], gold: Sequence[str]) -> float:
    return 100 * sum(map(str.__eq__, answers, gold)) / len(gold)
