"""`stelmo embed`: text → vectors, in a file (computed here, in shards, or on a Ray cluster) or as a small table."""

import io
from collections.abc import Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from stelmo.cli import arguments, screen
from stelmo.cli.arguments import (
    LOAD,
    BatchTokens,
    Column,
    Contractions,
    Device,
    From,
    Inputs,
    Language,
    ModelName,
    OptionsFile,
    Overwrite,
    Precision,
    State,
    Threads,
    is_file,
    loaded,
)
from stelmo.config import help_of, parse
from stelmo.errors import ConfigError, DataError
from stelmo.settings import LoadSettings, OutputSettings
from stelmo.text.files import LineReader

if TYPE_CHECKING:
    from stelmo.embed.model import Model

EXAMPLE = "Example: `stelmo embed corpus.txt.gz -o vectors.hdf5 --layer all`"
SHOWN = 20  # sentences in a printed table; a file takes any number
OUTPUT = OutputSettings()

_load = partial(help_of, LoadSettings)
_output = partial(help_of, OutputSettings)
_parallel = partial(typer.Option, rich_help_panel="Several processes")


def embed(
    inputs: Annotated[
        list[str] | None,
        typer.Argument(metavar="[INPUT]...", help="Files, sentences in quotes, or - for standard input."),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Output file: .hdf5, .parquet, .npz, .jsonl; - prints JSON lines."),
    ] = None,
    model: ModelName = None,
    format: From = None,
    column: Column = 0,
    language: Language = "en",
    contractions: Contractions = "ptb",
    layer: Annotated[str, typer.Option(help=_output("layer"))] = str(OUTPUT.layer),
    sentence_vectors: Annotated[bool, typer.Option("--sentence-vectors", help=_output("sentence_vectors"))] = False,
    dtype: Annotated[str, typer.Option(help=_output("dtype"))] = OUTPUT.dtype,
    forget_sentences: Annotated[bool, typer.Option("--forget-sentences", help=_output("forget_sentences"))] = False,
    state: State = None,
    precision: Precision = LOAD.precision,
    device: Device = LOAD.device,
    threads: Threads = LOAD.threads,
    memory: Annotated[int | None, typer.Option(help=_load("memory"))] = LOAD.memory,
    batch_tokens: BatchTokens = LOAD.batch_tokens,
    batch_rows: Annotated[int, typer.Option(help=_load("batch_rows"))] = LOAD.batch_rows,
    options: OptionsFile = None,
    overwrite: Overwrite = False,
    use_sentence_keys: Annotated[bool, typer.Option("--use-sentence-keys", help=_output("use_sentence_keys"))] = False,
    shard: Annotated[
        str | None,
        _parallel("--shard", help="Compute only the I-th of N parts of the output; --merge joins them.", metavar="I/N"),
    ] = None,
    merge: Annotated[
        bool, _parallel("--merge", help="Join finished parts (given as inputs; default: those beside the output).")
    ] = False,
    ray: Annotated[
        str | None,
        _parallel(
            "--ray",
            help="Compute on a Ray cluster, into a folder of Parquet files: local (this machine), auto, HOST:PORT.",
            metavar="ADDRESS",
        ),
    ] = None,
    workers: Annotated[
        int | None,
        _parallel("--workers", help="Processes of --ray, one model each; default: as many as the cores allow.", min=1),
    ] = None,
    all_: arguments.All = False,
    top: arguments.Top = False,
    average: arguments.Average = False,
    batch_size: arguments.BatchSize = None,
    cuda_device: arguments.CudaDevice = None,
    weight_file: arguments.WeightFile = None,
    options_file: arguments.OldOptionsFile = None,
    vocab_path: arguments.VocabPath = None,
    file_friendly_logging: arguments.FileFriendlyLogging = False,
    include_package: arguments.IncludePackage = None,
) -> None:
    """Text → contextual word vectors, in a file or as a small table."""
    _refuse_conflicts(shard, merge, ray, workers, output)
    if merge and output is not None:
        _merge(inputs or [], output, overwrite)
        return
    old = arguments.translate_old_flags({"all": all_, "top": top, "average": average}, inputs or [], output)
    if vocab_path is not None:
        screen.note("--vocab-path is not needed: each distinct word is encoded only once anyway")
    output, layer, format = old.output, old.layer or layer, format or old.format
    settings = parse(
        OutputSettings,
        {
            "layer": arguments.layer_of(layer),
            "sentence_vectors": sentence_vectors,
            "dtype": dtype,
            "forget_sentences": forget_sentences,
            "use_sentence_keys": use_sentence_keys,
        },
        "embed",
        ConfigError,
    )
    model = arguments.one_of("--weight-file", weight_file, "--model", model)
    if old.layer is not None:
        state = state or "fresh"
        if model is None:
            screen.note("no --weight-file: the vectors come from the small English model bundled with stelmo")
    found = Inputs(old.inputs, format, column, language, contractions)
    compute = {
        "options": arguments.one_of("--options-file", options_file, "--options", options),
        "state": state,
        "precision": precision,
        "device": arguments.device_of(cuda_device, device),
        "threads": threads,
        "memory": memory,
        "batch_tokens": batch_tokens,
        "batch_rows": batch_rows if batch_size is None else batch_size,
    }
    by_old_flags = (
        old.layer is not None and shard is None and ray is None and len(old.inputs) == 1 and is_file(old.inputs[0])
    )
    if output is None:
        with screen.not_resumable():
            _show(loaded(model, **compute), found, settings)
    elif str(output) == "-":
        with screen.not_resumable():
            _print(loaded(model, **compute), found, settings)
    elif by_old_flags and not sentence_vectors and dtype == OUTPUT.dtype:
        with screen.not_resumable():
            _write_as_allennlp(loaded(model, **compute), old.inputs[0], output, settings)
    else:
        job = _Job(model, compute, found, output, settings, overwrite)
        if ray is not None:
            _write_on_ray(ray, workers, job)
        elif shard is not None:
            _write_shard(shard, job)
        else:
            _write(job)


