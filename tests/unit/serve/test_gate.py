"""Before the routes: headers, host, token, foreign pages, metrics; how many, how large and how long requests may be."""

import asyncio
import json
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import tiny
from unit.serve import servers
from unit.serve.servers import PROBLEM

import stelmo
from stelmo.serve.app import app
from stelmo.serve.gate import BOUNDS, Metrics
from stelmo.serve.queues import Batch
from stelmo.settings import ServeSettings

MODEL = tiny.model()
TOKEN = "sixteen-letters-or-more"
ROUTES = ["/", "/health", "/metrics", "/v1/models", "/site/index.html", "/nowhere", "/openapi.json"]


@pytest.mark.parametrize("path", ROUTES)
def test_strict_headers_stand_on_every_answer(path):
    with servers.asked(MODEL) as client:
        headers = client.get(path).headers
    policy = headers["content-security-policy"].split("; ")
    assert "default-src 'self'" in policy
    assert "frame-ancestors 'none'" in policy
    assert not any("unsafe" in part or "http" in part for part in policy)
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"
    assert "server" not in headers
    assert "access-control-allow-origin" not in headers


def test_the_interactive_description_may_set_styles_but_loads_no_foreign_script():
    with servers.asked(MODEL) as client:
        policy = client.get("/docs").headers["content-security-policy"].split("; ")
    assert {"default-src 'self'", "style-src 'self' 'unsafe-inline'"} < set(policy)
    assert not any("http" in part or part.startswith("script-src") for part in policy)


def test_answers_of_the_model_are_kept_by_no_cache():
    with servers.asked(MODEL) as client:
        assert client.get("/v1/models").headers["cache-control"] == "no-store"


FOREIGN = (
    "evil.example",
    "localhost.evil.example",
    "evil.example:8000",
    "",
    "[::1].evil.com",
    "[::1]x:80",
    "a@localhost",
)


@pytest.mark.parametrize("host", FOREIGN)
def test_a_foreign_name_for_this_machine_is_refused(host):
    with servers.asked(MODEL) as client:
        answer = client.get("/v1/models", headers={"Host": host})
    assert answer.status_code == 421
    assert "localhost" in answer.json()["detail"]


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:80", "127.0.0.1:8000", "[::1]:8000", "[::1]"])
def test_names_of_this_machine_are_welcome(host):
    with servers.asked(MODEL, hosts=("localhost", "127.0.0.1", "::1")) as client:
        assert client.get("/v1/models", headers={"Host": host}).status_code == 200


@pytest.mark.parametrize("path", ["/v1/models", "/v1/words", "/metrics", "/v1", "/anything"])
@pytest.mark.parametrize("given", [None, "Bearer wrong", TOKEN, f"Basic {TOKEN}", f"Bearer {TOKEN} ", "Bearer ü"])
def test_without_the_token_there_is_no_answer(path, given):
    with servers.asked(MODEL, token=TOKEN) as client:
        headers = {} if given is None else {"Authorization": given.encode("latin-1")}
        answer = client.get(path, headers=headers)
    assert answer.status_code == 401
    assert answer.headers["www-authenticate"] == "Bearer"
    assert TOKEN not in answer.text


def test_with_the_token_there_is_and_the_page_and_health_need_none():
    with servers.asked(MODEL, token=TOKEN) as client:
        for scheme in ("Bearer", "bearer", "BEARER"):
            assert client.get("/v1/models", headers={"Authorization": f"{scheme} {TOKEN}"}).status_code == 200
        assert {client.get(path).status_code for path in ("/", "/health", "/site/index.html", "/openapi.json")} == {200}


def preflight(client, origin):
    headers = {
        "Origin": origin,
        "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": "content-type",
    }
    return client.options("/v1/embed", headers=headers)


def test_foreign_pages_may_not_ask_unless_named():
    with servers.asked(MODEL) as client:
        assert "access-control-allow-origin" not in preflight(client, "https://a.example").headers
    with servers.asked(MODEL, origins=["https://a.example"], token=TOKEN) as client:
        allowed = preflight(client, "https://a.example")
        assert allowed.status_code == 200
        assert allowed.headers["access-control-allow-origin"] == "https://a.example"
        assert "access-control-allow-origin" not in preflight(client, "https://b.example").headers


