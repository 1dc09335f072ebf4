"""`stelmo info`: describe a model, a corpus, a training run, an index of word uses or a vector file."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from stelmo.errors import DataError, ModelError

if TYPE_CHECKING:
    from stelmo.store.saved import SavedModel

EXAMPLE = "Example: `stelmo info elmo_weights.hdf5`"
Lines = list[tuple[str, str]]


def info(
    path: Annotated[
        str, typer.Argument(metavar="PATH", help="Model, corpus, run of pretrain or tune, index, or vector file.")
    ],
) -> None:
    """Describe a model, a corpus, a run of `stelmo pretrain` or `tune`, an index of word uses or a vector file."""
    from stelmo.formats.models import local_path  # imported here, because `--help` does not need torch

    for label, value in describe(local_path(path)):
        typer.echo(f"{label:<14} {value}")


def describe(path: Path) -> Lines:
    """Labels and values for a vector file, an index of word uses, precomputed layers, a corpus, a run or a model."""
    from stelmo.corpus import folder as corpus_folder
    from stelmo.formats import models
    from stelmo.formats.untrusted import hdf5
    from stelmo.store import layers, runs, uses

    if not path.exists():
        raise ModelError(f"{path}: no such file or folder; expected a model, a corpus, a run or a file of vectors")
    if uses.recognises(path):
        return uses.describe(path)
    if layers.recognises(path):
        return layers.describe(path)
    if corpus_folder.recognises(path):
        return corpus_folder.describe(corpus_folder.read(path).manifest)
    if runs.recognises(path):
        return runs.describe(path)
    reader = _VECTOR_FILES.get(path.suffix) if path.is_file() else None
    if path.suffix in (".hdf5", ".h5") and hdf5.contains(path, "RNN_0"):  # the weights of a biLM
        reader = None
    return _describe_model(models.read(path)) if reader is None else reader(path)


def _describe_model(saved: "SavedModel") -> Lines:
    from stelmo.config import LstmConfig
    from stelmo.store.saved import describe_encoder, describe_input

    config, encoder = saved.config, saved.config.encoder
    if isinstance(encoder, LstmConfig):
        clips = [f"cell {encoder.cell_clip:g}"] if encoder.cell_clip else []
        clips += [f"projection {encoder.projection_clip:g}"] if encoder.projection_clip else []
        size = f"{encoder.layers} layers of {encoder.cells} cells, projection {encoder.projection}, each direction"
        layers = [("LSTM", size), ("clips", ", ".join(clips) or "none"), ("skip", "yes" if encoder.skip else "no")]
    else:
        layers = [describe_encoder(encoder)]
    parameters = sum(parameter.numel() for parameter in saved.bilm.parameters())
    start = "fresh (zeros): no warm state of its own" if saved.start is None else "warm: its own, stored"
    if not config.has_state:
        start = "none: it carries no state from word to word"
    return [
        ("format", saved.format),
        ("dtype", str(saved.dtype).removeprefix("torch.")),
        ("parameters", f"{parameters:,} (without softmax)"),
        ("input", describe_input(config.input)),
        *layers,
        ("output", f"{config.depth} layers of {config.width} dimensions per word"),
        ("vocabulary", "none" if saved.vocabulary is None else f"{len(saved.vocabulary):,} words"),
        ("softmax", "no" if saved.read_softmax is None else "yes"),
        ("start state", start),
    ]


def _hdf5_vectors(path: Path) -> Lines:
    from stelmo.formats.untrusted import hdf5

    with hdf5.opened(path) as file:
        names = [name for name in file if name != "sentence_to_index"]
        if not names or not all(name.isdigit() or hasattr(file[name], "shape") for name in names[:3]):
            raise DataError(f"{path}: HDF5 file without a biLM and without sentence vectors")
        first = file[min(names, key=lambda name: (len(name), name))]
        kept = "yes" if "sentence_to_index" in file else "no"
        return [
            ("format", "vectors, HDF5 (one dataset per sentence)"),
            ("sentences", f"{len(names):,}"),
            ("first", f"{first.shape} {first.dtype}"),
            ("text kept", kept),
        ]


def _npz_vectors(path: Path) -> Lines:
    import numpy as np

    from stelmo.store.containers import DAMAGE

    try:
        with np.load(path, allow_pickle=False) as arrays:
            first = arrays["0"]
            return [
                ("format", "vectors, npz (one array per sentence)"),
                ("sentences", f"{len(arrays.files):,}"),
                ("first", f"{first.shape} {first.dtype}"),
            ]
    except DAMAGE as problem:
        raise DataError(f"{path}: not an npz file of vectors ({problem})") from None


def _parquet_vectors(path: Path) -> Lines:
    from stelmo.store.containers import pyarrow_modules

    pa, parquet = pyarrow_modules()
    try:
        schema, rows = parquet.read_schema(path), parquet.read_metadata(path).num_rows
    except (OSError, pa.ArrowException) as problem:
        raise DataError(f"{path}: not a Parquet file ({str(problem).splitlines()[0]})") from None
    about = (schema.metadata or {}).get(b"stelmo")
    if about is None:
        raise DataError(f"{path}: not written by stelmo: the Parquet file has no stelmo metadata")
    settings: dict[str, Any] = json.loads(about)
    return [
        ("format", "vectors, Parquet (one row per sentence)"),
        ("sentences", f"{rows:,}"),
        ("columns", ", ".join(f"{field.name} {field.type}" for field in schema)),
        ("settings", ", ".join(f"{name} {value}" for name, value in settings.items())),
    ]


_VECTOR_FILES: dict[str, Callable[[Path], Lines]] = {
    ".hdf5": _hdf5_vectors,
    ".h5": _hdf5_vectors,
    ".npz": _npz_vectors,
    ".parquet": _parquet_vectors,
}
