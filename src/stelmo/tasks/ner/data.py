"""CoNLL-2003 and two-column files ↔ words with BIO tags. Knows no model.

CoNLL-2003    word tag chunk entity, a blank line after each sentence, -DOCSTART- before each document; IOB1 or BIO
two columns   word entity, separated by tabs or spaces
new text      one sentence per line, or columns with the word first: one, or several that end in a tag, "_" or "-"
predictions   word gold predicted, the format of conlleval
"""

import re
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from stelmo.errors import DataError
from stelmo.store.atomic import new_file
from stelmo.tasks import reading
from stelmo.tasks.reading import ExampleError, Row, Skipped, blocks, expect_width, filled, refuse_empty, skipping_flawed
from stelmo.tasks.tags import Span, Tally, bio, first_not_bio, first_not_iob1, is_tag, spans

FILES = {
    "train": ("eng.train", "train.conll", "train.txt", "train.tsv", "*train*.conll", "*train*.txt"),
    "dev": ("eng.testa", "*testa*", "dev.conll", "valid.txt", "dev.txt", "dev.tsv", "*dev*.conll", "*dev*.txt"),
    "test": (
        "eng.testb",
        "*testb*",
        "test.conll",
        "test.txt",
        "test.tsv",
        "*test*.conll",
        "*test*.txt",
        "*test*.annotated",
    ),
}
LAYOUTS = {2: "the two-column layout (word, entity)", 4: "CoNLL-2003 (word, tag, chunk, entity)"}

Prediction = tuple[str, ...]  # one BIO tag per word


class Example(NamedTuple):
    words: tuple[str, ...]
    tags: tuple[str, ...]
    where: str


def gold(example: Example) -> Prediction:
    return example.tags


# The data


def read(path: Path, skipped: Skipped | None = None) -> list[Example]:
    """The sentences of a file. Its tags are IOB1 if that makes more sentences valid than BIO; the result is BIO."""
    sentences = list(blocks(path, _is_comment))
    widths = (len(row.fields) for rows in sentences for row in rows)
    width = next((width for width in widths if width in LAYOUTS), max(LAYOUTS))
    tagged: list[tuple[list[Row], Example]] = []
    for rows in sentences:
        with skipping_flawed(skipped):
            for row in rows:
                expect_width(row, width, LAYOUTS[width])
            words = tuple(filled(row, 0, "a word") for row in rows)
            tagged.append((rows, Example(words, tuple(_tag(row) for row in rows), rows[0].where)))
    not_bio = sum(first_not_bio(example.tags) is not None for _, example in tagged)
    not_iob1 = sum(first_not_iob1(example.tags) is not None for _, example in tagged)
    iob1 = not_iob1 < not_bio
    examples = []
    for rows, example in tagged:
        with skipping_flawed(skipped):
            wrong = first_not_iob1(example.tags) if iob1 else first_not_bio(example.tags)
            if wrong is not None:
                raise ExampleError(rows[wrong].where, f"{example.tags[wrong]} begins an entity", _BEGINNING[iob1])
            examples.append(example._replace(tags=tuple(bio(spans(example.tags), len(rows)))))
    return refuse_empty(examples, path, "sentences", skipped)


def _is_comment(row: Row) -> bool:
    """Checked before the first word of a sentence. "# NN I-NP O" is the word "#", because it ends in a tag."""
    first, last = row.fields[0], row.fields[-1]
    return first == "-DOCSTART-" or (first.startswith("#") and not is_tag(last))


def _tag(row: Row, column: int = -1) -> str:
    tag = row.fields[column]
    if not is_tag(tag):
        raise ExampleError(row.where, f"the tag {tag!r}", "O, or B- or I- and the type of the entity")
    return tag


_BEGINNING = {  # is the file IOB1? → what is expected where an entity begins
    True: "I- there: this file is IOB1, where B- is only used between two adjacent entities of one type",
    False: "B- there: this file is BIO, where every entity begins with B- (in IOB1 it would be valid)",
}


