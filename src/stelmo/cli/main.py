"""Arguments → one command.

Exit codes: 0 success; 2 a mistake of the user, explained in one line; 130 Ctrl-C; 1 a bug, with its traceback.
"""

import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import typer
from typer.core import TyperGroup

from stelmo.cli import (
    bench,
    convert,
    embed,
    explore,
    guess,
    index,
    info,
    neighbours,
    paper,
    perplexity,
    prepare,
    pretrain,
    probe,
    serve,
    task,
    tune,
    words,
)
from stelmo.cli.screen import INTERRUPTED, NotResumable, print_error
from stelmo.errors import ConfigError, OutputError, StelmoError
from stelmo.store.atomic import reason

COMMANDS: dict[str, Any] = {
    "embed": embed,
    "words": words,
    "convert": convert,
    "info": info,
    "perplexity": perplexity,
    "guess": guess,
    "index": index,
    "explore": explore,
    "neighbours": neighbours,
    "prepare": prepare,
    "pretrain": pretrain,
    "tune": tune,
    "probe": probe,
    "task": task,
    "paper": paper,
    "serve": serve,
    "bench": bench,
}
RESUMABLE = {"embed", "index", "explore", "prepare", "pretrain", "tune", "task", "paper"}  # keep finished work on disk


@contextmanager
def _reporting_output() -> Iterator[None]:
    """End the command if its output cannot be written: silently if the reader, such as `head`, stopped reading."""
    try:
        yield
    except SystemExit as ending:  # of rich, which does the following itself, but ends with 1
        if isinstance(ending.__context__, BrokenPipeError):
            raise typer.Exit(0) from None
        raise
    except OSError as problem:
        if not _output_fails():
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # for what is still buffered
        if isinstance(problem, BrokenPipeError):
            raise typer.Exit(0) from None
        raise OutputError(f"standard output: {reason(problem)}; redirect it to another place") from None


def _output_fails() -> bool:
    """Whether an error was that of standard output: then a line end cannot be written either."""
    try:
        print(flush=True)
    except OSError:
        return True
    return False


class _Interruptible(TyperGroup):
    """The only place that handles Ctrl-C. A KeyboardInterrupt can bring its own words, such as the last step."""

    def make_context(self, *args: Any, **extra: Any) -> Any:
        with _reporting_output():  # --help and --version are printed here
            return super().make_context(*args, **extra)

    def invoke(self, ctx: Any) -> Any:
        try:
            with _reporting_output():
                return super().invoke(ctx)
        except KeyboardInterrupt as interrupt:
            resumable = ctx.invoked_subcommand in RESUMABLE and not isinstance(interrupt, NotResumable)
            resume = "; run the same command again to resume" if resumable else ""
            print_error(f"{interrupt!s}{resume}" if str(interrupt) else f"interrupted{resume}")
            raise typer.Exit(INTERRUPTED) from None


app = typer.Typer(
    cls=_Interruptible,
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    help="Contextual word vectors with ELMo: load any ELMo model, or train your own.",
    epilog='Example: `stelmo embed "The bank raised its rates ." "We sat on the bank of the river ."`',
)
for _name, _module in COMMANDS.items():
    app.command(_name, epilog=_module.EXAMPLE)(getattr(_module, _name))


def _version(asked: bool) -> None:
    if asked:
        from stelmo import __version__

        typer.echo(f"stelmo {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: bool = typer.Option(False, "--version", callback=_version, is_eager=True, help="Print the version."),
) -> None:
    """Options that come before any command."""


def main() -> None:
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # on Windows a redirected one has an encoding of few characters
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")
    try:
        for place, argument in enumerate(sys.argv[1:], 1):
            if not argument:  # a file named "" would be the current folder
                raise ConfigError(f"argument {place} is empty; expected a name or a text, or leave it out")
        app()
    except StelmoError as problem:
        print_error(str(problem))
        sys.exit(2)