class _Job(NamedTuple):
    """What to write into a file, wherever it is computed."""

    model: str | None
    compute: dict[str, Any]  # how the model is loaded
    found: Inputs
    output: Path
    settings: OutputSettings
    overwrite: bool


def _refuse_conflicts(
    shard: str | None, merge: bool, ray: str | None, workers: int | None, output: Path | None
) -> None:
    modes = {"--shard": shard is not None, "--merge": merge, "--ray": ray is not None}
    given = [name for name, asked in modes.items() if asked]
    if len(given) > 1:
        raise ConfigError(f"{' and '.join(given)} cannot be combined; give one of them")
    if given and (output is None or str(output) == "-"):
        raise ConfigError(f"{given[0]} writes to disk; name the output with -o FILE")
    if workers is not None and ray is None:
        raise ConfigError("--workers requires --ray; add --ray local for a cluster on this machine")


def _print(model: "Model", found: Inputs, settings: OutputSettings) -> None:
    from stelmo.jobs import run
    from stelmo.store.vectors import json_line

    for sentence, array in run.stream(model, found, settings):
        typer.echo(json_line(sentence.tokens, array))


def _show(model: "Model", found: Inputs, settings: OutputSettings) -> None:
    """A table of sentences; or of one word in several sentences; or of all words, if the sentences share none."""
    from stelmo.embed.contrast import contrast, shared_word

    if settings.layer == "all":
        raise ConfigError("--layer all does not fit in a table; write it with -o FILE")
    first = list(islice(found, SHOWN + 1))
    if not first:
        raise DataError("the input contains no sentence")
    tokens = [sentence.tokens for sentence in first[:SHOWN]]
    vectors = (model.sentence_vectors if settings.sentence_vectors else model.embed)(tokens, settings.layer)
    shown = list(zip(tokens, vectors, strict=True))
    word = shared_word(tokens, model.vocabulary.words if model.vocabulary else None)
    if settings.sentence_vectors:
        screen.print_sentences(shown)
    elif word is None:
        screen.print_words(shown)
    else:
        screen.print_uses(shown, contrast(word, tokens, model.layers(tokens)))
    typer.echo(
        f"{model.config.width} dimensions per {settings.unit}; write them with -o FILE (.hdf5, .parquet, .npz, .jsonl)"
    )
    if len(first) > SHOWN:
        screen.note(f"only the first {SHOWN} sentences are shown")


