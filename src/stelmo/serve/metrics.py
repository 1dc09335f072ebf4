"""Counts of requests and batches → Prometheus text. Knows no HTTP and no model."""

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from stelmo.serve.batching import Batch

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
BOUNDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)  # seconds of a request


class Metrics:
    """Requests by route and status, their duration, and the batches of the model."""

    def __init__(self) -> None:
        self._registry = registry = CollectorRegistry()  # one per application, not the process-wide default
        self._requests = Counter("stelmo_requests", "Requests answered.", ("route", "status"), registry=registry)
        self._seconds = Histogram(
            "stelmo_request_seconds", "Time to answer a request.", buckets=BOUNDS, registry=registry
        )
        self._batches = Counter("stelmo_batches", "Calls of the model.", registry=registry)
        self._batched = Counter("stelmo_batched_requests", "Requests in these calls.", registry=registry)
        self._tokens = Counter("stelmo_tokens", "Tokens computed, including sentence markers.", registry=registry)
        self._model_seconds = Counter("stelmo_model_seconds", "Seconds the model computed.", registry=registry)
        self._waiting = Gauge("stelmo_waiting_tokens", "Tokens waiting for the model.", registry=registry)

    def request(self, route: str, status: int, seconds: float) -> None:
        self._requests.labels(route, str(status)).inc()
        self._seconds.observe(seconds)

    def batch(self, batch: Batch) -> None:
        self._batches.inc()
        self._batched.inc(batch.requests)
        self._tokens.inc(batch.tokens)
        self._model_seconds.inc(batch.seconds)

    def watch_queue(self, waiting: Callable[[], float]) -> None:
        """Read the number of waiting tokens from this function."""
        self._waiting.set_function(waiting)

    def text(self) -> str:
        return generate_latest(self._registry).decode()
