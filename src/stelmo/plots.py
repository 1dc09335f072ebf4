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
    from matplotlib.figure import Figure

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
        from matplotlib.ticker import EngFormatter, LogLocator, StrMethodFormatter

        for name, points in series.items():
            marker = "o" if len(points) < 40 else None
            axes.plot(*zip(*points, strict=True), label=name, marker=marker, markersize=3)
        if log_x:
            places = sorted({place for points in series.values() for place, _ in points})
            axes.set_xscale("log", base=2)
            axes.set_xticks(places, [f"{place:,g}" for place in places])  # the measured values, not powers of two
        elif max(place for points in series.values() for place, _ in points) >= 100_000:
            axes.xaxis.set_major_formatter(EngFormatter())  # 2 M instead of 2 and 1e6 at the end of the axis
        if log_y:
            axes.set_yscale("log")
            axes.yaxis.set_major_formatter(StrMethodFormatter("{x:,g}"))  # 200 instead of 2 × 10²
            axes.yaxis.set_minor_locator(LogLocator(subs=(2, 3, 5)))
            axes.yaxis.set_minor_formatter(StrMethodFormatter("{x:,g}"))

    _save(path, draw, x, y, title, legend=len(series) > 1)


def panels(path: Path, panels: Mapping[str, Mapping[str, Points]], *, x: str, y: str, title: str) -> None:
    """Plots in rows of two, each with one line for each series; a series has the same colour in all."""
    names = list(dict.fromkeys(name for series in panels.values() for name in series))
    rows = (len(panels) + 1) // 2

    def draw(figure: "Figure") -> None:
        places = [figure.add_subplot(rows, 2, place + 1) for place in range(len(panels))]
        for place, (axes, (about, series)) in enumerate(zip(places, panels.items(), strict=True)):
            for name, points in series.items():
                axes.plot(*zip(*points, strict=True), f"C{names.index(name)}o-", label=name, markersize=3)
            axes.set(xlabel=x, ylabel="" if place % 2 else y, title=about)
            axes.grid(alpha=0.3)
            axes.locator_params(axis="x", integer=True)
        figure.suptitle(title)
        drawn = {line.get_label(): line for axes in places for line in axes.get_lines()}
        figure.legend([drawn[name] for name in names], names, loc="outside lower center", ncols=len(names))

    _write(path, draw, (_SIZE[0], 3.2 * rows + 0.6))


def bars(path: Path, values: Mapping[str, float], *, x: str, title: str) -> None:
    """One horizontal bar for each name, from top to bottom: names have room beside them."""

    def draw(axes: "Axes") -> None:
        drawn = axes.barh(list(values), list(values.values()))
        axes.bar_label(drawn, fmt="{:,.4g}", padding=3)
        axes.margins(x=0.12)
        axes.invert_yaxis()

    _save(path, draw, x, "", title, legend=False)


def intervals(
    path: Path,
    values: Mapping[str, tuple[float, float, float]],
    marks: Mapping[str, float],
    *,
    names: tuple[str, str],
    x: str,
    title: str,
) -> None:
    """For each row, from top to bottom, a point with its interval (value, low, high), and a mark to compare it with."""

    def draw(axes: "Axes") -> None:
        value, low, high = map(list, zip(*values.values(), strict=True))
        below, above = ([abs(a - b) for a, b in zip(value, ends, strict=True)] for ends in (low, high))
        axes.axvline(0.0, color="grey", linewidth=1)
        axes.errorbar(value, list(values), xerr=(below, above), fmt="o", capsize=4, label=names[0])
        axes.plot([marks[row] for row in values], list(values), "D", markerfacecolor="none", label=names[1])
        axes.margins(y=0.15)
        axes.invert_yaxis()

    _save(path, draw, x, "", title, legend=True)


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
    """A picture with one pair of axes."""

    def draw_one(figure: "Figure") -> None:
        axes = figure.add_subplot()
        axes.grid(alpha=0.3)
        draw(axes)
        axes.set(xlabel=x, ylabel=y, title=title)
        if legend:
            axes.legend()

    _write(path, draw_one, _SIZE)


def _write(path: Path, draw: "Callable[[Figure], None]", size: tuple[float, float]) -> None:
    refuse(path)
    import matplotlib as mpl
    from matplotlib.figure import Figure

    with mpl.rc_context({"svg.hashsalt": "stelmo"}):  # else the names inside an SVG are random
        figure = Figure(figsize=size, layout="constrained")
        draw(figure)
        with atomic.new_file(path, overwrite=True) as draft:
            figure.savefig(draft, metadata={"Date": None} if path.suffix == ".svg" else None, dpi=120)
