"""`stelmo convert`: any readable model → a folder of the format asked for."""

from pathlib import Path
from typing import Annotated

import typer

from stelmo.cli.models import OptionsFile, SoftmaxFile, VocabularyFile, loaded
from stelmo.errors import ConfigError

EXAMPLE = "Example: `stelmo convert elmo_weights.hdf5 my-model`"


def convert(
    source: Annotated[str, typer.Argument(metavar="SRC", help="Model to read, in any format stelmo knows.")],
    target: Annotated[Path, typer.Argument(metavar="DST", help="Folder to write; or a file NAME.onnx.")],
    to: Annotated[
        str,
        typer.Option("--to", help="stelmo (our folder), bilm (the published HDF5) or efml (ELMoForManyLangs)."),
    ] = "stelmo",
    dtype: Annotated[str | None, typer.Option(help="float16, float32, float64; unset: as they are stored.")] = None,
    options: OptionsFile = None,
    vocabulary: VocabularyFile = None,
    softmax: SoftmaxFile = None,
    token_embeddings: Annotated[
        bool, typer.Option("--token-embeddings", help="With --to bilm: add layer 0 of every vocabulary word.")
    ] = False,
    state: Annotated[
        str | None, typer.Option(help="Of NAME.onnx: where every sentence starts, warm (unless told) or fresh.")
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace DST if it is there.")] = False,
) -> None:
    """A model in one format → a model in another."""
    if target.suffix == ".onnx":
        _refuse_for_onnx(to, dtype, token_embeddings)
    elif state is not None:
        raise ConfigError(f"state: {target} is a folder, which keeps both starts; --state is for NAME.onnx")
    model = loaded(source, options=options, vocabulary=vocabulary, softmax=softmax, precision="float64")
    if target.suffix == ".onnx":
        from stelmo.integrations import onnx

        onnx.export(model, target, state, overwrite)
        typer.echo(f"{target}: ONNX, float32, {onnx.INPUT} → {onnx.OUTPUT}")
        return
    chosen = dtype or model.stored_dtype
    model.save(target, format=to, dtype=chosen, token_embeddings=token_embeddings, overwrite=overwrite)
    typer.echo(f"{target}: {to} format, {chosen}")


def _refuse_for_onnx(to: str, dtype: str | None, token_embeddings: bool) -> None:
    if to != "stelmo":
        raise ConfigError(f"to: {to} writes a folder, but NAME.onnx is a file; leave out --to")
    if dtype not in (None, "float32"):
        raise ConfigError(f"dtype: {dtype} cannot be exported; an ONNX file computes in float32")
    if token_embeddings:
        raise ConfigError("token_embeddings cannot be exported; it goes with --to bilm")
