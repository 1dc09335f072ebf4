"""How long a run has taken, and how long ago something was. Knows nothing else."""

import time


class Clock:
    """Seconds of a run over all its processes' lives, and since the last checkpoint."""

    def __init__(self, before: float = 0.0) -> None:
        self._before = before
        self._start = self._saved = self._drawn = time.monotonic()

    def here(self) -> float:
        return time.monotonic() - self._start

    def seconds(self) -> float:
        return self._before + self.here()

    def since_saved(self) -> float:
        return time.monotonic() - self._saved

    def saved(self) -> None:
        self._saved = time.monotonic()

    def since_drawn(self) -> float:
        return time.monotonic() - self._drawn

    def drawn(self) -> None:
        self._drawn = time.monotonic()
