"""`stelmo tune`: a model and text of a domain → the model fine-tuned to that domain."""

from pathlib import Path
from typing import Annotated

import typer

from stelmo.cli import screen
from stelmo.cli.arguments import NO_START, OptionsFile, SoftmaxFile, VocabularyFile
from stelmo.cli.pretrain import StaticVectors, refuse_unfinished, shown
from stelmo.config import CodePointInput
from stelmo.errors import ConfigError
from stelmo.settings import TrainSettings

EXAMPLE = "Example: `stelmo tune elmo_weights.hdf5 --data corpus --to run`"
_NAMES = ", ".join(TrainSettings.model_fields)


def tune(
    name: Annotated[
        str, typer.Argument(metavar="MODEL", help="Model file or folder, in any format that stelmo can read.")
    ],
    data: Annotated[Path, typer.Option(help="Corpus folder made by `stelmo prepare`.")],
    to: Annotated[Path, typer.Option(help="Output folder of the run; the same command again resumes it.")],
    new_softmax: Annotated[
        bool, typer.Option("--new-softmax", help="First train a new softmax for the vocabulary of the corpus.")
    ] = False,
    hdf5: Annotated[bool, typer.Option("--hdf5", help="Also write RUN/hdf5, in the published layout.")] = False,
    settings: Annotated[Path | None, typer.Option(help="TOML file of settings that override the defaults.")] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help=f"Override one setting; repeatable: {_NAMES}."),
    ] = None,
    set_softmax: Annotated[
        list[str] | None,
        typer.Option("--set-softmax", metavar="NAME=VALUE", help="The same, for training the new softmax."),
    ] = None,
    vectors: StaticVectors = None,
    options: OptionsFile = None,
    vocabulary: VocabularyFile = None,
    softmax: SoftmaxFile = None,
) -> None:
    """Fine-tune a model to text of a domain, one pass by default; prints the perplexity before and after.

    A model with a softmax requires a corpus of its own vocabulary: `stelmo prepare … --vocabulary vocab.txt`. For a
    model without one, a softmax for the vocabulary of the corpus is trained first, with everything else frozen.
    """
    from stelmo.corpus import folder as corpus_folder
    from stelmo.formats import models
    from stelmo.train import tune as tuning

    chosen = tuning.settings_of(settings, set_ or (), set_softmax or ())
    saved = models.read(name, options, vocabulary, softmax)
    if hdf5 and isinstance(saved.config.input, CodePointInput):
        raise ConfigError(
            "--hdf5: a model that reads code points does not fit this layout; use `stelmo convert --format efml`"
        )
    with screen.report_progress(shown) as progress:
        tuned = tuning.tune(
            saved, corpus_folder.read(data), to, chosen, progress, new_softmax=new_softmax, vectors=vectors
        )
    refuse_unfinished(tuned.outcome)
    if not tuned.outcome.first:
        return
    if not tuned.outcome.worked:
        screen.note(f"{to}: this run is finished; nothing to do")
    screen.show_rows(
        [
            {"held-out perplexity": stage, "forward": best.forward, "backward": best.backward, "both": best.perplexity}
            for stage, best in tuned.figures.items()
        ]
    )
    after = list(tuned.figures.values())[-1]
    if not after.step:
        screen.note(
            "no step improved the model, so it is unchanged; try a lower learning rate (--set lr=…) or more text"
        )
    typer.echo(
        f"{to / 'model'}: best at step {after.step:,}; {after.tokens:,} held-out words and sentence ends were scored"
    )
    if hdf5:
        best = models.read(to / "model")
        models.write(best, to / "hdf5", "bilm", overwrite=True)
        if best.start is not None:
            screen.note(f"{to / 'hdf5'}: {NO_START}")
