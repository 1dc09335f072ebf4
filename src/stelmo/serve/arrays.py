"""Vectors of sentences → the bytes of an answer: JSON, npy or Arrow. Knows no model.

Binary answers contain the tokens of all sentences in one array; the header `Stelmo-Lengths` gives the number of tokens
of each sentence.
"""

import io
import json
import re
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from starlette.exceptions import HTTPException
from starlette.responses import Response

from stelmo.store.containers import pyarrow_modules

Array = NDArray[Any]
Sentences = Sequence[Sequence[str]]
JSON, NPY, ARROW = "application/json", "application/x-npy", "application/vnd.apache.arrow.stream"
LENGTHS = "Stelmo-Lengths"
_QUALITY = re.compile(r"\s*q\s*=\s*([01](?:\.\d{0,3})?)\s*", re.IGNORECASE)


def choose_type(accept: str) -> str:
    """The media type with the highest q-value in an Accept header; of equals a named one first, then JSON."""
    ranges: dict[str, tuple[float, int]] = {}  # media range → q-value, place in the header
    for place, item in enumerate(accept.split(",")):
        name, *parameters = item.split(";")
        found = [match for match in map(_QUALITY.fullmatch, parameters) if match]
        ranges[name.strip().lower() or "*/*"] = (float(found[0][1]) if found else 1.0, -place)
    best: tuple[tuple[float, bool, int], str] | None = None
    for kind in (JSON, NPY, ARROW):
        matched = next((name for name in (kind, "application/*", "*/*") if name in ranges), None)
        if matched is None or ranges[matched][0] == 0:
            continue
        quality, place = ranges[matched]
        score = (quality, matched == kind, place if matched == kind else 0)
        if best is None or score > best[0]:
            best = (score, kind)
    if best is None:
        raise HTTPException(406, f"Accept: none of these types is available; expected {JSON}, {NPY} or {ARROW}")
    return best[1]


def answer(sentences: Sentences, vectors: Sequence[Array], width: int, kind: str) -> Response:
    """Vectors have shape (T, D), or (L+1, T, D) for all layers."""
    if kind == JSON:
        shown = ", ".join(map(numbers, vectors))
        return Response(f'{{"sentences": {json.dumps(sentences)}, "vectors": [{shown}]}}', media_type=JSON)
    lengths = {LENGTHS: ",".join(str(len(sentence)) for sentence in sentences)}
    whole = np.concatenate(vectors, axis=-2) if vectors else np.zeros((0, width), np.float32)
    content = _arrow(sentences, whole) if kind == ARROW else _npy(whole)
    return Response(content, media_type=kind, headers=lengths)


def numbers(array: Array) -> str:
    """An array as JSON. Nine digits reproduce every float32 exactly."""
    if array.ndim > 1:
        return f"[{', '.join(map(numbers, array))}]"
    return f"[{', '.join(['%.9g'] * len(array))}]" % tuple(array.tolist())


def _npy(whole: Array) -> bytes:
    file = io.BytesIO()
    np.lib.format.write_array(file, np.ascontiguousarray(whole), allow_pickle=False)
    return file.getvalue()


def _arrow(sentences: Sentences, whole: Array) -> bytes:
    """Columns sentence, position, token, vector; an array of all layers (L+1, N, D) gives layer_0 … layer_L."""
    pa, _ = pyarrow_modules()
    lengths = [len(sentence) for sentence in sentences]
    columns = {
        "sentence": pa.array(np.repeat(np.arange(len(lengths)), lengths), pa.int32()),
        "position": pa.array(np.concatenate([np.arange(length) for length in [*lengths, 0]]), pa.int32()),
        "token": pa.array([token for sentence in sentences for token in sentence], pa.string()),
    }
    named = {"vector": whole} if whole.ndim == 2 else {f"layer_{number}": part for number, part in enumerate(whole)}
    for name, vectors_ND in named.items():
        columns[name] = pa.FixedSizeListArray.from_arrays(
            pa.array(np.ascontiguousarray(vectors_ND).ravel()), whole.shape[-1]
        )
    table = pa.table(columns)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())
