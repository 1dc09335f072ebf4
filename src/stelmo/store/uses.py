"""Word uses with their layers ↔ a folder that grows, read by memory map. Knows no model.

 manifest.json   model and settings the layers were computed with
 vectors.bin     one row for each use
 journal.bin     blocks of two kinds
 suggested.json  words to begin with; computed again if it is missing or the index has changed
 lock            held by the process that writes

 ADD   a JSON line for each sentence: its tokens, the positions whose uses are kept, and, if there are any, the columns:
       a name → the values of the uses
 DEL   the numbers of deleted uses

A use's number is its place in vectors.bin and never changes. `growing.py` explains what an interrupted writer leaves
behind. The manifest says how a row stores the layers:

 int8      for each layer a float32, the value of one step; then the layers in steps, -127 … 127. Of layer 0 only the
           first half is stored: in a biLM the second one is equal to it
 float16   (L+1, D), in older indexes; they are read, and grow as they are

N uses, L layers, D width, B bytes of a row.
"""

import contextlib
import json
from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stelmo.config import Positive, Settings
from stelmo.errors import DataError, OutputError
from stelmo.store import atomic, growing

VECTORS, JOURNAL = "vectors.bin", "journal.bin"
SUGGESTED = "suggested.json"
ADD, DELETE = b"ADD ", b"DEL "
BLOCKS = growing.BlockFormat(kind_bytes=4, item_bytes=1)
WAY_OUT = "delete the folder and index the corpus again"

Array = NDArray[Any]
Numbers = NDArray[np.int64]


class Manifest(Settings):
    """Everything that determines the numbers, except the text."""

    stelmo: Literal[1] = 1  # version of this format
    kind: Literal["uses"] = "uses"
    model: str  # its fingerprint
    settings: dict[str, Any]  # the settings of the model that change numbers
    depth: Positive
    width: Positive
    vectors: Literal["int8", "float16"] = "float16"  # old manifests do not have it

    @property
    def use_bytes(self) -> int:
        if self.vectors == "float16":
            return 2 * self.depth * self.width
        return 4 * self.depth + self.width // 2 + (self.depth - 1) * self.width

    def packed(self, layers_NLD: Array) -> Array:
        """(N, B): the rows that store these layers; numbers that cannot be stored are refused."""
        layers_NLD = np.asarray(layers_NLD, np.float32)
        if self.vectors == "float16":
            with np.errstate(over="ignore"):
                halves_NLD = layers_NLD.astype("<f2")
            _refuse_infinite(halves_NLD, layers_NLD, "finite numbers up to 65504, which float16 holds")
            return halves_NLD.reshape(len(layers_NLD), self.depth * self.width).view(np.uint8)
        _refuse_infinite(layers_NLD, layers_NLD, "finite numbers")
        half = self.width // 2
        assert (layers_NLD[:, 0, :half] == layers_NLD[:, 0, half:]).all(), "layer 0 is the same in both directions"
        step_NL = np.abs(layers_NLD).max(2) / np.float32(127)
        steps_NLD = layers_NLD / np.where(step_NL > 0, step_NL, 1)[:, :, None]
        steps_NLD = np.rint(steps_NLD).clip(-127, 127).astype(np.int8)
        stored = step_NL.astype("<f4").view(np.uint8), steps_NLD[:, 0, :half].view(np.uint8)
        rest_NB = steps_NLD[:, 1:].reshape(len(layers_NLD), (self.depth - 1) * self.width).view(np.uint8)
        return np.concatenate([*stored, rest_NB], 1)

    def layer(self, rows_NB: Array, number: int) -> NDArray[np.float32]:
        """(N, D): one layer of the stored rows."""
        if self.vectors == "float16":
            size = 2 * self.width
            stored_ND = np.ascontiguousarray(rows_NB[:, number * size : (number + 1) * size]).view("<f2")
            return stored_ND.astype(np.float32)
        step_N1 = np.ascontiguousarray(rows_NB[:, 4 * number : 4 * number + 4]).view("<f4")
        half, begin = self.width // 2, 4 * self.depth
        first, last = (0, half) if number == 0 else (half + (number - 1) * self.width, half + number * self.width)
        found_ND: NDArray[np.float32] = rows_NB[:, begin + first : begin + last].view(np.int8) * step_N1
        return found_ND if number else np.concatenate([found_ND, found_ND], 1)


def _refuse_infinite(stored: Array, layers_NLD: Array, expected: str) -> None:
    if not np.isfinite(stored).all():
        raise DataError(f"the layers reach {np.abs(layers_NLD).max():.3g}; an index stores {expected}")


class Sentence(NamedTuple):
    """Tokens, which of them are kept as uses, and what columns of the data say about each use."""

    tokens: tuple[str, ...]
    positions: tuple[int, ...]
    columns: tuple[tuple[str, Sequence[str]], ...] = ()  # names with the values of the uses

    @classmethod
    def of_line(cls, line: bytes) -> "Sentence":
        tokens, positions, *columns = json.loads(line)
        return cls(tuple(tokens), tuple(positions), *(tuple(named.items()) for named in columns))

    @property
    def line(self) -> str:
        return json.dumps([self.tokens, self.positions, *([dict(self.columns)] if self.columns else [])]) + "\n"


