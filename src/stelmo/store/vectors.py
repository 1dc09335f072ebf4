"""Vectors of sentences → one file: HDF5 in AllenNLP's layout, Parquet, npz, JSON lines. Knows no model.

The vectors of a sentence are (T, D), (L+1, T, D) for all layers, and without T for one vector per sentence.
"""

import errno
import io
import json
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple, TextIO

import numpy as np
from numpy.typing import NDArray

from stelmo.errors import ConfigError, DataError
from stelmo.store.containers import NewHdf5, NewZip, pyarrow_modules, vector_lists
from stelmo.text.formats import Sentence

Array = NDArray[Any]


class Shape(NamedTuple):
    """What all sentences of a file have in common."""

    width: int
    layers: int | None  # None: one layer, without an axis for it
    tokens: bool  # False: one vector per sentence
    dtype: str

    def of(self, tokens: int) -> tuple[int, ...]:
        """The shape of the vectors of a sentence of so many tokens."""
        return (*(() if self.layers is None else (self.layers,)), *((tokens,) if self.tokens else ()), self.width)


class VectorWriter(ABC):
    """Takes sentences in order; the file is complete after `close`."""

    def __init__(self, path: Path, shape: Shape, about: dict[str, Any]) -> None:
        self.path, self.shape, self.about = path, shape, about

    @abstractmethod
    def add(self, number: int, sentence: Sentence, vectors: Array) -> None: ...

    @abstractmethod
    def close(self) -> None: ...


class Hdf5Writer(VectorWriter):
    """One dataset per sentence, named by its number, and `sentence_to_index`, the sentences as one JSON text.

    The names of empty sentences are hard links to one dataset: a new one takes as long as embedding a few words.
    """

    def __init__(self, path: Path, shape: Shape, about: dict[str, Any]) -> None:
        super().__init__(path, shape, about)
        self._new = NewHdf5(path)
        self._file = self._new.file
        self._by_sentence: bool = about["use_sentence_keys"]
        self._index: list[str] | None = None if about["forget_sentences"] or self._by_sentence else []
        self._empty: bytes | None = None  # the name of the first empty sentence

    def add(self, number: int, sentence: Sentence, vectors: Array) -> None:
        text = " ".join(sentence.tokens)
        name = text if self._by_sentence else str(number)
        if sentence.tokens or self._empty is None:
            self._file.create_dataset(name, data=vectors)
            self._empty = self._empty if sentence.tokens else name.encode()
        else:
            self._file.id.links.create_hard(name.encode(), self._file.id, self._empty)
        self._new.check()
        if self._index is not None:
            # JSON is joined here: a sentence that occurs twice is listed twice, and the last one counts.
            self._index.append(f'{json.dumps(text)}: "{number}"')

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
        raise DataError(f"{where}: {sentence!r:.60} cannot be a key of HDF5; do not set use_sentence_keys")


class NpzWriter(VectorWriter):
    """One array per sentence, named by its number; `numpy.load` reads them one at a time."""

    def __init__(self, path: Path, shape: Shape, about: dict[str, Any]) -> None:
        super().__init__(path, shape, about)
        self._file = NewZip(path)
        self._empty: bytes | None = None  # an empty sentence as an .npy file

    def add(self, number: int, sentence: Sentence, vectors: Array) -> None:
        if sentence.tokens or self._empty is None:
            file = io.BytesIO()
            np.lib.format.write_array(file, np.ascontiguousarray(vectors), allow_pickle=False)
            content = file.getvalue()
            self._empty = self._empty if sentence.tokens else content
        else:
            content = self._empty
        self._file.add(f"{number}.npy", content)

    def close(self) -> None:
        self._file.close()


class JsonlWriter(VectorWriter):
    """One object per line: tokens and vectors."""

    def __init__(self, path: Path, shape: Shape, about: dict[str, Any]) -> None:
        super().__init__(path, shape, about)
        self._file: TextIO = path.open("w", encoding="utf-8")

    def add(self, number: int, sentence: Sentence, vectors: Array) -> None:
        self._file.write(json_line(sentence.tokens, vectors) + "\n")

    def close(self) -> None:
        self._file.close()


