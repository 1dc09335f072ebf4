"""Routes about text: the library's own answers, in JSON and in bytes; and what is refused."""

import io
import json

import numpy as np
import pyarrow
import pytest
import tiny
from unit.serve import servers
from unit.serve.servers import BANK, LOAN, PROBLEM

import stelmo
from stelmo.explore import maps
from stelmo.lm import probabilities as lm
from stelmo.serve import answers
from stelmo.store.runs import LearnedMix, Mixes

MODEL = tiny.model()
LAYERS = ("mean", "top", 0, 1, 2)


@pytest.fixture(scope="module")
def client():
    run = Mixes(task="ner", outputs=[LearnedMix(placement="input", weights=(0.2, 0.5, 0.3), gamma=1.5)])
    with servers.asked(MODEL, tasks={"run": run}) as client:
        yield client


def embedded(client, accept="application/json", **body):
    answer = client.post("/v1/embed", json=body, headers={"Accept": accept})
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"] == accept
    return answer


@pytest.mark.parametrize("layer", LAYERS)
def test_json_vectors_are_those_of_the_library_to_the_last_bit(client, layer):
    found = embedded(client, sentences=[BANK, [], LOAN], layer=layer).json()
    assert found["sentences"] == [BANK, [], LOAN]
    for vectors, expected in zip(found["vectors"], MODEL.embed([BANK, [], LOAN], layer), strict=True):
        assert np.array_equal(np.array(vectors, np.float32).reshape(expected.shape), expected)


def test_npy_holds_all_tokens_end_to_end(client):
    answer = embedded(client, answers.NPY, sentences=[BANK, [], LOAN], layer=1)
    vectors = np.load(io.BytesIO(answer.content), allow_pickle=False)
    lengths = [int(length) for length in answer.headers["stelmo-lengths"].split(",")]
    assert lengths == [6, 0, 3]
    assert np.array_equal(vectors, np.concatenate(MODEL.embed([BANK, LOAN], 1)))


def test_all_layers_stand_before_the_tokens(client):
    answer = embedded(client, answers.NPY, sentences=[BANK, LOAN], layer="all")
    vectors = np.load(io.BytesIO(answer.content), allow_pickle=False)
    assert np.array_equal(vectors, np.concatenate(MODEL.layers([BANK, LOAN]), axis=1))
    assert np.shape(embedded(client, sentences=[BANK], layer="all").json()["vectors"]) == (1, 3, 6, 12)


@pytest.mark.parametrize("layer", ["top", "all"])
def test_arrow_has_a_row_for_each_token(client, layer):
    answer = embedded(client, answers.ARROW, sentences=[BANK, [], LOAN], layer=layer)
    table = pyarrow.ipc.open_stream(answer.content).read_all()
    assert table["token"].to_pylist() == BANK + LOAN
    assert table["sentence"].to_pylist() == [0] * 6 + [2] * 3
    assert table["position"].to_pylist() == [0, 1, 2, 3, 4, 5, 0, 1, 2]
    found = np.array(table["layer_2" if layer == "all" else "vector"].to_pylist(), np.float32)
    assert np.array_equal(found, np.concatenate(MODEL.embed([BANK, LOAN], "top")))


@pytest.mark.parametrize("accept", [answers.JSON, answers.NPY, answers.ARROW])
@pytest.mark.parametrize("layer", ["mean", "all"])
def test_no_sentences_are_no_vectors(client, accept, layer):
    assert embedded(client, accept, sentences=[], layer=layer).content


@pytest.mark.parametrize(("layer", "shape"), [("mean", (0, 12)), ("all", (3, 0, 12))])
def test_no_sentences_are_an_array_of_the_usual_shape(client, layer, shape):
    answer = embedded(client, answers.NPY, sentences=[], layer=layer)
    assert np.load(io.BytesIO(answer.content), allow_pickle=False).shape == shape
    table = pyarrow.ipc.open_stream(embedded(client, answers.ARROW, sentences=[], layer=layer).content).read_all()
    columns = ["vector"] if layer == "mean" else ["layer_0", "layer_1", "layer_2"]
    assert table.column_names == ["sentence", "position", "token", *columns]


