"""`SentenceTransformer.encode` against our own sentence vectors; saved and loaded; and the page's example."""

import importlib
import pickle
import re
import sys
from pathlib import Path

import numpy as np
import pytest
import tiny

import stelmo
from stelmo.errors import ConfigError, DataError

# The library warns of names of its own that it is to give up.
pytestmark = pytest.mark.filterwarnings("ignore")

DOCS = Path(__file__).parents[3] / "docs" / "integrations" / "huggingface.md"
TEXTS = ["The bank. A river?", "", "über 日本", "a a a a a a a", "river"]
TOKENS = [[token for sentence in stelmo.tokenize(text) for token in sentence] for text in TEXTS]


@pytest.fixture(scope="module", autouse=True)
def _libraries():
    """Not imported above, because that takes seconds, and every process of the tests collects this file."""
    pytest.importorskip(
        "sentence_transformers",
        reason="sentence-transformers is not installed; pip install 'stelmo[sentence-transformers]'",
    )
    global AutoModel, Pooling, SentenceTransformer, StelmoTokenizer, StelmoTransformer
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Pooling
    from transformers import AutoModel

    from stelmo.integrations.huggingface import StelmoTokenizer
    from stelmo.integrations.sentence_transformers import StelmoTransformer


def encoder(layer="mean", include_prompt=True, **options):
    words = StelmoTransformer(tiny.model(), layer, **options)
    pooling = Pooling(words.get_embedding_dimension(), "mean", include_prompt=include_prompt)
    return SentenceTransformer(modules=[words, pooling], device="cpu")


@pytest.mark.parametrize("layer", ["mean", "top", 0])
def test_encode_gives_our_sentence_vectors(layer):
    expected = tiny.model().sentence_vectors(TOKENS, layer)
    np.testing.assert_allclose(encoder(layer).encode(TEXTS, batch_size=2), expected, rtol=1e-5, atol=1e-5)


def test_one_text_and_a_prompt():
    expected = tiny.model().sentence_vectors([["the", "river", "bank"]])[0]
    np.testing.assert_allclose(encoder().encode("bank", prompt="the river "), expected, rtol=1e-5, atol=1e-5)


def test_the_pooling_can_leave_the_prompt_out():
    found = encoder(include_prompt=False).encode(["bank", "a river"], prompt="the river:")
    read = tiny.model().embed([["the", "river", ":", "bank"], ["the", "river", ":", "a", "river"]])
    np.testing.assert_allclose(found, [tokens_TD[3:].mean(0) for tokens_TD in read], rtol=1e-5, atol=1e-5)


def test_a_text_is_cut_to_the_longest_that_is_set(tmp_path):
    found = encoder(max_seq_length=2)
    expected = tiny.model().sentence_vectors([tokens[:2] for tokens in TOKENS])
    np.testing.assert_allclose(found.encode(TEXTS), expected, rtol=1e-5, atol=1e-5)
    with_prompt = tiny.model().sentence_vectors([["the", "river"]])[0]
    np.testing.assert_allclose(found.encode("bank", prompt="the river "), with_prompt, rtol=1e-5, atol=1e-5)
    found.save(str(tmp_path))
    again = StelmoTransformer.load(str(tmp_path))
    assert again.max_seq_length == 2
    found.max_seq_length = None
    np.testing.assert_allclose(found.encode(TEXTS), tiny.model().sentence_vectors(TOKENS), rtol=1e-5, atol=1e-5)


def test_an_encoder_can_be_sent_to_another_process():
    found = encoder("top")
    expected = found.encode(TEXTS)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(found)).encode(TEXTS), expected)


def test_a_pair_of_texts_is_refused():
    with pytest.raises(DataError, match=r"list \['a', 'b'\]; expected texts"):
        encoder().encode([["a", "b"]])


def test_a_saved_encoder_comes_back_and_its_folder_serves_all(tmp_path):
    encoder("top", tokenizer=StelmoTokenizer(contractions="moses")).save(str(tmp_path))
    again = SentenceTransformer(str(tmp_path), device="cpu", trust_remote_code=True)
    expected = tiny.model().sentence_vectors(TOKENS, "top")
    np.testing.assert_allclose(again.encode(TEXTS), expected, rtol=1e-5, atol=1e-5)
    assert again[0].tokenizer.contractions == "moses"
    assert again.get_embedding_dimension() == 12
    assert AutoModel.from_pretrained(tmp_path).config.hidden_size == 12
    np.testing.assert_allclose(stelmo.load(tmp_path).sentence_vectors(TOKENS, "top"), expected, rtol=1e-5, atol=1e-5)


def test_modules_load_alone_without_trust_in_the_folder(tmp_path):
    encoder(0).save(str(tmp_path))
    modules = [StelmoTransformer.load(str(tmp_path)), Pooling.load(str(tmp_path / "1_Pooling"))]
    again = SentenceTransformer(modules=modules, device="cpu")
    expected = tiny.model().sentence_vectors(TOKENS, 0)
    np.testing.assert_allclose(again.encode(TEXTS), expected, rtol=1e-5, atol=1e-5)


def test_an_unknown_layer_is_refused():
    with pytest.raises(ConfigError, match="layer"):
        StelmoTransformer(tiny.model(), 7)


def test_without_the_library_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "sentence_transformers.base.modules", None)
    monkeypatch.delitem(sys.modules, "stelmo.integrations.sentence_transformers")
    with pytest.raises(ConfigError, match=r"pip install 'stelmo\[sentence-transformers\]'"):
        importlib.import_module("stelmo.integrations.sentence_transformers")


def test_the_page_example_runs(monkeypatch, tmp_path):
    tiny.folder(tmp_path / "my-model")
    monkeypatch.chdir(tmp_path)
    text = DOCS.read_text().partition("## Sentence transformers")[2]
    names = {}
    for snippet in re.findall(r"^```python\n(.*?)^```$", text, re.DOTALL | re.MULTILINE):
        exec(snippet, names)
    np.testing.assert_allclose(names["again"].encode(names["texts"]), names["vectors"], rtol=1e-5, atol=1e-5)