def json_line(tokens: list[str], vectors: Array) -> str:
    """Nine digits are enough to read the same float32 back."""
    numbers = np.array([f"{number:.9g}" for number in vectors.ravel()], object).reshape(vectors.shape)
    return f'{{"tokens": {json.dumps(tokens)}, "vectors": {_nested(numbers)}}}'


def _nested(numbers: Array) -> str:
    if numbers.ndim == 0:
        return str(numbers)
    return "[" + ", ".join(map(_nested, numbers) if numbers.ndim > 1 else numbers) + "]"


class ParquetWriter(VectorWriter):
    """One row per sentence: index, source, line, tokens, and vectors as lists of fixed width."""

    ROWS = 1024  # of a row group at most
    NUMBERS = 1 << 23  # after which a row group ends: 1,024 paragraphs with all layers of a wide model take gigabytes

    def __init__(self, path: Path, shape: Shape, about: dict[str, Any]) -> None:
        super().__init__(path, shape, about)
        pa, parquet = pyarrow_modules()
        vector = pa.list_(getattr(pa, shape.dtype)(), shape.width * (shape.layers or 1))
        fields = [
            ("index", pa.int64()),
            ("source", pa.string()),
            ("line", pa.int64()),
            ("tokens", pa.list_(pa.string())),
            ("vectors", pa.list_(vector)) if shape.tokens else ("vector", vector),
        ]
        self._schema = pa.schema(fields, {"stelmo": json.dumps(about | {"layers": shape.layers})})
        self._file = parquet.ParquetWriter(path, self._schema)
        self._rows: list[tuple[int, Sentence, Array]] = []
        self._numbers = 0  # in these rows

    def add(self, number: int, sentence: Sentence, vectors: Array) -> None:
        self._rows.append((number, sentence, vectors))
        self._numbers += vectors.size
        if len(self._rows) >= self.ROWS or self._numbers >= self.NUMBERS:
            self._flush()

    def close(self) -> None:
        self._flush()
        self._file.close()

    def _flush(self) -> None:
        pa, _ = pyarrow_modules()
        if not self._rows:
            return
        numbers, sentences, vectors = zip(*self._rows, strict=True)
        # Arrow stores only UTF-8; a lone surrogate becomes a question mark.
        tokens = [[token.encode("utf-8", "replace").decode() for token in sentence.tokens] for sentence in sentences]
        if self.shape.tokens and self.shape.layers is not None:  # the layers of a token side by side
            vectors = tuple(vector.swapaxes(0, 1) for vector in vectors)
        columns = [
            pa.array(numbers, pa.int64()),
            pa.array([sentence.source for sentence in sentences], pa.string()),
            pa.array([sentence.line for sentence in sentences], pa.int64()),
            pa.array(tokens, pa.list_(pa.string())),
            vector_lists(self._schema.field(-1).type, vectors),
        ]
        self._file.write_table(pa.table(columns, schema=self._schema))
        self._rows, self._numbers = [], 0


WRITERS: dict[str, type[VectorWriter]] = {
    ".hdf5": Hdf5Writer,
    ".h5": Hdf5Writer,
    ".npz": NpzWriter,
    ".parquet": ParquetWriter,
    ".jsonl": JsonlWriter,
}


def writer_for(path: Path) -> type[VectorWriter]:
    """By the file's suffix; called before any work is done."""
    if path.suffix not in WRITERS:
        raise ConfigError(f"{path}: unknown ending {path.suffix!r}; vectors are written to {', '.join(WRITERS)}")
    if path.suffix == ".parquet":
        pyarrow_modules()
    return WRITERS[path.suffix]


@contextmanager
def writing(path: Path, kind: type[VectorWriter], shape: Shape, about: dict[str, Any]) -> Iterator[VectorWriter]:
    """A writer that is closed at the end of the block, whatever happens."""
    writer = kind(path, shape, about)
    try:
        yield writer
    except BaseException:
        with suppress(OSError, RuntimeError, ValueError):  # the first error is the one to report
            writer.close()
        raise
    try:
        writer.close()
    except (RuntimeError, ValueError) as problem:  # how h5py reports a full disk
        raise OSError(errno.EIO, str(problem).split("\n")[0]) from problem
