"""`stelmo pretrain`: a corpus → a biLM, in a run folder."""

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from stelmo.cli import screen
from stelmo.settings import TrainSettings

if TYPE_CHECKING:
    from stelmo.train.pretrain import Outcome
    from stelmo.train.run_state import StageReport, StepReport

EXAMPLE = "Example: `stelmo pretrain laptop --data corpus --to run --set time=8h`"
SETTINGS = (
    f"Override one setting; repeatable: {', '.join(TrainSettings.model_fields)}; lstm.cells, input.filters, "
    "vectors.steps …"
)

StaticVectors = Annotated[
    str | None,
    typer.Option(
        metavar="FILE",
        help="Start from static word vectors: GloVe, word2vec (text or binary), fastText .vec, a folder of words.txt "
        "and .npy, or `trained` (word2vec on the corpus itself). `stelmo tune` uses them for the new softmax.",
    ),
]


def pretrain(
    preset: Annotated[
        str,
        typer.Argument(
            help="tiny, laptop, laptop-transformer, laptop-gated-cnn, small, medium or original (the paper's)."
        ),
    ],
    data: Annotated[Path, typer.Option(help="Corpus folder made by `stelmo prepare`.")],
    to: Annotated[Path, typer.Option(help="Output folder of the run; the same command again resumes it.")],
    settings: Annotated[Path | None, typer.Option(help="TOML file of settings that override the preset.")] = None,
    set_: Annotated[list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help=SETTINGS)] = None,
    vectors: StaticVectors = None,
) -> None:
    """Train a bidirectional language model on a corpus.

    The budget is set by one of epochs, tokens, time and processor_time.
    Several processes: `torchrun --nproc-per-node 2 -m stelmo pretrain …`
    """
    from stelmo.corpus import folder as corpus_folder
    from stelmo.train import presets
    from stelmo.train import pretrain as training

    presets.plan(preset, settings, set_ or ())  # wrong settings are refused before a large corpus is opened
    corpus = corpus_folder.read(data)
    plan = presets.plan(preset, settings, set_ or (), vocabulary=len(corpus.vocabulary))
    with screen.report_progress(shown) as progress:
        plan = presets.with_vectors(plan, vectors, corpus, progress.message)
        outcome = training.pretrain(plan, corpus, to, progress)
    refuse_unfinished(outcome)
    if not outcome.first:
        return
    if not outcome.worked:
        typer.echo(f"{to}: this run is finished; nothing to do")
    best = outcome.best
    if best is not None:
        typer.echo(
            f"{to / 'model'}: held-out perplexity {best.perplexity:,.2f} (forward {best.forward:,.2f}, backward "
            f"{best.backward:,.2f}; {best.tokens:,} words) after {outcome.tokens:,} tokens, best at step {best.step:,}"
        )


def refuse_unfinished(outcome: "Outcome") -> None:
    """End the command if a signal stopped the run; only the first process of a run prints."""
    if outcome.finished:
        return
    if outcome.first:
        raise KeyboardInterrupt(f"stopped after step {outcome.step:,}")
    raise typer.Exit(screen.INTERRUPTED)


def shown(report: "StepReport | StageReport") -> screen.Shown:
    from stelmo.train.run_state import StageReport

    return report if isinstance(report, StageReport) else ("training", report.share, _figures(report))


def _figures(report: "StepReport") -> str:
    steps = f"step {report.step:,}" + (f"/{report.steps:,}" if report.steps else "")
    parts = [steps, f"{report.tokens:,} tokens", f"{report.rate:,.0f}/s"]
    if report.loss:  # a line of the log begins with none
        parts.append(f"training loss {report.loss:.2f}")
    if report.best is not None:
        parts.append(f"held-out perplexity {report.best.perplexity:,.1f}")
    left = "?"
    if math.isfinite(report.seconds_left):
        hours, rest = divmod(round(report.seconds_left), 3600)
        left = f"{hours}:{rest // 60:02d}:{rest % 60:02d}"
    return ", ".join([*parts, f"{left} left"])
