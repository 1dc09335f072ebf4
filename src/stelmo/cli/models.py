"""The model that a command works with: its options, and loading it."""

import warnings
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from stelmo.cli import screen
from stelmo.config import choose, help_of
from stelmo.settings import LoadSettings

if TYPE_CHECKING:
    from stelmo.embed.model import Model

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
