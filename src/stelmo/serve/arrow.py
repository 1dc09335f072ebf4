"""Vectors of sentences → the bytes of an Arrow stream, a row for each token. Knows no model and no HTTP."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stelmo.store.parquet import pyarrow_modules

Array = NDArray[Any]


def stream(sentences: Sequence[Sequence[str]], vectors: Sequence[Array], width: int) -> bytes:
    """Columns sentence, position, token, vector; vectors of all layers (L+1, T, D) make columns layer_0 … layer_L."""
    pa, _ = pyarrow_modules()
    lengths = [len(sentence) for sentence in sentences]
    columns = {
        "sentence": pa.array(np.repeat(np.arange(len(lengths)), lengths), pa.int32()),
        "position": pa.array(np.concatenate([np.arange(length) for length in [*lengths, 0]]), pa.int32()),
        "token": pa.array([token for sentence in sentences for token in sentence], pa.string()),
    }
    for name, vectors_ND in _columns(vectors, width).items():
        numbers = pa.array(np.ascontiguousarray(vectors_ND).ravel())
        columns[name] = pa.FixedSizeListArray.from_arrays(numbers, width)
    return _bytes(pa, pa.table(columns))


def _columns(vectors: Sequence[Array], width: int) -> dict[str, Array]:
    whole = np.concatenate(vectors, axis=-2) if vectors else np.zeros((0, width), np.float32)
    return {"vector": whole} if whole.ndim == 2 else {f"layer_{number}": part for number, part in enumerate(whole)}


def _bytes(pa: Any, table: Any) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())
