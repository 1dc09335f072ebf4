"""Predicates and their arguments: PropBank JSON lines, CoNLL columns ↔ words with BIO tags. Knows no model.

JSON lines    {"words": […], "frames": [{"predicate": 3, "lemma": "come", "tags": ["B-ARG1", "B-V", …]}, …]}
PropBank      sentence, number, word, tag, parse, lemma, sense, then one column per frame
CoNLL-2012    document, part, number, word, tag, parse, lemma, frameset, sense, speaker, entity, a column for each
              frame, coreference; a file, or a folder of OntoNotes with *gold_conll files
no tags       {"words": […], "predicates": [3, …]}, or one sentence per line: Kim *said* we *won* .
predictions   the "props" format of srl-eval.pl: target or "-", brackets; one block per frame

Each frame is one example; a sentence without frames gives none. In a column, "(ARG0*" opens a role, "*)" closes it.
"""

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from stelmo.errors import DataError
from stelmo.store.atomic import new_file
from stelmo.tasks.reading import (
    ExampleError,
    Row,
    Skipped,
    Source,
    all_lines,
    blocks,
    expect_width,
    files,
    filled,
    refuse_empty,
    skipping_flawed,
    tokens_of,
)
from stelmo.tasks.tags import Span, Tally, bio, first_not_bio, is_tag, spans
from stelmo.text.files import LineReader

FILES = {
    "train": ("train.jsonl", "train.conll", "train*gold_conll", "*train*.jsonl", "*train*conll", "train"),
    "dev": ("dev.jsonl", "dev.conll", "dev*gold_conll", "*dev*.jsonl", "*dev*conll", "development"),
    "test": ("test.jsonl", "test.conll", "test*gold_conll", "*test*.jsonl", "*test*conll", "test"),
}

Prediction = tuple[str, ...]  # one BIO tag per word


class Example(NamedTuple):
    """One predicate. `predicate` is the position of its (first) word, tagged B-V; `lemma` may be empty."""

    words: tuple[str, ...]
    predicate: int
    lemma: str
    tags: tuple[str, ...]
    where: str


def gold(example: Example) -> Prediction:
    return example.tags


def read(path: Path, skipped: Skipped | None = None) -> list[Example]:
    """One example per frame, from a file of JSON lines or columns, or all files of a folder."""
    examples: list[Example] = []
    for file in files(path, "*gold_conll*"):
        with LineReader(file) as reader:
            start = next((line.lstrip() for _, line in reader if line.strip()), "")
        examples += _from_json_lines(file, skipped) if start.startswith("{") else _from_columns(file, skipped)
    return refuse_empty(examples, path, "frames", skipped)


def read_new(path: Path) -> list[Example]:
    """Frames to be tagged: without tags, or in the formats above, whose tags are ignored."""
    lines = all_lines(path)
    examples: list[Example] = []
    if _layout(next(blocks(lines), [])) is not None:
        examples += (_to_be_tagged(*example[:3], example.where) for example in _from_columns(lines, None))
    else:
        for number, line in lines:
            if line.strip():
                parse = _of_json if line.lstrip().startswith("{") else _of_text
                examples += parse(line, f"{lines.name}:{number}")
    return refuse_empty(examples, path, "frames")


def _to_be_tagged(words: tuple[str, ...], predicate: int, lemma: str, where: str) -> Example:
    return Example(words, predicate, lemma, tuple(bio([Span(predicate, predicate + 1, "V")], len(words))), where)


# JSON lines


def _object(line: str, where: str) -> Any:
    try:
        return json.loads(line)
    except (ValueError, RecursionError) as error:
        raise ExampleError(where, f"not JSON ({error})", "a JSON object on each line") from error


def _lemma(text: str) -> str:
    """CoNLL columns have "-" where there is no lemma."""
    return "" if text == "-" else text


def _from_json_lines(path: Path, skipped: Skipped | None) -> Iterator[Example]:
    with LineReader(path) as reader:
        for number, line in reader:
            where = f"{reader.name}:{number}"
            words: tuple[str, ...] = ()
            frames: list[Any] = []
            with skipping_flawed(skipped):
                words, frames = _sentence(line, where)
            for frame in frames:
                with skipping_flawed(skipped):
                    yield _example_of_json(words, frame, where)


def _sentence(line: str, where: str) -> tuple[tuple[str, ...], list[Any]]:
    if not line.strip():
        return (), []
    match _object(line, where):
        case {"words": [_, *_] as words, "frames": list(frames)} if all(
            isinstance(word, str) and word for word in words
        ):
            return tuple(words), frames
    raise ExampleError(
        where,
        "no lists of words and frames",
        '{"words": [strings that are not empty], "frames": [objects]}',
    )


