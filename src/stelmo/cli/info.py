"""`stelmo info`: what a model, a corpus, a training run or a vector file is."""

from pathlib import Path
from typing import Annotated

import typer

EXAMPLE = "Example: `stelmo info elmo_weights.hdf5`"


def info(
    path: Annotated[Path, typer.Argument(metavar="PATH", help="Model, corpus, training run, or file of vectors.")],
) -> None:
    """What a model, a corpus, a training run or a vector file is."""
    from stelmo.cli.describe import describe

    for label, value in describe(path):
        typer.echo(f"{label:<14} {value}")