@pytest.mark.parametrize(
    "path",
    [
        "/site/../app.py",
        "/site/%2e%2e/app.py",
        "/site/..%2fapp.py",
        "/site//etc/passwd",
        "/site/%00",
        "/../gate.py",
        "/site/",
    ],
)
def test_no_request_reaches_another_file(path):
    with servers.asked(MODEL, raising=False) as client:
        answer = client.get(path)
    assert answer.status_code in (404, 405)
    assert list(answer.json()) == PROBLEM


def test_no_field_of_a_request_is_a_path():
    schema = app(MODEL).openapi()
    names = {name for part in schema["components"]["schemas"].values() for name in part.get("properties", {})}
    names -= {"truncation_direction"}
    assert names
    assert not [name for name in names if any(word in name for word in ("path", "file", "folder", "dir", "url"))]


def test_answers_name_no_place_on_the_disk():
    with servers.asked(MODEL) as client:
        told = [client.get(path).text for path in ("/v1/models", "/v1/tasks", "/metrics", "/openapi.json")]
    places = (str(Path(stelmo.__file__).parent), str(Path.home()), str(Path.cwd()))
    assert not [place for place in places for text in told if place in text]


def test_a_body_that_is_too_large_is_refused_by_its_announced_length():
    with servers.asked(MODEL, body_bytes=100) as client:
        answer = client.post("/v1/tokenize", json={"text": "a" * 100})
        assert answer.status_code == 413
        assert "100 bytes" in answer.json()["detail"]
        assert client.post("/v1/tokenize", json={"text": "a" * 50}).status_code == 200


@pytest.mark.parametrize("inner", [",".join(["[]"] * 300_000), "{" * 200_000, '{"a":1,' + '"b":2,' * 60_000])
def test_a_body_of_very_many_small_values_is_not_parsed(inner):
    with servers.asked(MODEL) as client:
        content = b'{"sentences": [' + inner.encode()
        answer = client.post("/v1/embed", content=content, headers={"Content-Type": "application/json"})
    assert (answer.status_code, "too many JSON" in answer.json()["detail"]) == (413, True)


def called(made, path, messages, headers=()):
    """What an ASGI application answers to such messages: its status, and its body."""
    return asyncio.run(exchange(made, path, messages, headers))


async def exchange(made, path, messages, headers=()):
    sent, parts = [], iter(messages)

    async def receive():
        part = next(parts, None)
        if part is None:
            await asyncio.sleep(60)
        return part

    async def send(message):
        sent.append(message)

    await made(scope(path, headers), receive, send)
    return sent[0]["status"], json.loads(sent[1]["body"])


def scope(path, headers=()):
    return {
        "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": "POST", "scheme": "http",
        "path": path, "raw_path": path.encode(), "query_string": b"", "root_path": "",
        "headers": [(b"host", b"localhost"), (b"content-type", b"application/json"), *headers],
        "client": ("127.0.0.1", 1), "server": ("127.0.0.1", 2),
    }  # fmt: skip


def part(body, more=True):
    return {"type": "http.request", "body": body, "more_body": more}


def test_a_body_of_unknown_length_is_read_no_further_than_the_limit():
    endless = (part(b" " * 64) for _ in range(10**9))
    status, answer = called(app(MODEL, ServeSettings(body_bytes=1000)), "/v1/tokenize", endless)
    assert status == 413
    assert next(endless, None) is not None
    assert list(answer) == PROBLEM


def test_a_body_in_pieces_is_put_together():
    pieces = [part(b'{"text": '), part(b'"Stocks fell."'), part(b"}", more=False)]
    assert called(app(MODEL), "/v1/tokenize", pieces) == (200, {"sentences": [["Stocks", "fell", "."]]})


def test_a_body_that_does_not_come_is_not_waited_for():
    status, answer = called(app(MODEL, ServeSettings(body_seconds=0.05)), "/v1/tokenize", [part(b"{")])
    assert status == 408
    assert "0.05 seconds" in answer["detail"]


def test_an_answer_that_takes_too_long_is_given_up():
    model = servers.Slow()
    with servers.asked(model, seconds=0.2) as client:
        answer = client.post("/v1/embed", json={"text": "a"})
        model.go.set()
        assert answer.status_code == 503
        assert "0.2 seconds" in answer.json()["detail"]


