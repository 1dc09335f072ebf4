"""/metrics: text that Prometheus reads, with the figures of what was asked."""

import re

import pytest
import tiny
from unit.serve import servers

from stelmo.serve.batching import Batch
from stelmo.serve.metrics import BOUNDS, Metrics

SAMPLE = re.compile(r'(?P<name>[a-z_]+)(?P<labels>\{[a-z]+="[^"]*"(?:,[a-z]+="[^"]*")*\})? (?P<value>[-+.e\d]+)')


def read(text):
    """Name with labels → value, once every line is as the format says."""
    assert text.endswith("\n")
    samples = {}
    families = set()
    for line in text.splitlines():
        if line.startswith("# TYPE "):
            families.add(line.split()[2])
        elif not line.startswith("# HELP "):
            found = SAMPLE.fullmatch(line)
            assert found, line
            assert re.sub("_(bucket|sum|count)$", "", found["name"]) in families | {found["name"]}
            samples[found["name"] + (found["labels"] or "")] = float(found["value"])
    return samples


def test_requests_are_counted_by_route_and_status_and_invented_paths_are_one():
    with servers.asked(tiny.model()) as client:
        client.post("/v1/embed", json={"sentences": [["a", "bank"], ["a"]]})
        client.post("/v1/embed", json={})
        for path in ("/a", "/b%0A%22", "/v1/c"):
            client.get(path)
        client.get("/v1/map/jobs/one")
        client.get("/v1/map/jobs/two")
        answer = client.get("/metrics")
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    found = read(answer.text)
    assert found['stelmo_requests_total{route="/v1/embed",status="200"}'] == 1
    assert found['stelmo_requests_total{route="/v1/embed",status="422"}'] == 1
    assert found['stelmo_requests_total{route="other",status="404"}'] == 3
    assert found['stelmo_requests_total{route="/v1/map/jobs/{job}",status="404"}'] == 2
    assert found["stelmo_tokens_total"] == 7
    assert found["stelmo_batches_total"] == found["stelmo_batched_requests_total"] == 1
    assert found["stelmo_waiting_tokens"] == 0
    assert found["stelmo_request_seconds_count"] == found['stelmo_request_seconds_bucket{le="+Inf"}'] == 7


def test_buckets_hold_all_that_is_not_longer():
    metrics = Metrics()
    for seconds in (0.001, 0.01, 0.3, 100.0):
        metrics.request("/", 200, seconds)
    found = read(metrics.text())
    buckets = [found[f'stelmo_request_seconds_bucket{{le="{bound}"}}'] for bound in BOUNDS]
    assert buckets == [sum(seconds <= bound for seconds in (0.001, 0.01, 0.3, 100.0)) for bound in BOUNDS]
    assert found["stelmo_request_seconds_sum"] == pytest.approx(100.311)


def test_batches_add_up():
    metrics = Metrics()
    metrics.batch(Batch(3, 40, 0.5))
    metrics.batch(Batch(1, 2, 0.25))
    found = read(metrics.text())
    assert [found[f"stelmo_{name}_total"] for name in ("batches", "batched_requests", "tokens", "model_seconds")] == [
        2, 4, 42, 0.75
    ]  # fmt: skip
