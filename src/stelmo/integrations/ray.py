"""Sentences, or a Ray dataset → a folder of Parquet files, computed by the workers of a Ray cluster.

The driver cuts the text into blocks as `stelmo embed` does and stores them in a folder that all machines share; each
actor loads a model and takes block after block. The same call again skips finished blocks.
"""

import json
import logging
import os
import socket
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from stelmo import errors
from stelmo.config import parse
from stelmo.embed.load import load
from stelmo.errors import ConfigError, DataError, StelmoError
from stelmo.jobs import blocks, shared_folder
from stelmo.jobs.run import Advance
from stelmo.settings import OutputSettings
from stelmo.store import containers
from stelmo.text import formats, sentences
from stelmo.text.formats import Sentence

LOCAL = "local"
CONNECT_TIMEOUT = 10  # seconds a machine has to accept a connection
ANSWER_TIMEOUT = 60  # seconds a cluster has to answer; Ray itself waits for many minutes
PROBE = "import ray, sys; ray.init(sys.argv[1], logging_level='ERROR', log_to_driver=False)"
FILES = ("options", "vocabulary", "softmax", "token_embeddings")  # of `stelmo.load`, beside the model itself
OBJECT_STORE = 128 * 2**20  # bytes, of a local cluster: only numbers of blocks go through it


def embed(dataset: Any, output: str | Path, *, column: str | None = None, **options: Any) -> Any:
    """A Ray dataset → the dataset of its vectors, one row per sentence, stored in the folder `output`.

    `column` holds raw text or tokens; unset, it is `tokens`, else `text`. `language` and `contractions` apply
    to raw text; the other options are those of `embed_sentences`.
    """
    names = {"language", "contractions"} & options.keys()
    tokenizer = partial(sentences.tokenize, **{name: options.pop(name) for name in names})
    embed_sentences(_of_dataset(dataset, column, tokenizer), Path(output), **options)
    return import_ray().data.read_parquet(_absolute(output))


def embed_sentences(
    found: Iterable[Sentence],
    output: Path,
    *,
    model: str | Path | None = None,
    workers: int | None = None,
    overwrite: bool = False,
    advance: Advance = lambda tokens: None,
    say: Callable[[str], None] = warnings.warn,
    **options: Any,
) -> int:
    """Write the vectors of all sentences to a folder of Parquet files; returns the number of sentences.

    Runs on the cluster Ray is connected to (see `cluster`). A worker is a process with `threads` threads (1) and a
    model; unset, there are as many as the cluster has cores for. Options are those of `stelmo.load` and of the output
    (`layer`, `sentence_vectors`, `dtype`, …). `say` takes a message if something is done differently than asked.
    """
    import_ray()
    shared_folder.refuse_output(output, overwrite)
    kept = {name: options.pop(name) for name in OutputSettings.model_fields if name in options}
    settings = parse(OutputSettings, kept, "embed", ConfigError)
    options = {name: _absolute(value) if name in FILES else value for name, value in options.items()}
    options["threads"] = options.get("threads") or 1
    local = load(model, **options)
    if local.settings.state == "carry":
        raise ConfigError("ray: under state 'carry' a sentence depends on all before it; choose warm or fresh")
    about = blocks.run_settings(local, settings)
    folder = blocks.working_folder(output.absolute(), about, overwrite)
    make = partial(_worker, folder, _absolute(model), options, settings, about)
    with blocks.removed_if_empty(folder, "*.parquet"):
        filled = shared_folder.fill(folder, blocks.cut(local, found, settings))
        advance(filled.finished_tokens)
        for done in _computed(filled.unfinished, make, workers, options["threads"], local.settings.device):
            advance(done.tokens)
            if done.pieces > 1:
                say(f"the block at {done.place} was too much for a worker's memory; done in {done.pieces} pieces")
    shared_folder.finish(folder, filled.blocks, output)
    return filled.sentences


@contextmanager
def cluster(address: str = LOCAL, cores: int | None = None) -> Iterator[None]:
    """Connect to the cluster at the address, or start a local one (`cores` of it, or all) and stop it at the end."""
    ray = import_ray()
    options: dict[str, Any] = {"include_dashboard": False, "logging_level": logging.ERROR, "log_to_driver": False}
    if address == LOCAL:
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # a cluster started here sends no statistics …
        os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "fatal")  # … and writes no log lines into our progress display
        options |= {"num_cpus": cores, "object_store_memory": OBJECT_STORE}
    else:
        _refuse_silent(address)
    ray.init(address, **options)
    try:
        yield
    finally:
        ray.shutdown()