def read_new(path: Path) -> list[Example]:
    """Sentences to be tagged: one per line, or in columns, of which only the first is read: the word."""
    lines = reading.all_lines(path)
    if _is_in_columns([row.fields for row in reading.rows(lines) if row.fields]):
        sentences = list(blocks(lines, _is_comment))
        found = [_untagged(tuple(filled(row, 0, "a word") for row in rows), rows[0].where) for rows in sentences]
    else:
        found = [_untagged(words, where) for words, where in reading.text_lines(lines)]
    return refuse_empty(found, path, "sentences")


def _is_in_columns(lines: list[list[str]]) -> bool:
    """Whether most lines end in a tag, or in "_" or "-" in place of one, or all of several lines are one word."""
    if len(lines) > 1 and all(len(fields) == 1 for fields in lines):
        return True
    return reading.most(len(fields) > 1 and (is_tag(fields[-1]) or fields[-1] in ("_", "-")) for fields in lines)


def _untagged(words: tuple[str, ...], where: str) -> Example:
    return Example(words, ("O",) * len(words), where)


# The predictions


def write(path: Path, examples: Sequence[Example], predictions: Sequence[Prediction]) -> None:
    with new_file(path, overwrite=True) as draft, draft.open("w", encoding="utf-8", newline="\n") as file:
        for example, prediction in zip(examples, predictions, strict=True):
            for columns in zip(map(_written, example.words), example.tags, prediction, strict=True):
                file.write(" ".join(columns) + "\n")
            file.write("\n")


def _written(word: str) -> str:
    """Without spaces, which conlleval would read as column separators, and without a byte order mark."""
    return re.sub("[ \ufeff]", "_", word)


def read_predictions(path: Path, examples: Sequence[Example]) -> list[Prediction]:
    """The last column; the one before it must hold the examples' gold tags, in BIO or IOB1."""
    sentences = list(blocks(path, _is_comment))
    if len(sentences) != len(examples):
        raise DataError(f"{path}: {len(sentences)} sentences; expected {len(examples)}, the same as in the data")
    predictions = []
    for rows, (words, tags, where) in zip(sentences, examples, strict=True):
        for row in rows:
            if len(row.fields) < 3:
                raise DataError(f"{row.where}: {len(row.fields)} columns; expected 3 or more (word … gold predicted)")
        gold_tags, predicted = ([_tag(row, column) for row in rows] for column in (-2, -1))
        if [row.fields[0] for row in rows] != [*map(_written, words)] or spans(gold_tags) != spans(tags):
            raise DataError(f"{rows[0].where}: words or gold tags differ from {where}; expected those of the data")
        predictions.append(tuple(predicted))
    return predictions


# The score


def score(predictions: Sequence[Prediction], examples: Sequence[Example]) -> dict[str, float]:
    """F1 over entities whose boundaries and type are both correct; precision; recall; the share of tokens with the
    correct tag (accuracy); then F1, precision and recall for each type.

    As in conlleval, tags need not be well-formed: an I-X that does not continue an X begins an entity.
    """
    overall, right, tokens = Tally(), 0, 0
    by_type: defaultdict[str, Tally] = defaultdict(Tally)
    for prediction, example in zip(predictions, examples, strict=True):
        predicted, wanted = set(spans(prediction)), set(spans(example.tags))
        overall = overall.counting(predicted, wanted)
        for label in {span.label for span in predicted | wanted}:
            by_type[label] = by_type[label].counting(_of(label, predicted), _of(label, wanted))
        right += sum(one == other for one, other in zip(prediction, example.tags, strict=True))
        tokens += len(prediction)
    figures = _figures("", overall) | {"accuracy": 100.0 * right / tokens if tokens else 0.0}
    for label in sorted(by_type):
        figures |= _figures(f"{label} ", by_type[label])
    return figures


def count(prediction: Prediction, example: Example) -> tuple[float, float]:
    return Tally().counting(set(spans(prediction)), set(spans(example.tags))).fraction


def _of(label: str, spans: set[Span]) -> set[Span]:
    return {span for span in spans if span.label == label}


def _figures(prefix: str, tally: Tally) -> dict[str, float]:
    return {f"{prefix}f1": tally.f1, f"{prefix}precision": tally.precision, f"{prefix}recall": tally.recall}