@pytest.mark.parametrize(
    ("accept", "kind"),
    [
        ("*/*", answers.JSON),
        ("text/html, application/x-npy;q=0.5", answers.NPY),
        ("application/*", answers.JSON),
        ("Application/JSON", answers.JSON),
        ("application/json;q=0.1, application/x-npy", answers.NPY),
        ("application/json;q=0, application/*", answers.NPY),
        ("*/*, application/x-npy;q=0", answers.JSON),
        ("application/x-npy, application/json", answers.NPY),
    ],
)
def test_the_preferred_type_in_accept_is_taken(client, accept, kind):
    answer = client.post("/v1/embed", json={"text": "a"}, headers={"Accept": accept})
    assert answer.headers["content-type"] == kind


def test_an_unknown_kind_is_refused(client):
    answer = client.post("/v1/embed", json={"text": "a"}, headers={"Accept": "image/png, */*;q=0"})
    assert answer.status_code == 406
    assert "application/x-npy" in answer.json()["detail"]


def test_text_is_tokenised_as_the_library_does(client):
    text = "They fell in love. Stocks fell; 日本 <b>über</b>."
    assert client.post("/v1/tokenize", json={"text": text}).json() == {"sentences": stelmo.tokenize(text)}
    assert embedded(client, text=text).json()["sentences"] == stelmo.tokenize(text)


def cosine(a, b):
    return float(a @ b / np.linalg.norm(a) / np.linalg.norm(b))


def compared(client, **how):
    answer = client.post("/v1/similarity", json={"first": BANK, "second": LOAN, **how})
    assert answer.status_code == 200, answer.text
    return answer.json()


def expected_cosines(first_TD, second_SD):
    return pytest.approx(np.array([[cosine(a, b) for b in second_SD] for a in first_TD]), abs=1e-5)


@pytest.mark.parametrize(
    "found", [[], [[]], [["a", 'é"<\n']], [["x"] * 25_001, [], ["y"]], ["a", "b"], [[[0.5, 1.0]], []]]
)
def test_json_written_in_pieces_is_the_same(found):
    assert answers.rows(found) == json.dumps(found, ensure_ascii=False, separators=(",", ":"))


@pytest.mark.parametrize("layer", LAYERS)
def test_similarity_is_the_cosine_of_every_word_pair(client, layer):
    found = compared(client, layer=layer)
    assert np.array(found["similarity"]) == expected_cosines(*MODEL.embed([BANK, LOAN], layer))
    assert (found["first"], found["second"], found["layers"]) == (BANK, LOAN, None)


def test_similarity_in_a_mix_of_the_layers(client):
    found = compared(client, mix={"weights": [0.1, 0.2, 0.7], "gamma": -2})
    first, second = (np.einsum("l,ltd->td", [0.1, 0.2, 0.7], layers) for layers in MODEL.layers([BANK, LOAN]))
    assert np.array(found["similarity"]) == expected_cosines(first, second)


def test_similarity_in_each_layer_at_once(client):
    found = compared(client, layers="each")
    assert found["layers"] == [compared(client, layer=layer)["similarity"] for layer in range(3)]


def test_guesses_are_those_of_the_library(client):
    found = client.post("/v1/guess", json={"tokens": BANK, "position": 1, "k": 3}).json()
    expected = lm.guesses(MODEL, MODEL.softmax, BANK, 1, 3)
    assert list(found) == ["forward", "backward", "both"]
    for name, best in found.items():
        assert [(guess["word"], pytest.approx(guess["probability"])) for guess in best] == [
            (guess.word, guess.probability) for guess in getattr(expected, name)
        ]


def test_models_tells_what_there_is(client):
    (found,) = client.get("/v1/models").json()
    assert found == {
        "name": "tiny",
        "parameters": sum(parameter.numel() for parameter in MODEL.bilm.parameters()),
        "layers": 3,
        "width": 12,
        "vocabulary": len(tiny.WORDS),
        "fingerprint": MODEL.saved().fingerprint(),
        "has_softmax": True,
        "map_methods": list(maps.methods()),
        "version": stelmo.__version__,
        "credit": "",
        "language": "en",
        "contractions": "ptb",
    }


def test_tasks_tells_what_they_learned_of_the_layers(client):
    outputs = [{"placement": "input", "weights": [0.2, 0.5, 0.3], "gamma": 1.5}]
    assert client.get("/v1/tasks").json() == [{"name": "run", "task": "ner", "outputs": outputs}]


