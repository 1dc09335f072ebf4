"""Numbers → a picture file, .svg or .png. Does not know what the numbers mean.

The same numbers give the same bytes. Drawn without a display: pyplot's global state is not used.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from stelmo.errors import OutputError
from stelmo.store import atomic

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Points = Sequence[tuple[float, float]]
ENDINGS = (".svg", ".png")
_SIZE = (7.0, 4.2)  # inches


def lines(
    path: Path,
    series: Mapping[str, Points],
    *,
    x: str,
    y: str,
    title: str,
    log_x: bool = False,
    log_y: bool = False,
) -> None:
    """One line for each series of (x, y)."""

    def draw(axes: "Axes") -> None:
        for name, points in series.items():
            marker = "o" if len(points) < 40 else None
            axes.plot(*zip(*points, strict=True), label=name, marker=marker, markersize=3)
        if log_x:
            places = sorted({place for points in series.values() for place, _ in points})
            axes.set_xscale("log", base=2)
            axes.set_xticks(places, [f"{place:,g}" for place in places])  # the measured values, not powers of two
        if log_y:
            axes.set_yscale("log")

    _save(path, draw, x, y, title, legend=len(series) > 1)


def bars(path: Path, values: Mapping[str, float], *, x: str, title: str) -> None:
    """One horizontal bar for each name, from the top, so that names have room."""

    def draw(axes: "Axes") -> None:
        drawn = axes.barh(list(values), list(values.values()))
        axes.bar_label(drawn, fmt="{:,.4g}", padding=3)
        axes.margins(x=0.12)
        axes.invert_yaxis()

    _save(path, draw, x, "", title, legend=False)


def heat(path: Path, rows: Mapping[str, Sequence[float]], *, x: str, title: str) -> None:
    """A heat map with one row for each name, and the numbers in its cells."""

    def draw(axes: "Axes") -> None:
        axes.imshow(list(rows.values()), aspect="auto", cmap="Blues", vmin=0.0)
        axes.set_yticks(range(len(rows)), list(rows))
        axes.set_xticks(range(max(map(len, rows.values()))))
        middle = max(map(max, rows.values())) / 2
        for row, shares in enumerate(rows.values()):
            for column, share in enumerate(shares):
                ink = "white" if share > middle else "black"
                axes.text(column, row, f"{share:.2f}", ha="center", va="center", color=ink)
        axes.grid(visible=False)

    _save(path, draw, x, "", title, legend=False)


def refuse(path: Path) -> None:
    """Refuse a path that a picture cannot be written to, before any work."""
    if path.suffix not in ENDINGS:
        raise OutputError(f"{path}: a picture ends in {' or '.join(ENDINGS)}")
    atomic.refuse_existing(path, overwrite=True)


def _save(path: Path, draw: "Callable[[Axes], None]", x: str, y: str, title: str, legend: bool) -> None:
    refuse(path)
    import matplotlib as mpl
    from matplotlib.figure import Figure

    with mpl.rc_context({"svg.hashsalt": "stelmo"}):  # otherwise the ids inside an SVG are random
        figure = Figure(figsize=_SIZE, layout="constrained")
        axes = figure.add_subplot()
        axes.grid(alpha=0.3)
        draw(axes)
        axes.set(xlabel=x, ylabel=y, title=title)
        if legend:
            axes.legend()
        with atomic.new_file(path, overwrite=True) as draft:
            figure.savefig(draft, metadata={"Date": None} if path.suffix == ".svg" else None, dpi=120)
