"""`stelmo bench`: embedding speed, compared with the baseline implementation, or of models compared with each other."""

import json
from pathlib import Path
from typing import Annotated

import typer

from stelmo.cli.arguments import loaded
from stelmo.config import choose
from stelmo.errors import ConfigError

EXAMPLE = (
    "Example: `stelmo bench small full --picture speed.svg`, or `stelmo bench run-lstm/model run-cnn/model --threads 1`"
)


def bench(
    sizes: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[SIZE|MODEL]...",
            help="small, medium, full; default: small. Or model files and folders to compare with each other.",
        ),
    ] = None,
    rounds: Annotated[int, typer.Option(min=1, help="Number of measurements; the median is printed.")] = 3,
    threads: Annotated[int | None, typer.Option(min=1, help="CPU threads; default: torch's.")] = None,
    clock: Annotated[
        str, typer.Option(help="For models: wall, or processor, which other work on the machine changes less.")
    ] = "wall",
    as_json: Annotated[bool, typer.Option("--json", help="For models: print one JSON object per model.")] = False,
    picture: Annotated[
        Path | None, typer.Option(help="Also measure batches of 1 to 1,024 rows and plot the result (.svg or .png).")
    ] = None,
) -> None:
    """Measure embedding speed in tokens per second, and compare it with the baseline implementation,
    or several models with each other.

    Run nothing else on the machine at the same time.
    """
    import torch

    from stelmo import benchmark, plots

    chosen = sizes or ["small"]
    choose("--clock", clock, tuple(benchmark.CLOCKS))
    known = ", ".join(benchmark.SIZES)
    unknown = [name for name in chosen if name not in benchmark.SIZES]
    of_models = len(unknown) == len(chosen)
    if unknown and not of_models:
        raise ConfigError(f"{unknown[0]!r} is not a size ({known}); sizes and models cannot be combined")
    for name in unknown:
        if not Path(name).exists():
            raise ConfigError(f"{name!r} is neither a size ({known}) nor a model file or folder")
    if of_models and picture is not None:
        raise ConfigError(f"--picture {picture}: only for sizes; leave it out to compare models")
    if not of_models and (as_json or clock != "wall"):
        raise ConfigError("--json and --clock: only to compare models; leave them out for sizes")
    if picture is not None:
        plots.refuse(picture)
    if threads is not None:
        torch.set_num_threads(threads)
    if of_models:
        _compare(chosen, rounds, clock, as_json)
        return
    typer.echo(
        f"{torch.get_num_threads()} threads, {torch.backends.cpu.get_cpu_capability()}, torch {torch.__version__}, "
        f"tokens per second, median of {rounds} interleaved rounds\n"
    )
    for line in benchmark.table({size: benchmark.measure(size, rounds) for size in chosen}):
        typer.echo(line)
    if picture is None:
        return
    rates = {size: benchmark.by_rows(size, rounds) for size in chosen}
    typer.echo("\n| rows | " + " | ".join(map(str, benchmark.ROWS)) + " |\n|" + "---|" * (len(benchmark.ROWS) + 1))
    for size, found in rates.items():
        typer.echo(f"| {size} | " + " | ".join(f"{rate:,.0f}" for rate in found.values()) + " |")
    series = {size: [(float(rows), rate) for rows, rate in found.items()] for size, found in rates.items()}
    title = "Speed by batch size"
    plots.lines(picture, series, x="rows per batch", y="tokens per second", title=title, log_x=True, log_y=True)
    typer.echo(f"\n{picture}: written")


def _compare(names: list[str], rounds: int, clock: str, as_json: bool) -> None:
    """A row for each model; in the printed table with ratios to the first."""
    from stelmo import benchmark

    models = {name: loaded(name) for name in dict.fromkeys(names)}
    found = benchmark.compare(models, rounds, benchmark.CLOCKS[clock])
    sizes = {name: sum(tensor.numel() for tensor in model.bilm.parameters()) for name, model in models.items()}
    if as_json:
        for name, rates in found.items():
            typer.echo(json.dumps({"model": name, "parameters": sizes[name], **rates}))
        return
    first = found[names[0]]
    typer.echo(f"tokens per second ({clock} clock), median of {rounds} interleaved rounds; × the first model\n")
    typer.echo("| model | parameters | " + " | ".join(first) + " |\n|---|---|" + "---|" * len(first))
    for name, rates in found.items():
        cells = (f"{rate:,.0f} ({rate / first[way]:.2f}×)" for way, rate in rates.items())
        typer.echo(f"| {name} | {sizes[name] / 1e6:.2f} M | " + " | ".join(cells) + " |")
