"""SQuAD 1.1's JSON → questions about passages, and answers → JSON. Knows no model.

{"version": "1.1", "data": [{"title": "…", "paragraphs": [{"context": "…", "qas": [
    {"id": "…", "question": "…", "answers": [{"text": "…", "answer_start": 17}]}]}]}]}

An answer is a span of characters; a model predicts a span of tokens. If an answer begins or ends inside a token, it is
represented by the tokens that cover it (`unaligned` counts these); scores always use the answer's own characters.
"""

import json
import re
import string
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from stelmo.errors import DataError
from stelmo.store.atomic import new_file
from stelmo.tasks.reading import ExampleError, Skipped, refuse_empty, skipping_flawed
from stelmo.text.files import LineReader
from stelmo.text.sentences import tokenize, tokenize_text

FILES = {
    "train": ("train-v1.1.json", "train*.json"),
    "dev": ("dev-v1.1.json", "dev*.json"),
    "test": ("test-v1.1.json", "test*.json"),
}

Prediction = str


class Passage(NamedTuple):
    """A paragraph; token i is `text[starts[i]:ends[i]]`. All questions about it share one object."""

    text: str
    tokens: tuple[str, ...]
    starts: tuple[int, ...]
    ends: tuple[int, ...]

    def between(self, first: int, last: int) -> str:
        """The text from one token to another, both included."""
        return self.text[self.starts[first] : self.ends[last]]


class Answer(NamedTuple):
    """Its text, and the first and the last token that cover it."""

    text: str
    first: int
    last: int


class Example(NamedTuple):
    """A question about a passage, and the annotators' answers: one in training, several in evaluation."""

    id: str
    passage: Passage
    question: tuple[str, ...]
    answers: tuple[Answer, ...]
    where: str


def read(path: Path, skipped: Skipped | None = None) -> list[Example]:
    """The questions of a file, in its order."""
    examples: list[Example] = []
    ids: set[str] = set()
    for where, paragraph in _paragraphs(_json(_lines(path), path), path):
        with skipping_flawed(skipped):
            passage = _passage(_field(paragraph, "context", str, where), where)
            for number, question in enumerate(_field(paragraph, "qas", list, where), start=1):
                with skipping_flawed(skipped):
                    examples.append(_new(_example(question, passage, path, f"{where}, question {number}"), ids))
    return refuse_empty(examples, path, "questions", skipped)


def read_new(path: Path) -> list[Example]:
    """Questions to be answered: SQuAD's JSON, whose answers are ignored, or JSON lines of context and question.

    Without an id, the line number is used.
    """
    lines = _lines(path)
    examples: list[Example] = []
    ids: set[str] = set()
    if _is_json_lines(lines):
        passages: dict[str, Passage] = {}
        for number, line in enumerate(lines, start=1):
            if line.strip():
                where, row = f"{path}:{number}", _json([line], path, number)
                text = _field(row, "context", str, where)
                passage = passages[text] = passages.get(text) or _passage(text, where)
                example = Example(str(row.get("id", number)), passage, _question(row, where), (), where)
                examples.append(_new(example, ids))
    else:
        for where, paragraph in _paragraphs(_json(lines, path), path):
            passage = _passage(_field(paragraph, "context", str, where), where)
            for number, question in enumerate(_field(paragraph, "qas", list, where), start=1):
                examples.append(_new(_unanswered(question, passage, path, f"{where}, question {number}"), ids))
    return refuse_empty(examples, path, "questions")


def gold(example: Example) -> Prediction:
    return example.answers[0].text


def unaligned(examples: Sequence[Example]) -> int:
    """How many answers begin or end inside a token."""
    return sum(
        example.passage.between(answer.first, answer.last) != answer.text.strip()
        for example in examples
        for answer in example.answers
    )


def write(path: Path, examples: Sequence[Example], predictions: Sequence[Prediction]) -> None:
    """One JSON object, question id → answer, the format of the official script."""
    answers = {example.id: text for example, text in zip(examples, predictions, strict=True)}
    with new_file(path, overwrite=True) as draft:
        draft.write_text(json.dumps(answers, indent=0) + "\n", encoding="utf-8")


def read_predictions(path: Path, examples: Sequence[Example]) -> list[Prediction]:
    """The answer to each example, found by its id; other entries are ignored."""
    answers = _json(_lines(path), path)
    if not isinstance(answers, dict):
        raise DataError(f"{path}: {_kind(answers)}; expected an object, question id → answer")
    for example in examples:
        if not isinstance(answers.get(example.id), str):
            raise DataError(f"{path}: no answer to question {example.id}; expected a string for each question")
    return [answers[example.id] for example in examples]


# From JSON to examples


def _lines(path: Path) -> list[str]:
    with LineReader(path) as reader:
        return [line for _, line in reader]


def _json(lines: Sequence[str], path: Path, first: int = 1) -> Any:
    """The JSON value of the joined lines; `first` is the line number of the first."""
    try:
        return json.loads("\n".join(lines))
    except json.JSONDecodeError as error:
        line = first - 1 + error.lineno
        raise DataError(f"{path}:{line}: not JSON ({error.msg}, column {error.colno})") from error
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path}: not JSON ({error})") from error


