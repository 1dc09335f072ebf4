"""The model a verb works with: its option, and loading it."""

import warnings
from typing import TYPE_CHECKING, Annotated, Any

import typer

from stelmo.cli import screen
from stelmo.config import LoadSettings

if TYPE_CHECKING:
    from stelmo.embed.model import Model

LOAD = LoadSettings()
ModelName = Annotated[
    str | None, typer.Option("--model", "-m", help="Model file or folder; unset: the one that comes with stelmo.")
]


def loaded(name: str | None, **settings: Any) -> "Model":
    """The model; what it has to say goes to the error stream as a note."""
    from stelmo.embed.load import load  # here, because `--help` needs no torch

    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        model = load(name, **settings)
    for warning in said:
        screen.note(str(warning.message))
    return model