class UseFolder:
    """The folder's contents when it was opened.   N uses, deleted ones included."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.manifest = folder, read_manifest(folder)
        self.sentences: list[tuple[str, ...]] = []
        self.columns: dict[str, dict[int, str]] = {}  # of a column, the values of the uses that have one
        self.journal_bytes = 0
        owners, positions, deleted = self._read_journal()
        self.sentence_N: Numbers = np.array(owners, np.int64)
        self.position_N: Numbers = np.array(positions, np.int64)
        lengths_N = np.array([len(tokens) for tokens in self.sentences], np.int64)[self.sentence_N]
        inside = (self.position_N >= 0).all() and (self.position_N < lengths_N).all()
        if not (inside and all(0 <= use < len(lengths_N) for use in deleted)):  # complete, but not written by us
            raise DataError(f"{folder / JOURNAL}: positions or uses that do not exist; {WAY_OUT}")
        self.there_N = np.ones(len(owners), bool)
        self.there_N[deleted] = False
        self.rows_NB = growing.mapped(folder / VECTORS, (len(owners), self.manifest.use_bytes), np.uint8)

    def layers(self, uses: Sequence[int] | Numbers, numbers: Sequence[int] | None = None) -> NDArray[np.float32]:
        """(N, L+1, D), or only the layers with these numbers."""
        rows_NB, manifest = self.rows_NB[np.asarray(uses, np.int64)], self.manifest
        chosen = range(manifest.depth) if numbers is None else numbers
        found_NLD = np.empty((len(rows_NB), len(chosen), manifest.width), np.float32)
        for place, number in enumerate(chosen):
            found_NLD[:, place] = manifest.layer(rows_NB, number)
        return found_NLD

    def _read_journal(self) -> tuple[list[int], list[int], list[int]]:
        """The sentence and the position of every use, and the deleted uses."""
        owners, positions, deleted = list[int](), list[int](), list[int]()
        room = growing.size_of(self.folder / VECTORS) // self.manifest.use_bytes
        for block in BLOCKS.complete_blocks(growing.bytes_of(self.folder / JOURNAL)):
            if block.kind == DELETE:
                deleted += np.frombuffer(block.body, "<i8").tolist()
            else:
                added = [Sentence.of_line(line) for line in block.body.splitlines()]
                if len(owners) + sum(len(sentence.positions) for sentence in added) > room:
                    break
                for sentence in added:
                    for name, values in sentence.columns:
                        self.columns.setdefault(name, {}).update(enumerate(values, len(owners)))
                    owners += [len(self.sentences)] * len(sentence.positions)
                    positions += sentence.positions
                    self.sentences.append(sentence.tokens)
            self.journal_bytes = block.end
        return owners, positions, deleted


def exists(folder: Path) -> bool:
    return (folder / growing.MANIFEST).is_file()


def recognises(folder: Path) -> bool:
    return exists(folder) and (folder / JOURNAL).is_file()


def describe(folder: Path) -> list[tuple[str, str]]:
    """Lines for `stelmo info`."""
    found = UseFolder(folder)
    manifest = found.manifest
    return [
        ("format", "index of word uses"),
        ("uses", f"{int(found.there_N.sum()):,} in {len(found.sentences):,} sentences"),
        *([("columns", ", ".join(found.columns))] if found.columns else []),
        ("vectors", f"{manifest.depth} layers of {manifest.width} dimensions, {manifest.vectors}"),
        ("model", f"fingerprint {manifest.model[:16]}"),
    ]


def prepare(folder: Path, manifest: Manifest) -> None:
    """Create the folder, or check that the existing one has the same model and settings.

    An existing folder keeps its kind of vectors.
    """
    if not exists(folder):
        growing.create(folder, manifest, "an index of word uses")
    found = read_manifest(folder)
    if found.model != manifest.model:
        there, here = found.model[:8], manifest.model[:8]
        raise OutputError(f"{folder} is an index by another model ({there} there, {here} here); choose another folder")
    if found != manifest.model_copy(update={"vectors": found.vectors}):
        there, here = (json.dumps(one.settings, sort_keys=True) for one in (found, manifest))
        raise OutputError(f"{folder} is an index with other settings ({there} there, {here} here); use the same ones")


def read_manifest(folder: Path) -> Manifest:
    if not exists(folder):
        raise DataError(f"{folder}: no index of word uses; make one with `stelmo index CORPUS --to DIR`")
    values = atomic.read_json(path := folder / growing.MANIFEST, DataError, WAY_OUT)
    if isinstance(values, dict) and "kind" not in values:  # of a corpus, or of precomputed layers
        raise DataError(f"{path}: not that of an index of word uses; make one with `stelmo index CORPUS --to DIR`")
    return growing.read_manifest(folder, Manifest, WAY_OUT)


def discard(folder: Path) -> None:
    """Remove an index, and the folder unless it contains other files."""
    for name in (growing.MANIFEST, VECTORS, JOURNAL, SUGGESTED, growing.LOCK):
        (folder / name).unlink(missing_ok=True)
    with contextlib.suppress(OSError):
        folder.rmdir()


def writing(folder: Path) -> AbstractContextManager["Writer"]:
    """The folder's only writer; a second one is refused."""
    return growing.writing(folder, lambda: Writer(UseFolder(folder)))


class Writer(growing.Writer):
    def __init__(self, found: UseFolder) -> None:
        self.found = found
        sizes = len(found.there_N) * found.manifest.use_bytes, found.journal_bytes
        super().__init__(found.folder, (VECTORS, JOURNAL), sizes)

    def add(self, sentences: Sequence[Sentence], layers_NLD: Array) -> None:
        """One block: sentences, and the layers of their uses."""
        manifest = self.found.manifest
        uses = sum(len(sentence.positions) for sentence in sentences)
        assert layers_NLD.shape == (uses, manifest.depth, manifest.width)
        lines = "".join(sentence.line for sentence in sentences)
        self._append([manifest.packed(layers_NLD)], BLOCKS.packed(lines.encode(), ADD))

    def delete(self, uses: Sequence[int]) -> None:
        """One block: all of the uses are deleted or, if the process is stopped, none."""
        self._append([], BLOCKS.packed(np.asarray(uses, "<i8").tobytes(), DELETE))
