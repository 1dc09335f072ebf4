"""Arguments that several commands share: inputs (files, sentences, "-") as one stream; the model; old flags."""

import re
import sys
import warnings
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, TypeVar

import typer

from stelmo.cli import screen
from stelmo.config import choose, help_of
from stelmo.errors import ConfigError, DataError
from stelmo.settings import LoadSettings
from stelmo.text import formats, sentences
from stelmo.text.files import LineReader
from stelmo.text.formats import Sentence

if TYPE_CHECKING:
    from stelmo.embed.model import Model

STDIN = "-"
EXTENSIONS = {*formats.EXTENSIONS, ".parquet"}  # of files that are read
_EXTENSION = re.compile(r"\.[A-Za-z0-9]{1,5}")  # of any file
_BACKSLASH = re.compile(r"[\w.:]\\[\w.]")  # as in texts\wiki, a path of Windows

FORMATS = (*formats.FORMATS, "parquet")
From = Annotated[str | None, typer.Option("--from", help=f"{', '.join(FORMATS)}; default: by the file's extension.")]
TextOrTokens = Annotated[str, typer.Option("--from", help="text, or tokens: split only at white space.")]
Column = Annotated[int, typer.Option(help="Column of the word in a columns file, counted from 0.")]
Language = Annotated[str, typer.Option(help="Language of raw text, such as en, de, zh.")]
Contractions = Annotated[str, typer.Option(help="ptb: do n't; moses: don 't, as in the 1B-Word corpus.")]


class Inputs:
    """Sentences of all inputs in order; `fraction` is the share of the files that has been read.

    With `files_only` what is not a file is refused; otherwise it is a sentence, unless it looks like a file name.
    """

    def __init__(
        self,
        inputs: Sequence[str],
        format: str | None,
        column: int,
        language: str,
        contractions: str,
        keep: Sequence[str] = (),
        *,
        files_only: bool = False,
    ) -> None:
        if format is not None:
            choose("--from", format, FORMATS)
        if not inputs and (sys.stdin is None or sys.stdin.isatty()):
            raise ConfigError('no input: give a file, a "sentence in quotes", or pipe text in')
        self._inputs = list(inputs) or [STDIN]
        self._format, self._column, self._keep = format, column, keep
        self._tokenizer = partial(sentences.tokenize, language=language, contractions=contractions)
        self._reader: LineReader | None = None
        self._finished = 0
        for name in self._inputs:
            if not is_file(name):
                if files_only:
                    raise DataError(f"{name}: no such file; expected text files, or - for standard input")
                if _looks_like_a_file(name):
                    raise DataError(f"{name}: no such file; if it is a sentence, pipe it to standard input")
            elif Path(name).is_dir():
                raise DataError(f"{name}: a folder; expected files, such as {Path(name) / '*.txt'}")

    def fraction(self) -> float | None:
        """Every file counts the same, whatever its size."""
        within = 0.0 if self._reader is None else self._reader.fraction()
        return None if within is None else (self._finished + within) / len(self._inputs)

    def __iter__(self) -> Iterator[Sentence]:
        for number, name in enumerate(self._inputs):
            self._finished, self._reader = number, None
            if is_file(name):
                yield from self._file(name)
                continue
            for tokens in [name.split()] if self._format == "tokens" else self._tokenizer(name):
                yield Sentence(tokens, "argument", 1)

    def _file(self, name: str) -> Iterator[Sentence]:
        is_parquet = Path(name).suffix.lower() == ".parquet"
        chosen = self._format or ("parquet" if is_parquet else formats.guess(name))
        if chosen == "parquet":
            self._refuse_columns("parquet")
            from stelmo.store import containers  # imported here, because `--help` does not need numpy

            for row, value in containers.text_values(Path(name)):
                for tokens in formats.of_value(value, f"{name}:{row}", self._tokenizer):
                    yield Sentence(tokens, name, row)
            return
        if self._format is None and chosen == "text" and name != STDIN:
            screen.note(f"{name} is read as raw text; use --from tokens for one tokenised sentence per line")
        with LineReader(name) as self._reader:
            yield from formats.read(
                self._reader, name, chosen, tokenizer=self._tokenizer, column=self._column, keep=self._keep
            )

    def _refuse_columns(self, kind: str) -> None:
        if self._keep:
            raise ConfigError(f"--keep {self._keep[0]}: {kind} has no such column; give conllu, columns or jsonl")


def split_texts(texts: Sequence[str], format: str, language: str, contractions: str) -> list[list[str]]:
    """The sentences of texts that are arguments, never files. `format` is that of `TextOrTokens`."""
    choose("--from", format, ("text", "tokens"))
    if format == "tokens":
        return [text.split() for text in texts]
    return [tokens for text in texts for tokens in sentences.tokenize(text, language, contractions)]


def _looks_like_a_file(name: str) -> bool:
    """Whether it must be the name of a missing file, not a sentence. "Hello." and "e.g." are sentences."""
    suffix = Path(name).suffix
    is_one_word = not any(map(str.isspace, name))
    return (
        suffix.lower() in EXTENSIONS
        or _BACKSLASH.search(name) is not None
        or (is_one_word and ("/" in name or _EXTENSION.fullmatch(suffix) is not None))
    )


def is_file(name: str) -> bool:
    try:
        return name == STDIN or Path(name).exists()
    except OSError:  # too long to be a file name: it is a sentence
        return False


# The model

LOAD = LoadSettings()
ModelName = Annotated[
    str | None, typer.Option("--model", "-m", help="Model file or folder; default: the model bundled with stelmo.")
]

