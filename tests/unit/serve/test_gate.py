"""Before the routes: headers, host, token, foreign pages; and how many, how large and how long requests may be."""

import asyncio
import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import tiny
from unit.serve import houses

import stelmo
from stelmo.config import ServeSettings
from stelmo.serve.app import app

MODEL = tiny.model()
TOKEN = "sixteen-letters-or-more"
ROUTES = ["/", "/health", "/metrics", "/v1/models", "/site/index.html", "/nowhere", "/openapi.json"]


@pytest.mark.parametrize("path", ROUTES)
def test_strict_headers_stand_on_every_answer(path):
    with houses.asked(MODEL) as client:
        headers = client.get(path).headers
    policy = headers["content-security-policy"].split("; ")
    assert "default-src 'self'" in policy
    assert "frame-ancestors 'none'" in policy
    assert not any("unsafe" in part or "http" in part for part in policy)
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"
    assert "server" not in headers
    assert "access-control-allow-origin" not in headers


def test_answers_of_the_model_are_kept_by_no_cache():
    with houses.asked(MODEL) as client:
        assert client.get("/v1/models").headers["cache-control"] == "no-store"


@pytest.mark.parametrize("host", ["evil.example", "localhost.evil.example", "evil.example:8000", ""])
def test_a_foreign_name_for_this_machine_is_refused(host):
    with houses.asked(MODEL) as client:
        answer = client.get("/v1/models", headers={"Host": host})
    assert answer.status_code == 421
    assert "localhost" in answer.json()["error"]


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:80", "127.0.0.1:8000", "[::1]:8000", "[::1]"])
def test_names_of_this_machine_are_welcome(host):
    with houses.asked(MODEL, hosts=("localhost", "127.0.0.1", "::1")) as client:
        assert client.get("/v1/models", headers={"Host": host}).status_code == 200


@pytest.mark.parametrize("path", ["/v1/models", "/v1/words", "/metrics", "/v1", "/anything"])
@pytest.mark.parametrize("given", [None, "Bearer wrong", TOKEN, f"Basic {TOKEN}", f"Bearer {TOKEN} ", "Bearer ü"])
def test_without_the_token_there_is_no_answer(path, given):
    with houses.asked(MODEL, token=TOKEN) as client:
        headers = {} if given is None else {"Authorization": given.encode("latin-1")}
        answer = client.get(path, headers=headers)
    assert answer.status_code == 401
    assert answer.headers["www-authenticate"] == "Bearer"
    assert TOKEN not in answer.text


def test_with_the_token_there_is_and_the_page_and_health_need_none():
    with houses.asked(MODEL, token=TOKEN) as client:
        assert client.get("/v1/models", headers={"Authorization": f"Bearer {TOKEN}"}).status_code == 200
        assert {client.get(path).status_code for path in ("/", "/health", "/site/index.html", "/openapi.json")} == {200}


def preflight(client, origin):
    headers = {
        "Origin": origin,
        "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": "content-type",
    }
    return client.options("/v1/embed", headers=headers)


def test_foreign_pages_may_not_ask_unless_named():
    with houses.asked(MODEL) as client:
        assert "access-control-allow-origin" not in preflight(client, "https://a.example").headers
    with houses.asked(MODEL, origins=["https://a.example"], token=TOKEN) as client:
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
    with houses.asked(MODEL, raising=False) as client:
        answer = client.get(path)
    assert answer.status_code in (404, 405)
    assert list(answer.json()) == ["error"]


def test_no_field_of_a_request_is_a_path():
    schema = app(MODEL).openapi()
    names = {name for part in schema["components"]["schemas"].values() for name in part.get("properties", {})}
    assert names
    assert not [name for name in names if any(word in name for word in ("path", "file", "folder", "dir", "url"))]


def test_answers_name_no_place_on_the_disk():
    with houses.asked(MODEL) as client:
        told = [client.get(path).text for path in ("/v1/models", "/v1/tasks", "/metrics", "/openapi.json")]
    places = (str(Path(stelmo.__file__).parent), str(Path.home()), str(Path.cwd()))
    assert not [place for place in places for text in told if place in text]


def test_a_body_that_is_too_large_is_refused_by_its_announced_length():
    with houses.asked(MODEL, body_bytes=100) as client:
        answer = client.post("/v1/tokenize", json={"text": "a" * 100})
        assert answer.status_code == 413
        assert "100 bytes" in answer.json()["error"]
        assert client.post("/v1/tokenize", json={"text": "a" * 50}).status_code == 200


def called(made, path, messages, headers=()):
    """What an ASGI application answers to such messages: its status, and its body."""
    sent, parts = [], iter(messages)

    async def receive():
        part = next(parts, None)
        if part is None:
            await asyncio.sleep(60)
        return part

    async def send(message):
        sent.append(message)

    scope = {
        "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": "POST", "scheme": "http",
        "path": path, "raw_path": path.encode(), "query_string": b"", "root_path": "",
        "headers": [(b"host", b"localhost"), (b"content-type", b"application/json"), *headers],
        "client": ("127.0.0.1", 1), "server": ("127.0.0.1", 2),
    }  # fmt: skip
    asyncio.run(made(scope, receive, send))
    return sent[0]["status"], json.loads(sent[1]["body"])


def part(body, more=True):
    return {"type": "http.request", "body": body, "more_body": more}


def test_a_body_of_unknown_length_is_read_no_further_than_the_limit():
    endless = (part(b" " * 64) for _ in range(10**9))
    status, answer = called(app(MODEL, ServeSettings(body_bytes=1000)), "/v1/tokenize", endless)
    assert status == 413
    assert next(endless, None) is not None
    assert list(answer) == ["error"]


def test_a_body_in_pieces_is_put_together():
    pieces = [part(b'{"text": '), part(b'"Stocks fell."'), part(b"}", more=False)]
    assert called(app(MODEL), "/v1/tokenize", pieces) == (200, {"sentences": [["Stocks", "fell", "."]]})


def test_a_body_that_does_not_come_is_not_waited_for():
    status, answer = called(app(MODEL, ServeSettings(seconds=0.05)), "/v1/tokenize", [part(b"{")])
    assert status == 408
    assert "0.05 seconds" in answer["error"]


def test_an_answer_that_takes_too_long_is_given_up():
    model = houses.Slow()
    with houses.asked(model, seconds=0.2) as client:
        answer = client.post("/v1/embed", json={"text": "a"})
        model.go.set()
        assert answer.status_code == 503
        assert "0.2 seconds" in answer.json()["error"]


@pytest.mark.parametrize("limits", [{"requests": 3}, {"queue_tokens": 6, "batch_wait": 0}], ids=["requests", "tokens"])
def test_overload_is_told_to_come_again_and_what_was_accepted_is_answered(limits):
    model = houses.Slow()
    with houses.asked(model, **limits) as client, ThreadPoolExecutor(12) as pool:
        first = pool.submit(client.post, "/v1/embed", json={"text": "a"})
        assert model.busy.wait(60)
        others = [pool.submit(client.post, "/v1/embed", json={"text": "a"}) for _ in range(8)]
        houses.wait_for(lambda: sum(other.done() for other in others) == 6)
        assert client.get("/health").status_code == 200
        model.go.set()
        answers = [other.result(60) for other in (first, *others)]
        assert sorted(answer.status_code for answer in answers) == [200] * 3 + [429] * 6
        refused = [answer for answer in answers if answer.status_code == 429]
        assert {answer.headers["retry-after"] for answer in refused} == {"1"}
        assert client.post("/v1/embed", json={"text": "a"}).status_code == 200
