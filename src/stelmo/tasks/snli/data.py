"""SNLI's JSON lines → pairs of sentences with a label, and labels → JSON lines. Knows no model.

{"gold_label": "neutral", "sentence1": "…", "sentence2": "…", "sentence1_binary_parse": "( … )", …, "pairID": "…"}

The words are the leaves of the binary parse if there is one, as in the official files; otherwise the text is tokenised.
Without a pairID the line number is used. MultiNLI has the same layout.
"""

import json
from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from stelmo.errors import DataError
from stelmo.store.atomic import new_file
from stelmo.tasks.reading import ExampleError, Skipped, refuse_empty, skipping_flawed
from stelmo.text.files import LineReader
from stelmo.text.sentences import tokenize

FILES = {
    "train": ("train.jsonl", "*train*.jsonl"),
    "dev": ("dev.jsonl", "*dev*.jsonl"),
    "test": ("test.jsonl", "*test*.jsonl"),
}
LABELS = ("entailment", "neutral", "contradiction")
NO_LABEL = "-"  # the annotators did not agree; results on SNLI always exclude such pairs

Prediction = str


class Example(NamedTuple):
    """A premise, a hypothesis, and how they relate."""

    premise: tuple[str, ...]
    hypothesis: tuple[str, ...]
    label: str
    pair: str
    where: str


def read(path: Path, skipped: Skipped | None = None) -> list[Example]:
    """The pairs of a file. Pairs without agreement ("-") are always skipped, and counted in `skipped`."""
    examples: list[Example] = []
    pairs: set[str] = set()
    for where, line in _lines(path):
        with skipping_flawed(skipped):
            row = _object(line, where)
            if row.get("gold_label") != NO_LABEL:
                examples.append(_new(_example(row, where), pairs))
            elif skipped is not None:
                skipped.add(where, f"no agreement on a label (gold_label {NO_LABEL})")
    return refuse_empty(examples, path, "labelled pairs", skipped)


def read_new(path: Path) -> list[Example]:
    """Pairs to be labelled: JSON lines as above, whose labels are ignored, or lines of premise, TAB, hypothesis."""
    examples: list[Example] = []
    pairs: set[str] = set()
    for where, line in _lines(path):
        if line.lstrip().startswith("{"):
            row = _object(line, where)
        else:
            fields = line.split("\t")
            if len(fields) != 2:
                raise ExampleError(where, f"{len(fields)} columns", "2, premise TAB hypothesis, or a JSON object")
            row = {"sentence1": fields[0], "sentence2": fields[1]}
        examples.append(_new(_example(row, where, NO_LABEL), pairs))
    return refuse_empty(examples, path, "pairs")


def gold(example: Example) -> Prediction:
    return example.label


def write(path: Path, examples: Sequence[Example], predictions: Sequence[Prediction]) -> None:
    """One JSON line per pair: its pairID and label."""
    with new_file(path, overwrite=True) as draft, draft.open("w", encoding="utf-8", newline="\n") as file:
        for example, label in zip(examples, predictions, strict=True):
            file.write(json.dumps({"pairID": example.pair, "label": label}) + "\n")


def read_predictions(path: Path, examples: Sequence[Example]) -> list[Prediction]:
    """The label of each example, found by its pairID; other lines are ignored."""
    labels = {}
    for where, line in _lines(path):
        row = _object(line, where)
        labels[_pair(row, where)] = _label(row, "label", where)
    for example in examples:
        if example.pair not in labels:
            raise DataError(f"{path}: no line for pairID {example.pair} ({example.where}); expected one for each pair")
    return [labels[example.pair] for example in examples]


def _lines(path: Path) -> Iterator[tuple[str, str]]:
    with LineReader(path) as reader:
        for number, line in reader:
            if line.strip():
                yield f"{reader.name}:{number}", line


def _object(line: str, where: str) -> dict[str, Any]:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise ExampleError(where, f"not JSON ({error})", "a JSON object on each line") from error
    if not isinstance(value, dict):
        raise ExampleError(where, f"a JSON {type(value).__name__}", "a JSON object on each line")
    return value


def _example(row: dict[str, Any], where: str, label: str | None = None) -> Example:
    label = label or _label(row, "gold_label", where)
    return Example(_words(row, "sentence1", where), _words(row, "sentence2", where), label, _pair(row, where), where)


def _new(example: Example, pairs: set[str]) -> Example:
    """The example; a repeated pairID is an error, because predictions are matched by it."""
    if example.pair in pairs:
        raise ExampleError(example.where, f"pairID {example.pair} occurs twice", "a different pairID for each pair")
    pairs.add(example.pair)
    return example


def _label(row: dict[str, Any], key: str, where: str) -> str:
    label = row.get(key)
    if label not in LABELS:
        raise ExampleError(where, f"{key} {json.dumps(label)}", f"one of {', '.join(LABELS)}")
    return str(label)


def _pair(row: dict[str, Any], where: str) -> str:
    return str(row.get("pairID", where.rpartition(":")[2]))


_BRACKETS = {"-LRB-": "(", "-RRB-": ")", "-LSB-": "[", "-RSB-": "]", "-LCB-": "{", "-RCB-": "}"}


def _words(row: dict[str, Any], key: str, where: str) -> tuple[str, ...]:
    parse, text = row.get(f"{key}_binary_parse"), row.get(key)
    if isinstance(parse, str) and parse.strip():
        words = tuple(_BRACKETS.get(leaf, leaf) for leaf in parse.split() if leaf not in ("(", ")"))
    else:
        words = _tokenized(text) if isinstance(text, str) else ()
    if not words:
        raise ExampleError(where, f"{key} has no words", "a premise in sentence1 and a hypothesis in sentence2")
    return words


@lru_cache(maxsize=1024)  # a premise occurs with several hypotheses
def _tokenized(text: str) -> tuple[str, ...]:
    return tuple(word for sentence in tokenize(text) for word in sentence)


# The score


def score(predictions: Sequence[str], examples: Sequence[Example]) -> dict[str, float]:
    """The share of pairs with the gold label, in percent."""
    right = sum(label == example.label for label, example in zip(predictions, examples, strict=True))
    return {"accuracy": 100.0 * right / len(examples)}


def count(prediction: Prediction, example: Example) -> tuple[float, float]:
    return float(prediction == example.label), 1.0