@pytest.mark.parametrize("limits", [{"requests": 3}, {"queue_tokens": 6, "batch_wait": 0}], ids=["requests", "tokens"])
def test_overload_is_told_to_come_again_and_what_was_accepted_is_answered(limits):
    model = servers.Slow()
    with servers.asked(model, **limits) as client, ThreadPoolExecutor(12) as pool:
        first = pool.submit(client.post, "/v1/embed", json={"text": "a"})
        assert model.busy.wait(60)
        others = [pool.submit(client.post, "/v1/embed", json={"text": "a"}) for _ in range(8)]
        servers.wait_for(lambda: sum(other.done() for other in others) == 6)
        assert client.get("/health").status_code == 200
        model.go.set()
        answers = [other.result(60) for other in (first, *others)]
        assert sorted(answer.status_code for answer in answers) == [200] * 3 + [429] * 6
        refused = [answer for answer in answers if answer.status_code == 429]
        assert all(1 <= int(answer.headers["retry-after"]) <= 60 for answer in refused)
        assert all(answer.json()["status"] == 429 for answer in refused)
        figures = client.get("/metrics").text
        assert 'stelmo_requests_total{route="/v1/embed",status="429"} 6.0' in figures
        assert client.post("/v1/embed", json={"text": "a"}).status_code == 200


def test_head_is_get_without_the_body(caplog):
    with servers.asked(MODEL) as client:
        for path in ("/", "/health", "/v1/models", "/site/main.js"):
            got, head = client.get(path), client.head(path)
            assert (head.status_code, head.content) == (200, b"")
            assert head.headers["content-length"] == got.headers["content-length"]
        assert client.head("/v1/embed").status_code == 405


@pytest.mark.parametrize(
    ("path", "methods"),
    [("/v1/embed", "POST"), ("/v1/map/jobs/one", "DELETE, GET, HEAD"), ("/health", "GET, HEAD"), ("/embed", "POST")],
)
def test_a_wrong_method_is_told_the_right_ones(path, methods):
    with servers.asked(MODEL) as client:
        answer = client.put(path)
    assert (answer.status_code, answer.headers["allow"]) == (405, methods)
    assert methods in answer.json()["detail"]


def test_a_bug_is_a_problem_without_details(monkeypatch):
    def fail(*_):
        raise ZeroDivisionError("secret")

    with servers.asked(MODEL, raising=False) as client:
        monkeypatch.setattr(client.app.state.context.model, "saved", fail)
        answer = client.get("/v1/models")
    assert (answer.status_code, answer.headers["content-type"]) == (500, "application/problem+json")
    assert "secret" not in answer.text


def test_every_request_is_one_line_in_the_access_log(caplog):
    caplog.set_level("INFO", "stelmo.access")
    with servers.asked(MODEL, access_log="text") as client:
        client.get("/health")
        client.get("/v1/words?prefix=secret")
        client.get("/a%0Ab")
    lines = [record.getMessage() for record in caplog.records if record.name == "stelmo.access"]
    assert len(lines) == 3
    assert "GET /health 200 15 bytes" in lines[0]
    assert "GET /v1/words 404" in lines[1]
    assert not any("secret" in line or "\n" in line for line in lines)


def test_the_access_log_as_json(caplog):
    caplog.set_level("INFO", "stelmo.access")
    with servers.asked(MODEL, access_log="json") as client:
        client.post("/v1/embed", json={})
    (line,) = [json.loads(record.getMessage()) for record in caplog.records if record.name == "stelmo.access"]
    assert (line["method"], line["path"], line["status"]) == ("POST", "/v1/embed", 422)
    assert {"time", "client", "bytes", "seconds"} < set(line)


def test_slow_bodies_take_no_place_of_other_requests():
    """More unfinished bodies than the server accepts requests, and others are still answered."""

    async def asked():
        made = app(MODEL, ServeSettings(requests=1))
        never = asyncio.Event()
        stalled = [asyncio.create_task(send_slowly(made, never)) for _ in range(3)]
        await asyncio.sleep(0)
        found = await asyncio.wait_for(exchange(made, "/v1/tokenize", [part(b'{"text": "a"}', more=False)]), 60)
        never.set()
        await asyncio.gather(*stalled)
        return found

    assert asyncio.run(asked())[0] == 200


async def send_slowly(made, until):
    async def receive():
        await until.wait()
        return {"type": "http.disconnect"}

    async def send(message):
        raise AssertionError("nobody is there")

    await made(scope("/v1/tokenize"), receive, send)


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
