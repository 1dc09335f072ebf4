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


def test_texts_are_tokenised_by_the_rules_of_the_index_or_those_given(started, place):
    indices.build(tiny.model(), [["l'", "eau"]], place / "uses", rules=indices.Rules("fr"))
    serve("model", index=place / "uses")
    serve("model", language="fr", contractions="moses")
    serve("model")
    told = []
    for made, *_ in started:
        with TestClient(made, base_url="http://localhost") as client:
            (found,) = client.get("/v1/models").json()
            tokens = client.post("/v1/tokenize", json={"text": "Voici l'eau."}).json()["sentences"]
            told.append((found["language"], found["contractions"], tokens))
    assert told == [
        ("fr", "ptb", [["Voici", "l'", "eau", "."]]),
        ("fr", "moses", [["Voici", "l'", "eau", "."]]),
        ("en", "ptb", [["Voici", "l'eau", "."]]),
    ]


def status_of(made, host):
    with TestClient(made, base_url="http://localhost") as client:
        return client.get("/v1/models", headers={"Host": host}).status_code


def test_a_server_answers_by_the_address_it_listens_on(started):
    serve("model", host="127.0.0.2")
    made = started[0][0]
    assert [status_of(made, host) for host in ("127.0.0.2:8000", "localhost", "127.0.0.3")] == [200, 200, 421]


def test_a_proxy_can_call_the_server_by_its_own_name(started, place):
    serve("model", allow_host=["Elmo.example", "[2001:db8::1]"])
    serve("model", host="0.0.0.0", token_file=place / "token", allow_host=["elmo.example"])
    hosts = ("elmo.example", "elmo.example:443", "[2001:db8::1]", "other.example")
    assert [status_of(started[0][0], host) for host in hosts] == [200, 200, 200, 421]
    assert [status_of(started[1][0], host) for host in hosts] == [401, 401, 421, 421]


@pytest.mark.parametrize("origin", ["https://a.org", "http://a.org:8080", "http://[::1]:80", "app://x", "*"])
def test_an_origin_is_a_scheme_and_a_host(started, origin):
    serve("model", allow_origin=[origin])
    assert len(started) == 1


@pytest.mark.parametrize(
    "origin", ["https://a.org/", "a.org", "https://A.org", "https://a.org/page", "null", "https://"]
)
def test_an_origin_that_no_browser_sends_is_refused(started, origin):
    with pytest.raises(ConfigError, match=f"--allow-origin {origin}: not an origin; expected scheme://host"):
        serve("model", allow_origin=[origin])
    assert not started


WRONG = {
    "a limit of nothing": ({"tokens": 0}, ConfigError, "serve: tokens"),
    "a time without end": ({"seconds": float("inf")}, ConfigError, "serve: seconds"),
    "an unknown log format": ({"access_log": "xml"}, ConfigError, "--access-log"),
    "a host with a scheme": ({"allow_host": ["https://a.org"]}, ConfigError, "--allow-host https://a.org: not a host"),
    "an unknown language": ({"language": "klingon"}, ConfigError, "language 'klingon': expected a code"),
    "unknown contractions": ({"contractions": "x"}, ConfigError, "contractions 'x': expected one of"),
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


def test_an_index_and_a_language_exclude_each_other(started, place):
    indices.build(tiny.model(), [["l'", "eau"]], place / "uses", rules=indices.Rules("fr"))
    with pytest.raises(
        ConfigError, match=r"tokenises as the index does \(language fr, contractions ptb\); leave them out"
    ):
        serve("model", index=place / "uses", language="de")
