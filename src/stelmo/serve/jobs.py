"""Work that takes longer than a request: started, polled, cancelled. Knows no HTTP and not what the work is.

One thread works. The number of jobs that wait, run, or are kept until they are fetched is limited.
"""

import secrets
import threading
import time
from collections.abc import Callable
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from stelmo.errors import StelmoError
from stelmo.serve.batching import Full

Advance = Callable[[float], None]
Work = Callable[[Advance], Any]


class Cancelled(Exception):  # noqa: N818 — a request, not a mistake
    """Raised inside the work after its job was cancelled."""


@dataclass
class Job:
    """`progress` runs from 0 to 1; reporting progress raises `Cancelled` once the job is cancelled."""

    progress: float = 0.0
    started: float | None = None  # time.monotonic()
    cancelled: threading.Event = field(default_factory=threading.Event)
    result: "Future[Any]" = field(default_factory=Future)

    def advance(self, progress: float) -> None:
        if self.cancelled.is_set():
            raise Cancelled
        self.progress = min(1.0, max(self.progress, progress))

    def run(self, work: Work) -> Any:
        self.started = time.monotonic()
        self.advance(0.0)
        return work(self.advance)

    def cancel(self) -> None:
        self.cancelled.set()
        self.result.cancel()

    def remaining_seconds(self) -> float:
        """Estimated from the progress so far; 1 if nothing is known."""
        if self.started is None or not self.progress:
            return 1.0
        return (time.monotonic() - self.started) * (1 - self.progress) / self.progress


class Jobs:
    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._jobs: dict[str, Job] = {}
        self._lock = threading.Lock()
        self._worker = ThreadPoolExecutor(1, "map")

    def start(self, work: Work) -> str:
        """Returns an unguessable name. Raises `Full` if all other jobs are unfinished."""
        job, name = Job(), secrets.token_urlsafe(16)
        with self._lock:
            if len(self._jobs) >= self._limit:
                self._forget_oldest_finished()
            self._jobs[name] = job
            job.result = self._worker.submit(job.run, work)
        return name

    def get(self, name: str) -> Job | None:
        return self._jobs.get(name)

    def cancel(self, name: str) -> bool:
        """Whether there was such a job."""
        with self._lock:
            job = self._jobs.pop(name, None)
        if job is not None:
            job.cancel()
        return job is not None

    def close(self) -> None:
        """Cancel all jobs and end the thread."""
        for name in list(self._jobs):
            self.cancel(name)
        self._worker.shutdown()

    def _forget_oldest_finished(self) -> None:
        done = next((name for name, job in self._jobs.items() if job.result.done()), None)
        if done is None:
            raise Full(min(job.remaining_seconds() for job in self._jobs.values()))
        del self._jobs[done]


def error_of(job: Job) -> str | None:
    """Why a finished job has no result, in one sentence; other exceptions are bugs and are raised."""
    try:
        job.result.result()
    except StelmoError as problem:
        return str(problem)
    except (Cancelled, CancelledError):
        return "cancelled"
    return None
