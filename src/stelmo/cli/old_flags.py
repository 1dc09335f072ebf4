"""Old spellings → today's: the flags of the `allennlp elmo` command, and our own options that were renamed.

allennlp elmo INPUT OUTPUT --all        one tokenised sentence per line → HDF5
stelmo embed  INPUT OUTPUT --all        the same file, whatever its name; an existing one is replaced

Every sentence starts from zeros, as in the first batch of the old command; --state carry gives the later ones, too.
"""

from pathlib import Path
from typing import Annotated, NamedTuple, TypeVar

import typer

from stelmo.cli import screen
from stelmo.errors import ConfigError

_PANEL = "Flags of the old `allennlp elmo` command"
LAYERS = {"all": "all", "top": "top", "average": "mean"}
Value = TypeVar("Value")


def _flag(name: str, help_: str) -> object:
    return typer.Option(name, help=help_, rich_help_panel=_PANEL)


All = Annotated[bool, _flag("--all", "Same as --layer all --from tokens.")]
Top = Annotated[bool, _flag("--top", "Same as --layer top --from tokens.")]
Average = Annotated[bool, _flag("--average", "Same as --layer mean --from tokens.")]
BatchSize = Annotated[int | None, _flag("--batch-size", "Same as --batch-rows; only matters with --state carry.")]
CudaDevice = Annotated[int | None, _flag("--cuda-device", "Same as --device cuda:N; negative: cpu.")]
WeightFile = Annotated[str | None, _flag("--weight-file", "Same as --model.")]
OptionsFile = Annotated[str | None, _flag("--options-file", "The options.json, if it is not beside the weights.")]
FileFriendlyLogging = Annotated[bool, _flag("--file-friendly-logging", "Accepted; not needed.")]
IncludePackage = Annotated[list[str] | None, _flag("--include-package", "Accepted; not needed.")]
VocabPath = Annotated[str | None, _flag("--vocab-path", "Not needed: each distinct word is encoded only once anyway.")]


class Asked(NamedTuple):
    """What the old flags ask for; None where they do not say."""

    layer: str | None
    format: str | None
    inputs: list[str]
    output: Path | None


def translated(chosen: dict[str, bool], inputs: list[str], output: Path | None) -> Asked:
    """--all, --top or --average select the old command: tokenised lines, and the output as second argument."""
    given = [name for name, asked in chosen.items() if asked]
    if not given:
        return Asked(None, None, inputs, output)
    if len(given) > 1:
        raise ConfigError(f"--{' and --'.join(given)} exclude each other; give one of them")
    if output is None and len(inputs) == 2:
        inputs, output = inputs[:1], Path(inputs[1])
    return Asked(LAYERS[given[0]], "tokens", inputs, output)


def device(number: int | None, otherwise: str) -> str:
    if number is None:
        return otherwise
    return f"cuda:{number}" if number >= 0 else "cpu"


def one_of(flag: str, old: str | None, name: str, new: str | None) -> str | None:
    """Two flags for the same thing must agree."""
    if old is not None and new is not None and old != new:
        raise ConfigError(f"{flag} {old} and {name} {new} disagree; give one of them")
    return new if old is None else old


def renamed(old: str, given: Value | None, new: str, value: Value) -> Value:
    """The value of an option that had another name in the last release; the old name still works, with a note."""
    if given is None:
        return value
    note(old, new)
    return given


def note(old: str, new: str) -> None:
    screen.note(f"{old} is now called {new}; the old spelling will stop working in the next release")
