"""`stelmo paper`: reproduce the paper's tables and figures, and report them beside the published numbers."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from stelmo.cli import screen
from stelmo.cli.arguments import ModelName, loaded
from stelmo.errors import ConfigError, DataError

if TYPE_CHECKING:
    from stelmo.paper.run import Outcome

EXAMPLE = (
    "Example: `stelmo paper --data data --to report --parts table1,figure2 --tasks ner,sst5`, or "
    "`stelmo paper --data data --to encoders --parts encoders --corpus corpus --processor-time 60m`"
)


def paper(
    data: Annotated[Path, typer.Option(help="Folder with one folder per task, and wsd, pos and vectors.")],
    to: Annotated[Path, typer.Option(help="Output folder of the report; the same command again runs what is missing.")],
    model: ModelName = None,
    parts: Annotated[
        str | None,
        typer.Option(help="table1 … table7, figure1, figure2; default: all of these. Also: controls, encoders."),
    ] = None,
    tasks: Annotated[
        str | None,
        typer.Option(help="squad, snli, srl, coref, ner, sst5, separated by commas; default: all."),
    ] = None,
    ablate: Annotated[str, typer.Option(help="Tasks of Tables 2 and 3.")] = "snli,srl,sst5",
    curves: Annotated[str, typer.Option(help="Tasks of Figure 1.")] = "srl,sst5",
    size: Annotated[str, typer.Option(help="cpu, workstation or paper.")] = "cpu",
    seeds: Annotated[int, typer.Option(min=1, help="Networks (random seeds) per cell.")] = 3,
    seeds_of: Annotated[
        str | None,
        typer.Option(
            metavar="TASK=N,…",
            help="The same, for single tasks, such as squad=2,ner=10; default: squad=2, or --seeds if that is less.",
        ),
    ] = None,
    ablation_seeds: Annotated[
        int, typer.Option(min=1, help="The same, at most, for Tables 2 and 3, Figure 1 and the controls.")
    ] = 2,
    transformer: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="controls: a Transformer in a local folder (Hugging Face's layout)."),
    ] = None,
    vectors: Annotated[
        str | None,
        typer.Option(help="Static vectors; default: DATA/vectors/*, else random. Encoders start from them if given."),
    ] = None,
    corpus: Annotated[
        Path | None, typer.Option(help="encoders: corpus folder made by `stelmo prepare`, to train them on.")
    ] = None,
    processor_time: Annotated[
        str, typer.Option(help="encoders: processor time for training each, such as 90s, 60m, 8h.")
    ] = "60m",
    encoders: Annotated[str | None, typer.Option(help="encoders: presets of `stelmo pretrain` to compare.")] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="encoders: a setting of every training; repeatable."),
    ] = None,
    jobs: Annotated[
        int | None, typer.Option(min=1, help="Commands to run at the same time; default: one per core.")
    ] = None,
    only_report: Annotated[bool, typer.Option("--only-report", help="Run nothing; report on finished cells.")] = False,
) -> None:
    """Run the paper's experiments, cell by cell, and write report.md and report.html with figures.

    The part `controls` compares ELMo with its last layer alone, a fine-tuned biLM and a Transformer's token vectors.
    The part `encoders` comes from the follow-up paper (Peters et al. 2018b): an LSTM, a Transformer and a gated CNN
    trained on the same text for the same processor time, and what their layers encode.

    Each cell is a separate `stelmo` command. If the command is run again after an interruption, or with other parts, it
    keeps the finished cells; the report marks cells that were not run.
    """
    if not data.is_dir():
        raise DataError(f"{data}: no such folder; give the folder that holds a folder for each task")
    from stelmo.paper import cells, report, run

    default = cells.Setup(data, to)
    fewer = tuple((task, min(number, seeds)) for task, number in default.seeds_of)
    setup = default._replace(
        model=model,
        size=size,
        seeds=seeds,
        seeds_of=fewer if seeds_of is None else _seeds_of(seeds_of),
        tasks=_names(tasks) or default.tasks,
        ablated=_names(ablate),
        curves=_names(curves),
        ablation_seeds=ablation_seeds,
        vectors=vectors,
        parts=_names(parts) or default.parts,
        transformer=None if transformer is None else str(transformer),
        corpus=corpus,
        processor_time=processor_time,
        encoders=_names(encoders) or default.encoders,
        settings=tuple(set_ or ()),
    )
    wanted = cells.cells(setup)
    if not only_report:
        cells.check_files(setup)
    run.begin(setup, loaded(model).saved().fingerprint())
    failed = []
    if not only_report:
        for task in {cell.chain.removeprefix("tuning-") for cell in wanted if cell.chain.startswith("tuning-")}:
            run.write_text(setup, task)
        waiting = sum(run.is_waiting(cell, to) for cell in wanted)
        screen.note(f"{len(wanted)} cells, {len(wanted) - waiting} of them already finished; logs are in {to / 'logs'}")
        outcomes = run.run(wanted, to, jobs or os.cpu_count() or 1, CellProgress(waiting))
        if outcomes is None:
            raise KeyboardInterrupt("stopped; finished cells are kept")
        failed = [outcome.cell for outcome in outcomes if outcome.failure is not None]
    typer.echo(report.write(setup))
    if failed:
        raise DataError(
            f"{len(failed)} of {len(wanted)} cells failed, the first is {failed[0].name}: its log is "
            f"{run.log_of(failed[0], to)}; the report has the others, and the same command tries again"
        )


def _names(text: str | None) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip()) if text else ()


def _seeds_of(text: str) -> tuple[tuple[str, int], ...]:
    """Text such as `squad=2,ner=10`, as pairs."""
    from stelmo.tasks.network import named

    found = []
    for pair in _names(text):
        task, _, number = pair.partition("=")
        if not (number.isascii() and number.isdigit() and int(number) > 0):
            raise ConfigError(f"--seeds-of: {pair!r} is not TASK=N with a whole number above 0, such as squad=2")
        found.append((named(task).name, int(number)))
    return tuple(found)


class CellProgress:
    """Prints one line for each finished cell."""

    def __init__(self, waiting: int) -> None:
        self._done, self._waiting = 0, waiting

    def __call__(self, outcome: "Outcome") -> None:
        self._done += 1
        how = f"{outcome.seconds:,.0f} s" if outcome.failure is None else f"failed: {outcome.failure}"
        screen.note(f"{self._done} of {self._waiting}: {outcome.cell.name}, {how}")
