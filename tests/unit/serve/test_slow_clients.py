"""A hostile or slow client must not keep others waiting: endless texts, bodies, headers and connections, on loopback.

`/health` is asked all the while, and must answer within 0.25 s of processor time of this process, server and clients:
time that a busy machine gives to other processes does not count. An answer can also be late because it waits for
something else than the processor. That is bounded by the clock: 1 s, or ten times the slowest answer of the same server
before the scenario begins, whichever is longer, and 20 times the processor time, for machines that are as busy as that.
"""

import json
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import ExitStack, contextmanager
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import tiny
from unit.serve import servers

import stelmo
from stelmo.errors import DataError
from stelmo.explore.index import Rules
from stelmo.serve import context
from stelmo.serve.app import app
from stelmo.settings import ServeSettings

MODEL = tiny.model()
HEADERS = "Host: localhost\r\nContent-Type: application/json\r\n"
STALLED = f"POST /v1/tokenize HTTP/1.1\r\n{HEADERS}Content-Length: 100\r\n\r\n{{".encode()
# Texts on which a sentence splitter can take time that grows with the square of their length.
WORST = {unit: unit * (300_000 // len(unit)) for unit in ('?"', "('\"", "“", "a. ")}
MOST = ServeSettings().body_bytes - 1000
HOSTILE = {  # bodies of nearly the largest size, whose parsing, checking or answering could take long in one piece
    "quotation marks, then words": ("/v1/tokenize", {"text": "'" * 2000 + "word " * (MOST // 5 - 1000)}),
    "one long sentence": ("/v1/tokenize", {"text": "ab " * (MOST // 3)}),
    "numbers as tokens": ("/v1/embed", {"sentences": [[1] * (MOST // 2)]}),
    "numbers as sentences": ("/v1/embed", {"sentences": [1] * (MOST // 2)}),
    "many sentences": ("/v1/embed", {"sentences": [["a"]] * 90_000}),
    "many tokens": ("/v1/embed", {"sentences": [["a"] * (MOST // 4)]}),
    "halves of characters": ("/v1/guess", {"position": 0, "tokens": ["\ud800"] * (MOST // 9)}),
    "unknown fields": ("/v1/embed", {f"f{number}": 1 for number in range(45_000)}),
    "many texts": ("/v1/embeddings", {"input": ["a"] * (MOST // 4)}),
    "a large matrix": ("/v1/similarity", {"first": ["a"] * 1000, "second": ["b"] * 1000, "layers": "each"}),
}
SECONDS = 0.25  # of processor time until /health answers
ATTEMPTS = 3  # a body that freezes the server does so each time; a processor with other work is slower now and then


@contextmanager
def running(**limits):
    settings = ServeSettings(**limits)
    with servers.served(app(MODEL, settings), settings) as (address, server):
        yield urlsplit(address).netloc, server


def connected(netloc):
    host, port = netloc.split(":")
    return socket.create_connection((host, int(port)), timeout=60)


def compact(body):
    return json.dumps(body, separators=(",", ":")).encode()


def posted(netloc, path, body):
    connection = HTTPConnection(netloc, timeout=120)
    sent = body if isinstance(body, bytes) else compact(body)
    connection.request("POST", path, sent, {"Content-Type": "application/json"})
    answer = connection.getresponse()
    answer.read()
    connection.close()
    return answer.status


def health_seconds(netloc):
    """By the clock, and of processor time."""
    started, used = time.perf_counter(), time.process_time()
    connection = HTTPConnection(netloc, timeout=120)
    connection.request("GET", "/health")
    assert connection.getresponse().read() == b'{"status":"ok"}'
    connection.close()
    return time.perf_counter() - started, time.process_time() - used


@contextmanager
def healthy(netloc):
    """Asks /health until the block ends; none of the answers may be late. Yields the bound in seconds."""
    latest = max(1.0, 10 * max(health_seconds(netloc)[0] for _ in range(5)))
    times, done = [], threading.Event()

    def ask():
        while not done.is_set():
            times.append(health_seconds(netloc))
            done.wait(0.05)

    thread = threading.Thread(target=ask)
    thread.start()
    try:
        yield latest
    finally:
        done.set()
        thread.join()
    assert times
    assert all(seconds < latest + 20 * processor for seconds, processor in times)
    assert max(processor for _, processor in times) < SECONDS


@pytest.fixture(scope="module")
def impatient():
    with running(seconds=0.5) as (netloc, _):
        yield netloc


@pytest.mark.parametrize("text", WORST.values(), ids=map(ascii, WORST))
def test_no_text_freezes_the_server(impatient, text):
    """With a short deadline, which is kept although the text takes longer."""
    with healthy(impatient) as latest:
        started = time.perf_counter()
        assert posted(impatient, "/v1/tokenize", {"text": text}) in (200, 503)
        assert time.perf_counter() - started < 0.5 + 2 * latest


@pytest.mark.parametrize(("path", "body"), HOSTILE.values(), ids=HOSTILE)
def test_no_body_freezes_the_server(impatient, path, body):
    sent = compact(body)  # before /health is asked: this takes time of the same process
    assert len(sent) <= ServeSettings().body_bytes
    for attempt in range(ATTEMPTS):
        try:
            with healthy(impatient):
                assert posted(impatient, path, sent) in (200, 422, 503)
            break
        except AssertionError:
            if attempt == ATTEMPTS - 1:
                raise


@pytest.mark.parametrize("text", ["A river. " * 10_000, "river " * 10_000])
def test_a_request_that_timed_out_stops_its_thread(text):
    calls = []

    class Stop:
        def is_set(self):
            calls.append(1)
            return len(calls) > 2

    (found,) = context._tokenize([text], Rules(), None, Stop())
    assert sum(map(len, found)) == 2


@pytest.mark.parametrize("most", [29, 30])
def test_too_many_tokens_are_refused_as_soon_as_they_are_found(monkeypatch, most):
    read = []
    original = context.tokens.scan

    def scan(sentence, *rules):
        read.append(sentence)
        return original(sentence, *rules)

    monkeypatch.setattr(context.tokens, "scan", scan)
    with pytest.raises(DataError, match=f"more than {most} tokens"):
        context._tokenize(["A river. " * 5, "Over there. " * 1000], Rules(), most, threading.Event())
    assert len(read) == (10 if most == 29 else 11)


@pytest.mark.parametrize("text", ["", "No blank line. " * 3000, "One. Two.\n\nThree." * 2000, 'He said "a? b." ' * 999])
def test_the_sentences_are_those_of_the_library_however_long_the_text(text):
    found = context._tokenize([text, "a"], Rules(), None, threading.Event())
    assert found == [stelmo.tokenize(text), [["a"]]]


def test_slow_bodies_keep_nobody_out_and_are_given_up():
    with running(requests=2, body_seconds=3.0) as (netloc, _), healthy(netloc), ExitStack() as open_:
        slow = [open_.enter_context(connected(netloc)) for _ in range(6)]
        for one in slow:
            one.sendall(STALLED)
        assert posted(netloc, "/v1/tokenize", {"text": "a"}) == 200
        answers = [one.recv(10_000) for one in slow]
    assert [answer.split()[1] for answer in answers] == [b"408"] * 6


def test_headers_that_never_end_are_given_up():
    with running(header_seconds=2.0) as (netloc, _), healthy(netloc), ExitStack() as open_:
        slow = [open_.enter_context(connected(netloc)) for _ in range(8)]
        for one in slow:
            one.sendall(b"GET /health HTTP/1.1\r\nHost: local")
        assert [closed(one) for one in slow] == [True] * 8


def test_headers_that_never_end_are_given_up_on_a_used_connection():
    with running(header_seconds=2.0) as (netloc, _), connected(netloc) as one:
        one.sendall(f"GET /health HTTP/1.1\r\n{HEADERS}\r\n".encode())
        answer = b""
        while not answer.endswith(b"}"):
            answer += one.recv(10_000)
        one.sendall(b"GET /hea")
        assert closed(one)


def closed(one):
    """Whether the server closes the connection, within a minute."""
    try:
        return one.recv(1000) == b""
    except ConnectionResetError:
        return True


def test_too_many_connections_cost_the_slowest_one_its_place():
    with running(connections=4, header_seconds=60) as (netloc, _), ExitStack() as open_:
        slow = [open_.enter_context(connected(netloc)) for _ in range(4)]
        assert posted(netloc, "/v1/tokenize", {"text": "a"}) == 200
        assert closed(slow[0])


def test_overload_leaves_health_alone():
    model = servers.Slow()
    settings = ServeSettings(requests=2)
    with servers.served(app(model, settings), settings) as (address, _):
        netloc, found = urlsplit(address).netloc, []
        with healthy(netloc):
            threads = [
                threading.Thread(target=lambda: found.append(posted(netloc, "/v1/embed", {"text": "a"})))
                for _ in range(8)
            ]
            for thread in threads:
                thread.start()
            servers.wait_for(lambda: len(found) == 6)
            model.go.set()
            for thread in threads:
                thread.join()
    assert sorted(found) == [200] * 2 + [429] * 6


SERVING = """
import sys
sys.path.insert(0, sys.argv[1])
import tiny
from stelmo.serve import service
from stelmo.serve.app import app
service.run(app(tiny.model()), "127.0.0.1", 0, lambda address: print(address, flush=True))
"""


def test_a_stalled_body_does_not_delay_the_end():
    tests = str(Path(tiny.__file__).parent)
    command = [sys.executable, "-c", SERVING, tests]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        netloc = urlsplit(server.stdout.readline().strip()).netloc
        with connected(netloc) as stalled, connected(netloc) as silent:
            stalled.sendall(STALLED)
            silent.sendall(b"GET /he")
            assert posted(netloc, "/v1/tokenize", {"text": "a"}) == 200
            server.send_signal(signal.SIGTERM)
            started = time.perf_counter()
            assert server.wait(60) == 0
    assert time.perf_counter() - started < 8  # body_seconds is 10
