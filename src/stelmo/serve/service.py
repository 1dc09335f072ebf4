"""An application and an address → a running server. Knows no route and no terminal."""

import signal
import socket
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from ipaddress import ip_address
from pathlib import Path

import uvicorn
from starlette.types import ASGIApp

from stelmo.errors import ConfigError
from stelmo.store.runs import Mixes, read_mixes

Started = Callable[[str], None]  # told the address when the server answers


class _Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config, started: Callable[[], None]) -> None:
        super().__init__(config)
        self._tell = started

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            self._tell()


def run(app: ASGIApp, host: str, port: int, started: Started) -> None:
    """Until Ctrl-C or SIGTERM; then what was accepted is finished."""
    with listen(host, port) as listening, _ending_well():
        server(app, listening, started).run([listening])


def server(app: ASGIApp, listening: socket.socket, started: Started) -> uvicorn.Server:
    """Runs on the socket by its `run`, until its `should_exit` is set."""
    config = uvicorn.Config(app, log_level="warning", access_log=False, server_header=False)
    return _Server(config, lambda: started(address(listening)))


@contextmanager
def _ending_well() -> Iterator[None]:
    """uvicorn stops at a signal and then sends it again; here to nobody: the server has done as it was told."""
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
    """Whether nobody but this machine reaches a server there."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def read_token(path: str | Path) -> str:
    """The first line of a file; a short one could be guessed."""
    try:
        lines = Path(path).read_text(encoding="ascii").splitlines()
    except (OSError, UnicodeDecodeError) as problem:
        reason = problem.strerror if isinstance(problem, OSError) else "not ASCII"
        raise ConfigError(f"{path}: no token can be read there ({reason})") from None
    token = lines[0].strip() if lines else ""
    if len(token) < 16 or not token.isprintable() or " " in token:
        raise ConfigError(f"{path}: the first line is no token; expected 16 letters or more: openssl rand -hex 32")
    return token


def read_tasks(runs: Iterable[str | Path]) -> Mapping[str, Mixes]:
    """The mixes of task runs, by the name of the run; of equal names the later has a number."""
    found: dict[str, Mixes] = {}
    for run in runs:
        path = Path(run)
        name = (path if path.is_dir() else path.parent).resolve().name
        taken = sum(other == name or other.startswith(f"{name} (") for other in found)
        found[f"{name} ({taken + 1})" if taken else name] = read_mixes(path)
    return found


def listen(host: str, port: int) -> socket.socket:
    """A socket bound there; port 0 is any free one."""
    try:
        family, kind, protocol, _, place = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with ExitStack() as closing:
            listening = closing.enter_context(socket.socket(family, kind, protocol))
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listening.bind(place)
            closing.pop_all()
    except OSError as problem:
        raise ConfigError(f"{host}:{port}: {problem.strerror}; choose another --port or --host") from None
    return listening