PAIR = {"first": ["a"], "second": ["a"]}
WRONG = {
    "neither sentences nor text": ("embed", {}, 422, "one of the two"),
    "both": ("embed", {"text": "a", "sentences": []}, 422, "one of the two"),
    "a sentence as a string": ("embed", {"sentences": ["a b"]}, 422, "body.sentences.0"),
    "a number as a token": ("embed", {"sentences": [[1]]}, 422, "body.sentences.0.0"),
    "a layer that is not there": ("embed", {"text": "a", "layer": 3}, 422, "layer: 3 is not one of mean, top, 0, 1, 2"),
    "a name that is not a layer": ("embed", {"text": "a", "layer": "best"}, 422, "layer: 'best' is not one of mean"),
    "a field too many": ("embed", {"text": "a", "path": "/etc/passwd"}, 422, "body.path"),
    "a negative layer": ("embed", {"text": "a", "layer": -1}, 422, "layer: -1 is not one of mean, top, 0, 1, 2, all"),
    "a truth value as a layer": ("embed", {"text": "a", "layer": True}, 422, "body.layer: expected \"mean\", \"top\""),
    "all layers where one is expected": ("similarity", PAIR | {"layer": "all"}, 422, "layer: 'all' is not one of"),
    "no object": ("embed", [1], 422, "body"),
    "mix and layer": ("similarity", PAIR | {"layer": 1, "mix": {"weights": [1, 0, 0]}}, 422, "one of the two"),
    "too few weights": ("similarity", PAIR | {"mix": {"weights": [1]}}, 422, "1 weights"),
    "a mix of nothing": ("similarity", PAIR | {"mix": {"weights": [0, 0, 0]}}, 422, "all weights are zero"),
    "an infinite weight": ("similarity", PAIR | {"mix": {"weights": [1, 0, 1e400]}}, 422, "weights.2"),
    "an empty sentence": ("similarity", {"first": [], "second": ["a"]}, 422, "body.first"),
    "a position beyond the end": ("guess", {"tokens": ["a"], "position": 1}, 422, "the sentence has 1 tokens"),
    "a position before the start": ("guess", {"tokens": ["a"], "position": -1}, 422, "body.position"),
    "a position beyond all numbers": ("guess", {"tokens": ["a"], "position": 10**30}, 422, "body.position"),
    "no words wanted": ("guess", {"tokens": ["a"], "position": 0, "k": 0}, 422, "body.k"),
    "too many wanted": ("guess", {"tokens": ["a"], "position": 0, "k": 10**6}, 422, "1,000,000 answers"),
    "an index that is not there": ("neighbours", {"tokens": ["a"], "position": 0}, 404, "--index"),
    "a map without an index": ("map", {"word": "bank"}, 404, "--index"),
}  # fmt: skip


@pytest.mark.parametrize(("route", "body", "status", "message"), WRONG.values(), ids=WRONG)
def test_what_is_wrong_is_said_in_one_sentence(client, route, body, status, message):
    answer = client.post(f"/v1/{route}", content=json.dumps(body), headers={"Content-Type": "application/json"})
    assert answer.status_code == status, answer.text
    assert list(answer.json()) == PROBLEM
    assert message in answer.json()["detail"]
    assert "\n" not in answer.json()["detail"]


HOSTILE = {
    "no JSON": b"{",
    "not UTF-8": b'{"text": "\xff\xfe"}',
    "a lone surrogate": b'{"text": "\\ud800"}',
    "a field of half a character": b'{"\\ud800\\n": 1}',
    "a nest without end": b"[" * 100_000,
    "a number without end": b'{"text": ' + b"9" * 10_000 + b"}",
    "not a number": b'{"text": NaN}',
    "nothing": b"",
    "a null byte": b"\x00",
}


@pytest.mark.parametrize("content", HOSTILE.values(), ids=HOSTILE)
@pytest.mark.parametrize("route", ["tokenize", "embed", "map", "map/jobs"])
def test_a_hostile_body_is_refused(client, route, content):
    answer = client.post(f"/v1/{route}", content=content, headers={"Content-Type": "application/json"})
    assert answer.status_code in (400, 422)
    assert list(answer.json()) == PROBLEM


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("a nest without end", "nested too deeply; expected the fields of the route"),
        ("a number without end", "a number has too many digits; expected at most 4,300"),
        ("not UTF-8", "its text is not UTF-8; expected JSON in UTF-8"),
    ],
)
def test_a_body_that_cannot_be_parsed_is_told_why(client, name, message):
    answer = client.post("/v1/tokenize", content=HOSTILE[name], headers={"Content-Type": "application/json"})
    assert answer.status_code == 400
    assert answer.json()["detail"].startswith("the body is not JSON that can be read: ")
    assert message in answer.json()["detail"]


