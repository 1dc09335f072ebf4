"""Vectors of sentences → one file: HDF5 in AllenNLP's layout, Parquet, npz, JSON lines. Knows no model.

A sentence's vectors are (T, D), (L+1, T, D) for all layers, and without T where one vector stands for it.
"""

import errno
import json
import zipfile
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple, TextIO

import numpy as np
from numpy.typing import NDArray

from stelmo.errors import ConfigError, DataError
from stelmo.formats.untrusted import hdf5
from stelmo.text.formats import Sentence

Array = NDArray[Any]


class Shape(NamedTuple):
    """What every sentence of a file has in common."""

    width: int
    layers: int | None  # None: one layer, without an axis for it
    tokens: bool  # False: one vector a sentence
    dtype: str


class VectorWriter(ABC):
    """Takes sentences in order; the file is complete when it is closed."""

    def __init__(self, path: Path, shape: Shape, about: dict[str, Any]) -> None:
        self.path, self.shape, self.about = path, shape, about

    @abstractmethod
    def add(self, number: int, sentence: Sentence, vectors: Array) -> None: ...

    @abstractmethod
    def close(self) -> None: ...


class Hdf5Writer(VectorWriter):
    """One dataset a sentence, named by its number, and `sentence_to_index`, the sentences as one JSON text."""

    def __init__(self, path: Path, shape: Shape, about: dict[str, Any]) -> None:
        super().__init__(path, shape, about)
        self._new = hdf5.NewFile(path)
        self._file = self._new.file
        self._by_sentence: bool = about["use_sentence_keys"]
        self._index: list[str] | None = None if about["forget_sentences"] or self._by_sentence else []

    def add(self, number: int, sentence: Sentence, vectors: Array) -> None:
        text = " ".join(sentence.tokens)
        self._file.create_dataset(text if self._by_sentence else str(number), data=vectors)
        self._new.check()
        if self._index is not None:
            # Joined as JSON by hand: a sentence that comes twice is there twice, and the last one counts.
            self._index.append(f"{json.dumps(text)}: {json.dumps(str(number))}")

    def close(self) -> None:
        import h5py

        if self._index is not None:
            index = self._file.create_dataset("sentence_to_index", (1,), dtype=h5py.string_dtype("utf-8"))
            index[0] = "{" + ", ".join(self._index) + "}"
        self._new.close()


def refuse_as_key(sentence: str, where: str) -> None:
    """Refuse what HDF5 cannot use as a name: a slash makes groups, a dot is the file itself, UTF-8 is required."""
    plain = sentence.encode("utf-8", "ignore").decode() == sentence  # false for a lone surrogate
    if not sentence or sentence == "." or "/" in sentence or "\0" in sentence or not plain:
        raise DataError(f"{where}: HDF5 has no key {sentence!r:.60}; leave use_sentence_keys out")


class NpzWriter(VectorWriter):
    """One array a sentence, named by its number; `numpy.load` reads them one at a time."""

    def __init__(self, path: Path, shape: Shape, about: dict[str, Any]) -> None:
        super().__init__(path, shape, about)
        self._file = zipfile.ZipFile(path, "w", zipfile.ZIP_STORED, allowZip64=True)

    def add(self, number: int, sentence: Sentence, vectors: Array) -> None:
        # A fixed date, so that equal vectors make equal files.
        with self._file.open(zipfile.ZipInfo(f"{number}.npy"), "w", force_zip64=True) as member:
            np.lib.format.write_array(member, np.ascontiguousarray(vectors), allow_pickle=False)

    def close(self) -> None:
        self._file.close()


class JsonlWriter(VectorWriter):
    """One object a line: tokens and vectors."""

    def __init__(self, path: Path, shape: Shape, about: dict[str, Any]) -> None:
        super().__init__(path, shape, about)
        self._file: TextIO = path.open("w", encoding="utf-8")

    def add(self, number: int, sentence: Sentence, vectors: Array) -> None:
        self._file.write(json_line(sentence.tokens, vectors) + "\n")

    def close(self) -> None:
        self._file.close()


def json_line(tokens: list[str], vectors: Array) -> str:
    """Nine figures give the same float32 back."""
    numbers = np.array([f"{number:.9g}" for number in vectors.ravel()], object).reshape(vectors.shape)
    return f'{{"tokens": {json.dumps(tokens)}, "vectors": {_nested(numbers)}}}'


def _nested(numbers: Array) -> str:
    if numbers.ndim == 0:
        return str(numbers)
    return "[" + ", ".join(map(_nested, numbers) if numbers.ndim > 1 else numbers) + "]"