def import_ray() -> Any:
    try:
        import ray
        import ray.data
    except ImportError:
        raise ConfigError("a cluster requires Ray; pip install 'stelmo[ray]'") from None
    logging.getLogger("ray.data").setLevel(logging.ERROR)  # it logs every step
    return ray


def _refuse_silent(address: str) -> None:
    """Checked in a separate process, which can be killed; Ray's own waiting cannot be interrupted."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    try:
        if port.isdigit():
            socket.create_connection((host, int(port)), CONNECT_TIMEOUT).close()
        command = [sys.executable, "-c", PROBE, address]
        subprocess.run(command, check=True, capture_output=True, timeout=ANSWER_TIMEOUT)
        return
    except subprocess.TimeoutExpired:
        reason = f"silent for {ANSWER_TIMEOUT} seconds"
    except subprocess.CalledProcessError as problem:
        reason = str(problem.stderr, "utf-8", "replace").strip().rpartition("\n")[2][:200]
    except (OSError, OverflowError) as problem:
        reason = str(getattr(problem, "strerror", None) or problem)
    raise ConfigError(
        f"Ray at {address}: no answer ({reason}); expected HOST:PORT of a cluster "
        f"(`ray start --head` prints it), auto, or {LOCAL} for one on this machine"
    )


def _of_dataset(dataset: Any, column: str | None, tokenizer: formats.Tokenizer) -> Iterator[Sentence]:
    """Tokenised on the cluster, collected in row order."""
    name = containers.text_column(list(dataset.schema().names), "dataset", column)
    split = dataset.map_batches(_split, fn_args=(name, tokenizer), batch_format="pyarrow")
    split.context.execution_options.preserve_order = True
    for number, row in enumerate(split.iter_rows(), 1):
        answer = json.loads(row["answer"])
        if isinstance(answer, str):
            raise DataError(f"dataset: row {number}, column {name}: {answer}")
        for tokens in answer:
            yield Sentence(tokens, "dataset", number)


def _split(batch: Any, column: str, tokenizer: formats.Tokenizer) -> dict[str, list[str]]:
    """The sentences of each row, or an error message: Ray would wrap an exception in its own."""
    answers: list[list[list[str]] | str] = []
    for value in batch[column].to_pylist():
        try:
            answers.append(formats.of_value(value, "", tokenizer))
        except DataError as problem:
            answers.append(str(problem).removeprefix(": "))
    return {"answer": [json.dumps(answer) for answer in answers]}


def _worker(
    folder: Path, model: str | None, options: dict[str, Any], settings: OutputSettings, about: dict[str, Any]
) -> shared_folder.Worker:
    return shared_folder.Worker(folder, load(model, **options), settings, about)


class _Actor:
    """Takes a block's number; returns what was done, or the user's mistake and its class."""

    def __init__(self, make: Callable[[], shared_folder.Worker]) -> None:
        self._make = make
        self._worker: shared_folder.Worker | None = None  # made with the first block: a failure is then an answer

    def __call__(self, batch: dict[str, Any]) -> dict[str, list[str]]:
        (number,) = batch["item"]
        try:
            self._worker = self._worker or self._make()
            answer: tuple[Any, ...] = self._worker.compute(int(number))
        except StelmoError as problem:
            answer = type(problem).__name__, str(problem)
        return {"answer": [json.dumps(answer)]}


def _computed(
    numbers: list[int], make: Callable[[], shared_folder.Worker], workers: int | None, threads: int, device: str
) -> Iterator[shared_folder.Done]:
    """Blocks as they finish. Ray restarts a lost worker and gives it the block again."""
    if not numbers:
        return
    ray = import_ray()
    size = workers or max(1, int(ray.cluster_resources().get("CPU", 1)) // threads)
    answers = ray.data.from_items(numbers, override_num_blocks=len(numbers)).map_batches(
        _Actor,
        fn_constructor_args=(make,),
        batch_size=1,
        compute=ray.data.ActorPoolStrategy(size=min(size, len(numbers))),
        num_cpus=threads,
        num_gpus=1 if device.startswith("cuda") else None,
    )
    answers.context.enable_progress_bars = False
    try:
        for row in answers.iter_rows():
            yield _done(json.loads(row["answer"]))
    except ray.exceptions.RayError as problem:
        reason = str(problem).strip().rpartition("\n")[2]
        raise ConfigError(f"a Ray worker failed: {reason:.300}; run the same command again to resume") from problem


def _done(answer: list[Any]) -> shared_folder.Done:
    """What a worker did; its mistake is raised here as the exception it was there."""
    if len(answer) == 2:
        kind, message = answer
        raise getattr(errors, kind)(message)
    return shared_folder.Done(*answer)


def _absolute(name: str | Path | None) -> str | None:
    """The path as workers, which start in other folders, can find it."""
    return None if name is None else str(Path(name).absolute())