def _example_of_json(words: tuple[str, ...], frame: Any, where: str) -> Example:
    match frame:
        case {"predicate": predicate, "tags": list(tags)} if type(predicate) is int and 0 <= predicate < len(words):
            pass
        case _:
            raise ExampleError(
                where,
                "a frame without a predicate among the words, or without tags",
                '{"predicate": position, "tags": [strings]}',
            )
    if len(tags) != len(words):
        raise ExampleError(where, f"{len(tags)} tags for {len(words)} words", "a tag for each word")
    for tag in tags:
        if not (isinstance(tag, str) and is_tag(tag)) or any(mark in tag for mark in "()*"):
            raise ExampleError(where, f"the tag {tag!r}", "O, or B- or I- and a role without brackets or asterisks")
    if (wrong := first_not_bio(tags)) is not None:
        raise ExampleError(where, f"{tags[wrong]} of word {wrong} continues no role", "B- where a role begins (BIO)")
    if tags[predicate] != "B-V":
        raise ExampleError(where, f"{tags[predicate]} at the predicate, word {predicate}", "B-V there")
    return Example(words, predicate, _lemma(str(frame.get("lemma") or "")), tuple(tags), where)


# Columns


class Layout(NamedTuple):
    """Column numbers, from 0; those of the frames begin at `frames`, and `after` columns follow them."""

    name: str
    number: int
    word: int
    lemma: int
    frames: int
    after: int


LAYOUTS = (
    Layout("CoNLL-2012 (11 columns, one for each frame, coreference)", number=2, word=3, lemma=6, frames=11, after=1),
    Layout("PropBank (7 columns, one for each frame)", number=1, word=2, lemma=5, frames=7, after=0),
)


def _from_columns(source: Source, skipped: Skipped | None) -> Iterator[Example]:
    layout: Layout | None = None
    for rows in blocks(source):
        columns = range(0)
        with skipping_flawed(skipped):
            layout = layout or _layout(rows)
            if layout is None:
                names = " or ".join(layout.name for layout in LAYOUTS)
                found = f"{len(rows[0].fields)} columns"
                raise ExampleError(rows[0].where, found, f"{names}, words numbered from 0")
            columns = _columns_of_frames(rows, layout)
        for column in columns:
            assert layout is not None
            with skipping_flawed(skipped):
                yield _example_of_column(rows, column, layout)


def _layout(rows: list[Row]) -> Layout | None:
    """The layout whose number column holds 0, 1, 2 …"""
    for layout in LAYOUTS if rows else ():
        if all(_fits(row, index, layout) for index, row in enumerate(rows)):
            return layout
    return None


def _fits(row: Row, index: int, layout: Layout) -> bool:
    return len(row.fields) >= layout.frames + layout.after and row.fields[layout.number] == str(index)


def _columns_of_frames(rows: list[Row], layout: Layout) -> range:
    width = len(rows[0].fields)
    for index, row in enumerate(rows):
        if len(row.fields) != width:
            found = f"{len(row.fields)} columns, and {width} in the first row of the sentence"
            raise ExampleError(row.where, found, "the same number in every row of a sentence")
        if not _fits(row, index, layout):
            found = f"{width} columns, the word's number {row.fields[layout.number : layout.number + 1]}"
            raise ExampleError(row.where, found, f"{layout.name}, words numbered from 0")
        filled(row, layout.word, "a word")
    return range(layout.frames, width - layout.after)


def _example_of_column(rows: list[Row], column: int, layout: Layout) -> Example:
    roles = _roles(rows, column)
    predicate = next((role.start for role in roles if role.label == "V"), None)
    if predicate is None:
        raise ExampleError(rows[0].where, f"no (V*) in column {column + 1}", "the predicate of every frame")
    words = tuple(row.fields[layout.word] for row in rows)
    lemma = _lemma(rows[predicate].fields[layout.lemma])
    return Example(words, predicate, lemma, tuple(bio(roles, len(rows))), rows[0].where)


_BRACKET = re.compile(r"(?:\(([^()*\s]+))?\*(\))?")  # "(ARG0*", "*", "*)", "(ARG0*)"


def _roles(rows: list[Row], column: int) -> list[Span]:
    """The spans between the brackets of a column. They neither nest nor cross, which BIO could not express."""
    found: list[Span] = []
    opened: Span | None = None
    for index, row in enumerate(rows):
        match = _BRACKET.fullmatch(row.fields[column])
        if match is None:
            cell = f"{row.fields[column]!r} in column {column + 1}"
            raise ExampleError(row.where, cell, "(ROLE*, *, *) or (ROLE*): the roles of one predicate do not nest")
        label, closing = match[1], match[2] is not None
        if label and opened:
            raise ExampleError(row.where, f"({label}* inside ({opened.label}* in column {column + 1}", "*) before it")
        if label:
            opened = Span(index, index + 1, label)
        if closing and opened is None:
            raise ExampleError(row.where, f"*) closes nothing in column {column + 1}", "an open bracket before it")
        if closing and opened:
            found.append(opened._replace(end=index + 1))
            opened = None
    if opened:
        where = rows[opened.start].where
        raise ExampleError(where, f"({opened.label}* in column {column + 1} is never closed", "*) in the same sentence")
    return found


# Text without tags

_MARKED = re.compile(r"\*([^\s*]+)\*")


