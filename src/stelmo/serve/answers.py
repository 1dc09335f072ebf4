"""What a request is answered with: vectors as JSON, npy or Arrow; errors as application/problem+json. Knows no route.

Binary answers contain the tokens of all sentences in one array; the header `Stelmo-Lengths` gives the number of tokens
of each sentence. Errors follow RFC 9457.
"""

import io
import json
import math
import re
import sys
from collections.abc import Callable, Sequence
from http import HTTPStatus
from typing import Any

import numpy as np
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from numpy.typing import NDArray
from starlette.exceptions import HTTPException
from starlette.responses import Response

from stelmo.errors import StelmoError
from stelmo.serve.bodies import Problem
from stelmo.serve.queues import Full
from stelmo.store.containers import pyarrow_modules

Array = NDArray[Any]
Sentences = Sequence[Sequence[str]]
JSON, NPY, ARROW = "application/json", "application/x-npy", "application/vnd.apache.arrow.stream"
LENGTHS = "Stelmo-Lengths"
_QUALITY = re.compile(r"\s*q\s*=\s*([01](?:\.\d{0,3})?)\s*", re.IGNORECASE)
MEDIA_TYPE = "application/problem+json"
TOGETHER = 10_000  # values of a list that are written as JSON at once
LONGEST_WAIT = 60  # seconds that Retry-After asks for at most
DESCRIPTIONS = {
    400: "the body is not JSON in UTF-8",
    401: "the token is missing or wrong",
    404: "not found",
    408: "the body took too long to arrive",
    413: "the body is larger than the server's limit",
    415: "the Content-Type is not application/json",
    421: "the Host header names another server",
    422: "the body does not match the schema or exceeds a limit",
    429: "too many requests are waiting; Retry-After estimates when to try again",
    503: "the answer took longer than the server's limit",
}


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


def vectors_answer(sentences: Sentences, vectors: Sequence[Array], empty: Array, kind: str) -> Response:
    """Vectors have shape (T, D), or (L+1, T, D) for all layers; `empty` is an array of that kind without tokens."""
    if kind == JSON:
        shown = ", ".join(map(numbers, vectors))
        return Response(f'{{"sentences": {json.dumps(sentences)}, "vectors": [{shown}]}}', media_type=JSON)
    lengths = {LENGTHS: ",".join(str(len(sentence)) for sentence in sentences)}
    whole = np.concatenate([empty, *vectors], axis=-2)
    if kind == ARROW:
        return Response(_arrow(sentences, whole), media_type=kind, headers=lengths)
    file = io.BytesIO()
    np.lib.format.write_array(file, np.ascontiguousarray(whole), allow_pickle=False)
    return Response(file.getvalue(), media_type=kind, headers=lengths)


def rows(found: Sequence[Any] | Array) -> str:
    """A list, or a list of lists, as JSON. It is written in pieces, so that other threads can run in between."""
    if len(found) and isinstance(found[0], list | np.ndarray):
        return f"[{','.join(map(rows, found))}]"
    plain = found.tolist() if isinstance(found, np.ndarray) else found
    pieces = (plain[start : start + TOGETHER] for start in range(0, len(plain), TOGETHER))
    shown = (json.dumps(piece, ensure_ascii=False, separators=(",", ":"))[1:-1] for piece in pieces)
    return f"[{','.join(shown)}]"


def numbers(array: Array) -> str:
    """An array as JSON. Nine digits reproduce every float32 exactly."""
    if array.ndim > 1:
        return f"[{', '.join(map(numbers, array))}]"
    return f"[{', '.join(['%.9g'] * len(array))}]" % tuple(array.tolist())


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


def described(description: str) -> dict[str, Any]:
    """The OpenAPI entry of a problem."""
    schema = {"schema": {"$ref": "#/components/schemas/Problem"}}
    return {"description": description, "content": {MEDIA_TYPE: schema}}


# What every route under a limit may answer, for the OpenAPI description.
PROBLEMS: dict[int | str, dict[str, Any]] = {status: described(text) for status, text in DESCRIPTIONS.items()}


def problem(status: int, detail: str, headers: dict[str, str] | None = None) -> Response:
    """The detail is one line: unprintable characters that a request put into it are replaced."""
    plain = "".join(character if character.isprintable() else " " for character in detail)
    found = Problem(title=HTTPStatus(status).phrase, status=status, detail=plain, message=plain)
    return Response(json.dumps(found.model_dump()), status, headers, MEDIA_TYPE)


def busy(seconds: float) -> Response:
    """429, with an estimate of when to try again."""
    wait = str(min(LONGEST_WAIT, max(1, math.ceil(seconds))))
    detail = f"the server has as many requests as it accepts; try again in {wait} s"
    return problem(429, detail, {"Retry-After": wait})


def attach(app: FastAPI, methods: Callable[[str], Sequence[str]]) -> None:
    """Every refusal in the same form. A bug is a 500 without details; its traceback is in the server's log.

    `methods` lists the methods of a path.
    """

    def http(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        headers, detail = dict(error.headers or {}), str(error.detail)
        if error.status_code == 405:
            headers["Allow"] = ", ".join(methods(request.url.path))
            detail = f"{request.method} is not allowed here; expected {headers['Allow']}"
        elif error.status_code == 400 and isinstance(error.__cause__, RecursionError | ValueError):
            # FastAPI could not parse the body.
            detail = f"the body is not JSON that can be read: {_unreadable(error.__cause__)}"
        return problem(error.status_code, detail, headers)

    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, http)
    app.add_exception_handler(StelmoError, lambda request, error: problem(422, str(error)))
    app.add_exception_handler(Full, lambda request, error: busy(getattr(error, "seconds", 1.0)))
    app.add_exception_handler(Exception, lambda request, error: problem(500, "internal error; see the server's log"))


def _unreadable(reason: RecursionError | ValueError) -> str:
    if isinstance(reason, RecursionError):
        return "its lists or fields are nested too deeply; expected the fields of the route"
    if isinstance(reason, UnicodeDecodeError):
        return "its text is not UTF-8; expected JSON in UTF-8"
    return f"a number has too many digits; expected at most {sys.get_int_max_str_digits():,}"


def _invalid(request: Request, error: Exception) -> Response:
    """The first mistake: where · what is wrong (· what was found)."""
    assert isinstance(error, RequestValidationError)
    kind = request.headers.get("content-type", "")
    plain = kind.partition(";")[0].strip().lower()
    if request.method == "POST" and not (plain == "application/json" or plain.endswith("+json")):
        found = f"Content-Type is {kind!r:.60}" if kind else "the Content-Type header is missing"
        return problem(415, f"{found}; expected application/json")
    first = error.errors()[0]
    if first["type"] == "missing" and first["loc"] == ("body",):
        return problem(400, "the body is empty; expected JSON")
    if first["type"] == "json_invalid":
        return problem(400, f"the body is not JSON: {first.get('ctx', {}).get('error', first['msg'])}")
    place = ".".join(f"{part!s:.60}" for part in first["loc"]) or "request"
    text = str(first["msg"]).removeprefix("Value error, ")
    value = first.get("input")
    shown = f" (found {value!r:.60})" if isinstance(value, str | int | float | None) else ""
    return problem(422, f"{place}: {text}{shown}")
