"""`stelmo index`: a corpus → an index of word uses."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from stelmo.cli import screen
from stelmo.cli.arguments import Column, Contractions, From, Inputs, Language, ModelName, loaded
from stelmo.errors import DataError
from stelmo.text.files import LineReader

if TYPE_CHECKING:
    from stelmo.embed.model import Model
    from stelmo.explore.index import Index

EXAMPLE = "Example: `stelmo index corpus.txt --to uses`, then `stelmo explore uses`"
PER_WORD = 1000


def index(
    corpus: Annotated[list[str], typer.Argument(metavar="CORPUS...", help="Text files; - for standard input.")],
    to: Annotated[Path, typer.Option("--to", metavar="DIR", help="Output folder; an existing index is extended.")],
    model: ModelName = None,
    words: Annotated[Path | None, typer.Option(help="Index only the words in this file, one per line.")] = None,
    per_word: Annotated[int, typer.Option(min=1, help="Keep at most this many uses of a word, the first ones.")] = (
        PER_WORD
    ),
    format: From = None,
    column: Column = 0,
    language: Language = "en",
    contractions: Contractions = "ptb",
    keep: Annotated[
        list[str] | None,
        typer.Option(
            metavar="COLUMN",
            help="Column to colour the page by: upos … of CoNLL-U, 3 or pos=3 of columns, a key of jsonl; repeatable.",
        ),
    ] = None,
) -> None:
    """Index the uses of every word in a corpus, for `stelmo explore`, `neighbours` and `serve`.

    Run again, or with more text, it computes only what is missing.
    """
    only = None if words is None else _read_words(words)
    found = Inputs(corpus, format, column, language, contractions, keep or ())
    build(loaded(model), found, to, only, per_word)


def build(model: "Model", found: Inputs, to: Path, words: list[str] | None, per_word: int) -> None:
    from stelmo.explore import index  # imported here, because `--help` does not need torch

    is_new = not to.exists()
    with screen.progress("indexing", found.fraction) as advance:
        made = index.build(model, found, to, words=words, per_word=per_word, advance=advance)
    if not len(made):
        if is_new:
            index.discard(to)
        raise DataError(f"{to}: the index is empty; the corpus does not use {'these words' if words else 'any word'}")
    typer.echo(f"{to}: {len(made):,} uses of {len(made.words):,} words; show them with `stelmo explore {to}`")


def opened(folder: Path | None, model: "Model") -> "Index":
    """The index in the folder; None: the one bundled with stelmo, computed at first use and kept in the cache."""
    from stelmo.explore import index

    if folder is not None:
        found = index.open(folder)
        index.refuse_other_model(found, model)
        return found
    total, done = sum(map(len, index.bundled_sentences())), 0

    with screen.progress("indexing bundled text", lambda: done / total) as advance:

        def count(tokens: int) -> None:
            nonlocal done
            done += tokens
            advance(tokens)

        return index.open_bundled(model, advance=count)


def _read_words(path: Path) -> list[str]:
    with LineReader(path) as reader:
        words = [word for _, line in reader if (word := line.strip())]
    if not words:
        raise DataError(f"{path}: no words; expected one per line")
    return words
