"""`stelmo embed` into a file: here, as a part of many, or on a cluster; and the options that say so. Knows no model."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, NamedTuple

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


class Job(NamedTuple):
    """What is to be written into a file, however it is computed."""

    model: str | None
    compute: dict[str, Any]  # how the model is loaded
    found: Inputs
    output: Path
    settings: OutputSettings
    overwrite: bool


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


def write(job: Job, shard: str | None, ray: str | None, workers: int | None) -> None:
    """On a cluster, a part of it, or all of it here."""
    if ray is not None:
        _write_on_ray(ray, workers, job)
    elif shard is not None:
        _write_shard(shard, job)
    else:
        _write_here(job)


def _write_here(job: Job) -> None:
    from stelmo.jobs import run

    run.refuse_output(job.output, job.overwrite)
    model = loaded(job.model, **job.compute)
    with interruptible(), screen.progress("embedding", job.found.fraction) as advance:
        done = run.embed_to_file(model, job.found, job.output, job.settings, overwrite=job.overwrite, advance=advance)
    _note_finished(job.output, done.made)
    typer.echo(f"{job.output}: {done.sentences:,} sentences, {model.config.width} numbers a {job.settings.unit}")


def _write_shard(text: str, job: Job) -> None:
    from stelmo.jobs import shards

    shard = shards.Shard.parse(text)
    shards.refuse_output(job.output, shard, job.overwrite)
    model = loaded(job.model, **job.compute)
    with interruptible(), screen.progress("embedding", job.found.fraction) as advance:
        done = shards.embed_shard(
            model, job.found, job.output, job.settings, shard, overwrite=job.overwrite, advance=advance
        )
    _note_finished(done.folder, done.made)
    typer.echo(
        f"{done.folder}: {done.sentences:,} sentences; with all {shard.of} parts: stelmo embed --merge -o {job.output}"
    )


def merge(folders: Sequence[str], output: Path, overwrite: bool) -> None:
    from stelmo.jobs import shards

    done = shards.merge([Path(folder) for folder in folders], output, overwrite=overwrite)
    _note_finished(output, done.made)
    typer.echo(f"{output}: {done.sentences:,} sentences; the parts are not needed any more")


def _note_finished(output: Path, made: bool) -> None:
    if not made:
        screen.note(f"{output} is finished already, from the same text with the same settings; nothing to do")


def _write_on_ray(address: str, workers: int | None, job: Job) -> None:
    from stelmo.integrations import ray
    from stelmo.jobs import shared_folder

    shared_folder.refuse_output(job.output, job.overwrite)
    cores = None if workers is None else workers * (job.compute["threads"] or 1)
    with ray.cluster(address, cores), interruptible(), screen.progress("embedding", lambda: None) as advance:
        count = ray.embed_sentences(
            job.found,
            job.output,
            model=job.model,
            workers=workers,
            overwrite=job.overwrite,
            advance=advance,
            say=screen.note,
            **job.compute,
            **job.settings.model_dump(),
        )
    files = len(list(job.output.iterdir()))
    typer.echo(f"{job.output}: {count:,} sentences in {files:,} Parquet file{'s' if files > 1 else ''}")


@contextmanager
def interruptible() -> Iterator[None]:
    """Ctrl-C ends a run without a traceback: finished blocks are kept."""
    try:
        yield
    except KeyboardInterrupt:
        screen.complain("interrupted; the same command goes on where it stopped")
        raise typer.Exit(130) from None
