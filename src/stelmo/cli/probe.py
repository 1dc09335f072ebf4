"""`stelmo probe`: what the vectors of each layer know, found by nothing stronger than cosines and a linear map."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from stelmo.cli import rows, screen
from stelmo.cli.models import LOAD, ModelName, loaded
from stelmo.config import LoadSettings, choose, help_of
from stelmo.errors import ConfigError

if TYPE_CHECKING:
    from stelmo.probes.embedding import Source
    from stelmo.probes.run import Row

PROBES = ("wsd", "pos", "wic", "coarse", "scws")
EXAMPLE = "Example: `stelmo probe wic --data polysemy/wic --vectors glove.6B.100d.txt`"
PRINT = Path("-")  # what `rows.writing` takes for standard output


def probe(
    name: Annotated[str, typer.Argument(metavar="|".join(PROBES), help="What is asked; see above.")],
    data: Annotated[Path, typer.Option("--data", "-d", help="The folder of this probe's files.")],
    model: ModelName = None,
    layers: Annotated[
        str | None, typer.Option(help="Such as 1,2; unset: all. Layer 0, the control, is always among them.")
    ] = None,
    static: Annotated[
        list[Path] | None,
        typer.Option("--vectors", help="Static vectors to compare with: GloVe, word2vec, a folder; may be repeated."),
    ] = None,
    limit: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Fewer sentences of SemCor (wsd), uses of a noun (coarse), pairs (wic, scws).",
        ),
    ] = None,
    tokens: Annotated[int | None, typer.Option(min=1, help="Fewer words to train on (pos).")] = None,
    tags: Annotated[str, typer.Option(help="pos: upos, or xpos, the treebank's own (English: Penn's).")] = "upos",
    seed: Annotated[int, typer.Option(min=0, help="pos: of the order of training.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print all figures, a JSON object a row.")] = False,
    to: Annotated[Path | None, typer.Option("--to", "-o", help="Write all figures, .tsv or .jsonl.")] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the file.")] = False,
    device: Annotated[str, typer.Option(help=help_of(LoadSettings, "device"))] = LOAD.device,
    threads: Annotated[int | None, typer.Option(help=help_of(LoadSettings, "threads"))] = LOAD.threads,
) -> None:
    """What each layer knows, beside the controls: layer 0 and static vectors see no context.

    **wsd**  senses of Raganato's sets by the uses of SemCor, official F1 (semcor, ALL, index.sense)

    **pos**  parts of speech by a linear classifier (train, dev and test .conllu)

    **wic**  the same sense in two sentences? (train and dev)

    **coarse**  CoarseWSD-20: which sense of apple, bank, … (a folder for each word)

    **scws**  cosines against people's ratings, 100 ρ (ratings.txt)
    """
    choose("probe", name, PROBES)
    options = _options(name, limit, tokens, tags, seed)
    output = _output(as_json, to)
    rows.refuse_output(output, overwrite)
    numbers = _numbers(layers)
    _write(name, _measured(name, data, _sources(model, numbers, static, device, threads), options), output, overwrite)


def _options(name: str, limit: int | None, tokens: int | None, tags: str, seed: int) -> dict[str, Any]:
    """What the probe takes; an option of another probe is refused, not passed over."""
    if name == "pos":
        if limit is not None:
            raise ConfigError(f"--limit {limit}: probe pos counts words; give --tokens")
        return {"limit": tokens, "tags": tags, "seed": seed}
    given = [flag for flag, value in (("--tokens", tokens), ("--tags", tags != "upos"), ("--seed", seed)) if value]
    if given:
        raise ConfigError(f"{' and '.join(given)}: for probe pos alone; leave it out of probe {name}")
    return {"limit": limit}


def _output(as_json: bool, to: Path | None) -> Path | None:
    if as_json and to is not None:
        raise ConfigError(f"--json prints and --to {to} writes the same figures; give one of them")
    return PRINT if as_json else to


def _numbers(layers: str | None) -> list[int] | None:
    if layers is None:
        return None
    numbers = layers.split(",")
    if not all(number.strip().isdecimal() for number in numbers):
        raise ConfigError(f"--layers {layers!r}; expected numbers with commas between them, such as 0,1,2")
    return [int(number) for number in numbers]


def _sources(
    name: str | None, layers: list[int] | None, static: Sequence[Path] | None, device: str, threads: int | None
) -> "list[Source]":
    from stelmo.probes import embedding  # here, because `--help` needs no torch

    controls = [embedding.read_static(path) for path in static or ()]
    return [embedding.of_model(loaded(name, device=device, threads=threads), layers), *controls]


def _measured(name: str, data: Path, sources: "Sequence[Source]", options: dict[str, Any]) -> "list[Row]":
    from stelmo.probes import run

    done = 0.0
    with screen.progress(f"probe {name}", lambda: done) as tell:

        def advance(tokens: int, share: float) -> None:
            nonlocal done
            done = share
            tell(tokens)

        measure = {"wsd": run.wsd, "pos": run.pos, "wic": run.wic, "coarse": run.coarse, "scws": run.scws}[name]
        found: list[Row] = measure(data, sources, advance=advance, **options)
    return found


# What is shown


def _write(name: str, found: "Sequence[Row]", output: Path | None, overwrite: bool) -> None:
    from stelmo.probes.run import HEADLINES

    if output is None:
        for figure in HEADLINES[name]:
            if any(figure in row.figures for row in found):
                Console().print(Text(f"{figure}, percent"), _table(found, figure), "", sep="\n")
        return
    names = dict.fromkeys(figure for row in found for figure in row.figures)
    with rows.writing(output, overwrite) as write:
        for row in found:
            # A table has every column in every row; a JSON object says only what there is.
            blank = dict.fromkeys(names, "") if output.suffix == ".tsv" else {}
            write({"probe": name, "method": row.method, "vectors": row.vectors, **(blank | row.figures)})
    if output != PRINT:
        typer.echo(f"{output}: {len(found)} rows")


def _table(found: "Sequence[Row]", figure: str) -> Table:
    """Methods down, vectors across."""
    table = Table(box=None, header_style="dim", padding=(0, 2, 0, 0))
    kinds = sorted(dict.fromkeys(row.vectors for row in found), key=lambda kind: kind != "")
    table.add_column("")
    for kind in kinds:
        table.add_column(Text(kind or "no vectors"), justify="right")
    by_place = {(row.method, row.vectors): row.figures.get(figure) for row in found}
    for method in dict.fromkeys(row.method for row in found):
        cells = (by_place.get((method, kind)) for kind in kinds)
        table.add_row(Text(method), *("" if number is None else f"{number:.1f}" for number in cells))
    return table