def _of_json(line: str, where: str) -> Iterator[Example]:
    match _object(line, where):
        case {"words": [_, *_] as words, "predicates": list(predicates)}:
            found = [(predicate, "") for predicate in predicates]
        case {"words": [_, *_] as words, "frames": list(frames)}:
            found = []
            for frame in frames:
                if not isinstance(frame, dict) or "predicate" not in frame:
                    raise ExampleError(where, "a frame without a predicate", '{"predicate": position}')
                found.append((frame["predicate"], _lemma(str(frame.get("lemma") or ""))))
        case _:
            raise ExampleError(where, "no lists of words and predicates", '{"words": […], "predicates": [3, …]}')
    if not all(isinstance(word, str) and word for word in words):
        raise ExampleError(where, "a word that is empty or not a string", "strings that are not empty")
    for predicate, lemma in found:
        if type(predicate) is not int or not 0 <= predicate < len(words):
            raise ExampleError(where, f"the predicate {predicate!r}", f"the position of a word, 0 to {len(words) - 1}")
        yield _to_be_tagged(tuple(words), predicate, lemma, where)


def _of_text(line: str, where: str) -> Iterator[Example]:
    if not _MARKED.search(line):
        raise ExampleError(where, "no predicate is marked", "one or more in asterisks, as in: Kim *said* we *won* .")
    text = _MARKED.sub(r"\1", line)
    words = tokens_of(text)
    ends: list[int] = []  # the position in the text where each word ends
    for word in words:
        ends.append(text.index(word, ends[-1] if ends else 0) + len(word))
    for number, match in enumerate(_MARKED.finditer(line)):
        start = match.start() - 2 * number  # the two asterisks of each earlier mark are removed
        yield _to_be_tagged(words, next(place for place, end in enumerate(ends) if end > start), "", where)


# The predictions


def write(path: Path, examples: Sequence[Example], predictions: Sequence[Prediction]) -> None:
    """srl-eval.pl compares two such files; write the one with gold tags by passing `gold` predictions."""
    with new_file(path, overwrite=True) as draft, draft.open("w", encoding="utf-8", newline="\n") as file:
        for example, prediction in zip(examples, predictions, strict=True):
            brackets = ["*"] * len(prediction)
            for start, end, label in spans(prediction):
                brackets[start] = f"({label}*"
                brackets[end - 1] += ")"
            for target, bracket in zip(_targets(example), brackets, strict=True):
                file.write(f"{target} {bracket}\n")
            file.write("\n")


def _targets(example: Example) -> list[str]:
    targets = ["-"] * len(example.words)
    name = re.sub(r"[\s\ufeff\ud800-\udfff]", "_", example.lemma or example.words[example.predicate])
    targets[example.predicate] = name if name.strip("-") else "_"  # "-" means that this word is not the predicate
    return targets


def read_predictions(path: Path, examples: Sequence[Example]) -> list[Prediction]:
    frames = list(blocks(path, comment=lambda row: False))
    if len(frames) != len(examples):
        raise DataError(f"{path}: {len(frames)} frames; expected {len(examples)}, the same as in the data")
    predictions = []
    for rows, example in zip(frames, examples, strict=True):
        for row in rows:
            expect_width(row, 2, "predictions (target, roles)")
        if [row.fields[0] for row in rows] != _targets(example):
            raise DataError(f"{rows[0].where}: targets differ from {example.where}; expected those of the data")
        predictions.append(tuple(bio(_roles(rows, 1), len(rows))))
    return predictions


# The score


Argument = tuple[str, tuple[tuple[int, int], ...]]  # its role, and (start, end) of its pieces, end exclusive


def score(predictions: Sequence[Prediction], examples: Sequence[Example]) -> dict[str, float]:
    """F1 over arguments whose role and pieces are all correct; precision; recall; predicates without any mistake.

    As in the official script, V is not counted (the predicate is given), and C-X is a further piece of the preceding X.
    A metric that counts C-X as a separate role, as AllenNLP's does in training, gives slightly different scores.
    """
    tally, perfect = Tally(), 0
    for prediction, example in zip(predictions, examples, strict=True):
        predicted, wanted = arguments(prediction), arguments(example.tags)
        tally = tally.counting(predicted, wanted)
        perfect += predicted == wanted
    share = 100.0 * perfect / len(examples) if examples else 0.0
    return {"f1": tally.f1, "precision": tally.precision, "recall": tally.recall, "perfect": share}


def count(prediction: Prediction, example: Example) -> tuple[float, float]:
    return Tally().counting(arguments(prediction), arguments(example.tags)).fraction


def arguments(tags: Sequence[str]) -> set[Argument]:
    """C-X continues the last X; without one it is an X. R-X is a separate role. V and C-V are left out."""
    found: list[Argument] = []
    last: dict[str, int] = {}
    for start, end, label in spans(tags):
        role = label.removeprefix("C-")
        if label != role and role in last:
            found[last[role]] = (role, (*found[last[role]][1], (start, end)))
        else:
            last[role] = len(found)
            found.append((role, ((start, end),)))
    return {argument for argument in found if argument[0] != "V"}
