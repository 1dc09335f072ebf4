"""What the service has done → Prometheus text. Knows no HTTP and no model."""

import threading
from collections import Counter
from collections.abc import Callable, Iterator

from stelmo.serve.batching import Batch

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
BOUNDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)  # seconds of a request
Labels = tuple[tuple[str, str], ...]


class Metrics:
    """Counts of requests by route and status, of their seconds, and of the model's batches."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._requests: Counter[Labels] = Counter()
        self._buckets: Counter[float] = Counter()
        self._seconds = 0.0
        self._batches = self._batched_requests = self._tokens = 0
        self._model_seconds = 0.0

    def request(self, route: str, status: int, seconds: float) -> None:
        with self._lock:
            self._requests[("route", route), ("status", str(status))] += 1
            self._seconds += seconds
            self._buckets.update(bound for bound in BOUNDS if seconds <= bound)

    def batch(self, batch: Batch) -> None:
        with self._lock:
            self._batches += 1
            self._batched_requests += batch.requests
            self._tokens += batch.tokens
            self._model_seconds += batch.seconds

    def text(self, gauges: dict[str, tuple[str, Callable[[], float]]]) -> str:
        """All figures; gauges by name, with their help and what they are at this moment."""
        with self._lock:
            lines = [*self._counters(), *self._histogram()]
        for name, (help_, read) in gauges.items():
            lines += _family(name, "gauge", help_, [("", (), read())])
        return "\n".join(lines) + "\n"

    def _counters(self) -> Iterator[str]:
        counted = [("", labels, float(count)) for labels, count in sorted(self._requests.items())]
        yield from _family("stelmo_requests_total", "counter", "Requests answered.", counted)
        for name, help_, value in (
            ("stelmo_batches_total", "Calls of the model.", self._batches),
            ("stelmo_batched_requests_total", "Requests in these calls.", self._batched_requests),
            ("stelmo_tokens_total", "Tokens computed, markers included.", self._tokens),
            ("stelmo_model_seconds_total", "Seconds the model computed.", self._model_seconds),
        ):
            yield from _family(name, "counter", help_, [("", (), value)])

    def _histogram(self) -> Iterator[str]:
        total = float(sum(self._requests.values()))
        samples: list[tuple[str, Labels, float]] = [
            ("_bucket", (("le", str(bound)),), self._buckets[bound]) for bound in BOUNDS
        ]
        samples += [("_bucket", (("le", "+Inf"),), total), ("_sum", (), self._seconds), ("_count", (), total)]
        yield from _family("stelmo_request_seconds", "histogram", "From a request's first byte to its answer.", samples)


def _family(name: str, kind: str, help_: str, samples: list[tuple[str, Labels, float]]) -> Iterator[str]:
    yield f"# HELP {name} {help_}"
    yield f"# TYPE {name} {kind}"
    for ending, labels, value in samples:
        shown = ",".join(f'{label}="{text}"' for label, text in labels)
        yield f"{name}{ending}{{{shown}}} {value:.10g}" if shown else f"{name}{ending} {value:.10g}"
