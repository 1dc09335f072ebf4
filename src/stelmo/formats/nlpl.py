"""A zip or folder of the NLPL repository (model.hdf5, options.json, vocab.txt or .gz) → a model.

Knows where the files are, at the top or in one folder; their contents are the published layout, which `bilm` reads.
"""

from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from stelmo.errors import ModelError
from stelmo.formats import bilm
from stelmo.formats.untrusted import archives
from stelmo.model.bilm import Softmax
from stelmo.store.saved import SavedModel
from stelmo.text.ids import parse_vocabulary, read_vocabulary

FORMAT = "NLPL {} (bilm HDF5)"
EXPECTED = "model.hdf5 and options.json"


class Members(NamedTuple):
    """Names inside the zip or folder."""

    weights: str
    options: str
    vocabulary: str | None
    softmax: str | None


def recognises(path: Path) -> bool:
    """A zip with weights, or a folder with the repository's names; a damaged .zip counts, so that `read` reports it."""
    if path.is_dir():
        names = _names(path)
        compressed = any(map(_is_weights, names)) and _matching(names, "vocab*.gz")
        return {"model.hdf5", "options.json"} <= {*names} or bool(compressed)
    if not archives.is_zip(path):
        return False
    try:
        return any(_is_weights(name) for name in archives.zip_names(path))
    except ModelError:
        return path.suffix == ".zip"


def read(path: Path) -> SavedModel:
    members = _members(_names(path), path)
    wanted = {name for name in members[:3] if name is not None}
    with _opened(path, wanted) as files:
        config = bilm.read_options(files[members.options])
        words, name = None, members.vocabulary
        if name is not None:
            compressed, file = name.endswith(".gz"), files[name]
            words = parse_vocabulary(archives.gunzipped(file), str(file)) if compressed else read_vocabulary(file)
            words = replace(words, name=f"{path}: {name}")
        saved = bilm.assembled(config, files[members.weights], words)
    saved = replace(saved, format=FORMAT.format("folder" if path.is_dir() else "zip"))
    if members.softmax is None:
        return saved
    return replace(saved, read_softmax=partial(_read_softmax, path, members.softmax, saved))


def _read_softmax(path: Path, name: str, saved: SavedModel) -> Softmax:
    with _opened(path, {name}) as files:
        return bilm.read_softmax(files[name], saved.config, saved.vocabulary)


def _opened(path: Path, names: set[str]) -> AbstractContextManager[dict[str, Path]]:
    if path.is_dir():
        return nullcontext({name: path / name for name in names})
    return archives.unpacked(path, names.__contains__, is_text=lambda name: not name.endswith((".hdf5", ".h5")))


def _names(path: Path) -> list[str]:
    if path.is_dir():
        return sorted(file.name for file in path.iterdir() if file.is_file())
    return archives.zip_names(path)


# Which member is which


def _members(names: list[str], path: Path) -> Members:
    names = [name for name in names if name.count("/") <= 1 and not name.startswith("__MACOSX/")]
    weights = _only(_matching(filter(_is_weights, names), "model.hdf5", "*"), f"{path}: weights", names)
    home = [name for name in names if PurePosixPath(name).parent == PurePosixPath(weights).parent]
    options = _only(_matching(home, "options.json", "*options.json"), f"{path}: options.json", names)
    vocabulary = _matching(home, "vocab.txt", "vocab.txt.gz", "vocab*.txt", "vocab*.gz")
    softmax = _matching(home, "*softmax*.hdf5", "*softmax*.h5")
    return Members(
        weights,
        options,
        _only(vocabulary, f"{path}: vocabulary", names) if vocabulary else None,
        _only(softmax, f"{path}: softmax", names) if softmax else None,
    )


def _is_weights(name: str) -> bool:
    return name.endswith((".hdf5", ".h5")) and "softmax" not in PurePosixPath(name).name


def _matching(names: Iterable[str], *patterns: str) -> list[str]:
    """The names that match the first pattern with any match."""
    names = list(names)
    found = ([name for name in names if fnmatchcase(PurePosixPath(name).name, pattern)] for pattern in patterns)
    return next(filter(None, found), [])


def _only(found: list[str], what: str, names: list[str]) -> str:
    if len(found) == 1:
        return found[0]
    there = ", ".join((found or names)[:5]) or "nothing"
    raise ModelError(f"{what}: {len(found)} found among {there}; expected one each of {EXPECTED}")
