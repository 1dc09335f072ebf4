"""`stelmo embed`: text → vectors, in a file or as a small table."""

from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from stelmo.cli import old_flags, screen, spread, table
from stelmo.cli.inputs import Column, Contractions, From, Inputs, Language
from stelmo.cli.models import LOAD, BatchTokens, Device, ModelName, Precision, State, Threads, loaded
from stelmo.config import LoadSettings, OutputSettings, help_of, parse
from stelmo.errors import ConfigError, DataError
from stelmo.text import sentences

if TYPE_CHECKING:
    from stelmo.embed.model import Model

EXAMPLE = "Example: `stelmo embed corpus.txt.gz -o vectors.hdf5 --layer all`"
SHOWN = 20  # sentences of a table; a file takes any number
OUTPUT = OutputSettings()

_load = partial(help_of, LoadSettings)
_output = partial(help_of, OutputSettings)


def embed(
    inputs: Annotated[
        list[str] | None,
        typer.Argument(metavar="[INPUT]...", help="Files, sentences in quotes, or - for standard input."),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="File to write: .hdf5, .parquet, .npz, .jsonl; - prints JSON lines."),
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
    state: State = LOAD.state,
    precision: Precision = LOAD.precision,
    device: Device = LOAD.device,
    threads: Threads = LOAD.threads,
    memory: Annotated[int | None, typer.Option(help=_load("memory"))] = LOAD.memory,
    batch_tokens: BatchTokens = LOAD.batch_tokens,
    batch_rows: Annotated[int, typer.Option(help=_load("batch_rows"))] = LOAD.batch_rows,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the output if it is there.")] = False,
    use_sentence_keys: Annotated[bool, typer.Option("--use-sentence-keys", help=_output("use_sentence_keys"))] = False,
    shard: spread.ShardOption = None,
    merge: spread.Merge = False,
    ray: spread.Ray = None,
    workers: spread.Workers = None,
    all_: old_flags.All = False,
    top: old_flags.Top = False,
    average: old_flags.Average = False,
    batch_size: old_flags.BatchSize = None,
    cuda_device: old_flags.CudaDevice = None,
    weight_file: old_flags.WeightFile = None,
    options_file: old_flags.OptionsFile = None,
    vocab_path: old_flags.VocabPath = None,
) -> None:
    """Text → contextual word vectors, in a file or as a small table."""
    spread.refuse(shard, merge, ray, workers, output)
    if merge and output is not None:
        spread.merge(inputs or [], output, overwrite)
        return
    old = old_flags.translated({"all": all_, "top": top, "average": average}, inputs or [], output)
    old_flags.not_needed(vocab_path)
    output, layer, format = old.output, old.layer or layer, format or old.format
    settings = parse(
        OutputSettings,
        {
            "layer": int(layer) if layer.lstrip("-").isdigit() else layer,
            "sentence_vectors": sentence_vectors,
            "dtype": dtype,
            "forget_sentences": forget_sentences,
            "use_sentence_keys": use_sentence_keys,
        },
        "embed",
        ConfigError,
    )
    tokenizer = partial(sentences.tokenize, language=language, contractions=contractions)
    found = Inputs(old.inputs, format, column, tokenizer)
    model = old_flags.one_of("--weight-file", weight_file, "--model", model)
    compute = {
        "options": options_file,
        "state": state,
        "precision": precision,
        "device": old_flags.device(cuda_device, device),
        "threads": threads,
        "memory": memory,
        "batch_tokens": batch_tokens,
        "batch_rows": batch_rows if batch_size is None else batch_size,
    }
    if output is None:
        _show(loaded(model, **compute), found, settings)
    elif str(output) == "-":
        _print(loaded(model, **compute), found, settings)
    else:
        spread.write(spread.Job(model, compute, found, output, settings, overwrite), shard, ray, workers)


def _print(model: "Model", found: Inputs, settings: OutputSettings) -> None:
    from stelmo.jobs import run
    from stelmo.store.vectors import json_line

    for sentence, array in run.stream(model, found, settings):
        typer.echo(json_line(sentence.tokens, array))


def _show(model: "Model", found: Inputs, settings: OutputSettings) -> None:
    if settings.layer == "all":
        raise ConfigError("--layer all is too much for a table; write it with -o FILE")
    first = list(islice(found, SHOWN + 1))
    if not first:
        raise DataError("the input holds no sentence")
    tokens = [sentence.tokens for sentence in first[:SHOWN]]
    vectors = (model.sentence_vectors if settings.sentence_vectors else model.embed)(tokens, settings.layer)
    shown = list(zip(tokens, vectors, strict=True))
    (table.print_sentences if settings.sentence_vectors else table.print_words)(shown)
    typer.echo(f"{model.config.width} numbers a {settings.unit}; -o FILE writes them (.hdf5, .parquet, .npz, .jsonl)")
    if len(first) > SHOWN:
        screen.note(f"only the first {SHOWN} sentences are shown")
