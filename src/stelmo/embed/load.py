"""A name or path → `Model`. The one entry point to every stored model; knows no format."""

from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from threading import RLock
from typing import Any, NamedTuple, TypedDict, Unpack

from stelmo.config import parse
from stelmo.embed.model import Array, Model, Reduce, Sentences
from stelmo.errors import ConfigError, ModelError
from stelmo.formats import bilm, models
from stelmo.settings import LoadSettings, Precision, StatePolicy
from stelmo.store import folder

KEPT = 2  # shared models in memory; the least recently used is dropped
HUB_FILES = ["config.json", "model.safetensors", "softmax.safetensors", "vocab.txt", "alphabet.json", "README.md"]


class LoadOptions(TypedDict, total=False):
    """The keyword arguments of `load`, for functions that pass them on."""

    options: str | Path | None
    vocabulary: str | Path | None
    softmax: str | Path | None
    token_embeddings: str | Path | None
    prefix: str
    state: StatePolicy | None
    precision: Precision
    device: str
    threads: int | None
    memory: int | None
    batch_tokens: int
    batch_rows: int


def load(
    path: str | Path | None = None,
    *,
    options: str | Path | None = None,
    vocabulary: str | Path | None = None,
    softmax: str | Path | None = None,
    token_embeddings: str | Path | None = None,
    prefix: str = "",
    state: StatePolicy | None = None,
    precision: Precision = "float32",
    device: str = "cpu",
    threads: int | None = None,
    memory: int | None = None,
    batch_tokens: int = 4096,
    batch_rows: int = 64,
) -> Model:
    """The bundled model, or the one at the path, in any format: a stelmo folder, weights.hdf5 with its options.json,
    an NLPL zip, an ELMoForManyLangs folder or zip, an AllenNLP .th or .tar.gz, a bilm-tf checkpoint.

    Files beside the weights are found by their names, or given:

    - `options`: the options.json of the published format.
    - `vocabulary`: one word per line; it names the rows of the softmax.
    - `softmax`: the weights of the language-model head, for probabilities.
    - `token_embeddings`: layer 0 of all vocabulary words, written by the original software; the model then reads
      only words of the vocabulary.
    - `prefix`: which ELMo to take where an AllenNLP state holds several.

    How the model computes:

    - `state`: where the LSTMs start: "warm" (a fixed state of the model), "fresh" (zeros) or "carry" (each row of a
      batch continues where it ended in the batch before, as in the 2018 releases). None: warm if the model has a
      warm state of its own, otherwise fresh.
    - `precision`: "float32", "float64"; "int8" (CPU: 8-bit weights, faster for wide models, nearly the same vectors);
      "bfloat16" or "float16" (GPU: products in half precision).
    - `device`: "cpu", "cuda", "cuda:1", "mps".
    - `threads`: CPU threads of this process; None: torch's default.
    - `memory`: MB the whole process may use, the model included; None: whatever is fastest.
    - `batch_tokens`: tokens computed together, padding included.
    - `batch_rows`: sentences computed together under "carry", in input order.
    """
    given = {
        **({} if state is None else {"state": state}),
        "precision": precision,
        "device": device,
        "threads": threads,
        "memory": memory,
        "batch_tokens": batch_tokens,
        "batch_rows": batch_rows,
    }
    settings = parse(LoadSettings, given, "load", ConfigError)
    for name, file in (("options", options), ("vocabulary", vocabulary), ("softmax", softmax)):
        if path is None and file is not None:
            raise ConfigError(f"{name} {file}: the bundled model has its own; name the model that the file belongs to")
    saved = folder.english() if path is None else models.read(path, options, vocabulary, softmax, prefix)
    if token_embeddings is not None:
        model = Model(saved, settings)
        saved = model.saved()
        if model.settings.state == "warm":
            # The warm state is computed from the characters: its text may have words that the vocabulary lacks.
            saved = replace(saved, start=model.start_state("warm"))
        saved = bilm.with_token_embeddings(saved, models.local_path(token_embeddings))
    return Model(saved, settings)


def from_pretrained(
    name: str | Path,
    *,
    revision: str | None = None,
    local_files_only: bool = False,
    **settings: Unpack[LoadOptions],
) -> Model:
    """A folder, or the name of a model on the Hugging Face hub: the only function that may use the network.

    The other keyword arguments are those of `load`.
    """
    if Path(name).is_dir():  # checked first: without a network an unknown hub name takes long to fail
        return load(name, **settings)
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError

    try:
        folder = snapshot_download(
            str(name), revision=revision, local_files_only=local_files_only, allow_patterns=HUB_FILES
        )
    except (HfHubHTTPError, HFValidationError, LocalEntryNotFoundError, OSError) as problem:
        reason = str(problem).strip().split("\n")[0]
        raise ModelError(f"{name}: no such folder, and no such model on the hub or in its cache ({reason})") from None
    return load(folder, **settings)


# One model per process, shared by all callers.
#
# What other libraries copy, pickle and send to workers is the name and the fingerprint, never the weights.

_Stamp = tuple[tuple[str, int, int], ...]
_lock = RLock()  # a model is read only once, and computes for one caller at a time: a call already uses all threads


class SharedModel(NamedTuple):
    model: Model
    fingerprint: str

    def run(self, sentences: Sentences, reduce: Reduce) -> list[Array]:
        with _lock:
            return self.model.run(sentences, reduce)[0]


def shared(name: object, settings: LoadSettings, fingerprint: str | None = None) -> SharedModel:
    """The model of that name (None: the bundled one), refused if its fingerprint is not the one expected."""
    if settings.state == "carry":
        raise ConfigError("state: under 'carry' a sentence depends on all before it; choose warm or fresh")
    path = absolute_name(name)
    with _lock:
        found = _read(path, _stamp(path), tuple(settings.model_dump(exclude_unset=True).items()))
    if fingerprint not in (None, found.fingerprint):
        raise ModelError(
            f"{path or 'the bundled model'}: other weights (fingerprint {found.fingerprint[:8]}) than before "
            f"({fingerprint:.8}); restore those, or fit or save again"
        )
    return found


def absolute_name(name: object) -> str | None:
    """The path as it is found from any working directory."""
    if name is None or isinstance(name, str | Path):
        return None if name is None else str(Path(name).absolute())
    raise ConfigError(f"model: {type(name).__name__} found; expected a path, so save it first: model.save('my-model')")


@lru_cache(maxsize=KEPT)
def _read(path: str | None, stamp: _Stamp, settings: tuple[tuple[str, Any], ...]) -> SharedModel:
    model = load(path, **dict(settings))
    return SharedModel(model, model.saved().fingerprint())


def _stamp(path: str | None) -> _Stamp:
    """Changes when the files do, so that a changed model is read again."""
    if path is None or not Path(path).exists():
        return ()
    files = sorted(Path(path).iterdir()) if Path(path).is_dir() else [Path(path)]
    return tuple((file.name, file.stat().st_mtime_ns, file.stat().st_size) for file in files)
