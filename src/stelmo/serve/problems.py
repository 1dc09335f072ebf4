"""Errors → answers of type application/problem+json (RFC 9457). Knows no route."""

import json
import math
from collections.abc import Callable, Sequence
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response

from stelmo.errors import StelmoError
from stelmo.serve.batching import Full
from stelmo.serve.bodies import Problem

MEDIA_TYPE = "application/problem+json"
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


def described(status: int, description: str) -> dict[str, Any]:
    """The OpenAPI entry of a problem."""
    schema = {"schema": {"$ref": "#/components/schemas/Problem"}}
    return {"description": description, "content": {MEDIA_TYPE: schema}}


# What every route under a limit may answer, for the OpenAPI.
ANSWERS: dict[int | str, dict[str, Any]] = {status: described(status, text) for status, text in DESCRIPTIONS.items()}


def answer(status: int, detail: str, headers: dict[str, str] | None = None) -> Response:
    """The detail is one line: unprintable characters that a request put into it are replaced."""
    plain = "".join(character if character.isprintable() else " " for character in detail)
    problem = Problem(title=HTTPStatus(status).phrase, status=status, detail=plain, message=plain)
    return Response(json.dumps(problem.model_dump()), status, headers, MEDIA_TYPE)


def busy(seconds: float) -> Response:
    """429, with an estimate of when to try again."""
    wait = str(min(LONGEST_WAIT, max(1, math.ceil(seconds))))
    detail = f"the server has as many requests as it accepts; try again in {wait} s"
    return answer(429, detail, {"Retry-After": wait})


def attach(app: FastAPI, methods: Callable[[str], Sequence[str]]) -> None:
    """Every refusal in the same form. A bug is a 500 without details; its traceback is in the server's log.

    `methods` lists the methods of a path.
    """

    def http(request: Request, problem: Exception) -> Response:
        assert isinstance(problem, HTTPException)
        headers, detail = dict(problem.headers or {}), str(problem.detail)
        if problem.status_code == 405:
            headers["Allow"] = ", ".join(methods(request.url.path))
            detail = f"{request.method} is not allowed here; expected {headers['Allow']}"
        return answer(problem.status_code, detail, headers)

    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, http)
    app.add_exception_handler(StelmoError, lambda request, problem: answer(422, str(problem)))
    app.add_exception_handler(Full, lambda request, problem: busy(getattr(problem, "seconds", 1.0)))
    app.add_exception_handler(Exception, lambda request, problem: answer(500, "internal error; see the server's log"))


def _invalid(request: Request, problem: Exception) -> Response:
    assert isinstance(problem, RequestValidationError)
    kind = request.headers.get("content-type", "")
    plain = kind.partition(";")[0].strip().lower()
    if request.method == "POST" and not (plain == "application/json" or plain.endswith("+json")):
        found = f"Content-Type is {kind!r:.60}" if kind else "the Content-Type header is missing"
        return answer(415, f"{found}; expected application/json")
    first = problem.errors()[0]
    if first["type"] == "missing" and first["loc"] == ("body",):
        return answer(400, "the body is empty; expected JSON")
    if first["type"] == "json_invalid":
        return answer(400, f"the body is not JSON: {first.get('ctx', {}).get('error', first['msg'])}")
    return answer(422, _sentence(first))


def _sentence(error: Any) -> str:
    """Where · what is wrong (· what was found)."""
    place = ".".join(f"{part!s:.60}" for part in error["loc"]) or "request"
    text = str(error["msg"]).removeprefix("Value error, ")
    found = error.get("input")
    shown = f" (found {found!r:.60})" if isinstance(found, str | int | float | None) else ""
    return f"{place}: {text}{shown}"
