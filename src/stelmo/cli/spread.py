"""Options of `stelmo embed` that spread a corpus over processes and machines, and what they do. Knows no model."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from stelmo.cli import screen
from stelmo.cli.inputs import Inputs
from stelmo.cli.models import loaded
from stelmo.config import OutputSettings
from stelmo.errors import ConfigError

_PANEL = "Many processes"


def _option(name: str, help_: str, **more: Any) -> Any:
    return typer.Option(name, help=help_, rich_help_panel=_PANEL, **more)


ShardOption = Annotated[
    str | None,
    _option("--shard", "Compute the I-th of N parts of the output, beside it; --merge joins them.", metavar="I/N"),
]
Merge = Annotated[bool, _option("--merge", "Join finished parts (the inputs; unset: those beside the output).")]
Ray = Annotated[
    str | None,
    _option(
        "--ray",
        "Compute on a Ray cluster, into a folder of Parquet files: local (one on this machine), auto, HOST:PORT.",
        metavar="ADDRESS",
    ),
]
Workers = Annotated[
    int | None, _option("--workers", "Processes of --ray, a model each; unset: as the cores allow.", min=1)
]


def refuse(shard: str | None, merge: bool, ray: str | None, workers: int | None, output: Path | None) -> None:
    """One way to spread at a time, and into a file."""
    ways = {"--shard": shard is not None, "--merge": merge, "--ray": ray is not None}
    given = [name for name, asked in ways.items() if asked]
    if len(given) > 1:
        raise ConfigError(f"{' and '.join(given)}: one of them at a time")
    if given and (output is None or str(output) == "-"):
        raise ConfigError(f"{given[0]} writes to disk; name the output with -o FILE")
    if workers is not None and ray is None:
        raise ConfigError("--workers is of --ray; add --ray local for a cluster on this machine")


def write_shard(
    text: str,
    name: str | None,
    compute: dict[str, Any],
    found: Inputs,
    output: Path,
    settings: OutputSettings,
    overwrite: bool,
) -> None:
    from stelmo.embed import shards

    shard = shards.Shard.parse(text)
    shards.refuse_output(output, shard, overwrite)
    model = loaded(name, **compute)
    with interruptible(), screen.progress("embedding", found.fraction) as advance:
        done = shards.embed_shard(model, found, output, settings, shard, overwrite=overwrite, advance=advance)
    typer.echo(
        f"{done.folder}: {done.sentences:,} sentences; with all {shard.of} parts: stelmo embed --merge -o {output}"
    )


def merge(folders: Sequence[str], output: Path, overwrite: bool) -> None:
    from stelmo.embed import shards

    count = shards.merge([Path(folder) for folder in folders], output, overwrite=overwrite)
    typer.echo(f"{output}: {count:,} sentences; the parts are not needed any more")


def write_on_ray(
    address: str,
    workers: int | None,
    name: str | None,
    compute: dict[str, Any],
    found: Inputs,
    output: Path,
    settings: OutputSettings,
    overwrite: bool,
) -> None:
    from stelmo.embed import spool
    from stelmo.integrations import ray

    spool.refuse_output(output, overwrite)
    cores = None if workers is None else workers * (compute["threads"] or 1)
    with (
        ray.cluster(address, cores),
        interruptible(),
        screen.progress("embedding", lambda: None) as advance,
    ):
        count = ray.embed_sentences(
            found,
            output,
            model=name,
            workers=workers,
            overwrite=overwrite,
            advance=advance,
            say=screen.note,
            **compute,
            **settings.model_dump(),
        )
    files = len(list(output.iterdir()))
    typer.echo(f"{output}: {count:,} sentences in {files:,} Parquet file{'s' if files > 1 else ''}")


@contextmanager
def interruptible() -> Iterator[None]:
    """Ctrl-C ends a run without a traceback: finished blocks are kept."""
    try:
        yield
    except KeyboardInterrupt:
        screen.complain("interrupted; the same command goes on where it stopped")
        raise typer.Exit(130) from None
