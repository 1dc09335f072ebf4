"""`stelmo task`: train and score one of the paper's six tasks, with or without ELMo, or predict with a trained one."""

import tempfile
from collections.abc import Set
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from stelmo.cli import screen
from stelmo.cli.arguments import ModelName, loaded
from stelmo.config import help_of
from stelmo.errors import ConfigError
from stelmo.settings import ElmoSettings, TaskSettings

if TYPE_CHECKING:
    from stelmo.tasks.experiment import Results
    from stelmo.tasks.loop import LayersReport, StepReport

EXAMPLE = (
    "Example: `stelmo task ner --data wnut17 --to run --vectors glove.6B.100d.txt --seeds 3`; then "
    "`stelmo task ner --predict run news.txt`"
)


def _elmo(name: str) -> str:
    return help_of(ElmoSettings, name, after="; default: the paper's choice for the task, or a better one at this size")


def task(
    context: typer.Context,
    name: Annotated[str, typer.Argument(metavar="TASK", help="squad, snli, srl, coref, ner or sst5.")],
    file: Annotated[
        Path | None, typer.Argument(metavar="[FILE]", help="With --predict: the input file; -: standard input.")
    ] = None,
    data: Annotated[Path | None, typer.Option(help="Folder with train, dev and (if any) test files.")] = None,
    to: Annotated[
        Path | None, typer.Option(help="Output folder of the run; the same command again resumes it.")
    ] = None,
    predict: Annotated[Path | None, typer.Option(metavar="RUN", help="Predict on FILE with a trained run.")] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="With --predict: output file; default: print.")
    ] = None,
    size: Annotated[
        str,
        typer.Option(help="cpu (minutes, sampled data), workstation (up to 90 minutes per seed, all data) or paper."),
    ] = "cpu",
    model: ModelName = None,
    transformer: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="A Transformer's token vectors instead of ELMo's, for comparison (Hugging Face's layout).",
        ),
    ] = None,
    elmo: Annotated[str | None, typer.Option(help=_elmo("placement"))] = None,
    layers: Annotated[str | None, typer.Option(help=_elmo("layers"))] = None,
    l2: Annotated[float | None, typer.Option("--lambda", help=_elmo("l2"))] = None,
    dropout: Annotated[float | None, typer.Option("--elmo-dropout", help=_elmo("dropout"))] = None,
    layer_norm: Annotated[bool | None, typer.Option("--layer-norm/--no-layer-norm", help=_elmo("layer_norm"))] = None,
    finetune: Annotated[bool, typer.Option("--finetune", help=help_of(ElmoSettings, "finetune"))] = False,
    vectors: Annotated[
        str,
        typer.Option(
            help="Static vectors: a GloVe or word2vec file, a folder with .npy, trained, random or none. With "
            "--predict: where the file of the training is now."
        ),
    ] = "random",
    seeds: Annotated[int, typer.Option(min=1, help="Networks to train, with random seeds 0, 1, …")] = 1,
    fraction: Annotated[float, typer.Option(help="Share of the training examples to use.")] = 1.0,
    cache: Annotated[Path | None, typer.Option(help="Folder of precomputed layers, to share between runs.")] = None,
    skip_bad: Annotated[bool, typer.Option("--skip-bad", help="Skip malformed examples, and count them.")] = False,
    threads: Annotated[int, typer.Option(min=1, help="CPU threads; with one, several runs can share a machine.")] = 1,
    set_: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="NAME=VALUE",
            help=f"Override one setting; repeatable: {', '.join(TaskSettings.model_fields)}; size.hidden …; "
            "settings of ELMo with the prefix elmo. (layer_norm_over …). none unsets one, as in average=none.",
        ),
    ] = None,
) -> None:
    """Train and score one of the paper's tasks, or predict with a trained one."""
    import torch  # imported here, because `--help` does not need it

    from stelmo.embed.transformer import TransformerVectors
    from stelmo.tasks import experiment, network
    from stelmo.tasks.reading import Skipped

    given = {option.name for option in context.command.params if _is_given(context, option.name)}
    torch.set_num_threads(threads)
    if predict is not None:
        _refuse(context, given - _OF_PREDICTION, "with --predict the run has its settings")
        _predict(name, predict, file, output, model, vectors if "vectors" in given else None)
        return
    _refuse(context, given & {"output"}, "it is the file that --predict writes; a run is written to --to")
    if data is None or to is None or file is not None:
        raise ConfigError("task: expected --data DIR --to RUN to train, or --predict RUN FILE to predict")
    chosen = {"placement": elmo, "layers": layers, "l2": l2, "dropout": dropout, "layer_norm": layer_norm}
    settings = {key: value for key, value in chosen.items() if value is not None} | {"finetune": finetune}
    configured = network.configure(name, size, settings, set_ or [], vectors, fraction)
    skipped = Skipped() if skip_bad else None
    tuned, placement = configured.elmo.finetune, configured.elmo.placement
    if transformer is not None and (model is not None or tuned or placement == "none"):
        raise ConfigError("--transformer replaces ELMo's frozen layers; without --model, --finetune and --elmo none")
    source = model if transformer is None else str(transformer)
    bilm = None
    if placement != "none":
        bilm = loaded(model) if transformer is None else TransformerVectors(transformer)
    try:
        with screen.report_progress(_shown) as progress:
            results = experiment.run(configured, data, to, range(seeds), bilm, source, cache, skipped, progress)
    finally:
        for reason, count in skipped.reasons.items() if skipped else ():
            screen.note(f"skipped {count:,} examples: {reason}")
    if results is None:
        raise KeyboardInterrupt("stopped after the last evaluation")
    _report(results, to)