def _paragraphs(value: Any, path: Path) -> Iterator[tuple[str, Any]]:
    """Every paragraph, and where it is."""
    for number, article in enumerate(_field(value, "data", list, str(path)), start=1):
        where = f"{path}: article {number}"
        for place, paragraph in enumerate(_field(article, "paragraphs", list, where), start=1):
            yield f"{where}, paragraph {place}", paragraph


def _field(value: Any, key: str, kind: type, where: str) -> Any:
    if not isinstance(value, dict):
        raise ExampleError(where, _kind(value), f"an object with {key!r}, as in SQuAD 1.1")
    if key not in value:
        raise ExampleError(where, f"no {key!r}", f"{key!r}, as in SQuAD 1.1")
    if type(value[key]) is not kind:
        raise ExampleError(where, f"{key!r} is {_kind(value[key])}", f"{_KINDS[kind]} there, as in SQuAD 1.1")
    return value[key]


_KINDS = {dict: "an object", list: "an array", str: "a string", int: "a number", float: "a fraction", bool: "a boolean"}


def _kind(value: Any) -> str:
    return _KINDS.get(type(value), "null")


def _passage(text: str, where: str) -> Passage:
    tokens = [token for sentence in tokenize_text(text) for token in sentence]
    if not tokens:
        raise ExampleError(where, "the context has no words", "a paragraph of text")
    words, starts, ends = zip(*tokens, strict=True)
    return Passage(text, words, starts, ends)


def _example(question: Any, passage: Passage, path: Path, where: str) -> Example:
    example = _unanswered(question, passage, path, where)
    where = example.where
    answers = []
    for answer in _field(question, "answers", list, where):
        text, start = _field(answer, "text", str, where), _field(answer, "answer_start", int, where)
        found = passage.text[start : start + len(text)] if start >= 0 else ""
        if found != text or not text.strip():
            has = f"answer {text!r}, but the context has {found!r} at character {start}"
            raise ExampleError(where, has, "the answer's text there")
        bounds = start + len(text) - len(text.lstrip()), start + len(text.rstrip())
        answers.append(Answer(text, *_cover(passage, *bounds)))
    if not answers:
        raise ExampleError(where, "no answers", "one or more: SQuAD 1.1 has no unanswerable questions, unlike 2.0")
    return example._replace(answers=tuple(answers))


def _unanswered(question: Any, passage: Passage, path: Path, where: str) -> Example:
    name = _field(question, "id", str, where)
    where = f"{path}: question {name}"
    return Example(name, passage, _question(question, where), (), where)


def _question(row: Any, where: str) -> tuple[str, ...]:
    words = tuple(word for sentence in tokenize(_field(row, "question", str, where)) for word in sentence)
    if not words:
        raise ExampleError(where, "the question has no words", "a question")
    return words


def _new(example: Example, ids: set[str]) -> Example:
    """The example; a repeated id is an error, because predictions are matched by it."""
    if example.id in ids:
        raise ExampleError(example.where, "the id occurs twice", "a different id for each question")
    ids.add(example.id)
    return example


def _cover(passage: Passage, start: int, end: int) -> tuple[int, int]:
    """The first token that ends after `start`, the last that starts before `end`."""
    return bisect_right(passage.ends, start), bisect_left(passage.starts, end) - 1


def _is_json_lines(lines: Sequence[str]) -> bool:
    """Whether the first line is a complete object, and not a whole file of articles."""
    try:
        value = json.loads(next(filter(str.strip, lines), ""))
    except (ValueError, RecursionError):
        return False
    return isinstance(value, dict) and "data" not in value


# The score
#
# As in the official script of SQuAD 1.1, a question has several gold answers and the best match counts. An answer of
# articles and punctuation only can match exactly, but its F1 is 0, because it has no words in common with anything.


_ARTICLE = re.compile(r"\b(?:a|an|the)\b")
_PUNCTUATION = str.maketrans("", "", string.punctuation)


def score(predictions: Sequence[str], examples: Sequence[Example]) -> dict[str, float]:
    """Means over the questions, in percent."""
    f1 = exact = 0.0
    for prediction, example in zip(predictions, examples, strict=True):
        f1 += count(prediction, example)[0]
        exact += normalised(prediction) in [normalised(answer.text) for answer in example.answers]
    return {"f1": 100.0 * f1 / len(examples), "exact match": 100.0 * exact / len(examples)}


def count(prediction: Prediction, example: Example) -> tuple[float, float]:
    """The best F1 with an annotator's answer, out of 1."""
    found = normalised(prediction)
    return max(overlap(found, normalised(answer.text)) for answer in example.answers), 1.0


def normalised(answer: str) -> list[str]:
    """The words that count: lower-cased, without ASCII punctuation, then without articles."""
    return _ARTICLE.sub(" ", answer.lower().translate(_PUNCTUATION)).split()


def overlap(found: list[str], gold: list[str]) -> float:
    """F1 of two bags of words: 2PR/(P+R), which equals 2·shared/(found + gold)."""
    shared = (Counter(found) & Counter(gold)).total()
    return 2.0 * shared / (len(found) + len(gold)) if shared else 0.0
