"""A TensorFlow checkpoint (tensor bundle) → numpy arrays, without TensorFlow. Knows no models.

 NAME.index                 a sorted table: "" → header, tensor name → kind, shape, place, checksum
 NAME.data-00000-of-00002   the tensors' bytes, little-endian; the header says how many such shards
 checkpoint                 text that names the latest NAME of a folder

Checksums are CRC-32C, masked. All are verified, and every size is compared with the file's before memory is
allocated.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stelmo.errors import ModelError
from stelmo.formats.tensorflow.index import COPY_AGAIN, KINDS, Entry, RefusedError, crc32c, masked, read_index

_MOST_INDEX_BYTES = 1 << 20  # a biLM has about a hundred names, 4 kB in total


def open_bundle(prefix: Path) -> "Bundle":
    """The checkpoint whose files start with `prefix` (model.ckpt-935588), index and sizes verified."""
    index = Path(f"{prefix}.index")
    try:
        found = read_index(_contents(index, _MOST_INDEX_BYTES))
    except RefusedError as refused:
        raise ModelError(f"{index}: {refused.found}; {refused.way_out}") from None
    return Bundle(prefix, tuple(_shards(prefix, found.shards)), found.entries)


def latest_checkpoint(folder: Path) -> Path:
    """The prefix named in the folder's `checkpoint` file; without that file, the folder's only prefix."""
    try:
        files = [path.name for path in folder.iterdir()]
    except OSError as error:
        raise _unreadable(folder, error) from error
    there = sorted(file.removesuffix(".index") for file in files if file.endswith(".index"))
    if "checkpoint" in files:
        name = _latest_prefix(folder / "checkpoint")
        found = f"the `checkpoint` file names {name[:80]!r}"
    else:
        name = there[0] if len(there) == 1 else ""
        found = "no `checkpoint` file names the latest"
    if name not in there:
        raise ModelError(f"{folder}: {found}, the prefixes here are {_listing(there)}; give one of them")
    return folder / name


@dataclass(frozen=True)
class Bundle:
    """Tensors by name; bytes are read on demand, one tensor at a time."""

    prefix: Path
    _shards: tuple[Path, ...]
    _entries: Mapping[str, Entry]

    def __post_init__(self) -> None:
        for name in self._entries:
            self._checked(name)

    def names(self) -> list[str]:
        """In the order of the index, which is alphabetical."""
        return list(self._entries)

    def __contains__(self, name: object) -> bool:
        return name in self._entries

    def shape(self, name: str) -> tuple[int, ...]:
        return self._entry(name).shape

    def dtype(self, name: str) -> np.dtype[Any]:
        """`object` for a kind that `read` refuses, such as strings."""
        return KINDS.get(self._entry(name).kind, np.dtype(object))

    def read(self, name: str) -> NDArray[Any]:
        """The tensor, its checksum verified."""
        entry = self._checked(name)
        if entry.partitioned:
            raise ModelError(f"{self.prefix}: {name!r} is stored in slices; save it without a partitioner")
        if entry.kind not in KINDS:
            raise ModelError(f"{self.prefix}: {name!r} has kind {entry.kind}; only plain numbers are read")
        shard, kind = self._shards[entry.shard], KINDS[entry.kind]
        try:
            with shard.open("rb") as file:
                file.seek(entry.offset)
                raw = np.fromfile(file, np.uint8, entry.size)
        except OSError as error:
            raise _unreadable(shard, error) from error
        if len(raw) != entry.size or masked(crc32c(raw)) != entry.checksum:
            raise ModelError(f"{shard}: the bytes of {name!r} do not match their checksum; {COPY_AGAIN}")
        return raw.view(kind).astype(kind.newbyteorder("="), copy=False).reshape(entry.shape)

    def _checked(self, name: str) -> Entry:
        entry = self._entry(name)
        if entry.shard >= len(self._shards):
            found = f"{name!r} is in shard {entry.shard}, the last is {len(self._shards) - 1}"
            raise ModelError(f"{self.prefix}: {found}; {COPY_AGAIN}")
        shard, end = self._shards[entry.shard], entry.offset + entry.size
        if (length := _length(shard)) < end:
            raise ModelError(f"{shard}: {length} bytes, but {name!r} ends at byte {end}; {COPY_AGAIN}")
        if entry.size != (size := entry.expected_size):
            found = f"{name!r} has {entry.size} bytes, {entry.shape} needs {size}"
            raise ModelError(f"{shard}: {found}; {COPY_AGAIN}")
        return entry

    def _entry(self, name: str) -> Entry:
        if name not in self._entries:
            raise ModelError(f"{self.prefix}: no tensor {name!r}; there is {_listing(self.names())}")
        return self._entries[name]


def _shards(prefix: Path, count: int) -> Iterator[Path]:
    """Stops at the first missing file, so that a wrong, huge count takes no time."""
    for i in range(count):
        shard = Path(f"{prefix}.data-{i:05d}-of-{count:05d}")
        _length(shard)
        yield shard


def _length(path: Path) -> int:
    try:
        if path.is_file():
            return path.stat().st_size
    except OSError as error:
        raise _unreadable(path, error) from error
    raise ModelError(f"{path}: no such file; give the prefix that an .index and its .data-* files share")


def _contents(path: Path, most: int) -> bytes:
    if (length := _length(path)) > most:
        raise ModelError(f"{path}: {length} bytes, at most {most} are expected; is this another kind of file?")
    try:
        return path.read_bytes()
    except OSError as error:
        raise _unreadable(path, error) from error


def _unreadable(path: Path, error: OSError) -> ModelError:
    return ModelError(f"{path}: cannot be read ({error.strerror}); check the path and its permissions")


def _latest_prefix(note: Path) -> str:
    """The prefix in a `checkpoint` file, without the folder of the machine that wrote it."""
    text = _contents(note, _MOST_INDEX_BYTES)
    line = re.search(rb'^[ \t]*model_checkpoint_path[ \t]*:[ \t]*"((?:[^"\\\n]|\\.)*)"', text, re.MULTILINE)
    if line is None:
        raise ModelError(f"{note}: no model_checkpoint_path; give the prefix of an .index file instead")
    path = re.sub(  # an octal number of three digits, or any other escaped character
        rb"\\([0-3][0-7]{2}|.)", lambda found: found[1] if len(found[1]) == 1 else bytes([int(found[1], 8)]), line[1]
    )
    return re.split(r"[/\\]", path.decode(errors="replace"))[-1]


def _listing(names: list[str]) -> str:
    more = f" and {len(names) - 8} more" if len(names) > 8 else ""
    return (", ".join(names[:8]) or "none") + more
