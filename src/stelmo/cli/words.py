"""`stelmo words`: a vocabulary or a corpus → one vector per word, in a file that gensim and GloVe readers load."""

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from stelmo.cli import screen
from stelmo.cli.arguments import (
    LOAD,
    Column,
    Contractions,
    Device,
    From,
    Inputs,
    Language,
    ModelName,
    OptionsFile,
    Overwrite,
    Precision,
    State,
    Threads,
    VocabularyFile,
    layer_of,
    loaded,
)
from stelmo.config import help_of, parse
from stelmo.errors import ConfigError
from stelmo.settings import WordSettings

EXAMPLE = "Example: `stelmo words corpus.txt.gz -o words.vec --min-count 5`"

_words = partial(help_of, WordSettings, before="For a corpus: ")


def words(
    output: Annotated[
        Path,
        typer.Option("--output", "-o", help="Output file: .vec (word2vec text), .txt (GloVe), .bin (word2vec)."),
    ],
    inputs: Annotated[
        list[str] | None,
        typer.Argument(metavar="[INPUT]...", help="A corpus, - for standard input; default: the model's vocabulary."),
    ] = None,
    model: ModelName = None,
    format: From = None,
    column: Column = 0,
    language: Language = "en",
    contractions: Contractions = "ptb",
    layer: Annotated[str | None, typer.Option(help=_words("layer", after="; default: mean"))] = None,
    min_count: Annotated[int | None, typer.Option(help=_words("min_count", after="; default: 1"))] = None,
    max_words: Annotated[int | None, typer.Option(help=_words("max_words", after="; default: 1000000"))] = None,
    state: State = None,
    precision: Precision = LOAD.precision,
    device: Device = LOAD.device,
    threads: Threads = LOAD.threads,
    options: OptionsFile = None,
    vocabulary: VocabularyFile = None,
    overwrite: Overwrite = False,
) -> None:
    """Write one vector per word: layer 0 for the vocabulary, or the mean over all uses in a corpus."""
    chosen = {"layer": None if layer is None else layer_of(layer), "min_count": min_count, "max_words": max_words}
    asked = {name: value for name, value in chosen.items() if value is not None}
    if asked and not inputs:
        name = f"--{next(iter(asked)).replace('_', '-')}"
        raise ConfigError(
            f"{name} requires a corpus; name one, or leave {name} out to write the vocabulary's token layer"
        )
    settings = parse(WordSettings, asked, "words", ConfigError)
    found = Inputs(inputs, format, column, language, contractions, files_only=True) if inputs else None
    # imported here, because `--help` does not need torch
    from stelmo.jobs.words import write_averages, write_vocabulary
    from stelmo.store import static

    static.refuse_output(output, overwrite)
    compute = {"state": state, "precision": precision, "device": device, "threads": threads}
    encoder = loaded(model, options=options, vocabulary=vocabulary, **compute)
    if found is None:
        written = write_vocabulary(encoder, output, overwrite)
    else:
        with screen.progress("embedding", found.fraction) as advance:
            written = write_averages(encoder, found, output, settings, overwrite=overwrite, advance=advance)
    if written.unwritable:
        words = "1 word that contains" if written.unwritable == 1 else f"{written.unwritable:,} words that contain"
        screen.note(f"{words} white space: left out, because this file format cannot store it")
    if written.late:
        screen.note(
            f"{written.late:,} tokens are left out: their words first occurred when --max-words were already stored"
        )
    rare = f"; {written.rare:,} rare words left out" if written.rare else ""
    typer.echo(f"{output}: {written.words:,} words, {written.width} dimensions each{rare}")
