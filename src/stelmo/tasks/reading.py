"""How task files are found and read: splits, flawed examples, columns, plain text. Knows no task.

A reader wraps the creation of each example, so that a flaw costs one example at most:

    with skipping_flawed(skipped):
        examples.append(_example(rows))     # raises ExampleError(where, found, expected)
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from itertools import dropwhile
from pathlib import Path
from typing import NamedTuple, TypeVar

from stelmo.errors import DataError
from stelmo.text.files import LineReader
from stelmo.text.sentences import tokenize

_COMPRESSED = ("", ".gz", ".xz", ".zst")

T = TypeVar("T")


# Flawed examples


class ExampleError(DataError):
    """One example does not match its format; the other examples of the file may still be valid."""

    def __init__(self, where: str, found: str, expected: str) -> None:
        super().__init__(f"{where}: {found}; expected {expected}")
        self.reason = f"not {expected}"


class Skipped:
    """Counts skipped examples by reason; `first` holds the message of the first example for each reason."""

    def __init__(self) -> None:
        self.reasons: Counter[str] = Counter()
        self.first: dict[str, str] = {}

    def add(self, message: str, reason: str | None = None) -> None:
        """Without a reason, messages that differ only in their place ("file:line: ") are counted together."""
        reason = reason or message.partition(": ")[2] or message
        self.reasons[reason] += 1
        self.first.setdefault(reason, message)

    def __len__(self) -> int:
        return self.reasons.total()


@contextmanager
def skipping_flawed(skipped: Skipped | None) -> Iterator[None]:
    """Count an ExampleError raised inside the block and continue; without `skipped`, raise it."""
    try:
        yield
    except ExampleError as flaw:
        if skipped is None:
            raise
        skipped.add(str(flaw), flaw.reason)


def refuse_empty(examples: list[T], path: Path, kind: str, skipped: Skipped | None = None) -> list[T]:
    """The examples of a file; an empty list is an error. `kind` is the plural name of an example."""
    if examples:
        return examples
    flaws = f" without a flaw ({len(skipped)} skipped, first {next(iter(skipped.first.values()))})" if skipped else ""
    raise DataError(f"{path}: there are no {kind}{flaws}; expected one or more")


# Splits


def find(folder: Path, names: Mapping[str, Sequence[str]], needed: Sequence[str] = ("train",)) -> dict[str, Path]:
    """The file of each split, by the first pattern that matches a file which is not another split.

    A split that is not `needed` may be missing.
    """
    if not folder.is_dir():
        raise DataError(f"{folder}: there is no such folder; expected one with {' or '.join(names['train'])}")
    found: dict[str, Path] = {}
    for split, patterns in names.items():
        for pattern in patterns:
            paths = sorted(
                {path for suffix in _COMPRESSED for path in folder.glob(pattern + suffix)} - {*found.values()}
            )
            if len(paths) > 1:
                raise DataError(f"{folder}: {paths[0].name} and {paths[1].name} both match {pattern}; keep only one")
            if paths:
                found[split] = paths[0]
                break
    for split in needed:
        if split not in found:
            raise DataError(f"{folder}: there is no {split} file; looked for {' or '.join(names[split])}")
    return found


def files(path: Path, pattern: str) -> list[Path]:
    """A file itself; for a folder (the layout of OntoNotes) all matching files below it, in a fixed order."""
    if not path.is_dir():
        return [path]
    beneath = sorted(path.rglob(pattern))
    if not beneath:
        raise DataError(f"{path}: the folder has no file named {pattern}; pass the file to read")
    return beneath


# Lines


@dataclass(frozen=True)
class Lines:
    """The numbered lines of a file that was read once: standard input and pipes cannot be read again."""

    name: str  # of the file in messages
    numbered: list[tuple[int, str]]

    def __iter__(self) -> Iterator[tuple[int, str]]:
        return iter(self.numbered)


Source = Path | Lines


def all_lines(path: Path) -> Lines:
    with LineReader(path) as reader:
        return Lines(reader.name, list(reader))


def opened(source: Source) -> AbstractContextManager[LineReader | Lines]:
    return nullcontext(source) if isinstance(source, Lines) else LineReader(source)


# Columns


class Row(NamedTuple):
    """The fields of a line, separated by tabs if it has a tab (a field may then be empty), else by spaces."""

    source: str
    number: int
    fields: list[str]

    @property
    def where(self) -> str:
        return f"{self.source}:{self.number}"


def rows(source: Source) -> Iterator[Row]:
    """Every line; a blank line has no fields. Only tabs and spaces are blank: a no-break space can be a word."""
    with opened(source) as reader:
        for number, line in reader:
            if not line.strip(" \t"):
                fields = []
            elif "\t" in line:
                fields = line.split("\t")
            else:
                fields = [field for field in line.split(" ") if field]
            yield Row(reader.name, number, fields)


def starts_with_hash(row: Row) -> bool:
    return row.fields[0].startswith("#")


def blocks(source: Source, comment: Callable[[Row], bool] = starts_with_hash) -> Iterator[list[Row]]:
    """The rows between blank lines. Comments are recognised only before the first word: later "#" is a word."""
    block: list[Row] = []
    for row in rows(source):
        if row.fields:
            block.append(row)
        elif block:
            yield from _without_comments(block, comment)
            block = []
    yield from _without_comments(block, comment)


def _without_comments(block: list[Row], comment: Callable[[Row], bool]) -> Iterator[list[Row]]:
    if kept := list(dropwhile(comment, block)):
        yield kept


def expect_width(row: Row, width: int, layout: str) -> None:
    """`layout` describes the format that has this number of columns."""
    if len(row.fields) != width:
        raise ExampleError(row.where, f"{len(row.fields)} columns", f"{width}, as in {layout}")


def filled(row: Row, column: int, what: str) -> str:
    """The field of a column; an empty field is an error."""
    if not row.fields[column]:
        raise ExampleError(row.where, f"column {column + 1} is empty", what)
    return row.fields[column]


# Plain text, without labels

_PUNCTUATION = frozenset([".", ",", ";", ":", "!", "?", "``", "''"])


def text_lines(source: Source) -> Iterator[tuple[tuple[str, ...], str]]:
    """The tokens of each line that is not blank, and its place."""
    with opened(source) as reader:
        for number, line in reader:
            if line.strip():
                yield tokens_of(line), f"{reader.name}:{number}"


def tokens_of(line: str) -> tuple[str, ...]:
    """A line that is already tokenised is split at spaces; any other line is tokenised here."""
    if is_tokenised(line):
        return tuple(line.split())
    return tuple(token for sentence in tokenize(line) for token in sentence)


def is_tokenised(line: str) -> bool:
    """Whether a punctuation mark is separated by spaces, which only a tokeniser does."""
    return not _PUNCTUATION.isdisjoint(line.split())


def most(answers: Iterable[bool]) -> bool:
    """Whether more than half are true: one flawed line does not change the format of a file."""
    given = list(answers)
    return 2 * sum(given) > len(given)
