"""`stelmo probe`: what the vectors of each layer encode, measured with cosines and linear classifiers."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from stelmo.cli import old_flags, screen, tables
from stelmo.cli.arguments import LOAD, Device, ModelName, Overwrite, Threads, loaded
from stelmo.config import choose
from stelmo.errors import ConfigError

if TYPE_CHECKING:
    from stelmo.probes.embedding import Source
    from stelmo.probes.run import Row

PROBES = ("wsd", "pos", "wic", "coarse", "scws")
EXAMPLE = "Example: `stelmo probe wic --data polysemy/wic --vectors glove.6B.100d.txt`"
PRINT = Path("-")  # standard output for `tables.writing`


def probe(
    name: Annotated[str, typer.Argument(metavar="|".join(PROBES), help="The probe; see above.")],
    data: Annotated[Path, typer.Option("--data", "-d", help="Folder with the files of this probe.")],
    model: ModelName = None,
    layers: Annotated[
        str | None, typer.Option(help="Layers such as 1,2; default: all. Layer 0, the control, is always included.")
    ] = None,
    static: Annotated[
        list[Path] | None,
        typer.Option("--vectors", help="Static vectors to compare with: GloVe, word2vec, a folder; repeatable."),
    ] = None,
    transformer: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="DIR", help="Transformer to compare with, in a local folder (Hugging Face's layout); repeatable."
        ),
    ] = None,
    limit: Annotated[
        int | None,
        typer.Option(
            min=1, help="At most this many SemCor sentences (wsd), uses of a noun (coarse), pairs (wic, scws)."
        ),
    ] = None,
    tokens: Annotated[int | None, typer.Option(min=1, help="pos: train on at most this many words.")] = None,
    tags: Annotated[
        str, typer.Option(help="pos: upos, or xpos, the tags of the treebank (Penn tags in English).")
    ] = "upos",
    seed: Annotated[int, typer.Option(min=0, help="pos: random seed of the training order.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print all figures, one JSON object per row.")] = False,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Output file for all figures: .tsv or .jsonl.")
    ] = None,
    overwrite: Overwrite = False,
    device: Device = LOAD.device,
    threads: Threads = LOAD.threads,
    to: Annotated[Path | None, typer.Option("--to", hidden=True)] = None,
) -> None:
    """Measure what each layer encodes, compared with vectors without context (layer 0, static vectors)
    or with a Transformer.

    **wsd**  word senses in Raganato's test sets, learned from SemCor, official F1 (semcor, ALL, index.sense)

    **pos**  parts of speech, with a linear classifier (train, dev and test .conllu)

    **wic**  whether a word has the same sense in two sentences (train and dev)

    **coarse**  CoarseWSD-20: which sense of apple, bank, … (one folder per word)

    **scws**  rank correlation of cosines with human similarity ratings, 100 ρ (ratings.txt)
    """
    choose("probe", name, PROBES)
    options = _options(name, limit, tokens, tags, seed)
    output = old_flags.renamed("--to FILE", to, "--output FILE", output)
    if as_json and output is not None:
        raise ConfigError(f"--json prints and -o {output} writes the same figures; give one of them")
    output = PRINT if as_json else output
    tables.refuse_output(output, overwrite)
    numbers = _numbers(layers)
    sources = _sources(model, numbers, static or (), transformer or (), device, threads)
    _write(name, _measured(name, data, sources, options), output, overwrite)


def _options(name: str, limit: int | None, tokens: int | None, tags: str, seed: int) -> dict[str, Any]:
    """The options of this probe; those of another probe are refused, not ignored."""
    if name == "pos":
        if limit is not None:
            raise ConfigError(f"--limit {limit}: probe pos counts words; use --tokens instead")
        return {"limit": tokens, "tags": tags, "seed": seed}
    given = [flag for flag, value in (("--tokens", tokens), ("--tags", tags != "upos"), ("--seed", seed)) if value]
    if given:
        raise ConfigError(f"{' and '.join(given)}: only for probe pos; leave it out of probe {name}")
    return {"limit": limit}


def _numbers(layers: str | None) -> list[int] | None:
    if layers is None:
        return None
    numbers = layers.split(",")
    if not all(number.strip().isdecimal() for number in numbers):
        raise ConfigError(f"--layers {layers!r}; expected numbers separated by commas, such as 0,1,2")
    return [int(number) for number in numbers]


def _sources(
    name: str | None,
    layers: list[int] | None,
    static: Sequence[Path],
    transformers: Sequence[Path],
    device: str,
    threads: int | None,
) -> "list[Source]":
    from stelmo.probes import embedding  # imported here, because `--help` does not need torch

    controls = [embedding.read_static(path) for path in static]
    own = embedding.of_model(loaded(name, device=device, threads=threads), layers)
    return [own, *controls, *(embedding.of_transformer(folder) for folder in transformers)]


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


def _write(name: str, found: "Sequence[Row]", output: Path | None, overwrite: bool) -> None:
    from stelmo.probes.run import HEADLINES

    if output is None:
        for figure in HEADLINES[name]:
            if any(figure in row.figures for row in found):
                Console().print(Text(f"{figure}, percent"), _table(found, figure), "", sep="\n")
        return
    names = dict.fromkeys(figure for row in found for figure in row.figures)
    with tables.writing(output, overwrite) as write:
        for row in found:
            # A TSV row has every column; a JSON object has only the figures that exist.
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
