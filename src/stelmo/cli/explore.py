"""`stelmo explore`: an index of word uses → the web page that shows them."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from stelmo.cli import index as indexing
from stelmo.cli.arguments import ModelName, Overwrite, label_of, loaded, note_renamed
from stelmo.cli.index import opened
from stelmo.errors import ConfigError

EXAMPLE = (
    "Example: `stelmo explore`, or `stelmo index corpus.txt --to uses` and then `stelmo explore uses`; "
    "`stelmo explore --export bank.html --words bank,bass`"
)
WORDS = 10  # in a file, unless they are named
PORT = 8765


def explore(
    folder: Annotated[
        Path | None, typer.Argument(metavar="[DIR]", help="Index to show; default: the one bundled with stelmo.")
    ] = None,
    name: ModelName = None,
    port: Annotated[
        int | None,
        typer.Option(min=0, max=65535, help="Port of the page; only this machine can open it; default: 8765."),
    ] = None,
    no_browser: Annotated[bool, typer.Option("--no-browser", help="Print the address, do not open a browser.")] = False,
    tasks: Annotated[
        list[Path] | None,
        typer.Option("--task", metavar="RUN", help="Run of `stelmo task` whose layer weights to show; repeatable."),
    ] = None,
    export: Annotated[
        Path | None,
        typer.Option("--export", metavar="FILE", help="Write one HTML file with the maps of --words; serve nothing."),
    ] = None,
    words: Annotated[
        str | None,
        typer.Option(metavar="WORDS", help="Words of --export, separated by commas; default: ten that separate well."),
    ] = None,
    overwrite: Overwrite = False,
    corpus: Annotated[list[str] | None, typer.Option("--index", hidden=True)] = None,
    to: Annotated[Path | None, typer.Option("--to", hidden=True)] = None,
    per_word: Annotated[int | None, typer.Option(min=1, hidden=True)] = None,
    format: Annotated[str | None, typer.Option("--from", hidden=True)] = None,
    column: Annotated[int | None, typer.Option(hidden=True)] = None,
    language: Annotated[str | None, typer.Option(hidden=True)] = None,
    contractions: Annotated[str | None, typer.Option(hidden=True)] = None,
) -> None:
    """Open a web page that shows how the meanings of a word separate in context.

    The index bundled with stelmo is computed at the first start, which takes about a minute. `stelmo index` makes one
    of your own text. With --export the page is a file that needs no server, for a lecture or a web site.
    """
    of_page: dict[str, object] = {"--port": port, "--no-browser": no_browser, "--task": tasks}
    of_export: dict[str, object] = {"--words": words, "--overwrite": overwrite}
    of_index: dict[str, object] = {
        "--per-word": per_word,
        "--from": format,
        "--column": column,
        "--language": language,
        "--contractions": contractions,
    }
    if corpus or to:  # `stelmo explore --index CORPUS --to DIR`, the old spelling of `stelmo index`
        if folder is not None:
            raise ConfigError(f"{folder} and --index or --to: show an index or make one (`stelmo index`), not both")
        if not corpus or to is None:
            missing = "--to DIR" if corpus else "--index CORPUS"
            raise ConfigError(f"{missing} is missing; make an index with `stelmo index CORPUS --to DIR`")
        _refuse(of_page | {"--export": export, "--overwrite": overwrite}, "an index is made, nothing is shown")
        note_renamed("explore --index CORPUS", "stelmo index CORPUS")
        chosen = None if words is None else Path(words)
        most = per_word or indexing.PER_WORD
        indexing.index(corpus, to, name, chosen, most, format, column or 0, language or "en", contractions or "ptb")
    elif export is not None:
        _refuse(of_page | of_index, "--export writes a file of an index that is there")
        _export(name, folder, export, words, overwrite)
    else:
        _refuse(of_export, "it concerns the file that --export writes")
        _refuse(of_index, "it concerns `stelmo index`, which makes the index")
        _show(name, folder, tasks or [], PORT if port is None else port, not no_browser)


def _refuse(options: dict[str, object], reason: str) -> None:
    """Refuse options that would have no effect."""
    for option, value in options.items():
        if value is not None and value is not False:
            raise ConfigError(f"{option} has no effect here: {reason}; leave it out")


def _show(name: str | None, folder: Path | None, tasks: Sequence[Path], port: int, open_browser: bool) -> None:
    try:
        from stelmo.serve import service
    except ImportError as problem:
        raise ConfigError(f"the page requires {problem.name}: pip install 'stelmo[explore]'") from None
    model = loaded(name)
    found = opened(folder, model)
    service.run_page(
        found,
        model,
        tasks,
        name=label_of(name),
        credit=_credit(folder),
        port=port,
        open_browser=open_browser,
        started=lambda address: typer.echo(f"{address}   (stop with Ctrl-C)"),
    )


def _export(name: str | None, folder: Path | None, file: Path, words: str | None, overwrite: bool) -> None:
    from stelmo.explore import search, standalone  # imported here, because `--help` does not need torch
    from stelmo.store import atomic

    atomic.refuse_existing(file, overwrite)
    model = loaded(name)
    index = opened(folder, model)
    asked = [word.strip() for word in (words or "").split(",") if word.strip()]
    chosen = asked or search.suggested(index, WORDS)
    made = standalone.page(index, chosen, model=model, name=label_of(name), credit=_credit(folder))
    made.save(file, overwrite)
    typer.echo(f"{file}: the maps of {', '.join(chosen)}; open it in a browser")


def _credit(folder: Path | None) -> str:
    from stelmo.explore import index

    return "" if folder is not None else index.BUNDLED_CREDIT
