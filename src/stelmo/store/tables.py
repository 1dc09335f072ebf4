"""A Parquet file → the values of the column that holds text or tokens. Knows no tokenisation."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from stelmo.errors import DataError
from stelmo.store.vectors import pyarrow_modules

COLUMNS = ("tokens", "text")  # tried in this order


def values(path: Path) -> Iterator[tuple[int, Any]]:
    """(row, value), rows counted from 1; a list of strings holds tokens, a string raw text."""
    pa, parquet = pyarrow_modules()
    try:
        with parquet.ParquetFile(path) as file:
            column = column_of(file.schema_arrow.names, str(path))
            yield from enumerate(_column(file, column, str(path)), 1)
    except (pa.ArrowException, OSError) as problem:
        reason = str(problem).split("\n")[0]
        raise DataError(f"{path}: cannot be read as Parquet ({reason})") from None


def column_of(names: list[str], where: str, wanted: str | None = None) -> str:
    """The column to read: the one asked for, else tokens, else text."""
    for name in COLUMNS if wanted is None else (wanted,):
        if name in names:
            return name
    expected = " or ".join(COLUMNS) if wanted is None else wanted
    raise DataError(f"{where}: no column {expected}; it has {', '.join(names[:8]) or 'none'}")


def _column(file: Any, name: str, where: str) -> Iterator[Any]:
    row = 0
    for batch in file.iter_batches(1024, columns=[name]):
        for value in batch.column(0):
            row += 1
            try:
                yield value.as_py()
            except UnicodeDecodeError as problem:
                raise DataError(f"{where}: row {row}, column {name}: not UTF-8 ({problem.reason})") from None
