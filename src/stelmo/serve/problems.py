"""What went wrong → an answer {"error": "one sentence"}. Knows no route."""

from collections.abc import Sequence
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse

from stelmo.errors import StelmoError
from stelmo.serve.batching import Full
from stelmo.serve.bodies import Problem

BUSY = "as many requests are waiting as this server takes on; try again a little later"
RETRY = {"Retry-After": "1"}
# What any /v1 route may answer besides its own; for the OpenAPI.
ANSWERS: dict[int | str, dict[str, Any]] = {
    400: {"model": Problem, "description": "the body is no JSON in UTF-8"},
    401: {"model": Problem, "description": "the token is missing or wrong"},
    404: {"model": Problem, "description": "there is no such thing here"},
    408: {"model": Problem, "description": "the body took too long to come"},
    413: {"model": Problem, "description": "the body is larger than the server's limit"},
    421: {"model": Problem, "description": "the Host header names another server"},
    422: {"model": Problem, "description": "the body is not as described, or beyond a limit"},
    429: {"model": Problem, "description": "too much is waiting; Retry-After says when to come again"},
    503: {"model": Problem, "description": "the answer took longer than the server's limit"},
}


def answer(status: int, sentence: str, headers: dict[str, str] | None = None) -> JSONResponse:
    """One line; whatever a request put into the sentence cannot break it."""
    plain = "".join(character if character.isprintable() else " " for character in sentence)
    return JSONResponse({"error": plain}, status, headers)


def attach(app: FastAPI) -> None:
    """Every refusal in the same form; bugs stay bugs: a 500, with their traceback in the server's log."""
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _http)
    app.add_exception_handler(StelmoError, lambda request, problem: answer(422, str(problem)))
    app.add_exception_handler(Full, lambda request, problem: answer(429, BUSY, RETRY))


def _http(request: Request, problem: Exception) -> JSONResponse:
    assert isinstance(problem, HTTPException)
    return answer(problem.status_code, str(problem.detail), dict(problem.headers or {}))


def _invalid(request: Request, problem: Exception) -> JSONResponse:
    assert isinstance(problem, RequestValidationError)
    return answer(422, _sentence(problem.errors()))


def _sentence(errors: Sequence[Any]) -> str:
    """The first thing that is wrong."""
    first = errors[0]
    place = ".".join(f"{part!s:.60}" for part in first["loc"]) or "request"
    text = str(first["msg"]).removeprefix("Value error, ")
    found = first.get("input")
    shown = f" (found {found!r:.60})" if isinstance(found, str | int | float | None) else ""
    return f"{place}: {text}{shown}"
