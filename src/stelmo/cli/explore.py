"""`stelmo explore`: a corpus → an index of word uses; an index → the page that shows them."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from stelmo.cli import screen
from stelmo.cli.inputs import Column, Contractions, From, Inputs, Language
from stelmo.cli.models import ModelName, loaded
from stelmo.errors import ConfigError, DataError
from stelmo.text import sentences
from stelmo.text.files import LineReader

if TYPE_CHECKING:
    from stelmo.embed.model import Model
    from stelmo.explore.index import Index

EXAMPLE = "Example: `stelmo explore`, or `stelmo explore --index corpus.txt --to uses` and then `stelmo explore uses`"


def explore(
    folder: Annotated[
        Path | None, typer.Argument(metavar="[DIR]", help="Index to show; unset: the one that comes with stelmo.")
    ] = None,
    corpus: Annotated[
        list[str] | None, typer.Option("--index", metavar="CORPUS", help="File to index; may be given several times.")
    ] = None,
    to: Annotated[
        Path | None, typer.Option("--to", metavar="DIR", help="Where the index goes; one that is there grows.")
    ] = None,
    name: ModelName = None,
    words: Annotated[Path | None, typer.Option(help="File of the only words to index, one a line.")] = None,
    per_word: Annotated[int, typer.Option(min=1, help="Uses of a word at most; the first ones count.")] = 1000,
    format: From = None,
    column: Column = 0,
    language: Language = "en",
    contractions: Contractions = "ptb",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Of the page, on this machine alone.")] = 8765,
    no_browser: Annotated[bool, typer.Option("--no-browser", help="Print the page's address, do not open it.")] = False,
    tasks: Annotated[
        list[Path] | None,
        typer.Option("--task", metavar="RUN", help="Run of `stelmo task` whose layer weights to show."),
    ] = None,
) -> None:
    """See a word's meanings part: a page over an index of word uses. Or make an index: --index CORPUS --to DIR.

    The index that comes with stelmo is computed at the first start, in less than a minute. Making an index again, or
    with more text, computes what it lacks.
    """
    if corpus or to:
        target, only = _target(folder, corpus, to), _lines(words)
        tokenizer = partial(sentences.tokenize, language=language, contractions=contractions)
        found = Inputs(corpus or [], format, column, tokenizer)
        _index(loaded(name), found, target, only, per_word)
    else:
        if words is not None:
            raise ConfigError("--words chooses what to index; it goes with --index CORPUS --to DIR")
        _show(name, folder, tasks or [], port, not no_browser)


def opened(folder: Path | None, model: "Model") -> "Index":
    """The index in the folder; unset the one that comes with stelmo, computed where the cache lacks it."""
    from stelmo.explore import bundled, index  # here, because `--help` needs no torch

    if folder is not None:
        found = index.open(folder)
        index.refuse_other_model(found, model)
        return found
    total, done = sum(map(len, bundled.sentences())), [0]

    def fraction() -> float:
        return done[0] / total

    with screen.progress("reading the text that comes with stelmo", fraction) as advance:

        def count(tokens: int) -> None:
            done[0] += tokens
            advance(tokens)

        return bundled.open_bundled(model, advance=count)


def _target(folder: Path | None, corpus: list[str] | None, to: Path | None) -> Path:
    if folder is not None:
        raise ConfigError(f"{folder} beside --index or --to: either an index is shown, or one is made")
    if not corpus or to is None:
        raise ConfigError(
            f"--{'to DIR' if corpus else 'index CORPUS'} is missing: an index is made of a corpus, in a folder"
        )
    return to


def _lines(path: Path | None) -> list[str] | None:
    """The words of a file; unset all words count."""
    if path is None:
        return None
    with LineReader(path) as reader:
        words = [word for _, line in reader if (word := line.strip())]
    if not words:
        raise DataError(f"{path}: no word; expected one a line")
    return words


def _index(model: "Model", found: Inputs, to: Path, words: Sequence[str] | None, per_word: int) -> None:
    from stelmo.explore import index

    try:
        with screen.progress("indexing", found.fraction) as advance:
            tokens = (sentence.tokens for sentence in found)
            made = index.build(model, tokens, to, words=words, per_word=per_word, advance=advance)
    except KeyboardInterrupt:
        screen.complain("interrupted; the same command goes on where it stopped")
        raise typer.Exit(130) from None
    if not len(made):
        raise DataError(f"{to}: the corpus has no use of {'these words' if words else 'a word'}; the index is empty")
    typer.echo(f"{to}: {len(made):,} uses of {len(made.words):,} words; see them with `stelmo explore {to}`")


def _show(name: str | None, folder: Path | None, tasks: Sequence[Path], port: int, open_browser: bool) -> None:
    try:
        from stelmo.serve import page
    except ImportError as problem:
        raise ConfigError(f"the page needs {problem.name}: pip install 'stelmo[explore]'") from None
    model = loaded(name)
    label = "english" if name is None else Path(name).name
    try:
        index = opened(folder, model)
    except KeyboardInterrupt:
        screen.complain("interrupted; the same command goes on where it stopped")
        raise typer.Exit(130) from None
    page.run(index, model, tasks, name=label, port=port, open_browser=open_browser, started=_tell)


def _tell(address: str) -> None:
    typer.echo(f"{address}   (Ctrl-C ends it)")
