"""Layers of sentences ↔ a folder that grows, read by memory map. Knows no model and no text.

 manifest.json   model and settings the layers were computed with
 start.npy       the state that every sentence started from
 layers.bin      (L+1, T, D) of one sentence after the other
 index.bin       blocks of records: the key of a sentence and its number of tokens T
 lock            held by the process that writes

`growing.py` explains what an interrupted writer leaves behind.
"""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stelmo.config import Positive, Settings
from stelmo.errors import DataError, OutputError
from stelmo.settings import Dtype
from stelmo.store import growing
from stelmo.store.containers import map_npy

Array = NDArray[Any]

START, NUMBERS, INDEX = "start.npy", "layers.bin", "index.bin"
WAY_OUT = "delete the folder and compute it again"
KEY_BYTES = 16
RECORD = np.dtype([("key", f"V{KEY_BYTES}"), ("tokens", "<i8")])
BLOCKS = growing.BlockFormat(kind_bytes=0, item_bytes=RECORD.itemsize)


class Manifest(Settings):
    """Everything that determines the numbers, except the text."""

    stelmo: Literal[1] = 1  # version of this format
    model: str  # its fingerprint
    settings: dict[str, Any]  # the settings of the model that change numbers
    depth: Positive
    width: Positive
    dtype: Dtype

    @property
    def token_bytes(self) -> int:
        return self.depth * self.width * np.dtype(self.dtype).itemsize


class Place(NamedTuple):
    first: int  # token of layers.bin
    tokens: int


class LayerFolder:
    """The folder's contents when it was opened: key → (L+1, T, D), a view of the memory map."""

    def __init__(self, folder: Path, manifest: Manifest) -> None:
        self.folder, self.manifest = folder, manifest
        self.index_bytes, blocks = 0, [np.empty(0, RECORD)]
        room = growing.size_of(folder / NUMBERS) // manifest.token_bytes
        for block in BLOCKS.complete_blocks(growing.bytes_of(folder / INDEX)):
            blocks.append(np.frombuffer(block.body, RECORD))
            room -= int(blocks[-1]["tokens"].sum())
            if room < 0:  # not all of the block's tokens are in layers.bin
                blocks.pop()
                break
            self.index_bytes = block.end
        records = np.concatenate(blocks)
        tokens = records["tokens"]
        self.tokens = int(tokens.sum())
        raw = records["key"].tobytes()
        keys = [raw[place : place + KEY_BYTES] for place in range(0, len(raw), KEY_BYTES)]
        places = map(Place, (np.cumsum(tokens) - tokens).tolist(), tokens.tolist())
        self._places = dict(zip(keys, places, strict=True))
        self._numbers = growing.mapped(folder / NUMBERS, (self.tokens, manifest.depth * manifest.width), manifest.dtype)

    def __len__(self) -> int:
        return len(self._places)

    def __contains__(self, key: bytes) -> bool:
        return key in self._places

    def __getitem__(self, key: bytes) -> Array:
        first, tokens = self._places[key]
        return self._numbers[first : first + tokens].reshape(self.manifest.depth, tokens, self.manifest.width)

    def __reduce__(self) -> tuple[Any, ...]:
        """Another process maps the files itself; a pickled memory map would contain all numbers."""
        return _reopened, (self.folder, self.manifest)


def prepare(folder: Path, manifest: Manifest, start: Array) -> None:
    """Create the folder, or check that the existing one has the same model and settings."""
    if not (folder / growing.MANIFEST).is_file():
        growing.create(folder, manifest, "precomputed layers", {START: lambda file: np.save(file, start)})
    found, start_found = read_manifest(folder), map_npy(folder / START, WAY_OUT)
    differences = []
    if found.model != manifest.model:
        differences.append(f"model (fingerprint {found.model[:8]} there, {manifest.model[:8]} here)")
    there, here = (one.settings | one.model_dump(include={"depth", "width", "dtype"}) for one in (found, manifest))
    for name in sorted(there.keys() | here.keys()):
        if there.get(name) != here.get(name):
            differences.append(f"{name} ({there.get(name)} there, {here.get(name)} here)")
    # A warm state computed again may differ in its last bits; a different one differs in the first.
    if found == manifest and not (start_found.shape == start.shape and np.allclose(start_found, start, 0, 1e-4)):
        differences.append(f"warm state (its numbers are in {START}; see Model.warm_up)")
    if differences:
        raise OutputError(
            f"{folder} holds layers of another {' and another '.join(differences)}; "
            "choose another folder, or delete this one"
        )


def recognises(folder: Path) -> bool:
    return (folder / growing.MANIFEST).is_file() and (folder / START).is_file()


def describe(folder: Path) -> list[tuple[str, str]]:
    """Lines for `stelmo info`."""
    found = LayerFolder(folder, read_manifest(folder))
    return [
        ("format", "precomputed layers"),
        ("sentences", f"{len(found):,}, {found.tokens:,} tokens"),
        ("vectors", f"{found.manifest.depth} layers of {found.manifest.width} dimensions, {found.manifest.dtype}"),
        ("model", f"fingerprint {found.manifest.model[:16]}"),
    ]


def read_manifest(folder: Path) -> Manifest:
    return growing.read_manifest(folder, Manifest, WAY_OUT)


def _reopened(folder: Path, manifest: Manifest) -> LayerFolder:
    if read_manifest(folder) != manifest:
        raise DataError(f"{folder} was replaced by layers of another model or other settings; open it again")
    return LayerFolder(folder, manifest)


def appending(folder: Path, manifest: Manifest) -> AbstractContextManager["Appender"]:
    """The folder's only writer; a second one is refused."""
    return growing.writing(folder, lambda: Appender(_reopened(folder, manifest)))


class Appender(growing.Writer):
    def __init__(self, found: LayerFolder) -> None:
        self.found = found
        sizes = found.tokens * found.manifest.token_bytes, found.index_bytes
        super().__init__(found.folder, (NUMBERS, INDEX), sizes)

    def append(self, keys: Sequence[bytes], layers: Sequence[Array]) -> None:
        """One block: sentences by their keys, (L+1, T, D) each."""
        assert all(layers_LTD.dtype == self.found.manifest.dtype for layers_LTD in layers)
        records = np.empty(len(keys), RECORD)
        records["key"] = np.frombuffer(b"".join(keys), RECORD["key"])
        records["tokens"] = [layers_LTD.shape[1] for layers_LTD in layers]
        self._append(layers, BLOCKS.packed(records.tobytes()))
