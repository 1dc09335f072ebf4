"""Parquet: the column of text or tokens in any file, and columns of vectors for new ones. Knows no tokenisation."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stelmo.errors import ConfigError, DataError

COLUMNS = ("tokens", "text")  # tried in this order


def pyarrow_modules() -> tuple[Any, Any]:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise ConfigError("Parquet needs pyarrow; pip install 'stelmo[parquet]'") from None
    return pyarrow, pyarrow.parquet


def text_values(path: Path) -> Iterator[tuple[int, Any]]:
    """(row, value), rows counted from 1; a list of strings holds tokens, a string raw text."""
    pa, parquet = pyarrow_modules()
    try:
        with parquet.ParquetFile(path) as file:
            column = text_column(file.schema_arrow.names, str(path))
            values = (value for batch in file.iter_batches(1024, columns=[column]) for value in batch.column(0))
            for row, value in enumerate(values, 1):
                try:
                    yield row, value.as_py()
                except UnicodeDecodeError as problem:
                    raise DataError(f"{path}: row {row}, column {column}: not UTF-8 ({problem.reason})") from None
    except (pa.ArrowException, OSError, UnicodeDecodeError) as problem:  # names of columns are decoded, too
        reason = str(problem).split("\n")[0]
        raise DataError(f"{path}: cannot be read as Parquet ({reason})") from None


def text_column(names: list[str], where: str, wanted: str | None = None) -> str:
    """The column to read: the one asked for, otherwise tokens, otherwise text."""
    for name in COLUMNS if wanted is None else (wanted,):
        if name in names:
            return name
    expected = " or ".join(COLUMNS) if wanted is None else wanted
    raise DataError(f"{where}: no column {expected}; it has {', '.join(names[:8]) or 'none'}")


def vector_lists(kind: Any, vectors: Sequence[NDArray[Any]]) -> Any:
    """Arrays → a column of `kind`: a vector of fixed width for each, or a list of such vectors for each."""
    pa, _ = pyarrow_modules()
    flat = np.concatenate([vector.ravel() for vector in vectors])
    if pa.types.is_fixed_size_list(kind):
        return pa.FixedSizeListArray.from_arrays(pa.array(flat, kind.value_type), type=kind)
    inner = kind.value_type
    rows = pa.FixedSizeListArray.from_arrays(pa.array(flat, inner.value_type), type=inner)
    offsets = np.cumsum([0, *(len(vector) for vector in vectors)])
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), rows, type=kind)
