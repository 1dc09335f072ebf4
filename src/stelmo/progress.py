"""How long-running work and its caller communicate: progress reports, and the request to stop.

Knows no screen: a caller decides what is shown and where.
"""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Protocol, TypeVar

Report_contra = TypeVar("Report_contra", contravariant=True)
SIGNALS = (signal.SIGINT, signal.SIGTERM)


class ProgressCallback(Protocol[Report_contra]):
    """Receives reports while work is running; each kind of work defines what its report contains."""

    def update(self, report: Report_contra) -> None:
        """Called often, for example after every training step; it should return quickly."""

    def message(self, text: str) -> None:
        """Something the user should read once, in one sentence."""


class NoProgress:
    """Ignores every report; the default."""

    def update(self, report: object) -> None: ...

    def message(self, text: str) -> None: ...


@contextmanager
def stop_requested() -> Iterator[Callable[[], bool]]:
    """A function that says whether a signal has arrived inside the block; a second signal has its usual effect."""
    asked = threading.Event()

    def ask(number: int, frame: FrameType | None) -> None:
        asked.set()
        signal.signal(number, usual[number])

    if threading.current_thread() is not threading.main_thread():  # only the main thread can handle signals
        yield asked.is_set
        return
    usual = {int(number): signal.getsignal(number) for number in SIGNALS}
    for number in SIGNALS:
        signal.signal(number, ask)
    try:
        yield asked.is_set
    finally:
        for number in SIGNALS:
            signal.signal(number, usual[number])
