"""A path → its model, in any format; a model → a folder in the chosen format. The entry point to all formats."""

import re
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from pathlib import Path

from stelmo.config import choose
from stelmo.errors import MissingModelError, ModelError
from stelmo.formats import allennlp, bilm, efml, nlpl
from stelmo.formats.tensorflow import checkpoint
from stelmo.formats.untrusted import hdf5
from stelmo.store import atomic, folder, runs
from stelmo.store.saved import SavedModel
from stelmo.text.ids import read_vocabulary

WRITERS = {"stelmo": folder.write, "bilm": bilm.write, "efml": efml.write}
READERS: list[tuple[Callable[[Path], bool], Callable[[Path], SavedModel]]] = [
    (folder.recognises, folder.read),
    (efml.recognises, efml.read),
    (nlpl.recognises, nlpl.read),
    (runs.recognises, lambda path: folder.read(runs.model_of(path))),
]
READABLE = (
    "a stelmo folder or training run, weights.hdf5 with its options.json, an NLPL zip, an ELMoForManyLangs folder "
    "or zip, an AllenNLP .th or .tar.gz, or a bilm-tf checkpoint"
)


File = str | Path


def read(
    path: File,
    options: File | None = None,
    vocabulary: File | None = None,
    softmax: File | None = None,
    prefix: str = "",
) -> SavedModel:
    """The model at the path, in any format. The other files are found beside it unless they are given.

    `prefix` selects one of several ELMos in an AllenNLP state.
    """
    words = None if vocabulary is None else local_path(vocabulary)
    saved = _read(local_path(path), None if options is None else local_path(options), words, prefix)
    if words is not None and saved.vocabulary is None:
        saved = replace(saved, vocabulary=read_vocabulary(words))
    elif words is not None and saved.vocabulary != read_vocabulary(words):
        raise ModelError(f"{words}: not the vocabulary of the model, which has its own; leave this file out")
    if softmax is not None:
        head = partial(bilm.read_softmax, local_path(softmax), saved.config, saved.vocabulary)
        saved = replace(saved, read_softmax=head)
    return saved


def local_path(name: File) -> Path:
    """A path. A URL stands for the file of the same name in the current folder: nothing is downloaded."""
    if "://" not in str(name):
        return Path(name)
    base = str(name).rstrip("/").rpartition("/")[2]
    if Path(base).suffix and Path(base).is_file():
        return Path(base)
    if "tfhub.dev" in str(name):
        raise MissingModelError(
            f"{name}: nothing is downloaded, and TF-Hub's files are not read; download the weights.hdf5 and "
            "options.json of a published ELMo model once and give their path"
        )
    raise MissingModelError(f"{name}: nothing is downloaded; download this file once and give its path")


def _read(path: Path, options: Path | None, vocabulary: Path | None, prefix: str) -> SavedModel:
    try:
        exists = path.exists()
    except OSError as problem:  # a name that is too long, for example
        raise ModelError(f"{path}: {problem.strerror}; expected {READABLE}") from None
    if checkpoint.recognises(path):
        return checkpoint.read(path, options, vocabulary)
    if not exists:
        raise MissingModelError(f"{path}: no such file or folder; expected {READABLE}")
    if allennlp.recognises(path):
        return allennlp.read(path, options, prefix)
    for recognises, read_ in READERS:
        if options is None and recognises(path):
            return read_(path)
    home = path if path.is_dir() else path.parent
    weights = _weights(path)
    found = options or _options(path, weights, home)
    words = vocabulary or _only(home.glob("vocab*.txt"))
    return bilm.read(weights, found, words, _softmax(weights, home), vocabulary_given=vocabulary is not None)


def write(saved: SavedModel, path: Path, format: str = "stelmo", overwrite: bool = False) -> None:
    """The model as a folder, complete or absent."""
    choose("format", format, tuple(WRITERS))
    with atomic.new_folder(path, overwrite) as draft:
        WRITERS[format](saved, draft)


# Files of the published layout


def _weights(path: Path) -> Path:
    if path.is_file() and path.suffix != ".json":
        with path.open("rb") as file:
            start = file.read(8)
        if start[:1] == b"\x80" or start[:4] == b"PK\x03\x04":
            raise ModelError(f"{path}: a pickle or an archive, which is never opened; expected {READABLE}")
        if start != hdf5.MAGIC and path.suffix == ".safetensors":
            raise ModelError(f"{path}: weights without their config.json; load the folder {path.parent}")
        return path
    home = path if path.is_dir() else path.parent
    candidates = [file for file in _hdf5_files(home) if hdf5.contains(file, "RNN_0")]
    if path.suffix == ".json":
        twin = path.with_name(path.name.replace("options.json", "weights.hdf5"))
        candidates = [twin] if twin in candidates else candidates
    if len(candidates) == 1:
        return candidates[0]
    if candidates:
        raise ModelError(f"{home}: {len(candidates)} weight files ({_names(candidates)}); name the one to load")
    raise ModelError(f"{home}: no model here ({_names(home.iterdir()) or 'empty'}); expected {READABLE}")


def _options(path: Path, weights: Path, home: Path) -> Path:
    if path.suffix == ".json":
        return path
    named = weights.with_name(weights.name.replace("weights.hdf5", "options.json"))
    if named != weights and named.is_file():
        return named
    found = _only(home.glob("*options.json"))
    if found is None:
        with weights.open("rb") as file:
            if file.read(8) != hdf5.MAGIC:
                raise ModelError(f"{weights}: not a model; expected {READABLE}")
        raise ModelError(
            f"{weights}: no options.json beside it; copy it there, or name it: --options FILE, in Python options=FILE"
        )
    return found


def _softmax(weights: Path, home: Path) -> Path | None:
    """The softmax named like the weights; else the only one that, by its name, does not belong to another model."""
    named = weights.with_name(weights.name.replace("weights", "softmax_weights"))
    if named != weights and named.is_file():
        return named
    files, own = _hdf5_files(home), _prefix(weights)
    softmaxes = [file for file in files if hdf5.contains(file, "softmax")]
    others = {_prefix(file) for file in files if "weights" in file.name and file not in (weights, *softmaxes)}
    return _only(
        file
        for file in softmaxes
        if _prefix(file) == own or (_prefix(file) not in others and "" in (own, _prefix(file)))
    )


def _prefix(file: Path) -> str:
    """What the names of one model's files begin with: elmo_5.5B_weights.hdf5, elmo_5.5B_softmax_weights.hdf5."""
    found = re.match("(.*?)(softmax|weights)", file.name)
    return found[1] if found else ""


def _hdf5_files(home: Path) -> list[Path]:
    return sorted(file for file in home.iterdir() if file.suffix in (".hdf5", ".h5"))


def _only(files: Iterable[Path]) -> Path | None:
    """The file, if there is exactly one."""
    found = list(files)
    return found[0] if len(found) == 1 else None


def _names(files: Iterable[Path]) -> str:
    names = sorted(file.name for file in files)
    return ", ".join(names[:5]) + (", …" if len(names) > 5 else "")
