"""`stelmo words`: a vocabulary, or a corpus → one vector for each word, in a file for gensim and readers of GloVe."""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from stelmo.cli import screen
from stelmo.cli.inputs import Column, Contractions, From, Inputs, Language
from stelmo.cli.models import LOAD, Device, ModelName, OptionsFile, Precision, State, Threads, VocabularyFile, loaded
from stelmo.config import WordSettings, help_of, parse
from stelmo.errors import ConfigError
from stelmo.text import sentences

if TYPE_CHECKING:
    from stelmo.jobs.words import Written

EXAMPLE = "Example: `stelmo words corpus.txt.gz -o words.vec --min-count 5`"

_words = partial(help_of, WordSettings)


def words(
    output: Annotated[
        Path,
        typer.Option("--output", "-o", help="File to write: .vec (word2vec text), .txt (GloVe), .bin (word2vec)."),
    ],
    inputs: Annotated[
        list[str] | None,
        typer.Argument(metavar="[INPUT]...", help="A corpus, - for standard input; unset: the model's vocabulary."),
    ] = None,
    model: ModelName = None,
    format: From = None,
    column: Column = 0,
    language: Language = "en",
    contractions: Contractions = "ptb",
    layer: Annotated[str | None, typer.Option(help=f"Of a corpus: {_words('layer')}; unset: mean.")] = None,
    min_count: Annotated[int | None, typer.Option(help=f"Of a corpus: {_words('min_count')}.")] = None,
    max_words: Annotated[int | None, typer.Option(help=f"Of a corpus: {_words('max_words')}.")] = None,
    state: State = LOAD.state,
    precision: Precision = LOAD.precision,
    device: Device = LOAD.device,
    threads: Threads = LOAD.threads,
    options: OptionsFile = None,
    vocabulary: VocabularyFile = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the output if it is there.")] = False,
) -> None:
    """One vector for each word: the token layer of the vocabulary, or the mean over a corpus."""
    asked = {"layer": layer, "min_count": min_count, "max_words": max_words}
    settings = _settings({name: value for name, value in asked.items() if value is not None}, inputs or [])
    tokenizer = partial(sentences.tokenize, language=language, contractions=contractions)
    found = Inputs(inputs, format, column, tokenizer) if inputs else None
    compute = {"state": state, "precision": precision, "device": device, "threads": threads}
    files = {"options": options, "vocabulary": vocabulary}
    written = _write(found, output, settings, model, compute | files, overwrite)
    _tell(written, output)


def _settings(asked: dict[str, Any], inputs: list[str]) -> WordSettings:
    if asked and not inputs:
        name = f"--{next(iter(asked)).replace('_', '-')}"
        raise ConfigError(f"{name} is of a corpus; name one, or leave {name} out for the vocabulary's token layer")
    layer = asked.get("layer", "")
    number = {"layer": int(layer)} if layer.lstrip("-").isdecimal() else {}
    return parse(WordSettings, asked | number, "words", ConfigError)


def _write(
    found: Inputs | None,
    output: Path,
    settings: WordSettings,
    name: str | None,
    options: dict[str, Any],
    overwrite: bool,
) -> "Written":
    from stelmo.jobs.words import write_averages, write_vocabulary  # here, because `--help` needs no torch
    from stelmo.store import static

    static.refuse_output(output, overwrite)
    model = loaded(name, **options)
    if found is None:
        return write_vocabulary(model, output, overwrite)
    with screen.progress("embedding", found.fraction) as advance:
        return write_averages(model, found, output, settings, overwrite=overwrite, advance=advance)


def _tell(written: "Written", output: Path) -> None:
    if written.unwritable:
        screen.note(f"{written.unwritable:,} words with white space in them are left out; such a file cannot hold them")
    if written.late:
        screen.note(f"{written.late:,} tokens are left out: their words came when --max-words others were in memory")
    rare = f"; {written.rare:,} rare words left out" if written.rare else ""
    typer.echo(f"{output}: {written.words:,} words, {written.width} numbers each{rare}")
