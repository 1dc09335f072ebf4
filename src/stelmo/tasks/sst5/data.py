"""Sentiment trees ↔ phrases with a label from 0 (very negative) to 4 (very positive). Knows no model.

trees         (3 (2 It) (4 (4 works) (2 .))), one tree per line: a label, then one word or the phrases below it
text          one sentence per line, to be labelled
predictions   one label per line
"""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from stelmo.errors import DataError
from stelmo.store.atomic import new_file
from stelmo.tasks import reading
from stelmo.tasks.reading import ExampleError, Skipped, refuse_empty, skipping_flawed
from stelmo.text.files import LineReader

FILES = {
    "train": ("train.txt", "train.ptb", "trees/train.txt", "*train*.txt"),
    "dev": ("dev.txt", "dev.ptb", "trees/dev.txt", "*dev*.txt"),
    "test": ("test.txt", "test.ptb", "trees/test.txt", "*test*.txt"),
}
LABELS = ("0", "1", "2", "3", "4")
NEUTRAL = 2
SHORTEST_PHRASE = 4  # words of a phrase that is used for training, as for CoVe

Prediction = int


class Example(NamedTuple):
    words: tuple[str, ...]
    label: int
    where: str


def gold(example: Example) -> Prediction:
    return example.label


def tree(example: Example) -> str:
    """The tree that a sentence or phrase is from."""
    return example.where


def read(path: Path, skipped: Skipped | None = None, *, subtrees: bool = False, shortest: int = 1) -> list[Example]:
    """One sentence per tree, with its root's label; with `subtrees` also phrases of at least `shortest` words."""
    examples: list[Example] = []
    for number, line in _lines(path):
        with skipping_flawed(skipped):
            words, (sentence, *phrases) = _parse(line, where := f"{path}:{number}")
            long = [phrase for phrase in phrases if subtrees and phrase.end - phrase.start >= shortest]
            examples += [Example(tuple(words[start:end]), label, where) for start, end, label in (sentence, *long)]
    return refuse_empty(examples, path, "trees", skipped)


def read_train(path: Path, skipped: Skipped | None = None) -> list[Example]:
    """The paper's training data: sentences of any length, and their phrases of four or more words."""
    return read(path, skipped, subtrees=True, shortest=SHORTEST_PHRASE)


def read_new(path: Path) -> list[Example]:
    """Sentences to be labelled: one per line, or trees, whose labels are ignored."""
    lines = list(_lines(path))
    if reading.most(_LOOKS_LIKE_A_TREE.match(line) is not None for _, line in lines):
        unlabelled = ((_LABEL.sub(f"({NEUTRAL}", line), f"{path}:{number}") for number, line in lines)
        return [Example(tuple(_parse(line, where)[0]), NEUTRAL, where) for line, where in unlabelled]
    examples = [Example(reading.tokens_of(line), NEUTRAL, f"{path}:{number}") for number, line in lines]
    return refuse_empty(examples, path, "sentences")


_LABEL = re.compile(r"\([ \t]*[0-9]+(?=[ \t(])")
_LOOKS_LIKE_A_TREE = re.compile(r"[ \t]*\([ \t]*[0-9]+[ \t]+[^ \t].*\)\s*$")


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    with LineReader(path) as reader:
        yield from ((number, line) for number, line in reader if line.strip())


# Parsing a tree, without recursion: trees may be deeper than Python's stack


class _Phrase(NamedTuple):
    start: int
    end: int
    label: int


# A word with its label, a label before phrases, an end, or a word that has no label. Only spaces and tabs separate
# words: "8\xa01/2" is one word.
_TOKEN = re.compile(
    r"\([ \t]*(?P<label>[^ \t()]*)(?:[ \t]+(?P<word>[^ \t()]+)[ \t]*\))?|(?P<close>\))|(?P<stray>[^ \t()]+)"
)


def _parse(line: str, where: str) -> tuple[list[str], list[_Phrase]]:
    """The words, and the phrases in the order of their opening brackets: the whole sentence first."""
    words: list[str] = []
    phrases: list[_Phrase] = []
    opened: list[int] = []
    for token in _TOKEN.finditer(line):
        if token["stray"]:
            expected = "a bracket of its own for each word: (2 It)"
            raise ExampleError(where, f"the word {token[0]!r} without a label", expected)
        if not opened and (phrases or token["close"]):
            raise ExampleError(where, f"{token[0]!r} outside the tree", "one tree on each line")
        if token["close"]:
            phrase = phrases[index := opened.pop()]
            if phrase.start == len(words):
                raise ExampleError(where, f"an empty phrase labelled {phrase.label}", "a word or phrases in it")
            phrases[index] = phrase._replace(end=len(words))
            continue
        phrases.append(_Phrase(len(words), len(words) + 1, _label(token["label"], where)))
        if token["word"]:
            words.append(_unescaped(token["word"]))
        else:
            opened.append(len(phrases) - 1)
    if opened:
        raise ExampleError(where, f"{len(opened)} brackets are never closed", "a whole tree on each line")
    return words, phrases


def _label(text: str, where: str) -> int:
    if text not in LABELS:
        raise ExampleError(where, f"the label {text!r}", "0, 1, 2, 3 or 4")
    return int(text)


_ESCAPED = {"-LRB-": "(", "-RRB-": ")"}


def _unescaped(word: str) -> str:
    """Undo the escapes of the tree format: the biLM was trained on text with "(" and "/"."""
    return _ESCAPED.get(word, word).replace("\\/", "/").replace("\\*", "*")


# The predictions


def write(path: Path, examples: Sequence[Example], predictions: Sequence[Prediction]) -> None:
    assert len(examples) == len(predictions)
    with new_file(path, overwrite=True) as draft:
        draft.write_text("".join(f"{prediction}\n" for prediction in predictions), encoding="utf-8")


def read_predictions(path: Path, examples: Sequence[Example]) -> list[Prediction]:
    predictions = [_label(line.strip(), f"{path}:{number}") for number, line in _lines(path)]
    if len(predictions) != len(examples):
        raise DataError(f"{path}: {len(predictions)} labels; expected {len(examples)}, one for each sentence")
    return predictions


# The score


def score(predictions: Sequence[Prediction], examples: Sequence[Example]) -> dict[str, float]:
    """The share of sentences with the correct label of five. Pass whole sentences, not their phrases."""
    right = sum(prediction == example.label for prediction, example in zip(predictions, examples, strict=True))
    return {"accuracy": 100.0 * right / len(examples) if examples else 0.0}


def count(prediction: Prediction, example: Example) -> tuple[float, float]:
    return float(prediction == example.label), 1.0
