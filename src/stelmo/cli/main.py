"""Arguments → a verb. Exit 0: done; 2: the user's mistake, said in one line; 1: our bug, with its traceback."""

import sys

import typer

from stelmo.cli import (
    bench,
    convert,
    embed,
    explore,
    guess,
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
from stelmo.cli.screen import complain
from stelmo.errors import StelmoError

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    help="ELMo alive again: text → contextual word vectors.",
    epilog='Example: `stelmo embed "The bank raised its rates ." "We sat on the bank of the river ."`',
)
app.command("embed", epilog=embed.EXAMPLE)(embed.embed)
app.command("words", epilog=words.EXAMPLE)(words.words)
app.command("convert", epilog=convert.EXAMPLE)(convert.convert)
app.command("info", epilog=info.EXAMPLE)(info.info)
app.command("perplexity", epilog=perplexity.EXAMPLE)(perplexity.perplexity)
app.command("guess", epilog=guess.EXAMPLE)(guess.guess)
app.command("neighbours", epilog=neighbours.EXAMPLE)(neighbours.neighbours)
app.command("explore", epilog=explore.EXAMPLE)(explore.explore)
app.command("prepare", epilog=prepare.EXAMPLE)(prepare.prepare)
app.command("pretrain", epilog=pretrain.EXAMPLE)(pretrain.pretrain)
app.command("tune", epilog=tune.EXAMPLE)(tune.tune)
app.command("probe", epilog=probe.EXAMPLE)(probe.probe)
app.command("task", epilog=task.EXAMPLE)(task.task)
app.command("paper", epilog=paper.EXAMPLE)(paper.paper)
app.command("serve", epilog=serve.EXAMPLE)(serve.serve)
app.command("bench", epilog=bench.EXAMPLE)(bench.bench)


def _version(asked: bool) -> None:
    if asked:
        from stelmo import __version__

        typer.echo(f"stelmo {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: bool = typer.Option(False, "--version", callback=_version, is_eager=True, help="Print the version."),
) -> None:
    """Read before any verb."""


def main() -> None:
    try:
        app()
    except StelmoError as problem:
        complain(str(problem))
        sys.exit(2)
    except BrokenPipeError:  # the reader of our output, such as `head`, has seen enough
        sys.stderr.close()
        sys.exit(0)
