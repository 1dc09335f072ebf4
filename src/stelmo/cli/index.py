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

    If the command is run again, or with more text, it computes only what is missing.
    """
    only = None
    if words is not None:
        if not words.is_file():
            raise DataError(f"--words {words}: no such file; expected one with a word on each line")
        with LineReader(words) as reader:
            only = [word for _, line in reader if (word := line.strip())]
        if not only:
            raise DataError(f"{words}: no words; expected one per line")
    found = Inputs(corpus, format, column, language, contractions, keep or (), files_only=True)
    from stelmo.explore import index as indices  # imported here, because `--help` does not need torch

    rules = indices.Rules(language, contractions)
    encoder = loaded(model)
    is_new = not to.exists()
    with screen.progress("indexing", found.fraction) as advance:
        made = indices.build(encoder, found, to, words=only, per_word=per_word, rules=rules, advance=advance)
    if not len(made):
        if is_new:
            indices.discard(to)
        raise DataError(f"{to}: the index is empty; the corpus does not use {'these words' if only else 'any word'}")
    typer.echo(f"{to}: {len(made):,} uses of {len(made.words):,} words; show them with `stelmo explore {to}`")


def opened(folder: Path | None, model: "Model") -> "Index":
    """The index in the folder; None: the one bundled with stelmo, computed at first use and kept in the cache."""
    from stelmo.explore import index  # imported here, because `--help` does not need torch

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
