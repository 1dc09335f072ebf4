"""Several probes of several sources of vectors → their rows, each finished part kept on disk, and one table of them.

A part is one probe of one source. It is kept under a digest of all that decides its figures: the probe, its options,
its data, and the model or file the vectors come from. So an interrupted measurement resumes, and the baselines are not
measured again for the next checkpoint of a model.
"""

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from stelmo.embed.transformer import digest
from stelmo.errors import ConfigError, DataError
from stelmo.probes import run
from stelmo.probes.embedding import Advance, Source
from stelmo.probes.run import HEADLINES, Row, by_method, no_progress
from stelmo.store import atomic

PROBES: dict[str, Callable[..., list[Row]]] = {
    "wsd": run.wsd,
    "pos": run.pos,
    "wic": run.wic,
    "coarse": run.coarse,
    "scws": run.scws,
}
TITLES = {
    "wsd": "word senses",
    "pos": "parts of speech",
    "wic": "word in context",
    "coarse": "CoarseWSD-20",
    "scws": "SCWS",
}
FOLDERS = {"wsd": ("wsd",), "pos": ("pos",), "wic": ("wic",), "coarse": ("coarsewsd20", "coarse"), "scws": ("scws",)}
EDITION = 1  # raised when the figures of a probe change, so that kept ones are not used

Options = Mapping[str, Any]
Found = dict[str, list[Row]]  # probe → rows


def find(data: Path, probes: Sequence[str]) -> dict[str, Path]:
    """Probe → its folder, by name, anywhere below `data`; probes without data are left out."""
    if not data.is_dir():
        raise DataError(f"{data}: no such folder; give the folder that holds the probes' data")
    found = {}
    for probe in probes:
        folders = [path for name in FOLDERS[probe] for path in sorted(data.rglob(name)) if path.is_dir()]
        if folders:
            found[probe] = folders[0]
            if probe == "pos":  # the treebank is there, or in a folder such as pos/ud_ewt
                treebanks = sorted(folders[0].rglob("*train.conllu*"))
                found[probe] = treebanks[0].parent if treebanks else folders[0]
    if not found:
        names = ", ".join(FOLDERS[probe][0] for probe in probes)
        raise DataError(f"{data}: none of the folders {names} below it; give the folder that holds them")
    return found


def measure(
    probe: str,
    folder: Path,
    sources: Sequence[Source],
    options: Options,
    cache: Path | None = None,
    advance: Advance = no_progress,
) -> list[Row]:
    """The rows of all sources, grouped by method. With `cache`, finished parts are read from there."""
    names = Counter(name for source in sources for name in source.names)
    for name, times in names.items():
        if times > 1:
            raise ConfigError(f"two sources of vectors are called {name!r}; rename a file or folder")
    rows: list[Row] = []
    data = digest(folder) if cache is not None else ""
    for done, source in enumerate(sources):

        def of_all(tokens: int, share: float, done: int = done) -> None:
            advance(tokens, (done + share) / len(sources))

        kept = _kept_in(cache, probe, data, source, options)
        if kept is not None and kept.is_file():
            rows += _read(kept)
            of_all(0, 1.0)
            continue
        found = PROBES[probe](folder, [source], advance=of_all, **options)
        if kept is not None:
            kept.parent.mkdir(parents=True, exist_ok=True)
            with atomic.new_file(kept, overwrite=True) as draft:
                note = {"probe": probe, "vectors": source.names, "rows": found}
                draft.write_text(json.dumps(note, indent=1) + "\n")
        rows += found
    return by_method(rows)


def _kept_in(cache: Path | None, probe: str, data: str, source: Source, options: Options) -> Path | None:
    if cache is None or source.identity is None:
        return None
    decided_by = [EDITION, probe, data, source.names, source.identity(), dict(options)]
    return cache / f"{probe}-{hashlib.sha256(json.dumps(decided_by).encode()).hexdigest()[:32]}.json"


def _read(path: Path) -> list[Row]:
    try:
        return [Row(*row) for row in json.loads(path.read_text(encoding="utf-8"))["rows"]]
    except (OSError, ValueError, TypeError, KeyError) as problem:
        raise DataError(f"{path}: not the rows of a probe ({problem}); delete it to measure them again") from None


# Tables


class Summary(NamedTuple):
    """Methods down, vectors across; a cell is empty where a method has no such figure."""

    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    def markdown(self) -> str:
        lines = [self.head, ("---", *["---:"] * (len(self.head) - 1)), *self.rows]
        return "".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |\n" for line in lines)


def table(rows: Sequence[Row], figure: str, kinds: Sequence[str] | None = None) -> Summary | None:
    """One figure of one probe, by method and kind of vectors; None if no row has it."""
    kinds = _kinds(rows) if kinds is None else kinds
    found = {(row.method, row.vectors): f"{row.figures[figure]:.1f}" for row in rows if figure in row.figures}
    methods = dict.fromkeys(method for method, _ in found)
    lines = tuple((method, *(found.get((method, kind), "") for kind in kinds)) for method in methods)
    return Summary(("", *(kind or "no vectors" for kind in kinds)), lines) if lines else None


def summary(found: Found) -> Summary:
    """The headline figures of every probe, in percent."""
    kinds = _kinds([row for rows in found.values() for row in rows])
    lines = []
    for probe, rows in found.items():
        for figure in HEADLINES[probe]:
            of_figure = table(rows, figure, kinds)
            for method, *cells in of_figure.rows if of_figure else ():
                lines.append((f"{TITLES[probe]}, {method}: {figure}", *cells))
    return Summary(("percent", *(kind or "no vectors" for kind in kinds)), tuple(lines))


def _kinds(rows: Sequence[Row]) -> list[str]:
    """Methods without vectors come first."""
    return sorted(dict.fromkeys(row.vectors for row in rows), key=lambda kind: kind != "")
