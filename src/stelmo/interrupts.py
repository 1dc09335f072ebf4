"""Ctrl-C and SIGTERM → a flag that a loop checks between steps, so that it can save and stop."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def stop_asked() -> Iterator[Callable[[], bool]]:
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
