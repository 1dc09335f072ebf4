"""What the terminal shows: notes, error lines, progress, tables of rows (also written as files) and of vectors."""

import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TextIO, TypeVar

import numpy as np
import typer
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from stelmo.errors import OutputError
from stelmo.store import atomic

if TYPE_CHECKING:
    from stelmo.embed.contrast import Contrast

Report = TypeVar("Report")
SECONDS_BETWEEN_LINES = 10.0
BAR = 10  # characters: with label, rate and times the line fits into 80 columns
INTERRUPTED = 130  # exit code of a command that Ctrl-C or a signal stopped
ROWS_SHOWN = 20  # rows in a printed table
EXTENSIONS = (".tsv", ".jsonl")
TOKENS_SHOWN = 40  # per sentence
NUMBERS_SHOWN = 4
PAIRS_SHOWN = 10  # half of them the most similar ones, half the least

Array = NDArray[Any]
Row = dict[str, Any]
Write = Callable[[Row], None]
Labelled = tuple[str, Array]  # the label of a row, and its vector


def print_error(message: str) -> None:
    """One line on standard error, whatever characters a file put into the message."""
    print(f"stelmo: {_one_line(message)}", file=sys.stderr)


def note(message: str) -> None:
    print(f"note: {_one_line(message)}", file=sys.stderr)


class NotResumable(KeyboardInterrupt):
    """Ctrl-C during work that starts again from the beginning, in a command that otherwise resumes."""


@contextmanager
def not_resumable() -> Iterator[None]:
    """Ctrl-C inside the block is not followed by an offer to resume."""
    try:
        yield
    except KeyboardInterrupt:
        raise NotResumable from None


def _one_line(message: str) -> str:
    return "".join(character if character.isprintable() else " " for character in message)


class _Rate(ProgressColumn):
    def render(self, task: Task) -> Text:
        return Text(f"{task.fields['tokens']:,} tokens, {task.fields['rate']:,.0f}/s")


