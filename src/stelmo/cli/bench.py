"""`stelmo bench`: how fast this machine embeds, compared with the baseline implementation."""

from pathlib import Path
from typing import Annotated

import typer

from stelmo.config import choose

EXAMPLE = "Example: `stelmo bench small full --picture speed.svg`"


def bench(
    sizes: Annotated[
        list[str] | None, typer.Argument(metavar="[SIZE]...", help="small, medium, full; default: small.")
    ] = None,
    rounds: Annotated[int, typer.Option(min=1, help="Number of measurements; the median is printed.")] = 3,
    threads: Annotated[int | None, typer.Option(min=1, help="CPU threads; default: torch's.")] = None,
    picture: Annotated[
        Path | None, typer.Option(help="Also measure batches of 1 to 1,024 rows and plot the result (.svg or .png).")
    ] = None,
) -> None:
    """Measure embedding speed in tokens per second, and compare it with the baseline implementation.

    Run nothing else on the machine at the same time.
    """
    import torch

    from stelmo import benchmark as speed
    from stelmo import plots as pictures

    chosen = sizes or ["small"]
    for size in chosen:
        choose("size", size, tuple(speed.SIZES))
    if picture is not None:
        pictures.refuse(picture)
    if threads is not None:
        torch.set_num_threads(threads)
    typer.echo(
        f"{torch.get_num_threads()} threads, {torch.backends.cpu.get_cpu_capability()}, torch {torch.__version__}, "
        f"tokens per second, median of {rounds} interleaved rounds\n"
    )
    for line in speed.table({size: speed.measure(size, rounds) for size in chosen}):
        typer.echo(line)
    if picture is not None:
        _draw(chosen, rounds, picture)


def _draw(sizes: list[str], rounds: int, picture: Path) -> None:
    from stelmo import benchmark as speed
    from stelmo import plots as pictures

    rates = {size: speed.by_rows(size, rounds) for size in sizes}
    typer.echo("\n| rows | " + " | ".join(map(str, speed.ROWS)) + " |\n|" + "---|" * (len(speed.ROWS) + 1))
    for size, found in rates.items():
        typer.echo(f"| {size} | " + " | ".join(f"{rate:,.0f}" for rate in found.values()) + " |")
    series = {size: [(float(rows), rate) for rows, rate in found.items()] for size, found in rates.items()}
    title = "Speed by batch size"
    pictures.lines(picture, series, x="rows per batch", y="tokens per second", title=title, log_x=True, log_y=True)
    typer.echo(f"\n{picture}: written")