def _write_as_allennlp(model: "Model", text: str, output: Path, settings: OutputSettings) -> None:
    """As `allennlp elmo`: HDF5 whatever the name of the output, which is replaced; sentences are kept as raw lines."""
    from stelmo.compat.elmo_embedder import ElmoEmbedder

    lines = io.StringIO()
    with LineReader(text) as reader:
        lines.writelines(f"{line}\n" for _, line in reader)
    lines.seek(0)
    layers = {new: old for old, new in arguments.OLD_LAYERS.items()}[str(settings.layer)]
    batch, keys = model.settings.batch_rows, settings.use_sentence_keys
    embedder = ElmoEmbedder.of(model, stateful=model.settings.state == "carry")
    embedder.embed_file(lines, output, layers, batch, settings.forget_sentences, keys)
    typer.echo(f"{output}: {model.config.width} dimensions per word")


def _write(job: _Job) -> None:
    from stelmo.jobs import run

    run.refuse_output(job.output, job.overwrite)
    model = loaded(job.model, **job.compute)
    with screen.progress("embedding", job.found.fraction) as advance:
        done = run.embed_to_file(model, job.found, job.output, job.settings, overwrite=job.overwrite, advance=advance)
    _note_finished(job.output, done.made)
    typer.echo(f"{job.output}: {done.sentences:,} sentences, {model.config.width} dimensions per {job.settings.unit}")


def _write_shard(text: str, job: _Job) -> None:
    from stelmo.jobs import shards

    shard = shards.Shard.parse(text)
    shards.refuse_output(job.output, shard, job.overwrite)
    model = loaded(job.model, **job.compute)
    with screen.progress("embedding", job.found.fraction) as advance:
        done = shards.embed_shard(
            model, job.found, job.output, job.settings, shard, overwrite=job.overwrite, advance=advance
        )
    _note_finished(done.folder, done.made)
    typer.echo(
        f"{done.folder}: {done.sentences:,} sentences; join all {shard.of} parts with "
        f"stelmo embed --merge -o {job.output}"
    )


def _merge(folders: Sequence[str], output: Path, overwrite: bool) -> None:
    from stelmo.jobs import shards

    done = shards.merge([Path(folder) for folder in folders], output, overwrite=overwrite)
    _note_finished(output, done.made)
    typer.echo(f"{output}: {done.sentences:,} sentences; the parts can be deleted")


def _note_finished(output: Path, made: bool) -> None:
    if not made:
        screen.note(f"{output} is finished already, from the same text with the same settings; nothing to do")


def _write_on_ray(address: str, workers: int | None, job: _Job) -> None:
    from stelmo.integrations import ray
    from stelmo.jobs import shared_folder

    shared_folder.refuse_output(job.output, job.overwrite)
    cores = None if workers is None else workers * (job.compute["threads"] or 1)
    with ray.cluster(address, cores), screen.progress("embedding", lambda: None) as advance:
        count = ray.embed_sentences(
            job.found,
            job.output,
            model=job.model,
            workers=workers,
            overwrite=job.overwrite,
            advance=advance,
            say=screen.note,
            **job.compute,
            **job.settings.model_dump(),
        )
    files = len(list(job.output.iterdir()))
    typer.echo(f"{job.output}: {count:,} sentences in {files:,} Parquet file{'s' if files > 1 else ''}")
