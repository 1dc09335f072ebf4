"""`stelmo probe`: what the vectors of each layer encode, measured with cosines and linear classifiers."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from stelmo.cli import screen
from stelmo.cli.arguments import LOAD, Device, ModelName, Overwrite, Threads, loaded, renamed
from stelmo.config import choose
from stelmo.errors import ConfigError, DataError

if TYPE_CHECKING:
    from stelmo.probes.embedding import LayerOrDifference, Source
    from stelmo.probes.measure import Found, Summary
    from stelmo.probes.run import Row

PROBES = ("wsd", "pos", "wic", "coarse", "scws")
ALL = "all"
EXAMPLE = (
    "Example: `stelmo probe wic --data polysemy/wic --vectors glove.6B.100d.txt`, or "
    "`stelmo probe all --data data --vectors glove.6B.100d.txt --transformer all-MiniLM-L6-v2 "
    "--cache probes --markdown`"
)
PRINT = Path("-")  # standard output for `screen.writing_rows`


def probe(
    name: Annotated[
        str,
        typer.Argument(metavar="|".join((*PROBES, ALL)), help="The probe; several: all, or with commas, wsd,pos."),
    ],
    data: Annotated[
        Path,
        typer.Option("--data", "-d", help="Folder with the files of the probe; for several, the folder above them."),
    ],
    model: ModelName = None,
    layers: Annotated[
        str | None,
        typer.Option(
            help="Layers such as 1,2, and differences such as 2-1; default: all layers. Layer 0 is always included."
        ),
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
    cache: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Keep the figures of each probe and source of vectors here: the command resumes, and the baselines "
            "are measured once for all models.",
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print all figures, one JSON object per row.")] = False,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print the main figures as a Markdown table.")] = False,
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

    **all**  every probe whose folder (wsd, pos, wic, coarsewsd20, scws) is anywhere below --data, in one table
    """
    names = list(dict.fromkeys(one.strip() for one in name.split(",")))
    for one in names:
        choose("probe", one, (*PROBES, ALL))
    if ALL in names:
        name, names = ALL, list(PROBES)
    options = {one: _options(one, limit, tokens, tags, seed, alone=len(names) == 1) for one in names}
    output = renamed("--to FILE", to, "--output FILE", output)
    given = [
        flag for flag, is_given in (("--json", as_json), ("--markdown", markdown), (f"-o {output}", output)) if is_given
    ]
    if len(given) > 1:
        raise ConfigError(f"{' and '.join(given)} present the same figures; give one of them")
    output = PRINT if as_json else output
    screen.refuse_rows_output(output, overwrite)
    numbers = _numbers(layers)
    folders = _folders(name, names, data)
    from stelmo.probes import embedding  # imported here, because `--help` does not need torch

    baselines = [embedding.read_static(path) for path in static or ()]
    sources = [embedding.of_model(loaded(model, device=device, threads=threads), numbers), *baselines]
    sources += [embedding.of_transformer(folder) for folder in transformer or ()]
    found = {one: _measured(one, folder, sources, options[one], cache) for one, folder in folders.items()}
    _write(found, output, overwrite, markdown)


def _folders(name: str, names: list[str], data: Path) -> dict[str, Path]:
    """One probe is given its own folder, several the folder that holds theirs."""
    if not data.exists():
        raise DataError(f"{data}: no such folder; give the folder that holds the data of {name}")
    if name in PROBES:
        return {name: data}
    from stelmo.probes import measure

    found = measure.find(data, names)
    missing = [one for one in names if one not in found]
    if missing and name != ALL:
        folder = measure.FOLDERS[missing[0]][0]
        raise DataError(
            f"{data}: no folder {folder} below it for probe {missing[0]}; copy its data there, or leave it out"
        )
    for one in missing:
        screen.note(f"{data}: no folder {measure.FOLDERS[one][0]} below it; probe {one} is left out")
    return found


def _options(name: str, limit: int | None, tokens: int | None, tags: str, seed: int, alone: bool) -> dict[str, Any]:
    """The options of this probe. If it is measured alone, options of other probes are refused, not ignored."""
    if name == "pos":
        if limit is not None and alone:
            raise ConfigError(f"--limit {limit}: probe pos counts words; use --tokens instead")
        return {"limit": tokens, "tags": tags, "seed": seed}
    given = [flag for flag, value in (("--tokens", tokens), ("--tags", tags != "upos"), ("--seed", seed)) if value]
    if given and alone:
        raise ConfigError(f"{' and '.join(given)}: only for probe pos; leave it out of probe {name}")
    return {"limit": limit}


def _numbers(layers: str | None) -> "list[LayerOrDifference] | None":
    """0,1,2-1 → 0, 1, (2, 1)"""
    if layers is None:
        return None
    found: list[LayerOrDifference] = []
    for part in layers.split(","):
        numbers = part.split("-")
        if len(numbers) > 2 or not all(number.strip().isdecimal() for number in numbers):
            raise ConfigError(f"--layers {layers!r}; expected numbers separated by commas, such as 0,1,2 or 0,1,2,2-1")
        found.append(int(part) if len(numbers) == 1 else (int(numbers[0]), int(numbers[1])))
    return found


def _measured(
    name: str, data: Path, sources: "Sequence[Source]", options: dict[str, Any], cache: Path | None
) -> "list[Row]":
    from stelmo.probes import measure

    done = 0.0
    with screen.progress(f"probe {name}", lambda: done) as tell:

        def advance(tokens: int, share: float) -> None:
            nonlocal done
            done = share
            tell(tokens)

        return measure.measure(name, data, sources, options, cache, advance)


def _write(found: "Found", output: Path | None, overwrite: bool, markdown: bool) -> None:
    """Into a file; without one as Markdown, or as a table: of several probes one, of a single probe one per figure."""
    from stelmo.probes import measure
    from stelmo.probes.run import HEADLINES

    if markdown:
        typer.echo(measure.summary(found).markdown(), nl=False)
        return
    if output is None and len(found) > 1:
        Console().print(_table(measure.summary(found)))
        return
    if output is None:
        for name, of_probe in found.items():
            for figure in HEADLINES[name]:
                if table := measure.table(of_probe, figure):
                    Console().print(Text(f"{figure}, percent"), _table(table), "", sep="\n")
        return
    names = dict.fromkeys(figure for rows in found.values() for row in rows for figure in row.figures)
    # A TSV row has every column; a JSON object has only the figures that exist.
    blank = dict.fromkeys(names, "") if output.suffix == ".tsv" else {}
    with screen.writing_rows(output, overwrite) as write:
        for name, of_probe in found.items():
            for row in of_probe:
                write({"probe": name, "method": row.method, "vectors": row.vectors, **(blank | row.figures)})
    if output != PRINT:
        typer.echo(f"{output}: {sum(map(len, found.values()))} rows")


def _table(content: "Summary") -> Table:
    table = screen.plain_table()
    for column, name in enumerate(content.head):
        table.add_column(Text(name), justify="right" if column else "left", no_wrap=column > 0)
    for line in content.rows:
        table.add_row(*map(Text, line))
    return table
