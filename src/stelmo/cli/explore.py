"""`stelmo explore`: an index of word uses → the web page that shows them."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from stelmo.cli import index as indexing
from stelmo.cli import old_flags
from stelmo.cli.index import opened
from stelmo.cli.models import ModelName, loaded
from stelmo.errors import ConfigError

EXAMPLE = "Example: `stelmo explore`, or `stelmo index corpus.txt --to uses` and then `stelmo explore uses`"

__all__ = ["explore", "opened"]


def explore(
    folder: Annotated[
        Path | None, typer.Argument(metavar="[DIR]", help="Index to show; default: the one bundled with stelmo.")
    ] = None,
    name: ModelName = None,
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port of the page; only this machine can open it.")
    ] = 8765,
    no_browser: Annotated[bool, typer.Option("--no-browser", help="Print the address, do not open a browser.")] = False,
    tasks: Annotated[
        list[Path] | None,
        typer.Option("--task", metavar="RUN", help="Run of `stelmo task` whose layer weights to show; repeatable."),
    ] = None,
    corpus: Annotated[list[str] | None, typer.Option("--index", hidden=True)] = None,
    to: Annotated[Path | None, typer.Option("--to", hidden=True)] = None,
    words: Annotated[Path | None, typer.Option(hidden=True)] = None,
    per_word: Annotated[int, typer.Option(min=1, hidden=True)] = indexing.PER_WORD,
    format: Annotated[str | None, typer.Option("--from", hidden=True)] = None,
    column: Annotated[int, typer.Option(hidden=True)] = 0,
    language: Annotated[str, typer.Option(hidden=True)] = "en",
    contractions: Annotated[str, typer.Option(hidden=True)] = "ptb",
) -> None:
    """Open a web page that shows how the meanings of a word separate in context.

    The index bundled with stelmo is computed at the first start, in less than a minute. `stelmo index` makes one of
    your own text.
    """
    if corpus or to:
        files, target = _old_spelling(folder, corpus, to)
        indexing.index(files, target, name, words, per_word, format, column, language, contractions)
    elif words is not None:
        raise ConfigError("--words selects what to index; it is an option of `stelmo index`")
    else:
        _show(name, folder, tasks or [], port, not no_browser)


def _old_spelling(folder: Path | None, corpus: list[str] | None, to: Path | None) -> tuple[list[str], Path]:
    """`stelmo explore --index CORPUS --to DIR` of the last release."""
    if folder is not None:
        raise ConfigError(f"{folder} and --index or --to: show an index or make one (`stelmo index`), not both")
    if not corpus or to is None:
        missing = "--to DIR" if corpus else "--index CORPUS"
        raise ConfigError(f"{missing} is missing; make an index with `stelmo index CORPUS --to DIR`")
    old_flags.note("explore --index CORPUS", "stelmo index CORPUS")
    return corpus, to


def _show(name: str | None, folder: Path | None, tasks: Sequence[Path], port: int, open_browser: bool) -> None:
    try:
        from stelmo.serve import page
    except ImportError as problem:
        raise ConfigError(f"the page requires {problem.name}: pip install 'stelmo[explore]'") from None
    model = loaded(name)
    label = "english" if name is None else Path(name).name
    found = opened(folder, model)
    page.run(found, model, tasks, name=label, port=port, open_browser=open_browser, started=_print_address)


def _print_address(address: str) -> None:
    typer.echo(f"{address}   (stop with Ctrl-C)")
