"""The interfaces of older programs over stelmo's models: one module for each, used by changing one import line.

Each module has a table `IMPORTS` of the names that old scripts import and a table `ABSENT` of those that are not here,
with what takes their place; docs/migration.md shows both. `allennlp_stateful` is `allennlp` with other defaults.

This file has what several of them need: models, sentences and padded arrays as the old programs accept and return them.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stelmo.embed.load import load
from stelmo.embed.model import Model
from stelmo.engine.engine import checked
from stelmo.errors import DataError, ModelError

MODULES = ("allennlp", "bilm", "tfhub", "simple_elmo", "elmoformanylangs")
COMMANDS = {"allennlp elmo INPUT OUTPUT --all …": "stelmo embed INPUT OUTPUT --all …"}

Array = NDArray[Any]
File = str | Path | None


def loaded(weights: File, options: File = None, **settings: Any) -> Model:
    """The model; sentences start from zeros, as in the originals' first call, unless `state` says otherwise."""
    if weights is None:
        raise ModelError("weight_file is None; expected the path of weights.hdf5")
    return load(weights, options=options, **({"state": "fresh"} | settings))


def sentences_of(batch: Iterable[Any]) -> list[Sequence[str]]:
    """Sentences as lists of tokens. As in the originals, a string counts as the list of its characters."""
    if isinstance(batch, str | bytes):
        raise DataError(f"{batch!r:.60} is a string; expected a list of sentences, each a list of tokens")
    return checked(list(sentence) if isinstance(sentence, str) else sentence for sentence in batch)


def padded(arrays: Sequence[Array], length: int | None = None) -> Array:
    """Arrays (…, T, D) → one (N, …, longest, D) with zeros past each end; `length` replaces the longest."""
    if not arrays:
        raise DataError("no sentences; expected at least one")
    longest = max(array.shape[-2] for array in arrays)
    shape = (*arrays[0].shape[:-2], longest if length is None else length, arrays[0].shape[-1])
    result = np.zeros((len(arrays), *shape), arrays[0].dtype)
    for row, array in zip(result, arrays, strict=True):
        row[..., : array.shape[-2], :] = array
    return result
