"""Lines of text → words, for text that nobody has labelled. Knows no task."""

from collections.abc import Iterable, Iterator
from pathlib import Path

from stelmo.text.files import LineReader
from stelmo.text.sentences import tokenize

_ALONE = frozenset([".", ",", ";", ":", "!", "?", "``", "''"])


def sentences(path: Path) -> Iterator[tuple[tuple[str, ...], str]]:
    """The words of each line that has any, and its place."""
    with LineReader(path) as reader:
        for number, line in reader:
            if line.strip():
                yield words(line), f"{reader.name}:{number}"


def words(line: str) -> tuple[str, ...]:
    """Those between spaces of a line that is tokenised already; else it is tokenised here."""
    if is_tokenised(line):
        return tuple(line.split())
    return tuple(word for sentence in tokenize(line) for word in sentence)


def is_tokenised(line: str) -> bool:
    """Does a comma or a stop stand alone? Then somebody has taken care of that."""
    return not _ALONE.isdisjoint(line.split())


def most(answers: Iterable[bool]) -> bool:
    """Whether more than half say yes: one flawed line does not make a file one of another format."""
    given = list(answers)
    return 2 * sum(given) > len(given)
