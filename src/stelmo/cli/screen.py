"""What the terminal shows: notes, error lines, progress. Does not depend on any command."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.text import Text

SECONDS_BETWEEN_LINES = 10.0
BAR = 10  # characters: with label, rate and times the line fits into 80 columns
INTERRUPTED = 130  # exit code of a command that Ctrl-C or a signal stopped


def complain(message: str) -> None:
    """One line on standard error, whatever characters a file put into the message."""
    print(f"stelmo: {_one_line(message)}", file=sys.stderr)


def note(message: str) -> None:
    print(f"note: {_one_line(message)}", file=sys.stderr)


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
        # The length of a pipe is unknown: the bar then only moves to and fro, but the rate is right.
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


@contextmanager
def telling() -> Iterator[Callable[[str, float, str], None]]:
    """A progress callback that takes a label, the share that is done, and figures: a bar on a terminal, else lines."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield _Lines()
        return
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[figures]}"))
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("starting", total=1.0, figures="")
        yield lambda label, share, figures: bar.update(task, description=label, completed=share, figures=figures)


class _Lines:
    def __init__(self) -> None:
        self._last = time.monotonic()

    def __call__(self, label: str, share: float, figures: str) -> None:
        now = time.monotonic()
        if now - self._last >= SECONDS_BETWEEN_LINES:
            self._last = now
            print(f"{label}: {figures}", file=sys.stderr, flush=True)