_OF_PREDICTION = {"name", "file", "predict", "output", "model", "vectors", "threads"}


def _is_given(context: typer.Context, name: str | None) -> bool:
    source = None if name is None else context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


def _refuse(context: typer.Context, names: Set[str | None], reason: str) -> None:
    """Refuse options that would have no effect."""
    for option in context.command.params:
        if option.name in names:
            raise ConfigError(f"{option.opts[0]} has no effect here: {reason}; leave it out")


def _predict(
    name: str, run: Path, file: Path | None, output: Path | None, model: str | None, vectors: str | None
) -> None:
    from stelmo.tasks import experiment

    if file is None:
        raise ConfigError("task: --predict requires an input file; expected --predict RUN FILE")
    network = experiment.read_run(run, name, model, vectors)
    if output is not None:
        typer.echo(f"{output}: {experiment.predict_file(network, file, output, screen.note):,} predictions")
        return
    with tempfile.TemporaryDirectory() as folder:
        experiment.predict_file(network, file, Path(folder) / "predictions", screen.note)
        typer.echo((Path(folder) / "predictions").read_text(encoding="utf-8"), nl=False)


def _report(results: "Results", to: Path) -> None:
    from stelmo.tasks.experiment import mean_and_deviation

    parts = []
    for split, scores in (("test", results.test), ("dev", results.dev)):
        if scores:
            mean, deviation = mean_and_deviation(scores)
            parts.append(f"{split} {mean:.2f}" + (f" ± {deviation:.2f}" if deviation is not None else ""))
    seeds = f"{len(results.seeds)} seeds" if len(results.seeds) > 1 else "1 seed"
    typer.echo(f"{to}: {results.metric} {', '.join(parts)} ({seeds})")
    for placement, mix in results.mixes.items():
        shares = " ".join(f"{share:.2f}" for share in mix["weights"])
        typer.echo(f"layers at the {placement}: {shares}, γ {mix['gamma']:.2f}")


def _shown(report: "LayersReport | StepReport") -> screen.Shown:
    from stelmo.tasks.loop import LayersReport

    if isinstance(report, LayersReport):
        return "ELMo's layers", report.tokens / report.of, f"{report.tokens:,} of {report.of:,} tokens"
    best = "" if report.best is None else f", best {report.best:.2f} on dev"
    step = f"step {report.step:,} of at most {report.steps:,} (epoch {report.epoch})"
    return "training", report.step / report.steps, f"seed {report.seed}, {step}, loss {report.loss:.3f}{best}"
