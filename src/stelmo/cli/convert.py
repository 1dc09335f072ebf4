"""`stelmo convert`: a model in any readable format → a folder in another format, or an ONNX file."""

from pathlib import Path
from typing import Annotated

import typer

from stelmo.cli import screen
from stelmo.cli.arguments import NO_START, OptionsFile, Overwrite, SoftmaxFile, VocabularyFile, loaded, renamed
from stelmo.errors import ConfigError

EXAMPLE = "Example: `stelmo convert elmo_weights.hdf5 my-model`"


def convert(
    source: Annotated[str, typer.Argument(metavar="SRC", help="Model to read, in any format that stelmo can read.")],
    target: Annotated[Path, typer.Argument(metavar="DST", help="Output folder, or output file NAME.onnx.")],
    format: Annotated[
        str,
        typer.Option(
            "--format", help="Format of DST: stelmo (our folder), bilm (the published HDF5) or efml (ELMoForManyLangs)."
        ),
    ] = "stelmo",
    dtype: Annotated[str | None, typer.Option(help="float16, float32, float64; default: as in SRC.")] = None,
    options: OptionsFile = None,
    vocabulary: VocabularyFile = None,
    softmax: SoftmaxFile = None,
    token_embeddings: Annotated[
        bool, typer.Option("--token-embeddings", help="With --format bilm: add layer 0 of every vocabulary word.")
    ] = False,
    centre: Annotated[
        Path | None,
        typer.Option(
            metavar="CORPUS",
            help="Subtract from layer 0 its mean over this corpus (made by `stelmo prepare`); the other layers and the "
            "probabilities stay the same. Models of `stelmo pretrain` are centred already.",
        ),
    ] = None,
    state: Annotated[
        str | None,
        typer.Option(help="For NAME.onnx: the state every sentence starts from, warm or fresh; default: by the model."),
    ] = None,
    overwrite: Overwrite = False,
    to: Annotated[str | None, typer.Option("--to", hidden=True)] = None,
) -> None:
    """Convert a model to another format."""
    format = renamed("--to FORMAT", to, "--format FORMAT", format)
    if target.suffix == ".onnx":
        if format != "stelmo":
            raise ConfigError(f"--format {format} writes a folder, but NAME.onnx is a file; leave --format out")
        if dtype not in (None, "float32"):
            raise ConfigError(f"--dtype {dtype}: an ONNX file computes in float32; leave --dtype out")
        if token_embeddings:
            raise ConfigError("--token-embeddings requires --format bilm; an ONNX file has no place for them")
    elif state is not None:
        raise ConfigError(f"--state {state}: requires an output NAME.onnx; a model folder such as {target} keeps both")
    model = loaded(source, options=options, vocabulary=vocabulary, softmax=softmax, precision="float64")
    if centre is not None:
        from stelmo.corpus import folder
        from stelmo.train.learner import mean_token_vector

        mean_P = mean_token_vector(model.bilm, model.engine.word_ids, folder.read(centre))
        if not model.bilm.centre(mean_P):
            raise ConfigError(f"--centre {centre}: only LSTM models whose layer 0 ends with a bias can be centred")
    if target.suffix == ".onnx":
        from stelmo.integrations import onnx

        onnx.export(model, target, state, overwrite)
        typer.echo(f"{target}: ONNX, float32, {onnx.INPUT} → {onnx.OUTPUT}")
        return
    chosen = dtype or model.stored_dtype
    model.save(target, format=format, dtype=chosen, token_embeddings=token_embeddings, overwrite=overwrite)
    if format != "stelmo" and model.engine.own_warm_state is not None:
        screen.note(f"{target}: {NO_START}")
    typer.echo(f"{target}: {format} format, {chosen}")
