"""Work that takes longer than a request: started, looked at, cancelled. Knows no HTTP and not what the work is.

One thread works; a bounded number of jobs wait, run, or are kept until somebody fetches them.
"""

import secrets
import threading
from collections.abc import Callable
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from stelmo.errors import StelmoError
from stelmo.serve.batching import Full

Advance = Callable[[float], None]
Work = Callable[[Advance], Any]


class Cancelled(Exception):  # noqa: N818 — a wish, not a mistake
    """Raised inside the work when nobody wants it any more."""


@dataclass
class Job:
    """`progress` goes from 0 to 1; the work asks at each step whether it is still wanted."""

    progress: float = 0.0
    cancelled: threading.Event = field(default_factory=threading.Event)
    result: "Future[Any]" = field(default_factory=Future)

    def advance(self, progress: float) -> None:
        if self.cancelled.is_set():
            raise Cancelled
        self.progress = min(1.0, max(self.progress, progress))

    def cancel(self) -> None:
        self.cancelled.set()
        self.result.cancel()


class Jobs:
    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._jobs: dict[str, Job] = {}
        self._lock = threading.Lock()
        self._worker = ThreadPoolExecutor(1, "map")

    def start(self, work: Work) -> str:
        """Its name, which nobody can guess. Raises `Full` when all others are still under way."""
        job, name = Job(), secrets.token_urlsafe(16)
        with self._lock:
            if len(self._jobs) >= self._limit:
                self._forget_a_finished_one()
            self._jobs[name] = job
            job.result = self._worker.submit(work_of, job, work)
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
        """Nobody will come for the results."""
        for name in list(self._jobs):
            self.cancel(name)
        self._worker.shutdown()

    def _forget_a_finished_one(self) -> None:
        """The oldest."""
        done = next((name for name, job in self._jobs.items() if job.result.done()), None)
        if done is None:
            raise Full
        del self._jobs[done]


def work_of(job: Job, work: Work) -> Any:
    job.advance(0.0)
    return work(job.advance)


def error_of(job: Job) -> str | None:
    """Why a finished job has no result, in one sentence; a bug of ours is raised."""
    try:
        job.result.result()
    except StelmoError as problem:
        return str(problem)
    except (Cancelled, CancelledError):
        return "cancelled"
    return None
