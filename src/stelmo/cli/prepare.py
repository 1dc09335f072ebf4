"""`stelmo prepare`: text files → a corpus folder to train on."""

import os
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from stelmo.cli import screen
from stelmo.config import help_of, parse
from stelmo.errors import ConfigError
from stelmo.settings import PrepareSettings

if TYPE_CHECKING:
    from stelmo.corpus.folder import Manifest

EXAMPLE = "Example: `stelmo prepare texts/ more.txt.xz --to corpus --size 50000`"
DEFAULT = PrepareSettings()

_help = partial(help_of, PrepareSettings)


def prepare(
    inputs: Annotated[
        list[str], typer.Argument(metavar="CORPUS...", help="Text files, plain or .gz .xz .zst, and folders of them.")
    ],
    to: Annotated[Path, typer.Option("--to", help="Output folder.")],
    format: Annotated[str | None, typer.Option("--from", help=_help("format"))] = DEFAULT.format,
    language: Annotated[str, typer.Option(help=_help("language"))] = DEFAULT.language,
    contractions: Annotated[str, typer.Option(help=_help("contractions"))] = DEFAULT.contractions,
    size: Annotated[int | None, typer.Option(help=_help("size"))] = DEFAULT.size,
    min_count: Annotated[int | None, typer.Option(help=_help("min_count"))] = DEFAULT.min_count,
    vocabulary: Annotated[str | None, typer.Option(help=_help("vocabulary"))] = DEFAULT.vocabulary,
    heldout: Annotated[float, typer.Option(help=_help("heldout"))] = DEFAULT.heldout,
    seed: Annotated[int, typer.Option(help=_help("seed"))] = DEFAULT.seed,
    processes: Annotated[int | None, typer.Option(min=1, help="Processes; default: one per core.")] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the folder if it exists.")] = False,
) -> None:
    """Turn text files into a corpus to train on: a vocabulary and shards of word ids.

    The same command again resumes, or does nothing if the corpus is complete. Blank lines are skipped; the tokens
    `<S>` and `</S>` are dropped, because the models use them as sentence markers.
    """
    from stelmo.corpus.folder import describe
    from stelmo.corpus.prepare import prepare as run

    values = {
        "format": format,
        "language": language,
        "contractions": contractions,
        "size": size,
        "min_count": min_count,
        "vocabulary": vocabulary,
        "heldout": heldout,
        "seed": seed,
    }
    settings = parse(PrepareSettings, values, "prepare", ConfigError)
    # Cores that this process is allowed to use; not every system reports them.
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    done = run(inputs, to, settings, processes=processes or cores, overwrite=overwrite, progress=screen.progress)
    if not done.made:
        screen.note(f"{to} already exists, made from the same files with the same settings; nothing to do")
    for label, value in describe(done.manifest):
        typer.echo(f"{label:<14} {value}")
    if _heldout_is_large(done.manifest):
        screen.note(
            "much more text is held out than requested: the sentences of a line stay together, and the lines are long"
        )


def _heldout_is_large(manifest: "Manifest") -> bool:
    found, asked = manifest.heldout.sentences, manifest.settings.heldout
    share = asked if asked < 1 else asked / (found + manifest.train.sentences)
    return found > 100 and found > 2 * share * (found + manifest.train.sentences)
