"""Vectors of sentences → the bytes of an answer: JSON, npy or Arrow. Knows no model.

Binary answers hold all tokens end to end; the header `Stelmo-Lengths` says how many are each sentence's.
"""

import io
import json
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from starlette.exceptions import HTTPException
from starlette.responses import Response

from stelmo.serve import arrow

Array = NDArray[Any]
Sentences = Sequence[Sequence[str]]
JSON, NPY, ARROW = "application/json", "application/x-npy", "application/vnd.apache.arrow.stream"
LENGTHS = "Stelmo-Lengths"


def chosen(accept: str) -> str:
    """The first of the wanted kinds that we have; q-values are not weighed."""
    wanted = [part.partition(";")[0].strip().lower() for part in accept.split(",")]
    for kind in wanted:
        if kind in (JSON, NPY, ARROW):
            return kind
        if kind in ("", "*/*", "application/*"):
            return JSON
    raise HTTPException(406, f"Accept: none of these kinds is there; expected {JSON}, {NPY} or {ARROW}")


def answer(sentences: Sentences, vectors: Sequence[Array], width: int, kind: str) -> Response:
    """Vectors are (T, D) each, or (L+1, T, D) for all layers."""
    if kind == JSON:
        return Response(_json(sentences, vectors), media_type=JSON)
    lengths = {LENGTHS: ",".join(str(len(sentence)) for sentence in sentences)}
    if kind == ARROW:
        return Response(arrow.stream(sentences, vectors, width), media_type=ARROW, headers=lengths)
    return Response(_npy(vectors, width), media_type=NPY, headers=lengths)


def _npy(vectors: Sequence[Array], width: int) -> bytes:
    whole = np.concatenate(vectors, axis=-2) if vectors else np.zeros((0, width), np.float32)
    file = io.BytesIO()
    np.lib.format.write_array(file, np.ascontiguousarray(whole), allow_pickle=False)
    return file.getvalue()


def _json(sentences: Sentences, vectors: Sequence[Array]) -> bytes:
    shown = ", ".join(map(numbers, vectors))
    return f'{{"sentences": {json.dumps(sentences)}, "vectors": [{shown}]}}'.encode()


def numbers(array: Array) -> str:
    """An array as JSON. Nine figures give the same float32 back."""
    if array.ndim > 1:
        return f"[{', '.join(map(numbers, array))}]"
    return f"[{', '.join(['%.9g'] * len(array))}]" % tuple(array.tolist())
