"""CoNLL-2003 and two-column files ↔ words with BIO tags. Knows no model.

CoNLL-2003    word tag chunk entity, a blank line after each sentence, -DOCSTART- before each document; IOB1 or BIO
two columns   word entity, in tabs or spaces
text          a sentence a line, to be tagged
predictions   word gold predicted, what conlleval reads
"""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from stelmo.errors import DataError
from stelmo.store.atomic import new_file
from stelmo.tasks import columns, plain
from stelmo.tasks.columns import Row, blocks, expect_width, filled
from stelmo.tasks.spans import bio, first_not_bio, first_not_iob1, is_tag, spans
from stelmo.tasks.splits import ExampleError, Skipped, leaving_out, some

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

Prediction = tuple[str, ...]  # a BIO tag a word


class Example(NamedTuple):
    words: tuple[str, ...]
    tags: tuple[str, ...]
    where: str


def gold(example: Example) -> Prediction:
    return example.tags


# The data


def read(path: Path, skipped: Skipped | None = None) -> list[Example]:
    """The sentences of a file; whichever of BIO and IOB1 it is written in, its tags are BIO afterwards."""
    sentences = list(blocks(path, _is_comment))
    width = _width(sentences)
    tagged: list[tuple[list[Row], Example]] = []
    for rows in sentences:
        with leaving_out(skipped):
            tagged.append((rows, _example(rows, width)))
    iob1 = _is_iob1([example.tags for _, example in tagged])
    examples = []
    for rows, example in tagged:
        with leaving_out(skipped):
            examples.append(_as_bio(rows, example, iob1))
    return some(examples, path, "sentences", skipped)


def _is_comment(row: Row) -> bool:
    """Asked before the first word of a sentence. "# NN I-NP O" is the word "#", for it ends in a tag."""
    first, last = row.fields[0], row.fields[-1]
    return first == "-DOCSTART-" or (first.startswith("#") and not is_tag(last))


def _width(sentences: list[list[Row]]) -> int:
    """The columns of the file: those of its first row that has a known number of them."""
    widths = (len(row.fields) for rows in sentences for row in rows)
    return next((width for width in widths if width in LAYOUTS), max(LAYOUTS))


def _example(rows: list[Row], width: int) -> Example:
    for row in rows:
        expect_width(row, width, LAYOUTS[width])
    words = tuple(filled(row, 0, "a word") for row in rows)
    return Example(words, tuple(_tag(row) for row in rows), rows[0].where)


def _tag(row: Row, column: int = -1) -> str:
    tag = row.fields[column]
    if not is_tag(tag):
        raise ExampleError(row.where, f"the tag {tag!r}", "O, or B- or I- and the type of the entity")
    return tag


def _is_iob1(sentences: list[tuple[str, ...]]) -> bool:
    """What most sentences agree with; BIO where they agree with both."""
    not_bio = sum(first_not_bio(tags) is not None for tags in sentences)
    not_iob1 = sum(first_not_iob1(tags) is not None for tags in sentences)
    return not_iob1 < not_bio


def _as_bio(rows: list[Row], example: Example, iob1: bool) -> Example:
    wrong = first_not_iob1(example.tags) if iob1 else first_not_bio(example.tags)
    if wrong is not None:
        raise ExampleError(rows[wrong].where, f"{example.tags[wrong]} begins an entity", _beginning(iob1))
    return example._replace(tags=tuple(bio(spans(example.tags), len(rows))))


def _beginning(iob1: bool) -> str:
    if iob1:
        return "I- there: this file is IOB1, where B- stands only between two touching entities of one type"
    return "B- there: this file is BIO, where every entity begins with B- (in IOB1 it would be legal)"


def read_new(path: Path) -> list[Example]:
    """Sentences to be tagged, one a line; of columns, the words alone."""
    tagged = (len(row.fields) in LAYOUTS and is_tag(row.fields[-1]) for row in columns.rows(path) if row.fields)
    if plain.most(tagged):
        return [_untagged(example.words, example.where) for example in read(path)]
    return some([_untagged(words, where) for words, where in plain.sentences(path)], path, "sentences")


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
    """Without spaces, which conlleval would take for columns, and without the mark that files may begin with."""
    return re.sub("[ \ufeff]", "_", word)


def read_predictions(path: Path, examples: Sequence[Example]) -> list[Prediction]:
    """The last column; the one before it must be the examples' own tags, in BIO or IOB1."""
    sentences = list(blocks(path, _is_comment))
    if len(sentences) != len(examples):
        raise DataError(f"{path}: {len(sentences)} sentences; expected {len(examples)}, those of the data predicted on")
    return [_prediction(rows, example) for rows, example in zip(sentences, examples, strict=True)]


def _prediction(rows: list[Row], example: Example) -> Prediction:
    _refuse_narrow(rows)
    words = [row.fields[0] for row in rows]
    gold_tags, predicted = ([_tag(row, column) for row in rows] for column in (-2, -1))
    if words != [_written(word) for word in example.words] or spans(gold_tags) != spans(example.tags):
        raise DataError(f"{rows[0].where}: words or gold tags unlike {example.where}; expected those of the data")
    return tuple(predicted)


def _refuse_narrow(rows: list[Row]) -> None:
    for row in rows:
        if len(row.fields) < 3:
            raise DataError(f"{row.where}: {len(row.fields)} columns; expected 3 or more (word … gold predicted)")
