"""Lines of columns → rows, and rows between blank lines. Knows no meaning of a column."""

from collections.abc import Callable, Iterator
from itertools import dropwhile
from pathlib import Path
from typing import NamedTuple

from stelmo.tasks.splits import ExampleError
from stelmo.text.files import LineReader


class Row(NamedTuple):
    """The fields of a line: between tabs where there is a tab (then a field may be empty), else between spaces."""

    source: str
    number: int
    fields: list[str]

    @property
    def where(self) -> str:
        return f"{self.source}:{self.number}"


def rows(path: Path) -> Iterator[Row]:
    """Every line; a blank one has no fields. Only tabs and spaces are blank: a word may be a no-break space."""
    with LineReader(path) as reader:
        for number, line in reader:
            yield Row(reader.name, number, _fields(line))


def _fields(line: str) -> list[str]:
    if not line.strip(" \t"):
        return []
    return line.split("\t") if "\t" in line else [field for field in line.split(" ") if field]


def starts_with_hash(row: Row) -> bool:
    return row.fields[0].startswith("#")


def blocks(path: Path, comment: Callable[[Row], bool] = starts_with_hash) -> Iterator[list[Row]]:
    """The rows between blank lines. Comments are only looked for before the first word: further down "#" is a word."""
    block: list[Row] = []
    for row in rows(path):
        if row.fields:
            block.append(row)
        elif block:
            yield from _words(block, comment)
            block = []
    yield from _words(block, comment)


def _words(block: list[Row], comment: Callable[[Row], bool]) -> Iterator[list[Row]]:
    if words := list(dropwhile(comment, block)):
        yield words


def expect_width(row: Row, width: int, layout: str) -> None:
    """`layout` says what has that many columns, and which."""
    if len(row.fields) != width:
        raise ExampleError(row.where, f"{len(row.fields)} columns", f"{width}, as in {layout}")


def filled(row: Row, column: int, what: str) -> str:
    """The field of a column, refused where it is empty."""
    if not row.fields[column]:
        raise ExampleError(row.where, f"column {column + 1} is empty", what)
    return row.fields[column]
