"""Vectors of whole texts, in the formats of OpenAI (with the official client) and of text-embeddings-inference."""

import base64
import json

import numpy as np
import pytest
import tiny
from unit.serve import servers

import stelmo
from stelmo.serve.app import app

MODEL = tiny.model()
TEXTS = ["the bank of the river. a bank", "A river"]


@pytest.fixture(scope="module")
def client():
    with servers.asked(MODEL, sentence_tokens=6, tokens=40) as client:
        yield client


def expected(texts=TEXTS):
    """(N, D): the mean over all tokens of a text of the mean of the layers."""
    return np.stack([np.concatenate(MODEL.embed(stelmo.tokenize(text))).mean(0) for text in texts])


def unit(vectors_ND):
    return vectors_ND / np.linalg.norm(vectors_ND, axis=1, keepdims=True)


@pytest.fixture(scope="module")
def openai_client():
    openai = pytest.importorskip("openai", reason="the OpenAI client is not installed: pip install openai")
    made = app(MODEL, name="tiny", token="0123456789abcdef")
    with servers.served(made) as (address, _):
        found = openai.OpenAI(base_url=f"{address}v1", api_key="0123456789abcdef", max_retries=0, timeout=120)
        with found:
            yield openai, found


@pytest.mark.parametrize("encoding", [{}, {"encoding_format": "float"}, {"encoding_format": "base64"}])
def test_the_official_client_gets_vectors_and_usage(openai_client, encoding):
    _, client = openai_client
    answer = client.embeddings.create(model="tiny", input=TEXTS, **encoding)
    found = [entry.embedding for entry in answer.data]
    if encoding.get("encoding_format") == "base64":
        found = [np.frombuffer(base64.b64decode(vector), "<f4") for vector in found]
    assert np.array(found) == pytest.approx(unit(expected()), abs=1e-6)
    assert [entry.index for entry in answer.data] == [0, 1]
    tokens = sum(len(words) for text in TEXTS for words in stelmo.tokenize(text))
    assert (answer.usage.prompt_tokens, answer.usage.total_tokens, answer.model) == (tokens, tokens, "tiny")


def test_the_official_client_understands_refusals(openai_client):
    openai, client = openai_client
    with pytest.raises(openai.NotFoundError, match="expected 'tiny'"):
        client.embeddings.create(model="text-embedding-3-small", input="a")
    with pytest.raises(openai.UnprocessableEntityError, match="token ids"):
        client.embeddings.create(model="tiny", input=[1, 2, 3])
    with pytest.raises(openai.AuthenticationError):
        client.with_options(api_key="wrong").embeddings.create(model="tiny", input="a")


def test_a_text_is_a_string_or_a_list_of_words(client):
    for given in ("a river", ["a river"], [["a", "river"]]):
        (found,) = client.post("/v1/embeddings", json={"input": given}).json()["data"]
        assert np.array([found["embedding"]]) == pytest.approx(unit(expected(["a river"])), abs=1e-6)


def test_embed_of_text_embeddings_inference(client):
    found = client.post("/embed", json={"inputs": TEXTS})
    assert found.status_code == 200
    assert np.array(found.json()) == pytest.approx(unit(expected()), abs=1e-6)
    plain = client.post("/embed", json={"inputs": TEXTS[1], "normalize": False}).json()
    assert np.array(plain, np.float32) == pytest.approx(expected(TEXTS[1:]), abs=1e-6)


@pytest.mark.parametrize(("side", "kept"), [("right", ["a"] * 6), ("Left", ["bank"] * 6)])
def test_a_sentence_that_is_too_long_is_cut_on_request(client, side, kept):
    body = {"inputs": [["a"] * 6 + ["bank"] * 6], "normalize": False}
    assert client.post("/embed", json=body).status_code == 422
    found = client.post("/embed", json=body | {"truncate": True, "truncation_direction": side}).json()
    assert np.array(found) == pytest.approx(MODEL.embed([kept])[0].mean(0)[None], abs=1e-5)


WRONG = {
    "no text": ({"input": []}, "body.input: expected a text"),
    "an empty text": ({"input": ["a", " "]}, "text 1 has no tokens"),
    "token ids": ({"input": [[1, 2]]}, "token ids"),
    "no string": ({"input": [None]}, "body.input: expected a text"),
    "half a character": ({"input": "\ud800"}, "lone surrogate"),
    "another width": ({"input": "a", "dimensions": 5}, "dimensions: 5; the vectors of this model have 12"),
    "too many tokens": ({"input": ["a a a a a"] * 9}, "more than 40 tokens"),
}


@pytest.mark.parametrize(("body", "message"), WRONG.values(), ids=WRONG)
def test_what_is_wrong_is_said_in_one_sentence(client, body, message):
    answer = client.post("/v1/embeddings", content=json.dumps(body), headers={"Content-Type": "application/json"})
    assert answer.status_code == 422
    assert message in answer.json()["detail"]
