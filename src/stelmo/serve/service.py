"""An application and an address → a running server; an index and its model → the explorer page. Knows no terminal."""

import asyncio
import gc
import logging
import signal
import socket
import threading
import webbrowser
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import h11
import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from stelmo.embed.model import Model
from stelmo.errors import ConfigError
from stelmo.explore.index import Index
from stelmo.serve import gate
from stelmo.serve.app import app
from stelmo.settings import ServeSettings
from stelmo.store.runs import Mixes, read_mixes

Started = Callable[[str], None]  # called with the address once the server accepts connections
GRACE = 1.0  # extra seconds after a body's deadline, in which the 408 answer is sent
STALLED_SECONDS = 30.0  # a client that reads nothing of its answer for so long is disconnected


class _Connection(H11Protocol):
    """uvicorn's connection, with deadlines for slow clients and a limit on the number of connections."""

    def __init__(self, *arguments: Any, limits: ServeSettings, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._limits = limits
        self._deadline: asyncio.TimerHandle | None = None  # to receive the rest of a request
        self._receiving: type[h11.SEND_BODY] | type[h11.IDLE] | None = None  # what the deadline is for
        self._stalled: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._expect(h11.IDLE)
        if len(self.connections) > self._limits.connections:
            slow = [other for other in self.connections if isinstance(other, _Connection) and other._deadline]
            slowest = min(slow, key=lambda other: other._deadline.when() if other._deadline else 0.0)
            slowest.transport.abort()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._watch()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._watch()

    def _watch(self) -> None:
        """Start, keep or stop the deadline, by what the client has sent so far."""
        state = self.conn.their_state
        if state is h11.SEND_BODY or (state is h11.IDLE and self.conn.trailing_data[0]):
            self._expect(state)
        else:
            self._expect(None)

    def _expect(self, what: Any) -> None:
        if what is self._receiving and what is not None:
            return
        self._receiving = what
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
        if what is not None:
            headers, body = self._limits.header_seconds, self._limits.body_seconds + GRACE
            self._deadline = self.loop.call_later(headers if what is h11.IDLE else body, self._give_up)

    def _give_up(self) -> None:
        if not self.transport.is_closing():
            self.transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self._expect(None)
        if self._stalled is not None:
            self._stalled.cancel()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._check_reader(None)

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._stalled is not None:
            self._stalled.cancel()

    def _check_reader(self, before: int | None) -> None:
        unread = self.transport.get_write_buffer_size()
        if before is not None and unread >= before:
            self.transport.abort()
        else:
            self._stalled = self.loop.call_later(STALLED_SECONDS, self._check_reader, unread)

    def shutdown(self) -> None:
        """Finish complete requests; do not wait for the rest of an incomplete one."""
        if self.conn.their_state is h11.SEND_BODY:
            self.transport.abort()
        else:
            super().shutdown()


class _Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config, started: Callable[[], None]) -> None:
        super().__init__(config)
        self._tell = started

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        # A full garbage collection examines all objects of torch and the service, which blocks every thread for 0.15 s.
        # These objects live as long as the server, so they are excluded from it.
        gc.collect()
        gc.freeze()
        if self.started:
            self._tell()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        gc.unfreeze()
        await super().shutdown(sockets)


def run(app: ASGIApp, host: str, port: int, started: Started, settings: ServeSettings | None = None) -> None:
    """Until Ctrl-C or SIGTERM; then accepted requests are finished."""
    with listen(host, port) as listening, _exiting_with_0():
        server(app, listening, started, settings).run([listening])


def server(
    app: ASGIApp, listening: socket.socket, started: Started, settings: ServeSettings | None = None
) -> uvicorn.Server:
    """A server for the socket: its `run` returns after its `should_exit` is set."""
    limits = settings or ServeSettings()
    config = uvicorn.Config(
        app,
        http=partial(_Connection, limits=limits),  # type: ignore[arg-type]
        ws="none",
        log_level="warning",
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=int(limits.seconds + limits.body_seconds) + 1,
    )
    return _Server(config, lambda: started(address(listening)))


def log_to_stderr() -> None:
    """Write the access log to standard error, one line per request."""
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(message)s"))
    gate.access_log.addHandler(handler)
    gate.access_log.setLevel(logging.INFO)
    gate.access_log.propagate = False


@contextmanager
def _exiting_with_0() -> Iterator[None]:
    """uvicorn stops at a signal and then raises it again; ignore the second one, so that the exit code is 0."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    usual = {number: signal.signal(number, lambda *_: None) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in usual.items():
            signal.signal(number, handler)


def address(listening: socket.socket) -> str:
    host, port = listening.getsockname()[:2]
    return f"http://{f'[{host}]' if ':' in host else host}:{port}/"


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach a server there."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def read_token(path: str | Path) -> str:
    """The first line of a file; short tokens are refused, since they could be guessed."""
    try:
        lines = Path(path).read_text(encoding="ascii").splitlines()
    except (OSError, UnicodeDecodeError) as problem:
        reason = problem.strerror if isinstance(problem, OSError) else "not ASCII"
        raise ConfigError(f"{path}: the token cannot be read ({reason})") from None
    token = lines[0].strip() if lines else ""
    if len(token) < 16 or not token.isprintable() or " " in token:
        raise ConfigError(
            f"{path}: the first line is not a token; expected at least 16 characters: openssl rand -hex 32"
        )
    return token


def read_tasks(runs: Iterable[str | Path]) -> Mapping[str, Mixes]:
    """The mixes of task runs by the name of the run; repeated names get a number."""
    found: dict[str, Mixes] = {}
    for run in runs:
        path = Path(run)
        name = (path if path.is_dir() else path.parent).resolve().name
        taken = sum(other == name or other.startswith(f"{name} (") for other in found)
        found[f"{name} ({taken + 1})" if taken else name] = read_mixes(path)
    return found


def listen(host: str, port: int) -> socket.socket:
    """A socket bound to the address; port 0 is any free one."""
    try:
        family, kind, protocol, _, place = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with ExitStack() as closing:
            listening = closing.enter_context(socket.socket(family, kind, protocol))
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listening.bind(place)
            closing.pop_all()
    except UnicodeError:  # of getaddrinfo, which encodes names by IDNA
        raise ConfigError(f"--host {host!r:.80}: not a name or an address; expected one such as 127.0.0.1") from None
    except OSError as problem:
        raise ConfigError(f"{host}:{port}: {problem.strerror}; choose another --port or --host") from None
    return listening


def run_page(
    index: Index,
    model: Model,
    tasks: Iterable[str | Path] = (),
    *,
    name: str = "english",
    credit: str = "",
    port: int = 8765,
    open_browser: bool = True,
    started: Started = lambda address: None,
    settings: ServeSettings | None = None,
) -> None:
    """Serve the page to this machine until Ctrl-C. `tasks` are run folders whose layer weights the page shows."""

    def tell(address: str) -> None:
        started(address)
        if open_browser:
            threading.Thread(target=webbrowser.open, args=[address], daemon=True).start()  # the server must not wait

    made = app(model, settings, index, read_tasks(tasks), name=name, credit=credit)
    run(made, "127.0.0.1", port, tell, settings)
