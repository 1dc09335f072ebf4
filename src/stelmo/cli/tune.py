"""`stelmo tune`: a model and text of a domain → the model at home there."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from stelmo.cli import rows, screen
from stelmo.cli.models import OptionsFile, SoftmaxFile, VocabularyFile
from stelmo.cli.pretrain import STOPPED, StaticVectors, watching
from stelmo.config import CodePointInput, TrainSettings
from stelmo.errors import ConfigError

if TYPE_CHECKING:
    from stelmo.train.tune import Tuned

EXAMPLE = "Example: `stelmo tune elmo_weights.hdf5 --data corpus --to run`"
_NAMES = ", ".join(TrainSettings.model_fields)


def tune(
    name: Annotated[Path, typer.Argument(metavar="MODEL", help="Model file or folder, in any format stelmo knows.")],
    data: Annotated[Path, typer.Option(help="Corpus folder, as `stelmo prepare` makes it.")],
    to: Annotated[Path, typer.Option(help="Run folder; the same command again goes on where it stopped.")],
    new_softmax: Annotated[
        bool, typer.Option("--new-softmax", help="Learn a softmax for the corpus' own vocabulary first.")
    ] = False,
    hdf5: Annotated[bool, typer.Option("--hdf5", help="Also write RUN/hdf5, in the published layout.")] = False,
    settings: Annotated[Path | None, typer.Option(help="TOML file of settings, over the defaults.")] = None,
    set_: Annotated[
        list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help=f"One setting, again and again: {_NAMES}.")
    ] = None,
    set_softmax: Annotated[
        list[str] | None, typer.Option("--set-softmax", metavar="NAME=VALUE", help="For the softmax learned first.")
    ] = None,
    vectors: StaticVectors = None,
    options: OptionsFile = None,
    vocabulary: VocabularyFile = None,
    softmax: SoftmaxFile = None,
) -> None:
    """A model reads text of a domain once and learns from it; perplexity is told before and after.

    With its softmax, the model needs a corpus of its own vocabulary: `stelmo prepare … --vocabulary vocab.txt`. Without
    one, it first learns a softmax for the corpus' vocabulary while everything else stays as it is.
    """
    from stelmo.corpus import folder as shards
    from stelmo.formats import models
    from stelmo.train import tune as tuning

    chosen = tuning.settings_of(settings, set_ or (), set_softmax or ())
    saved = models.read(name, options, vocabulary, softmax)
    if hdf5 and isinstance(saved.config.input, CodePointInput):
        raise ConfigError(
            "--hdf5: the published layout has no code points; leave it out, `stelmo convert --to efml` does"
        )
    with watching() as watch:
        tuned = tuning.tune(saved, shards.read(data), to, chosen, watch, new_softmax=new_softmax, vectors=vectors)
    _refuse_unfinished(tuned)
    if tuned.outcome.first:
        _tell(tuned, to)
        if hdf5:
            models.write(models.read(to / "model"), to / "hdf5", "bilm", overwrite=True)


def _refuse_unfinished(tuned: "Tuned") -> None:
    if not tuned.outcome.finished:
        screen.complain(f"stopped after step {tuned.outcome.step:,}; the same command goes on from there")
        raise typer.Exit(STOPPED)


def _tell(tuned: "Tuned", to: Path) -> None:
    if not tuned.outcome.worked:
        screen.note(f"{to}: this run is finished; nothing to do")
    rows.show(
        [
            {"held-out perplexity": stage, "forward": best.forward, "backward": best.backward, "both": best.perplexity}
            for stage, best in tuned.figures.items()
        ]
    )
    after = list(tuned.figures.values())[-1]
    if not after.step:
        screen.note("no step made it better: the model is as it was; try a lower lr (--set lr=…) or more text")
    typer.echo(f"{to / 'model'}: of step {after.step:,}; {after.tokens:,} held-out words and ends of sentences")
