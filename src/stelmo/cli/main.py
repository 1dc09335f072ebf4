"""Arguments → one command.

Exit codes: 0 success; 2 a mistake of the user, explained in one line; 130 Ctrl-C; 1 a bug, with its traceback.
"""

import sys
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
from stelmo.cli.screen import INTERRUPTED, NothingKept, complain
from stelmo.errors import StelmoError

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


class _Interruptible(TyperGroup):
    """The only place that handles Ctrl-C. A KeyboardInterrupt can bring its own words, such as the last step."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as interrupt:
            resumable = ctx.invoked_subcommand in RESUMABLE and not isinstance(interrupt, NothingKept)
            resume = "; run the same command again to resume" if resumable else ""
            complain(f"{interrupt!s}{resume}" if str(interrupt) else f"interrupted{resume}")
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
    try:
        app()
    except StelmoError as problem:
        complain(str(problem))
        sys.exit(2)
    except BrokenPipeError:  # the reader of our output, such as `head`, stopped reading
        sys.stderr.close()
        sys.exit(0)
