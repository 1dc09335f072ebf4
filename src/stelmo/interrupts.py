"""Ctrl-C and a scheduler's SIGTERM → a question that the loop asks between steps. Knows no loop."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def stop_asked() -> Iterator[Callable[[], bool]]:
    """Whether a signal came while the block lasts; a second one has its usual effect."""
    asked = threading.Event()

    def ask(number: int, frame: FrameType | None) -> None:
        asked.set()
        signal.signal(number, usual[number])

    if threading.current_thread() is not threading.main_thread():  # signals are none of its business
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
