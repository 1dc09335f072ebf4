"""A server on a socket: it tells its address, finishes what it accepted when stopped; the page opens in a browser."""

import json
import signal
import socket
import subprocess
import sys
import threading
import webbrowser
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np
import pytest
import tiny
from starlette.testclient import TestClient
from unit.serve import servers

from stelmo.errors import ConfigError
from stelmo.explore import index as indices
from stelmo.serve import service
from stelmo.serve.app import app
from stelmo.settings import ServeSettings
from stelmo.store.runs import LearnedMix, write_mixes

# Stops itself by a signal as soon as it answers.
ENDING = """
import os, signal, sys
from stelmo.serve import service

async def app(scope, receive, send):
    assert (await receive())["type"] == "lifespan.startup"
    await send({"type": "lifespan.startup.complete"})
    assert (await receive())["type"] == "lifespan.shutdown"
    await send({"type": "lifespan.shutdown.complete"})

service.run(app, "127.0.0.1", 0, lambda address: os.kill(os.getpid(), int(sys.argv[1])))
print("ended")
"""


def posted(address):
    connection = HTTPConnection(urlsplit(address).netloc, timeout=120)
    connection.request("POST", "/v1/embed", json.dumps({"text": "a bank"}), {"Content-Type": "application/json"})
    answer = connection.getresponse()
    found = answer.status, json.loads(answer.read())["sentences"]
    connection.close()
    return found


def waiting_tokens(made):
    return made.state.context.batcher.waiting


def refuses_connections(address):
    with socket.socket() as knocking:
        return knocking.connect_ex(("127.0.0.1", urlsplit(address).port)) != 0


def test_a_stopped_server_finishes_what_it_accepted():
    model = servers.Slow()
    made = app(model, ServeSettings(batch_wait=0))
    with ThreadPoolExecutor(3) as pool, servers.served(made) as (address, server):
        answers = [pool.submit(posted, address)]
        assert model.busy.wait(60)
        answers += [pool.submit(posted, address), pool.submit(posted, address)]
        servers.wait_for(lambda: waiting_tokens(made) == 8)
        server.should_exit = True
        servers.wait_for(lambda: refuses_connections(address))
        assert not any(answer.done() for answer in answers)
        model.go.set()
        assert [answer.result(60) for answer in answers] == [(200, [["a", "bank"]])] * 3


def test_the_documented_snippet_runs():
    text = (Path(__file__).parents[3] / "docs" / "service.md").read_text()
    snippet = text.split("```python\n")[1].split("```")[0]
    names = {}
    with servers.served(app(tiny.model())) as (address, _):
        exec(snippet.replace("http://127.0.0.1:8000/", address), names)
    for found, expected in zip(
        (names["first"], names["second"]), tiny.model().embed(names["body"]["sentences"], "top"), strict=True
    ):
        assert np.array_equal(found, expected)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_server_that_is_told_to_stop_ends_well(number):
    done = subprocess.run([sys.executable, "-c", ENDING, str(int(number))], capture_output=True, text=True, timeout=240)
    assert (done.returncode, done.stdout, done.stderr) == (0, "ended\n", "")


def test_a_port_that_is_taken_is_refused():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(ConfigError, match=f"127.0.0.1:{port}: .*--port"):
            service.run(None, "127.0.0.1", port, print)


def test_a_host_that_is_not_this_machine_is_refused():
    with pytest.raises(ConfigError, match="--host"):
        service.run(None, "no.such.host.invalid", 0, print)


@pytest.mark.parametrize("host", ["a..b", "x" * 64 + ".org"])
def test_a_host_that_cannot_be_a_name_is_refused(host):
    with pytest.raises(ConfigError, match=r"--host .*not a name or an address"):
        service.listen(host, 0)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.8.8", "::1", "localhost", "LOCALHOST"])
def test_addresses_only_this_machine_reaches(host):
    assert service.is_loopback(host)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.5", "example.org", "", "localhost.example.org"])
def test_addresses_that_others_reach(host):
    assert not service.is_loopback(host)


def test_a_token_is_the_first_line_of_its_file(tmp_path):
    (tmp_path / "token").write_text("0123456789abcdef\nsomething else\n")
    assert service.read_token(tmp_path / "token") == "0123456789abcdef"


@pytest.mark.parametrize("content", [b"", b"short\n", b"0123456789 abcdef", b"\xff" * 20, b"\n0123456789abcdef"])
def test_what_is_no_token_is_refused(content, tmp_path):
    (tmp_path / "token").write_bytes(content)
    with pytest.raises(ConfigError, match="token"):
        service.read_token(tmp_path / "token")


def test_a_missing_token_file_is_refused(tmp_path):
    with pytest.raises(ConfigError, match="No such file"):
        service.read_token(tmp_path / "token")


def test_tasks_go_by_the_names_of_their_runs(tmp_path):
    for name, task in (("a/ner", "ner"), ("b/ner", "srl"), ("snli", "snli")):
        (tmp_path / name).mkdir(parents=True)
        write_mixes(tmp_path / name, task, [LearnedMix(placement="input", weights=(1,))])
    found = service.read_tasks([tmp_path / "a/ner", tmp_path / "b/ner/mixes.json", tmp_path / "snli"])
    assert {name: run.task for name, run in found.items()} == {"ner": "ner", "ner (2)": "srl", "snli": "snli"}


MODEL = tiny.model()


@pytest.fixture
def opened(monkeypatch):
    """Addresses that a browser was sent to; the service is not run, only told of."""
    addresses, done = [], threading.Event()
    monkeypatch.setattr(webbrowser, "open", lambda address: (addresses.append(address), done.set()))
    return addresses, done


@pytest.fixture
def runs(monkeypatch):
    found = []

    def run(made, host, port, tell, settings):
        found.append((made, host, port))
        tell(f"http://{host}:{port}/")

    monkeypatch.setattr(service, "run", run)
    return found


@pytest.fixture
def index(tmp_path):
    return indices.build(MODEL, [["a", "bank"]], tmp_path / "uses")


def test_the_browser_is_sent_to_the_page(index, opened, runs):
    told = []
    service.run_page(index, MODEL, port=1234, started=told.append)
    addresses, done = opened
    assert done.wait(60)
    assert addresses == told == ["http://127.0.0.1:1234/"]


def test_or_not(index, opened, runs):
    service.run_page(index, MODEL, open_browser=False)
    assert not opened[0]


def test_the_page_has_the_index_and_the_tasks(index, runs, tmp_path):
    (tmp_path / "run").mkdir()
    write_mixes(tmp_path / "run", "ner", [LearnedMix(placement="input", weights=(0, 1, 0))])
    service.run_page(index, MODEL, [tmp_path / "run"], name="tiny", open_browser=False)
    ((made, host, _),) = runs
    assert host == "127.0.0.1"
    with TestClient(made, base_url="http://localhost") as client:
        assert client.get("/").headers["content-type"].startswith("text/html")
        assert client.get("/v1/words").json()["words"] == [{"word": "a", "uses": 1}, {"word": "bank", "uses": 1}]
        assert [run["task"] for run in client.get("/v1/tasks").json()] == ["ner"]
