"""A folder → its train, dev and test files; a flawed example → an error, or a count. Knows no task.

A reader wraps the making of each example, so that a flaw costs one example at most:

    with leaving_out(skipped):
        examples.append(_example(rows))     # raises ExampleError(where, found, expected)
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from stelmo.errors import DataError

_COMPRESSED = ("", ".gz", ".xz", ".zst")

T = TypeVar("T")


class ExampleError(DataError):
    """One example is not what its format promises; the others of the file may well be."""

    def __init__(self, where: str, found: str, expected: str) -> None:
        super().__init__(f"{where}: {found}; expected {expected}")
        self.reason = f"not {expected}"


class Skipped:
    """The examples left out, counted by reason; `first` is the message of the first of each."""

    def __init__(self) -> None:
        self.reasons: Counter[str] = Counter()
        self.first: dict[str, str] = {}

    def add(self, message: str, reason: str | None = None) -> None:
        """Without a reason, messages count together that differ only in their place ("file:line: ")."""
        reason = reason or message.partition(": ")[2] or message
        self.reasons[reason] += 1
        self.first.setdefault(reason, message)

    def __len__(self) -> int:
        return self.reasons.total()


@contextmanager
def leaving_out(skipped: Skipped | None) -> Iterator[None]:
    """An ExampleError inside ends the block and is counted; without `skipped` it is raised, with the way out."""
    try:
        yield
    except ExampleError as flaw:
        if skipped is None:
            raise DataError(f"{flaw} (--skip-bad leaves such examples out)") from flaw
        skipped.add(str(flaw), flaw.reason)


def some(examples: list[T], path: Path, kind: str, skipped: Skipped | None = None) -> list[T]:
    """The examples of a file, refused where there are none. `kind` is what an example is, in the plural."""
    if examples:
        return examples
    flaws = f" without a flaw ({len(skipped)} left out, first {next(iter(skipped.first.values()))})" if skipped else ""
    raise DataError(f"{path}: there are no {kind}{flaws}; expected one or more")


def find(folder: Path, names: Mapping[str, Sequence[str]], needed: Sequence[str] = ("train",)) -> dict[str, Path]:
    """The file of each split: the first pattern with a match counts. A split that is not `needed` may be absent."""
    if not folder.is_dir():
        raise DataError(f"{folder}: there is no such folder; expected one with {_wanted(names['train'])}")
    found = {split: _first(folder, patterns) for split, patterns in names.items()}
    for split in needed:
        if found[split] is None:
            raise DataError(f"{folder}: there is no {split} file; looked for {_wanted(names[split])}")
    return {split: path for split, path in found.items() if path is not None}


def _first(folder: Path, patterns: Sequence[str]) -> Path | None:
    for pattern in patterns:
        paths = sorted({path for suffix in _COMPRESSED for path in folder.glob(pattern + suffix)})
        if len(paths) > 1:
            raise DataError(
                f"{folder}: {paths[0].name} and {paths[1].name} both match {pattern}; keep one of them there"
            )
        if paths:
            return paths[0]
    return None


def _wanted(patterns: Sequence[str]) -> str:
    return " or ".join(patterns)


def files(path: Path, pattern: str) -> list[Path]:
    """A file is itself; a folder, as OntoNotes comes, is the files beneath it that match, in a fixed order."""
    if not path.is_dir():
        return [path]
    beneath = sorted(path.rglob(pattern))
    if not beneath:
        raise DataError(f"{path}: the folder holds no file named {pattern}; name the file to read")
    return beneath