# Files of an old model that are not in the folder of its weights
_BESIDE = "if it is not in the same folder as the weights."
OptionsFile = Annotated[str | None, typer.Option("--options", help=f"The options.json, {_BESIDE}")]
VocabularyFile = Annotated[str | None, typer.Option("--vocabulary", help=f"The vocabulary, {_BESIDE}")]
SoftmaxFile = Annotated[str | None, typer.Option("--softmax", help=f"The softmax file, {_BESIDE}")]

# How it computes
_help = partial(help_of, LoadSettings)
NO_START = "this format has no warm state, so that sentences start from zeros (--state fresh), and vectors differ"
_BY_MODEL = "default: warm if the model has a warm state of its own, else fresh"
State = Annotated[str | None, typer.Option(help=_help("state"))]
StartState = Annotated[
    str | None,
    typer.Option("--state", help=f"State that every sentence starts from: warm or fresh (zeros); {_BY_MODEL}."),
]
Precision = Annotated[str, typer.Option(help=_help("precision"))]
Device = Annotated[str, typer.Option(help=_help("device"))]
Threads = Annotated[int | None, typer.Option(help=_help("threads"))]
BatchTokens = Annotated[int, typer.Option(help=_help("batch_tokens"))]

Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace the output if it exists.")]


def refuse_carry(state: str | None) -> None:
    """For commands whose results must not depend on the order of sentences."""
    if state is not None:
        choose("--state", state, ("warm", "fresh"))


def loaded(name: str | None, **settings: Any) -> "Model":
    """The model; warnings while loading are printed as notes."""
    from stelmo.embed.load import load  # imported here, because `--help` does not need torch

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = load(name, **settings)
    for warning in caught:
        screen.note(str(warning.message))
    return model


def label_of(name: str | None) -> str:
    """What the page and the service call a model."""
    if name is None:
        return "english"
    path = Path(name)
    return path.resolve().name if path.name in ("", "..") else path.name  # "." has no name


def layer_of(text: str) -> str | int:
    """The value of --layer: "2" → 2. Names, and what is not a layer at all, are left to the settings to check."""
    return int(text) if re.fullmatch(r"-?\d{1,9}", text) else text


# Old spellings → today's: the flags of the `allennlp elmo` command, and our own options that were renamed.
#
# allennlp elmo INPUT OUTPUT --all        one tokenised sentence per line → HDF5
# stelmo embed  INPUT OUTPUT --all        the same file, whatever its name; an existing one is replaced
#
# Every sentence starts from zeros, as in the first batch of the old command. With --state carry, the state is kept from
# batch to batch, as in its later batches.

_PANEL = "Flags of the old `allennlp elmo` command"
OLD_LAYERS = {"all": "all", "top": "top", "average": "mean"}
Value = TypeVar("Value")


def _flag(name: str, help_: str) -> object:
    return typer.Option(name, help=help_, rich_help_panel=_PANEL)


All = Annotated[bool, _flag("--all", "Same as --layer all --from tokens.")]
Top = Annotated[bool, _flag("--top", "Same as --layer top --from tokens.")]
Average = Annotated[bool, _flag("--average", "Same as --layer mean --from tokens.")]
BatchSize = Annotated[int | None, _flag("--batch-size", "Same as --batch-rows; only matters with --state carry.")]
CudaDevice = Annotated[int | None, _flag("--cuda-device", "Same as --device cuda:N; negative: cpu.")]
WeightFile = Annotated[str | None, _flag("--weight-file", "Same as --model.")]
OldOptionsFile = Annotated[str | None, _flag("--options-file", "Same as --options.")]
FileFriendlyLogging = Annotated[bool, _flag("--file-friendly-logging", "Accepted; not needed.")]
IncludePackage = Annotated[list[str] | None, _flag("--include-package", "Accepted; not needed.")]
VocabPath = Annotated[str | None, _flag("--vocab-path", "Not needed: each distinct word is encoded only once anyway.")]


class OldFlags(NamedTuple):
    """What the old flags ask for; None where they do not say."""

    layer: str | None
    format: str | None
    inputs: list[str]
    output: Path | None


def translate_old_flags(chosen: dict[str, bool], inputs: list[str], output: Path | None) -> OldFlags:
    """--all, --top or --average select the old command: tokenised lines, and the output as second argument."""
    given = [name for name, asked in chosen.items() if asked]
    if not given:
        return OldFlags(None, None, inputs, output)
    if len(given) > 1:
        raise ConfigError(f"--{' and --'.join(given)} cannot be combined; give one of them")
    if output is None and len(inputs) == 2:
        inputs, output = inputs[:1], Path(inputs[1])
    return OldFlags(OLD_LAYERS[given[0]], "tokens", inputs, output)


def device_of(number: int | None, otherwise: str) -> str:
    if number is None:
        return otherwise
    return f"cuda:{number}" if number >= 0 else "cpu"


def one_of(flag: str, old: str | None, name: str, new: str | None) -> str | None:
    """The value of two flags for the same thing, which must agree."""
    if old is not None and new is not None and old != new:
        raise ConfigError(f"{flag} {old} and {name} {new} disagree; give one of them")
    return new if old is None else old


def renamed(old: str, given: Value | None, new: str, value: Value) -> Value:
    """The value of an option that had another name in the last release; the old name still works, with a note."""
    if given is None:
        return value
    note_renamed(old, new)
    return given


def note_renamed(old: str, new: str) -> None:
    screen.note(f"{old} is now called {new}; the old spelling will stop working in the next release")
