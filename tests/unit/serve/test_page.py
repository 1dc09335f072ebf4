"""The page: served to this machine, opened in the browser unless told not to, with the tasks' layer weights."""

import threading
import webbrowser

import pytest
import tiny
from starlette.testclient import TestClient

from stelmo.explore import index as indices
from stelmo.serve import page, service
from stelmo.store.runs import LearnedMix, write_mixes

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
    page.run(index, MODEL, port=1234, started=told.append)
    addresses, done = opened
    assert done.wait(60)
    assert addresses == told == ["http://127.0.0.1:1234/"]


def test_or_not(index, opened, runs):
    page.run(index, MODEL, open_browser=False)
    assert not opened[0]


def test_the_page_has_the_index_and_the_tasks(index, runs, tmp_path):
    (tmp_path / "run").mkdir()
    write_mixes(tmp_path / "run", "ner", [LearnedMix(placement="input", weights=(0, 1, 0))])
    page.run(index, MODEL, [tmp_path / "run"], name="tiny", open_browser=False)
    ((made, host, _),) = runs
    assert host == "127.0.0.1"
    with TestClient(made, base_url="http://localhost") as client:
        assert client.get("/").headers["content-type"].startswith("text/html")
        assert client.get("/v1/words").json()["words"] == [{"word": "a", "uses": 1}, {"word": "bank", "uses": 1}]
        assert [run["task"] for run in client.get("/v1/tasks").json()] == ["ner"]
