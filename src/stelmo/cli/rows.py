"""Rows of named values, however many → a TSV or JSON-lines file, standard output, or a short table. Knows no verb."""

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from stelmo.cli import screen
from stelmo.errors import OutputError
from stelmo.store import atomic

Row = dict[str, Any]
Write = Callable[[Row], None]
SHOWN = 20  # rows of a table
ENDINGS = (".tsv", ".jsonl")


def refuse_output(path: Path | None, overwrite: bool) -> None:
    """A name no rows can go to, refused before any work."""
    if path is None or str(path) == "-":
        return
    if path.suffix not in ENDINGS:
        raise OutputError(f"{path}: unknown ending {path.suffix!r}; expected {' or '.join(ENDINGS)}, or - to print")
    atomic.refuse_existing(path, overwrite)


@contextmanager
def writing(path: Path | None, overwrite: bool = False) -> Iterator[Write]:
    """What takes the rows: a file, whole or not at all; standard output for "-"; a table of the first for None."""
    if path is None:
        first: list[Row] = []
        yield lambda row: first.append(row) if len(first) <= SHOWN else None
        show(first[:SHOWN])
        if len(first) > SHOWN:
            screen.note(f"only the first {SHOWN} rows are shown; -o FILE writes all")
    elif str(path) == "-":
        yield lambda row: typer.echo(_json(row))
    else:
        with atomic.new_file(path, overwrite) as draft, draft.open("w", encoding="utf-8", newline="\n") as file:
            yield _Tsv(file) if path.suffix == ".tsv" else lambda row: print(_json(row), file=file)


def show(rows: Sequence[Row]) -> None:
    """A table under the names of the values."""
    table = Table(box=None, header_style="dim", padding=(0, 2, 0, 0))
    for name, value in (rows[0] if rows else {}).items():
        table.add_column(name.replace("_", " "), justify="left" if isinstance(value, str) else "right")
    for row in rows:
        table.add_row(*(Text(_shown(value)) for value in row.values()))  # Text: a word in brackets is no markup
    Console().print(table)


class _Tsv:
    """A line of names, then a line for every row."""

    def __init__(self, file: TextIO) -> None:
        self._file, self._named = file, False

    def __call__(self, row: Row) -> None:
        if not self._named:
            self._line(row)
            self._named = True
        self._line(row.values())

    def _line(self, values: Any) -> None:
        self._file.write("\t".join(" ".join(str(value).split()) for value in values) + "\n")


def _json(row: Row) -> str:
    return json.dumps(row, ensure_ascii=False)


def _shown(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:,.2f}"
    return f"{value:,}" if isinstance(value, int) else str(value)
