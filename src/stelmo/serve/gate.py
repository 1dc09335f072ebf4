"""The middleware between the network and the routes: log, counts, headers, host, token, limits. Knows no route's body.

Each is an ASGI application around another. Outermost first: `AccessLog`, `Head`, `Headers`, `Host`, (CORS), `Token`,
`Limits`. `Metrics` turns counts of requests and batches into Prometheus text.
"""

import asyncio
import hmac
import json
import logging
import re
import time
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import Literal

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from starlette.datastructures import Headers as RequestHeaders
from starlette.datastructures import MutableHeaders
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from stelmo.serve import answers
from stelmo.serve.queues import Batch
from stelmo.settings import ServeSettings

PAGE_POLICY = "; ".join(
    (
        "default-src 'self'",
        "img-src 'self' data: blob:",  # an exported picture is drawn from a blob
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
# The interactive description sets inline styles; scripts stay restricted to files of this server.
DOCS_POLICY = f"{PAGE_POLICY}; style-src 'self' 'unsafe-inline'"
LOOPBACK = ("127.0.0.1", "localhost", "::1")
MOST_BRACKETS, MOST_COLONS = 100_000, 50_000  # in the body of a request, text included
LogFormat = Literal["text", "json"]
access_log = logging.getLogger("stelmo.access")
METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"
BOUNDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)  # seconds of a request


def uses_the_model(path: str) -> bool:
    """Whether requests to the path count against the limits; health, metrics and files must always answer."""
    return path.startswith("/v1/") or path == "/embed"


class Metrics:
    """Requests by route and status, their duration, and the batches of the model."""

    def __init__(self) -> None:
        self._registry = registry = CollectorRegistry()  # one per application, not the process-wide default
        self._requests = Counter("stelmo_requests", "Requests answered.", ("route", "status"), registry=registry)
        self._seconds = Histogram(
            "stelmo_request_seconds", "Time to answer a request.", buckets=BOUNDS, registry=registry
        )
        self._batches = Counter("stelmo_batches", "Calls of the model.", registry=registry)
        self._batched = Counter("stelmo_batched_requests", "Requests in these calls.", registry=registry)
        self._tokens = Counter("stelmo_tokens", "Tokens computed, including sentence markers.", registry=registry)
        self._model_seconds = Counter("stelmo_model_seconds", "Seconds the model computed.", registry=registry)
        self._waiting = Gauge("stelmo_waiting_tokens", "Tokens waiting for the model.", registry=registry)

    def request(self, route: str, status: int, seconds: float) -> None:
        self._requests.labels(route, str(status)).inc()
        self._seconds.observe(seconds)

    def batch(self, batch: Batch) -> None:
        self._batches.inc()
        self._batched.inc(batch.requests)
        self._tokens.inc(batch.tokens)
        self._model_seconds.inc(batch.seconds)

    def watch_queue(self, waiting: Callable[[], float]) -> None:
        """Read the number of waiting tokens from this function."""
        self._waiting.set_function(waiting)

    def text(self) -> str:
        return generate_latest(self._registry).decode()


class AccessLog:
    """Counts every request by route, status and duration, and writes one line to the access log."""

    def __init__(
        self, app: ASGIApp, metrics: Metrics, route_of: Callable[[str], str], log: LogFormat | None = None
    ) -> None:
        self._app, self._metrics, self._route_of, self._log = app, metrics, route_of, log

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        started, status, size = time.perf_counter(), 500, 0

        async def noted(message: Message) -> None:
            nonlocal status, size
            if message["type"] == "http.response.start":
                status = message["status"]
            else:
                size += len(message.get("body", b""))
            await send(message)

        try:
            await self._app(scope, receive, noted)
        finally:
            seconds = time.perf_counter() - started
            # By the route's pattern: clients can invent any number of paths.
            self._metrics.request(self._route_of(scope["path"]), status, seconds)
            if self._log is not None:
                access_log.info(_line(scope, status, size, seconds, self._log))


def _line(scope: Scope, status: int, size: int, seconds: float, log: LogFormat) -> str:
    """One line for one request. Queries are left out: they can contain a user's text."""
    client = (scope.get("client") or ("-",))[0]
    path = scope.get("raw_path", scope["path"].encode()).partition(b"?")[0].decode("ascii", "backslashreplace")[:200]
    when = datetime.now(UTC).isoformat(timespec="milliseconds")
    if log == "json":
        fields = {"time": when, "client": client, "method": scope["method"], "path": path}
        return json.dumps(fields | {"status": status, "bytes": size, "seconds": round(seconds, 4)})
    shown = "".join(character if character.isprintable() and character != " " else "?" for character in path)
    return f"{when} {client} {scope['method']} {shown} {status} {size} bytes {seconds * 1000:.0f} ms"


class Head:
    """HEAD is answered like GET, without the body."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "HEAD":
            return await self._app(scope, receive, send)

        async def headers_only(message: Message) -> None:
            await send({**message, "body": b""} if message["type"] == "http.response.body" else message)

        return await self._app(dict(scope, method="GET"), receive, headers_only)


class Headers:
    """Security headers on every answer; answers of the model are not cached."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers.update(HEADERS)
                if scope["path"] == "/docs":
                    headers["Content-Security-Policy"] = DOCS_POLICY
                private = scope["path"].startswith("/v1") or uses_the_model(scope["path"])
                headers.setdefault("Cache-Control", "no-store" if private else "no-cache")
            await send(message)

        await self._app(scope, receive, with_headers)


class Host:
    """Accepts only names of this machine, so that a foreign page cannot reach a local server by DNS rebinding."""

    def __init__(self, app: ASGIApp, names: Iterable[str]) -> None:
        self._app, self._names = app, frozenset(names)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and host_of(RequestHeaders(scope=scope).get("host", "")) not in self._names:
            detail = f"the Host header names another server; expected {', '.join(sorted(self._names))}"
            return await answers.problem(421, detail)(scope, receive, send)
        return await self._app(scope, receive, send)


def host_of(header: str) -> str | None:
    """localhost:8765 → localhost, [::1]:8765 → ::1; None for anything else than a name and a port."""
    found = re.fullmatch(r"(?:\[(?P<six>[0-9A-Fa-f:.]+)\]|(?P<name>[^\[\]:/@]+))(?::\d{1,5})?", header)
    return None if found is None else (found["six"] or found["name"]).lower()


class Token:
    """Requires `Authorization: Bearer …` for everything but health, the page's files and the API description."""

    OPEN = ("/health", "/", "/openapi.json", "/docs")

    def __init__(self, app: ASGIApp, token: str) -> None:
        self._app, self._expected = app, token.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and not (scope["path"] in self.OPEN or scope["path"].startswith("/site/")):
            scheme, _, given = RequestHeaders(scope=scope).get("authorization", "").partition(" ")
            right = hmac.compare_digest(given.encode("latin-1"), self._expected)
            if not right or scheme.lower() != "bearer":
                detail = "the token is missing or wrong; expected the header Authorization: Bearer TOKEN"
                return await answers.problem(401, detail, {"WWW-Authenticate": "Bearer"})(scope, receive, send)
        return await self._app(scope, receive, send)


class Limits:
    """Limits the size of a body, the time to receive it, the number of requests being answered, and their time.

    A body is read before its request counts: slow clients do not keep others out. An answer is sent after its request
    stopped counting, for the same reason.
    """

    def __init__(self, app: ASGIApp, settings: ServeSettings, wait_seconds: Callable[[], float]) -> None:
        self._app, self._limits, self._wait_seconds = app, settings, wait_seconds
        self._received = 0  # bytes of all bodies that are not complete
        self.inside = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not uses_the_model(scope["path"]):
            return await self._app(scope, receive, send)
        body = await self._body(scope, receive)
        if body is None:  # the client is gone
            return None
        if isinstance(body, Response):
            return await body(scope, receive, send)
        if self.inside >= self._limits.requests:
            return await answers.busy(self._wait_seconds())(scope, receive, send)
        self.inside += 1
        try:
            messages = await self._answered(scope, body, receive)
        finally:
            self.inside -= 1
        for message in messages:
            await send(message)
        return None

    async def _body(self, scope: Scope, receive: Receive) -> bytes | Response | None:
        """The body, or why it is refused. A body that is too large is not read to its end."""
        most, seconds = self._limits.body_bytes, self._limits.body_seconds
        too_large = answers.problem(413, f"the body is larger than {most:,} bytes; send fewer sentences at once")
        length = RequestHeaders(scope=scope).get("content-length", "0")
        if length.isdecimal() and int(length[:20]) > most:
            return too_large
        parts: list[bytes] = []
        size, more = 0, True
        try:
            async with asyncio.timeout(seconds):
                while more:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        return None
                    parts.append(message.get("body", b""))
                    size += len(parts[-1])
                    self._received += len(parts[-1])
                    if size > most:
                        return too_large
                    if self._received > self._limits.requests * most:
                        return answers.busy(seconds)
                    more = message.get("more_body", False)
        except TimeoutError:
            detail = f"the body took longer than {seconds:g} seconds to arrive"
            return answers.problem(408, detail, {"Connection": "close"})
        finally:
            self._received -= size
        body = b"".join(parts)
        # Parsing holds the event loop, and takes much longer for many small values than for one long text.
        if body.count(b"[") + body.count(b"{") > MOST_BRACKETS or body.count(b":") > MOST_COLONS:
            return answers.problem(413, "the body has too many JSON lists or fields; send fewer sentences at once")
        return body

    async def _answered(self, scope: Scope, body: bytes, receive: Receive) -> list[Message]:
        """The messages of the answer; of a refusal if it takes too long."""
        messages: list[Message] = []
        read = False

        async def replay() -> Message:
            nonlocal read
            if read:
                return await receive()
            read = True
            return {"type": "http.request", "body": body, "more_body": False}

        async def keep(message: Message) -> None:
            messages.append(message)

        try:
            async with asyncio.timeout(self._limits.seconds) as clock:
                await self._app(scope, replay, keep)
        except TimeoutError:
            if not clock.expired():
                raise
            messages.clear()
            detail = f"the answer took longer than {self._limits.seconds:g} seconds; send less at once"
            await answers.problem(503, detail, {"Retry-After": "1"})(scope, replay, keep)
        return messages