def test_a_form_from_a_foreign_page_is_no_request(client):
    """Browsers send such bodies across origins without asking first."""
    answer = client.post("/v1/tokenize", content=b'{"text": "a"}', headers={"Content-Type": "text/plain"})
    assert answer.status_code == 415
    assert answer.json()["detail"] == "Content-Type is 'text/plain'; expected application/json"


def test_a_missing_content_type_is_named(client):
    answer = client.post("/v1/tokenize", content=b'{"text": "a"}')
    assert answer.status_code == 415
    assert answer.json()["detail"] == "the Content-Type header is missing; expected application/json"


@pytest.mark.parametrize("content", [b"{", b'{"text": }', b""], ids=["open", "no value", "empty"])
def test_malformed_json_is_a_bad_request(client, content):
    answer = client.post("/v1/tokenize", content=content, headers={"Content-Type": "application/json"})
    assert answer.headers["content-type"] == "application/problem+json"
    assert (answer.status_code, answer.json()["title"]) == (400, "Bad Request")


@pytest.mark.parametrize("mix", [{"weights": []}, {"weights": [0, 0, 0]}, {"weight": [1]}, None, 1.5, "best"])
def test_messages_name_no_internals(client, mix):
    detail = client.post("/v1/map", json={"word": "a", "mixes": [mix]}).json()["detail"]
    assert not any(part in detail for part in ("function", "literal", "constrained", "pydantic", "[_", "()"))


def test_a_long_text_is_refused_once_it_has_too_many_tokens():
    with servers.asked(MODEL, tokens=5) as client:
        answer = client.post("/v1/embed", json={"text": "a bank.\n\n" * 9000})
    assert (answer.status_code, answer.json()["detail"]) == (422, "more than 5 tokens; this server accepts at most 5")


def test_markup_in_a_sentence_comes_back_as_it_was_and_never_as_a_page(client):
    evil = ["<script>alert(1)</script>", "\u202e\x00\u2028", "𝔘𝔫𝔦", "'\"\\"]
    answer = embedded(client, sentences=[evil])
    assert answer.json()["sentences"] == [evil]
    assert answer.headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize(
    ("limits", "sentences", "message"),
    [
        ({"sentences": 2}, [["a"]] * 3, "3 sentences; this server accepts at most 2"),
        ({"sentence_tokens": 4}, [["a"] * 5], "5 tokens in a sentence; this server accepts at most 4"),
        ({"tokens": 6}, [["a"] * 4, ["a"] * 3], "7 tokens; this server accepts at most 6"),
        ({"token_characters": 3}, [["a", "abcd"]], "4 characters in a token; this server accepts at most 3"),
    ],
)
def test_every_limit_is_a_setting(limits, sentences, message):
    with servers.asked(MODEL, **limits) as client:
        answer = client.post("/v1/embed", json={"sentences": sentences})
        assert (answer.status_code, answer.json()["detail"]) == (422, message)
        assert client.post("/v1/embed", json={"sentences": [["a"]]}).status_code == 200


def test_a_model_without_a_softmax_says_so():
    headless = stelmo.Model(tiny.saved(read_softmax=None))
    with servers.asked(headless) as client:
        answer = client.post("/v1/guess", json={"tokens": ["a"], "position": 0})
        assert answer.status_code == 422
        assert "no softmax" in answer.json()["detail"]
        assert client.get("/v1/models").json()[0]["has_softmax"] is False


def test_a_state_that_goes_on_from_request_to_request_is_refused():
    with pytest.raises(stelmo.ConfigError, match="carry"), servers.asked(tiny.model(state="carry")):
        pass


def test_many_unknown_fields_are_one_mistake(client):
    answer = client.post("/v1/embed", json={f"field{number}": 1 for number in range(1000)})
    assert answer.status_code == 422
    assert answer.json()["detail"] == "body: 1,000 fields; expected at most 3: sentences, text, layer"