@contextmanager
def progress(label: str, fraction: Callable[[], float | None]) -> Iterator[Callable[[int], None]]:
    """A progress callback that takes finished tokens: a bar with rate and time left on a terminal, else plain lines."""
    console = Console(stderr=True)
    meter = _Meter(fraction)
    if not console.is_terminal:
        yield lambda tokens: meter.line(label, tokens)
        return
    columns = (
        TextColumn(label),
        BarColumn(BAR),
        _Rate(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(label, total=1.0, tokens=0, rate=0.0)
        yield lambda tokens: bar.update(task, **meter.fields(tokens))


class _Meter:
    """Tokens so far and their rate."""

    def __init__(self, fraction: Callable[[], float | None]) -> None:
        self._fraction = fraction
        self._tokens = 0
        self._start = self._last_line = time.monotonic()

    def fields(self, tokens: int) -> dict[str, Any]:
        self._tokens += tokens
        rate = self._tokens / max(1e-9, time.monotonic() - self._start)
        share = self._fraction()
        # The length of a pipe is unknown: the bar then only moves back and forth, but the rate is right.
        return {"completed": share, "total": None if share is None else 1.0, "tokens": self._tokens, "rate": rate}

    def line(self, label: str, tokens: int) -> None:
        fields = self.fields(tokens)
        now = time.monotonic()
        if now - self._last_line < SECONDS_BETWEEN_LINES:
            return
        self._last_line = now
        share = fields["completed"]
        left = "" if not share else f", {share:.0%}, {(now - self._start) * (1 - share) / share:,.0f} s left"
        print(f"{label}: {fields['tokens']:,} tokens, {fields['rate']:,.0f}/s{left}", file=sys.stderr, flush=True)


Shown = tuple[str, float, str]  # a label, the share that is done, and figures


class ReportProgress(Generic[Report]):
    """A progress callback for reports; messages become notes."""

    def __init__(self, show: Callable[[str, float, str], None], of: Callable[[Report], Shown]) -> None:
        self._show, self._of = show, of

    def update(self, report: Report) -> None:
        self._show(*self._of(report))

    def message(self, text: str) -> None:
        note(text)


@contextmanager
def report_progress(of: Callable[[Report], Shown]) -> Iterator[ReportProgress[Report]]:
    """Shows what `of` makes of each report: a bar on a terminal, else lines."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield ReportProgress(_Lines(), of)
        return
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[figures]}"))
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("starting", total=1.0, figures="")

        def show(label: str, share: float, figures: str) -> None:
            bar.update(task, description=label, completed=share, figures=figures)

        yield ReportProgress(show, of)


class _Lines:
    def __init__(self) -> None:
        self._last = time.monotonic()

    def __call__(self, label: str, share: float, figures: str) -> None:
        now = time.monotonic()
        if now - self._last >= SECONDS_BETWEEN_LINES:
            self._last = now
            print(f"{label}: {figures}", file=sys.stderr, flush=True)


# Rows of named values


def refuse_rows_output(path: Path | None, overwrite: bool) -> None:
    """Refuse an output that rows cannot be written to, before any work is done."""
    if path is None or str(path) == "-":
        return
    if path.suffix not in EXTENSIONS:
        raise OutputError(
            f"{path}: unknown extension {path.suffix!r}; expected {' or '.join(EXTENSIONS)}, or - to print"
        )
    atomic.refuse_existing(path, overwrite)


@contextmanager
def writing_rows(path: Path | None, overwrite: bool = False) -> Iterator[Write]:
    """A function that writes a row: to a file, complete or absent; "-": to standard output; None: to a short table."""
    if path is None:
        first: list[Row] = []
        yield lambda row: first.append(row) if len(first) <= ROWS_SHOWN else None
        show_rows(first[:ROWS_SHOWN])
        if len(first) > ROWS_SHOWN:
            note(f"only the first {ROWS_SHOWN} rows are shown; write all with -o FILE")
    elif str(path) == "-":
        yield lambda row: typer.echo(_json(row))
    else:
        with atomic.new_file(path, overwrite) as draft, draft.open("w", encoding="utf-8", newline="\n") as file:
            yield _Tsv(file) if path.suffix == ".tsv" else lambda row: print(_json(row), file=file)


def plain_table() -> Table:
    """A table without borders."""
    return Table(box=None, header_style="dim", padding=(0, 2, 0, 0))


def show_rows(rows: Sequence[Row]) -> None:
    """Print a table whose header has the names of the values."""
    table = plain_table()
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


# Vectors


def print_words(sentences: Sequence[tuple[Sequence[str], Array]]) -> None:
    """Every word with the first numbers of its vector and the most similar word among those shown."""
    rows: list[Labelled] = []
    ends: list[int] = []
    for tokens, vectors in sentences:
        rows += zip(tokens[:TOKENS_SHOWN], vectors[:TOKENS_SHOWN], strict=True)
        ends.append(len(rows))
    places = np.searchsorted(ends, np.arange(len(rows)), side="right")
    names = [f"{word} ({place + 1})" if len(ends) > 1 else word for (word, _), place in zip(rows, places, strict=True)]
    table = _table("word", rows, names)
    for end in ends[:-1]:
        if end:
            table.rows[end - 1].end_section = True
    Console().print(table)


def print_uses(sentences: Sequence[tuple[Sequence[str], Array]], found: "Contrast") -> None:
    """One word in several sentences: its vector in each, and how similar these vectors are in each layer."""
    uses = plain_table()
    for title in ("", f"{found.word} in", "vector"):
        uses.add_column(Text(title))
    for number in sorted({number for pair in found.pairs for number in pair[:2]}):
        tokens, vectors = sentences[number]
        shown = " ".join(tokens[:TOKENS_SHOWN])
        uses.add_row(str(number + 1), Text(shown), _numbers(vectors[list(tokens).index(found.word)]))
    Console().print(uses)
    similarities = plain_table()
    similarities.add_column(Text(f"similarity of {found.word}"))
    for layer in range(len(found.pairs[0].cosines_L)):
        similarities.add_column(f"layer {layer}" + ("" if layer else " (no context)"), justify="right")
    rows = [
        (f"in {first + 1} and {second + 1}", *(f"{cosine:.2f}" for cosine in cosines_L))
        for first, second, cosines_L in found.pairs
    ]
    half = PAIRS_SHOWN // 2
    for row in rows if len(rows) <= PAIRS_SHOWN else [*rows[:half], ("…",), *rows[-half:]]:
        similarities.add_row(*row)
    typer.echo()
    Console().print(similarities)
    typer.echo(_separation(found))


def _separation(found: "Contrast") -> str:
    (first, second, most_L), (third, fourth, least_L) = found.pairs[0], found.pairs[-1]
    most, least = f"{most_L[found.layer]:.2f}", f"{least_L[found.layer]:.2f}"
    if len(found.pairs) == 1 and min(most_L) > 1 - 1e-6:
        return f"The two uses of {found.word} have nearly the same vectors in every layer."
    if len(found.pairs) == 1:
        return f"The two uses of {found.word} differ most in layer {found.layer} (cosine {most})."
    if most == least:
        return f"No layer separates the uses of {found.word}."
    return (
        f"Layer {found.layer} separates the uses of {found.word} most: {first + 1} and {second + 1} are the most "
        f"similar ({most}), {third + 1} and {fourth + 1} the least ({least})."
    )


def print_sentences(sentences: Sequence[tuple[Sequence[str], Array]]) -> None:
    """Every sentence with the first numbers of its vector and the most similar other sentence."""
    rows = [(" ".join(tokens[:TOKENS_SHOWN]), vector) for tokens, vector in sentences]
    Console().print(_table("sentence", rows, [name for name, _ in rows]))


def _table(kind: str, rows: Sequence[Labelled], names: Sequence[str]) -> Table:
    table = plain_table()
    for title in (kind, "vector", f"most similar {kind}", "cosine"):
        table.add_column(title, justify="right" if title == "cosine" else "left")
    for (label, vector), (position, cosine) in zip(rows, _nearest([vector for _, vector in rows]), strict=True):
        nearest = names[position] if position >= 0 else ""
        similarity = f"{cosine:.2f}" if position >= 0 else ""
        # Text, not str: a word in square brackets is a word, not markup.
        table.add_row(Text(label), _numbers(vector), Text(nearest), similarity)
    return table


def _numbers(vector: Array) -> str:
    return " ".join(f"{number:6.2f}" for number in vector[:NUMBERS_SHOWN]) + " …"


def _nearest(vectors: Sequence[Array]) -> list[tuple[int, float]]:
    """For each vector, the position and cosine of the most similar other one; position −1: there is no other."""
    if len(vectors) < 2:
        return [(-1, 0.0)] * len(vectors)
    matrix = np.stack(vectors).astype(np.float64)
    matrix /= np.maximum(np.linalg.norm(matrix, axis=1, keepdims=True), 1e-12)
    cosines = matrix @ matrix.T
    np.fill_diagonal(cosines, -np.inf)
    best = cosines.argmax(1)
    return [(int(position), float(cosines[row, position])) for row, position in enumerate(best)]