class ParquetWriter(VectorWriter):
    """One row a sentence: index, source, line, tokens, and vectors as lists of fixed width."""

    ROWS = 1024  # of one row group

    def __init__(self, path: Path, shape: Shape, about: dict[str, Any]) -> None:
        super().__init__(path, shape, about)
        pa, parquet = pyarrow_modules()
        self._schema = self._make_schema(pa)
        self._file = parquet.ParquetWriter(path, self._schema)
        self._rows: list[tuple[int, Sentence, Array]] = []

    def add(self, number: int, sentence: Sentence, vectors: Array) -> None:
        self._rows.append((number, sentence, vectors))
        if len(self._rows) >= self.ROWS:
            self._flush()

    def close(self) -> None:
        self._flush()
        self._file.close()

    def _make_schema(self, pa: Any) -> Any:
        vector = pa.list_(getattr(pa, self.shape.dtype)(), self.shape.width * (self.shape.layers or 1))
        fields = [
            ("index", pa.int64()),
            ("source", pa.string()),
            ("line", pa.int64()),
            ("tokens", pa.list_(pa.string())),
            ("vectors", pa.list_(vector)) if self.shape.tokens else ("vector", vector),
        ]
        return pa.schema(fields, {"stelmo": json.dumps(self.about | {"layers": self.shape.layers})})

    def _flush(self) -> None:
        pa, _ = pyarrow_modules()
        if not self._rows:
            return
        numbers, sentences, vectors = zip(*self._rows, strict=True)
        columns = [
            pa.array(numbers, pa.int64()),
            pa.array([sentence.source for sentence in sentences], pa.string()),
            pa.array([sentence.line for sentence in sentences], pa.int64()),
            pa.array([[_storable(t) for t in sentence.tokens] for sentence in sentences], pa.list_(pa.string())),
            self._vector_column(pa, vectors),
        ]
        self._file.write_table(pa.table(columns, schema=self._schema))
        self._rows = []

    def _vector_column(self, pa: Any, vectors: tuple[Array, ...]) -> Any:
        """All numbers end to end, cut by token and by sentence; layers of a token stand side by side."""
        kind = self._schema.field(-1).type
        if not self.shape.tokens:
            return pa.FixedSizeListArray.from_arrays(pa.array(_flat(vectors), kind.value_type), type=kind)
        if self.shape.layers is not None:
            vectors = tuple(layers_LTD.swapaxes(0, 1) for layers_LTD in vectors)
        inner = kind.value_type
        tokens = pa.FixedSizeListArray.from_arrays(pa.array(_flat(vectors), inner.value_type), type=inner)
        offsets = np.cumsum([0, *(len(vector) for vector in vectors)])
        return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), tokens, type=kind)


def _flat(vectors: tuple[Array, ...]) -> Array:
    return np.concatenate([vector.ravel() for vector in vectors])


def _storable(token: str) -> str:
    """Arrow holds UTF-8 alone; a lone surrogate becomes the replacement character."""
    return token.encode("utf-8", "replace").decode() if not token.isascii() else token


def pyarrow_modules() -> tuple[Any, Any]:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise ConfigError("Parquet needs pyarrow; pip install 'stelmo[parquet]'") from None
    return pyarrow, pyarrow.parquet


WRITERS: dict[str, type[VectorWriter]] = {
    ".hdf5": Hdf5Writer,
    ".h5": Hdf5Writer,
    ".npz": NpzWriter,
    ".parquet": ParquetWriter,
    ".jsonl": JsonlWriter,
}


def writer_for(path: Path) -> type[VectorWriter]:
    """By the file's ending; asked before any work is done."""
    if path.suffix not in WRITERS:
        raise ConfigError(f"{path}: unknown ending {path.suffix!r}; vectors go to {', '.join(WRITERS)}")
    if path.suffix == ".parquet":
        pyarrow_modules()
    return WRITERS[path.suffix]


@contextmanager
def writing(path: Path, kind: type[VectorWriter], shape: Shape, about: dict[str, Any]) -> Iterator[VectorWriter]:
    """A writer on a draft, closed at the end of the block whatever happens."""
    writer = kind(path, shape, about)
    try:
        yield writer
    except BaseException:
        with suppress(OSError, RuntimeError, ValueError):  # the first failure is the one to tell
            writer.close()
        raise
    try:
        writer.close()
    except (RuntimeError, ValueError) as problem:  # how h5py and zipfile report a disk that is full
        raise OSError(errno.EIO, str(problem).split("\n")[0]) from problem
