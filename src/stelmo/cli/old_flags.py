"""Flags of the old `allennlp elmo` command → those of `stelmo embed`. Knows no model.

allennlp elmo INPUT OUTPUT --all        one tokenised sentence a line → HDF5
stelmo embed  INPUT OUTPUT --all        the same file, each sentence on its own unless --state carry is given
"""

from pathlib import Path
from typing import Annotated, NamedTuple

import typer

from stelmo.cli import screen
from stelmo.errors import ConfigError

_PANEL = "Flags of the old elmo command"
LAYERS = {"all": "all", "top": "top", "average": "mean"}


def _flag(name: str, help_: str) -> object:
    return typer.Option(name, help=help_, rich_help_panel=_PANEL)


All = Annotated[bool, _flag("--all", "As --layer all --from tokens.")]
Top = Annotated[bool, _flag("--top", "As --layer top --from tokens.")]
Average = Annotated[bool, _flag("--average", "As --layer mean --from tokens.")]
BatchSize = Annotated[int | None, _flag("--batch-size", "As --batch-rows; it matters with --state carry alone.")]
CudaDevice = Annotated[int | None, _flag("--cuda-device", "As --device cuda:N; below 0: cpu.")]
WeightFile = Annotated[str | None, _flag("--weight-file", "As --model.")]
OptionsFile = Annotated[str | None, _flag("--options-file", "The options.json, if it is not beside the weights.")]
VocabPath = Annotated[str | None, _flag("--vocab-path", "Not needed: a word is encoded once in any case.")]


class Asked(NamedTuple):
    """What the old flags say; None where they say nothing."""

    layer: str | None
    format: str | None
    inputs: list[str]
    output: Path | None


def translated(chosen: dict[str, bool], inputs: list[str], output: Path | None) -> Asked:
    """One of --all, --top and --average asks for the old command: tokenised lines, and the output as second name."""
    given = [name for name, asked in chosen.items() if asked]
    if not given:
        return Asked(None, None, inputs, output)
    if len(given) > 1:
        raise ConfigError(f"--{' and --'.join(given)}: one of them at a time")
    if output is None and len(inputs) == 2:
        inputs, output = inputs[:1], Path(inputs[1])
    return Asked(LAYERS[given[0]], "tokens", inputs, output)


def device(number: int | None, otherwise: str) -> str:
    if number is None:
        return otherwise
    return f"cuda:{number}" if number >= 0 else "cpu"


def one_of(flag: str, old: str | None, name: str, new: str | None) -> str | None:
    """Two flags for one thing must not disagree."""
    if old is not None and new is not None and old != new:
        raise ConfigError(f"{flag} {old} and {name} {new}: give one of them")
    return new if old is None else old


def not_needed(path: str | None) -> None:
    if path is not None:
        screen.note("--vocab-path is not needed: a word is encoded once in any case")
