"""A name or path → `Model`. The one door to every stored model; knows no format."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from stelmo.config import LoadSettings, parse
from stelmo.embed.model import Model
from stelmo.errors import ConfigError, ModelError
from stelmo.formats import bilm, models
from stelmo.store import bundled

HUB_FILES = ["config.json", "model.safetensors", "softmax.safetensors", "vocab.txt", "alphabet.json", "README.md"]


def load(
    path: str | Path | None = None,
    *,
    options: str | Path | None = None,
    vocabulary: str | Path | None = None,
    softmax: str | Path | None = None,
    token_embeddings: str | Path | None = None,
    prefix: str = "",
    **settings: Any,
) -> Model:
    """The bundled model, or the one at the path, in any format: a stelmo folder, weights.hdf5 with its options.json,
    an NLPL zip, an ELMoForManyLangs folder, an AllenNLP .th or .tar.gz, a bilm-tf checkpoint.

    Files beside the weights are found by name or given. `token_embeddings` is a cache of layer 0 made by the
    original software; the model then reads the vocabulary's words alone. `prefix` chooses among several ELMos in one
    AllenNLP state. Settings: state, precision, device,
    threads, batch_tokens, batch_rows.

    Without `state`, a model that has a warm state of its own starts sentences from it; any other starts from zeros.
    """
    given = {name: value for name, value in settings.items() if name != "state" or value is not None}
    chosen = parse(LoadSettings, given, "load", ConfigError)
    if path is None:
        saved = bundled.english()
    else:
        saved = models.read(local_path(path), _path(options), _path(vocabulary), _path(softmax), prefix)
    if token_embeddings is not None:
        model = Model(saved, chosen)
        saved = model.saved()
        if model.settings.state == "warm":
            # The warm state comes from the characters: its text may have words that the vocabulary lacks.
            saved = replace(saved, start=model.start_state("warm"))
        saved = bilm.with_token_embeddings(saved, Path(token_embeddings))
    return Model(saved, chosen)


def from_pretrained(
    name: str | Path, *, revision: str | None = None, local_files_only: bool = False, **settings: Any
) -> Model:
    """A folder, or by its name a model on the Hugging Face hub: the only call that may use the network."""
    if Path(name).is_dir():  # asked first: an unknown hub name takes long to fail without a network
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


def local_path(name: str | Path) -> Path:
    """A path. A URL stands for the file of the same name in the current folder: nothing is downloaded."""
    if "://" not in str(name):
        return Path(name)
    base = str(name).rstrip("/").rpartition("/")[2]
    if Path(base).suffix and Path(base).is_file():
        return Path(base)
    if "tfhub.dev" in str(name):
        raise ModelError(
            f"{name}: nothing is downloaded, and TF-Hub's files are not read; download the weights.hdf5 and "
            "options.json of a published ELMo model once and give their path"
        )
    raise ModelError(f"{name}: nothing is downloaded; download this file once and give its path")


def _path(name: str | Path | None) -> Path | None:
    return None if name is None else local_path(name)
