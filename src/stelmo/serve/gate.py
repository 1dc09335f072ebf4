"""What stands between the network and the routes: headers, host, token, and how much is let in. Knows no route's body.

Each is an ASGI application around another. Outermost first: `Counted`, `Headers`, `Host`, (CORS), `Token`, `Limits`.
"""

import asyncio
import hmac
import time
from collections.abc import Iterable
from typing import Any

from starlette.datastructures import Headers as RequestHeaders
from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from stelmo.serve import problems
from stelmo.serve.metrics import Metrics

PAGE_POLICY = "; ".join(
    (
        "default-src 'self'",
        "img-src 'self' data: blob:",  # a picture to be exported is drawn from a blob
        "object-src 'none'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    )
)
HEADERS = {
    "Content-Security-Policy": PAGE_POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "X-Frame-Options": "DENY",
    "Cross-Origin-Opener-Policy": "same-origin",
}
LOOPBACK = ("127.0.0.1", "localhost", "::1")


class Counted:
    """Every request is counted by its route, status and seconds."""

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self._app, self._metrics = app, metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        started, status = time.perf_counter(), 500

        async def noted(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self._app(scope, receive, noted)
        finally:
            # By the route's pattern: paths that anybody can make up would be figures without end.
            route = getattr(scope.get("route"), "path", "other")
            self._metrics.request(route, status, time.perf_counter() - started)


class Headers:
    """Strict headers on every answer; what the model answers is not kept by any cache."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def dressed(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers.update(HEADERS)
                headers.setdefault("Cache-Control", "no-store" if scope["path"].startswith("/v1") else "no-cache")
            await send(message)

        await self._app(scope, receive, dressed)


class Host:
    """Only names of this machine: a foreign page cannot reach a local server under a name of its own."""

    def __init__(self, app: ASGIApp, names: Iterable[str]) -> None:
        self._app, self._names = app, frozenset(names)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and _host(RequestHeaders(scope=scope).get("host", "")) not in self._names:
            sentence = f"the Host header names another server; expected {', '.join(sorted(self._names))}"
            return await problems.answer(421, sentence)(scope, receive, send)
        return await self._app(scope, receive, send)


def _host(header: str) -> str:
    """localhost:8765 → localhost, [::1]:8765 → ::1."""
    if header.startswith("["):
        return header[1:].partition("]")[0]
    return header.partition(":")[0].lower()


class Token:
    """`Authorization: Bearer …` for all that costs or tells something; the page's own files are open."""

    OPEN = ("/health", "/", "/openapi.json")

    def __init__(self, app: ASGIApp, token: str) -> None:
        self._app, self._expected = app, f"Bearer {token}".encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and not self._is_open(scope["path"]):
            given = RequestHeaders(scope=scope).get("authorization", "").encode("latin-1")
            if not hmac.compare_digest(given, self._expected):
                sentence = "the token is missing or wrong; expected the header Authorization: Bearer TOKEN"
                return await problems.answer(401, sentence, {"WWW-Authenticate": "Bearer"})(scope, receive, send)
        return await self._app(scope, receive, send)

    def _is_open(self, path: str) -> bool:
        return path in self.OPEN or path.startswith("/site/")


class Limits:
    """At most so many requests at once, each with at most so many bytes and seconds. Only of /v1: a full house still
    tells its health."""

    def __init__(self, app: ASGIApp, requests: int, body_bytes: int, seconds: float) -> None:
        self._app, self._requests, self._body_bytes, self._seconds = app, requests, body_bytes, seconds
        self.inside = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not scope["path"].startswith("/v1/"):
            return await self._app(scope, receive, send)
        if self.inside >= self._requests:
            return await problems.answer(429, problems.BUSY, problems.RETRY)(scope, receive, send)
        self.inside += 1
        try:
            await self._in_time(scope, receive, send)
        finally:
            self.inside -= 1

    async def _in_time(self, scope: Scope, receive: Receive, send: Send) -> None:
        body: bytes | None = None
        answering = False

        async def noted(message: Message) -> None:
            nonlocal answering
            answering = True
            await send(message)

        try:
            async with asyncio.timeout(self._seconds) as clock:
                body = await self._body(scope, receive)
                if body is None:
                    sentence = f"the body is larger than {self._body_bytes:,} bytes; send fewer sentences at once"
                    return await problems.answer(413, sentence)(scope, receive, noted)
                await self._app(scope, _replayed(body, receive), noted)
        except TimeoutError:
            if not clock.expired():
                raise
            if not answering:  # else a slow reader has part of the answer, and the connection ends with it
                await _too_slow(body, self._seconds)(scope, receive, send)

    async def _body(self, scope: Scope, receive: Receive) -> bytes | None:
        """All of it, or None where it is too large: such a body is not read to its end."""
        length = RequestHeaders(scope=scope).get("content-length", "0")
        if length.isdecimal() and int(length[:20]) > self._body_bytes:
            return None
        parts, size, more = [], 0, True
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                break
            parts.append(message.get("body", b""))
            size += len(parts[-1])
            if size > self._body_bytes:
                return None
            more = message.get("more_body", False)
        return b"".join(parts)


def _too_slow(body: bytes | None, seconds: float) -> Any:
    if body is None:
        return problems.answer(408, f"the body took longer than {seconds:g} seconds to come")
    return problems.answer(503, f"the answer took longer than {seconds:g} seconds; send less at once", problems.RETRY)


def _replayed(body: bytes, receive: Receive) -> Receive:
    """The body in one message; then whatever else comes."""
    read = False

    async def replay() -> Message:
        nonlocal read
        if read:
            return await receive()
        read = True
        return {"type": "http.request", "body": body, "more_body": False}

    return replay
