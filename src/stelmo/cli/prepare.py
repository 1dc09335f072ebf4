"""`stelmo prepare`: text files → a corpus folder to train on."""

import os
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from stelmo.cli import screen
from stelmo.config import PrepareSettings, help_of, parse
from stelmo.errors import ConfigError

if TYPE_CHECKING:
    from stelmo.corpus.folder import Manifest
    from stelmo.corpus.prepare import Prepared

EXAMPLE = "Example: `stelmo prepare texts/ more.txt.xz --to corpus --size 50000`"
DEFAULT = PrepareSettings()

_help = partial(help_of, PrepareSettings)


def prepare(
    inputs: Annotated[
        list[str], typer.Argument(metavar="CORPUS...", help="Text files, plain or .gz .xz .zst, and folders of them.")
    ],
    to: Annotated[Path, typer.Option("--to", help="Folder to write.")],
    format: Annotated[str | None, typer.Option("--from", help=_help("format"))] = DEFAULT.format,
    language: Annotated[str, typer.Option(help=_help("language"))] = DEFAULT.language,
    contractions: Annotated[str, typer.Option(help=_help("contractions"))] = DEFAULT.contractions,
    size: Annotated[int | None, typer.Option(help=_help("size"))] = DEFAULT.size,
    min_count: Annotated[int | None, typer.Option(help=_help("min_count"))] = DEFAULT.min_count,
    vocabulary: Annotated[str | None, typer.Option(help=_help("vocabulary"))] = DEFAULT.vocabulary,
    heldout: Annotated[float, typer.Option(help=_help("heldout"))] = DEFAULT.heldout,
    seed: Annotated[int, typer.Option(help=_help("seed"))] = DEFAULT.seed,
    processes: Annotated[int | None, typer.Option(min=1, help="Processes; unset: one for each core.")] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the folder if it is there.")] = False,
) -> None:
    """Text files → vocabulary and shards to train on; the same command again goes on, or does nothing.

    Blank lines are passed over; tokens <S> and </S> in the text are left out, as they are the models' own marks.
    """
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
    try:
        done = run(inputs, to, settings, processes=processes or _cores(), overwrite=overwrite, progress=screen.progress)
    except KeyboardInterrupt:
        screen.complain("interrupted; the same command goes on where it stopped")
        raise typer.Exit(130) from None
    _report(to, done)


def _cores() -> int:
    """Those that this process may use, where the system can say."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _report(folder: Path, done: "Prepared") -> None:
    from stelmo.corpus.folder import describe

    if not done.made:
        screen.note(f"{folder} is there already, made of the same files with the same settings; nothing to do")
    for label, value in describe(done.manifest):
        typer.echo(f"{label:<14} {value}")
    if _heldout_is_large(done.manifest):
        screen.note("much more is held out than asked for: the sentences of a line stay together, and lines are long")


def _heldout_is_large(manifest: "Manifest") -> bool:
    found, asked = manifest.heldout.sentences, manifest.settings.heldout
    share = asked if asked < 1 else asked / (found + manifest.train.sentences)
    return found > 100 and found > 2 * share * (found + manifest.train.sentences)
