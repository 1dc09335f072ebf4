"""Layers of sentences ↔ a folder that grows, read by memory map. Knows no model and no text.

 manifest.json   what the layers are of; there from the beginning, with start.npy
 start.npy       the state that every sentence started from
 layers.bin      (L+1, T, D) of one sentence after the other
 index.bin       blocks: how many sentences, a checksum, and of each its key and its tokens T
 lock            held by the process that writes

A block goes into the index when its layers are on the disk. What counts is the leading blocks that are whole in both
files; anything behind them was left by a writer that was stopped, and the next writer cuts it off.
"""

import json
import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stelmo.config import Dtype, Positive, Settings, parse
from stelmo.errors import DataError, OutputError
from stelmo.store import atomic, growing

Array = NDArray[Any]

MANIFEST, START, NUMBERS, INDEX = "manifest.json", "start.npy", "layers.bin", "index.bin"
KEY_BYTES = 16
HEADER = struct.Struct(f"<Q{growing.CHECKSUM_BYTES}s")  # sentences of a block, checksum of their records
RECORD = np.dtype([("key", f"V{KEY_BYTES}"), ("tokens", "<i8")])


class Manifest(Settings):
    """All that decides the numbers, but the text."""

    stelmo: Literal[1] = 1  # version of this format
    model: str  # its fingerprint
    settings: dict[str, Any]  # of the model, those that change numbers
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
    """What the folder held when it was opened: key → (L+1, T, D), a view of the memory map."""

    def __init__(self, folder: Path, manifest: Manifest) -> None:
        self.folder, self.manifest = folder, manifest
        index = growing.bytes_of(folder / INDEX)
        blocks = list(_whole_blocks(index, growing.size_of(folder / NUMBERS) // manifest.token_bytes))
        self.index_bytes = sum(HEADER.size + block.nbytes for block in blocks)
        records = np.concatenate(blocks) if blocks else np.empty(0, RECORD)
        self.tokens = int(records["tokens"].sum())
        self._places = dict(zip(_keys(records), _places(records["tokens"]), strict=True))
        self._numbers = growing.mapped(folder / NUMBERS, (self.tokens, manifest.depth * manifest.width), manifest.dtype)

    def __len__(self) -> int:
        return len(self._places)

    def __contains__(self, key: bytes) -> bool:
        return key in self._places

    def __getitem__(self, key: bytes) -> Array:
        first, tokens = self._places[key]
        return self._numbers[first : first + tokens].reshape(self.manifest.depth, tokens, self.manifest.width)

    def __reduce__(self) -> tuple[Any, ...]:
        """Another process maps the files itself; a pickled memory map would be all its numbers."""
        return _reopened, (self.folder, self.manifest)


def prepare(folder: Path, manifest: Manifest, start: Array) -> None:
    """Make the folder, or see that the one there is of the same model and settings."""
    if not (folder / MANIFEST).is_file():
        _create(folder, manifest, start)
    differences = list(_differences(read_manifest(folder), manifest, _start_of(folder), start))
    if differences:
        raise OutputError(
            f"{folder} holds layers of another {' and another '.join(differences)}; "
            "choose another folder, or delete this one"
        )


def _create(folder: Path, manifest: Manifest, start: Array) -> None:
    """The manifest last, and under the lock: of two processes that begin at once, one makes the folder."""
    atomic.refuse_existing(folder, overwrite=True)
    if folder.exists() and not (folder.is_dir() and all(map(_is_beginning, folder.iterdir()))):
        raise OutputError(f"{folder} exists and holds no precomputed layers; choose another name")
    with growing.reported(folder):
        folder.mkdir(exist_ok=True)
    with growing.locked(folder):
        if (folder / MANIFEST).is_file():
            return
        with atomic.new_file(folder / START, overwrite=True) as draft, draft.open("wb") as file:
            np.save(file, start)
        with atomic.new_file(folder / MANIFEST) as draft:
            draft.write_text(manifest.model_dump_json(indent=1) + "\n")


def _is_beginning(path: Path) -> bool:
    """Whether a process stopped while it made the folder may have left the file."""
    return path.name in (growing.LOCK, START) or path.name.startswith((f".{START}.", f".{MANIFEST}."))


def recognises(folder: Path) -> bool:
    return (folder / MANIFEST).is_file() and (folder / START).is_file()


def describe(folder: Path) -> list[tuple[str, str]]:
    """In lines for a person."""
    found = LayerFolder(folder, read_manifest(folder))
    return [
        ("format", "precomputed layers"),
        ("sentences", f"{len(found):,}, {found.tokens:,} tokens"),
        ("vectors", f"{found.manifest.depth} layers of {found.manifest.width} numbers, {found.manifest.dtype}"),
        ("model", f"fingerprint {found.manifest.model[:16]}"),
    ]


def read_manifest(folder: Path) -> Manifest:
    try:
        values = json.loads((folder / MANIFEST).read_text())
    except (OSError, ValueError):
        raise DataError(f"{folder / MANIFEST}: missing or damaged; delete the folder and compute it anew") from None
    return parse(Manifest, values, str(folder / MANIFEST), DataError)


@contextmanager
def appending(folder: Path, manifest: Manifest) -> Iterator["Appender"]:
    """The one writer of the folder; a second is refused. A lock ends with its process, however that ends."""
    with growing.locked(folder):
        appender = Appender(_reopened(folder, manifest))
        try:
            yield appender
        finally:
            appender.close()


class Appender:
    """Adds blocks behind those that are whole."""

    def __init__(self, found: LayerFolder) -> None:
        self.found = found
        with growing.reported(found.folder):
            self._numbers = growing.cut(found.folder / NUMBERS, found.tokens * found.manifest.token_bytes)
            self._index = growing.cut(found.folder / INDEX, found.index_bytes)

    def append(self, keys: Sequence[bytes], layers: Sequence[Array]) -> None:
        """One block: there whole or not at all, whatever stops the process."""
        dtype = np.dtype(self.found.manifest.dtype)
        records = np.empty(len(keys), RECORD)
        records["key"] = np.frombuffer(b"".join(keys), RECORD["key"])
        records["tokens"] = [layers_LTD.shape[1] for layers_LTD in layers]
        with growing.reported(self.found.folder):
            for layers_LTD in layers:
                assert layers_LTD.dtype == dtype
                self._numbers.write(growing.little_endian(layers_LTD))
            growing.flush_to_disk(self._numbers)
            self._index.write(HEADER.pack(len(records), growing.checksum(records.tobytes())) + records.tobytes())
            growing.flush_to_disk(self._index)

    def close(self) -> None:
        with growing.reported(self.found.folder):
            self._numbers.close()
            self._index.close()


def _reopened(folder: Path, manifest: Manifest) -> LayerFolder:
    if read_manifest(folder) != manifest:
        raise DataError(f"{folder} was replaced by layers of another model or settings; open it anew")
    return LayerFolder(folder, manifest)


def _differences(found: Manifest, asked: Manifest, start_found: Array, start: Array) -> Iterator[str]:
    """What differs, with its value there and here."""
    if found.model != asked.model:
        yield f"model (fingerprint {found.model[:8]} there, {asked.model[:8]} here)"
    there, here = (one.settings | one.model_dump(include={"depth", "width", "dtype"}) for one in (found, asked))
    for name in sorted(there.keys() | here.keys()):
        if there.get(name) != here.get(name):
            yield f"{name} ({there.get(name)} there, {here.get(name)} here)"
    # A warm state made anew may differ in its last bits; another one differs in the first.
    if found == asked and not (start_found.shape == start.shape and np.allclose(start_found, start, 0, 1e-4)):
        yield f"warm state (its numbers are in {START}; see Model.warm_up)"


def _start_of(folder: Path) -> Array:
    try:
        start: Array = np.load(folder / START, allow_pickle=False)
    except (OSError, ValueError, EOFError):
        raise DataError(f"{folder / START}: missing or damaged; delete the folder and compute it anew") from None
    return start


def _whole_blocks(index: bytes, room: int) -> Iterator[Array]:
    """The leading blocks that are all there, with all their tokens among the `room` that layers.bin has."""
    place = 0
    while len(index) - place >= HEADER.size:
        count, checksum = HEADER.unpack_from(index, place)
        place += HEADER.size
        body = index[place : place + count * RECORD.itemsize]
        if len(body) != count * RECORD.itemsize or growing.checksum(body) != checksum:
            return
        records = np.frombuffer(body, RECORD)
        room -= int(records["tokens"].sum())
        if room < 0:
            return
        yield records
        place += len(body)


def _keys(records: Array) -> list[bytes]:
    raw = records["key"].tobytes()
    return [raw[place : place + KEY_BYTES] for place in range(0, len(raw), KEY_BYTES)]


def _places(tokens: Array) -> Iterator[Place]:
    return map(Place, (np.cumsum(tokens) - tokens).tolist(), tokens.tolist())
