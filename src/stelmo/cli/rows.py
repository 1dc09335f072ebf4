"""Rows of named values → a TSV or JSON-lines file, standard output, or a short table."""

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
SHOWN = 20  # rows in a printed table
EXTENSIONS = (".tsv", ".jsonl")


def refuse_output(path: Path | None, overwrite: bool) -> None:
    """Refuse an output that rows cannot be written to, before any work is done."""
    if path is None or str(path) == "-":
        return
    if path.suffix not in EXTENSIONS:
        raise OutputError(
            f"{path}: unknown extension {path.suffix!r}; expected {' or '.join(EXTENSIONS)}, or - to print"
        )
    atomic.refuse_existing(path, overwrite)


@contextmanager
def writing(path: Path | None, overwrite: bool = False) -> Iterator[Write]:
    """A function that writes a row: to a file, complete or absent; "-": to standard output; None: to a short table."""
    if path is None:
        first: list[Row] = []
        yield lambda row: first.append(row) if len(first) <= SHOWN else None
        show(first[:SHOWN])
        if len(first) > SHOWN:
            screen.note(f"only the first {SHOWN} rows are shown; write all with -o FILE")
    elif str(path) == "-":
        yield lambda row: typer.echo(_json(row))
    else:
        with atomic.new_file(path, overwrite) as draft, draft.open("w", encoding="utf-8", newline="\n") as file:
            yield _Tsv(file) if path.suffix == ".tsv" else lambda row: print(_json(row), file=file)


def show(rows: Sequence[Row]) -> None:
    """Print a table whose header has the names of the values."""
    table = Table(box=None, header_style="dim", padding=(0, 2, 0, 0))
    for name, value in (rows[0] if rows else {}).items():
        table.add_column(name.replace("_", " "), justify="left" if isinstance(value, str) else "right")
    for row in rows:
        table.add_row(*(Text(_shown(value)) for value in row.values()))  # Text: a word in brackets is not markup
    Console().print(table)


class _Tsv:
    """A header line, then one line per row."""

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
