"""`stelmo serve`: its options reach the service, and what would expose a server by mistake is refused."""

import sys
from typing import get_args, get_type_hints

import pytest
import tiny
from starlette.testclient import TestClient

from stelmo.cli.serve import serve
from stelmo.errors import ConfigError, DataError
from stelmo.explore import index as indices
from stelmo.serve import service
from stelmo.settings import ServeSettings
from stelmo.store.runs import LearnedMix, write_mixes

TOKEN = "0123456789abcdef"


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    tiny.folder(tmp_path / "model")
    (tmp_path / "token").write_text(TOKEN)
    return tmp_path


@pytest.fixture
def started(place, monkeypatch):
    """What the verb would run: the application, the host, the port."""
    runs = []
    monkeypatch.setattr(service, "run", lambda made, host, port, tell, settings: runs.append((made, host, port, tell)))
    return runs


def test_it_listens_to_this_machine_alone(started, capsys):
    serve("model")
    ((made, host, port, tell),) = started
    assert (host, port) == ("127.0.0.1", 8000)
    tell("http://127.0.0.1:8000/")
    assert "http://127.0.0.1:8000/" in capsys.readouterr().out
    with TestClient(made, base_url="http://localhost") as client:
        assert client.get("/v1/models").json()[0]["name"] == "model"
        assert client.get("/v1/models", headers={"Host": "other.example"}).status_code == 421


def test_every_setting_is_an_option_with_the_same_default_and_help():
    hints = get_type_hints(serve, include_extras=True)
    defaults = dict(zip(serve.__code__.co_varnames, serve.__defaults__, strict=False))
    for name, field in ServeSettings.model_fields.items():
        assert defaults[name] == field.default
        assert field.description.capitalize() in get_args(hints[name])[1].help


def test_limits_reach_the_service(started):
    serve("model", sentences=1, body_bytes=500)
    with TestClient(started[0][0], base_url="http://localhost") as client:
        assert client.post("/v1/embed", json={"sentences": [[], []]}).status_code == 422
        assert client.post("/v1/tokenize", json={"text": "a" * 500}).status_code == 413


def test_an_exposed_server_asks_for_its_token(started, place):
    serve("model", host="0.0.0.0", token_file=place / "token")
    with TestClient(started[0][0], base_url="http://any.example") as client:
        assert client.get("/v1/models").status_code == 401
        assert client.get("/v1/models", headers={"Authorization": f"Bearer {TOKEN}"}).status_code == 200


def test_an_exposed_server_without_a_token_is_refused_unless_it_is_meant(started):
    with pytest.raises(ConfigError, match=r"--token-file, or allow everyone with --open"):
        serve("model", host="0.0.0.0")
    assert not started
    serve("model", host="0.0.0.0", open_=True)
    with TestClient(started[0][0], base_url="http://any.example") as client:
        assert client.get("/v1/models").status_code == 200


def test_index_and_tasks_are_served(started, place):
    indices.build(tiny.model(), [["a", "bank"]], place / "uses")
    (place / "run").mkdir()
    write_mixes(place / "run", "ner", [LearnedMix(placement="input", weights=(1, 0, 0))])
    serve("model", index=place / "uses", task=[place / "run"], allow_origin=["https://a.example"])
    with TestClient(started[0][0], base_url="http://localhost") as client:
        assert client.get("/v1/words").json()["words"][0] == {"word": "a", "uses": 1}
        answer = client.get("/v1/tasks", headers={"Origin": "https://a.example"})
        assert [run["name"] for run in answer.json()] == ["run"]
        assert answer.headers["access-control-allow-origin"] == "https://a.example"


WRONG = {
    "a limit of nothing": ({"tokens": 0}, ConfigError, "serve: tokens"),
    "a time without end": ({"seconds": float("inf")}, ConfigError, "serve: seconds"),
    "an unknown log format": ({"access_log": "xml"}, ConfigError, "--access-log"),
    "a state that goes on": ({"state": "carry"}, ConfigError, "--state"),
    "a missing token file": ({"token_file": "nowhere"}, ConfigError, "nowhere"),
    "a missing index": ({"index": "nowhere"}, DataError, "nowhere"),
    "a run without mixes": ({"task": ["."]}, DataError, "mixes.json"),
}


@pytest.mark.parametrize(("options", "error", "message"), WRONG.values(), ids=WRONG)
def test_what_is_wrong_is_said(started, options, error, message):
    with pytest.raises(error, match=message):
        serve("model", **options)
    assert not started


def test_a_missing_library_is_named_with_the_way_to_get_it(monkeypatch):
    for name in [name for name in sys.modules if name.startswith("stelmo.serve")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    with pytest.raises(ConfigError, match=r"uvicorn; pip install 'stelmo\[serve\]'"):
        serve("model")
