"""Work that waits for its turn: sentences for the model, and jobs that take longer than a request. Knows no HTTP.

One thread uses the model. While it computes, requests wait in a bounded queue; the next batch takes what is waiting, up
to a budget of tokens. Every accepted request is answered, even while the service shuts down.

Another thread works on jobs, which are started, polled and cancelled. The number of jobs that wait, run, or are kept
until they are fetched is limited.
"""

import secrets
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from numpy.typing import NDArray

from stelmo.errors import StelmoError

Array = NDArray[Any]
Sentence = Sequence[str]
Compute = Callable[[list[Sentence]], list[Array]]
RECENT = 0.3  # weight of the last batch in the estimated speed
Advance = Callable[[float], None]
LongWork = Callable[[Advance], Any]


class Full(Exception):  # noqa: N818 — a state, not a mistake
    """The queue is full. `seconds` estimates how long until there is room."""

    def __init__(self, seconds: float = 1.0) -> None:
        super().__init__(f"the queue is full for about {seconds:.1f} seconds")
        self.seconds = seconds


class Batch(NamedTuple):
    """What one call of the model did."""

    requests: int
    tokens: int
    seconds: float


class _Work(NamedTuple):
    """Sentences for a shared batch, or a call that needs the model for itself."""

    sentences: list[Sentence]
    call: Callable[[], Any] | None
    tokens: int
    answer: "Future[Any]"


class Batcher:
    def __init__(
        self,
        compute: Compute,
        batch_tokens: int,
        queue_tokens: int,
        wait: float = 0.0,
        done: Callable[[Batch], None] = lambda batch: None,
    ) -> None:
        self._compute, self._done = compute, done
        self._batch_tokens, self._queue_tokens, self._wait = batch_tokens, queue_tokens, wait
        self._queue: deque[_Work] = deque()
        self._waiting = self._running = 0  # tokens in the queue, tokens being computed
        self._seconds_per_token = 0.0  # recent average; 0 before the first batch
        self._closed = False
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._run, name="model", daemon=True)
        self._thread.start()

    @property
    def waiting(self) -> int:
        """Tokens in the queue."""
        return self._waiting

    @property
    def wait_seconds(self) -> float:
        """Estimated time until everything that is waiting now is computed."""
        return (self._waiting + self._running) * self._seconds_per_token

    def layers(self, sentences: Sequence[Sentence]) -> "Future[list[Array]]":
        """A future with an (L+1, T, D) array per sentence. Sentence markers count as tokens. Raises `Full`."""
        return self._put(_Work(list(sentences), None, sum(len(words) + 2 for words in sentences), Future()))

    def call(self, function: Callable[[], Any], tokens: int) -> "Future[Any]":
        """A future with the function's result; nothing else uses the model while it runs. Raises `Full`."""
        return self._put(_Work([], function, tokens, Future()))

    def close(self) -> None:
        """Finish the accepted work and accept no more."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        self._thread.join()

    def _put(self, work: _Work) -> "Future[Any]":
        with self._changed:
            # An empty queue takes any request: the size of a request is limited elsewhere.
            if self._closed or (self._queue and self._waiting + work.tokens > self._queue_tokens):
                raise Full(self.wait_seconds)
            self._queue.append(work)
            self._waiting += work.tokens
            self._changed.notify()
        return work.answer

    def _run(self) -> None:
        while batch := self._next():
            started = time.perf_counter()
            batch = [work for work in batch if work.answer.set_running_or_notify_cancel()]
            if not batch:
                continue
            tokens = self._running = sum(work.tokens for work in batch)
            _answer(batch, self._compute)
            seconds = time.perf_counter() - started
            speed = seconds / max(1, tokens)
            self._seconds_per_token += (RECENT if self._seconds_per_token else 1.0) * (speed - self._seconds_per_token)
            self._running = 0
            self._done(Batch(len(batch), tokens, seconds))

    def _next(self) -> list[_Work]:
        """The next batch: one call, or sentences up to the budget. Empty once closed and finished."""
        with self._changed:
            self._changed.wait_for(lambda: self._queue or self._closed)
            if self._wait and not self._closed:
                self._changed.wait_for(lambda: self._waiting >= self._batch_tokens or self._closed, self._wait)
            batch: list[_Work] = []
            tokens = 0
            while self._queue:
                work = self._queue[0]
                if batch and (batch[0].call or work.call or tokens + work.tokens > self._batch_tokens):
                    break
                batch.append(self._queue.popleft())
                tokens += work.tokens
                self._waiting -= work.tokens
            return batch


def _answer(batch: list[_Work], compute: Compute) -> None:
    """Gives each request its own results; an exception of the model goes to every request of the batch."""
    try:
        if batch[0].call is not None:
            batch[0].answer.set_result(batch[0].call())
            return
        found = iter(compute([sentence for work in batch for sentence in work.sentences]))
    except BaseException as problem:  # noqa: BLE001 — raised in the threads that wait for the answer, not in this one
        for work in batch:
            work.answer.set_exception(problem)
        return
    for work in batch:
        work.answer.set_result([next(found) for _ in work.sentences])


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

    def run(self, work: LongWork) -> Any:
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

    def start(self, work: LongWork) -> str:
        """Returns an unguessable name. At the limit, the oldest finished job is forgotten; raises `Full` if none is."""
        job, name = Job(), secrets.token_urlsafe(16)
        with self._lock:
            if len(self._jobs) >= self._limit:
                finished = next((name for name, job in self._jobs.items() if job.result.done()), None)
                if finished is None:
                    raise Full(min(job.remaining_seconds() for job in self._jobs.values()))
                del self._jobs[finished]
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


def error_of(job: Job) -> str | None:
    """Why a finished job has no result, in one sentence; other exceptions are bugs and are raised."""
    try:
        job.result.result()
    except StelmoError as problem:
        return str(problem)
    except (Cancelled, CancelledError):
        return "cancelled"
    return None
