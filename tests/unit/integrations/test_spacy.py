"""The component `stelmo` in a blank English pipeline: vectors equal `Model.embed` on spaCy's own tokens."""

import pickle
import re
import shutil
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest
import tiny

import stelmo
from stelmo.errors import ConfigError, DataError, ModelError

pytest.importorskip("spacy", reason="spaCy is not installed; pip install 'stelmo[spacy]'")

import spacy
from spacy.tokens import Doc

import stelmo.integrations.spacy  # the entry point does it where stelmo is installed with it

ROOT = Path(__file__).parents[3]
DOCS = (ROOT / "docs" / "integrations" / "spacy.md").read_text()
TEXTS = ["The bank  . A river !\n", "", "über 日本 don't", " \n ", "a"]


@pytest.fixture(scope="module")
def model(folder):
    return stelmo.load(folder)


def pipeline(folder, *before, **config):
    nlp = spacy.blank("en")
    for name in before:
        nlp.add_pipe(name)
    nlp.add_pipe("stelmo", config={"model": str(folder), **config})
    return nlp


def words(tokens):
    return [token.text for token in tokens if not token.is_space]


@pytest.mark.parametrize("layer", ["mean", "top", 0, 1])
def test_spacys_own_tokens_go_in(folder, model, layer):
    doc = pipeline(folder, layer=layer)(TEXTS[0])
    (expected_TD,) = model.embed([words(doc)], layer)
    space = np.array([token.is_space for token in doc])
    assert space.sum() == 2
    assert doc.tensor.dtype == np.float32
    np.testing.assert_allclose(doc.tensor[~space], expected_TD, atol=1e-6)
    assert not doc.tensor[space].any()


def test_sentences_are_read_by_themselves_where_boundaries_are_set(folder, model):
    doc = pipeline(folder, "sentencizer")(TEXTS[0])
    sentences = [words(sentence) for sentence in doc.sents if words(sentence)]
    assert sentences == [["The", "bank", "."], ["A", "river", "!"]]
    expected_TD = np.concatenate(model.embed(sentences))
    np.testing.assert_allclose(doc.tensor[[not token.is_space for token in doc]], expected_TD, atol=1e-6)
    assert not np.allclose(doc.tensor, pipeline(folder)(TEXTS[0]).tensor)


def test_a_batch_gives_what_each_doc_gives_alone(folder):
    nlp = pipeline(folder)
    for size in (1, 2, 50):
        for doc, text in zip(nlp.pipe(TEXTS, batch_size=size), TEXTS, strict=True):
            assert doc.tensor.shape == (len(doc), 12)
            np.testing.assert_allclose(doc.tensor, nlp(text).tensor, atol=1e-6)


def test_a_batch_is_one_call_of_the_model(folder, monkeypatch):
    nlp, calls = pipeline(folder), []
    run = stelmo.Model.run
    monkeypatch.setattr(stelmo.Model, "run", lambda self, *given: calls.append(len(given[0])) or run(self, *given))
    assert len(list(nlp.pipe(TEXTS * 3, batch_size=10))) == 15
    assert calls == [6, 3]


def test_vectors_of_docs_spans_and_tokens_come_from_the_tensor(folder):
    doc = pipeline(folder)(TEXTS[0])
    kept = [token.i for token in doc if not token.is_space]
    np.testing.assert_allclose(doc.vector, doc.tensor[kept].mean(0), rtol=1e-5)
    np.testing.assert_allclose(doc[1:4].vector, doc.tensor[[1, 3]].mean(0), rtol=1e-5)
    np.testing.assert_array_equal(doc[1].vector, doc.tensor[1])
    assert doc.has_vector
    assert doc[1:4].has_vector
    assert [token.has_vector for token in doc[1:4]] == [True, False, True]
    for part in (doc, doc[1:4], doc[1]):
        assert part.vector_norm == pytest.approx(np.linalg.norm(part.vector), rel=1e-5)
        assert part.similarity(part) == pytest.approx(1)


def test_similarity_is_the_cosine(folder):
    doc = pipeline(folder)(TEXTS[0])
    for one, other in ((doc, doc[0:2]), (doc[0:2], doc[1]), (doc[0], doc[1]), (doc[1], doc)):
        a_D, b_D = one.vector, other.vector
        cosine = a_D @ b_D / np.linalg.norm(a_D) / np.linalg.norm(b_D)
        assert one.similarity(other) == pytest.approx(cosine, abs=1e-6)
        assert one.similarity(other) == pytest.approx(other.similarity(one), abs=1e-6)


def test_no_words_have_no_vector(folder):
    nlp = pipeline(folder, "sentencizer")
    for doc in (nlp(""), nlp(" \n ")):
        assert not doc.has_vector
        assert doc.vector.shape == (12,)
        assert not doc.vector.any()
        assert doc.similarity(nlp("a")) == 0.0
    assert not nlp("a b")[1:1].vector.any()


def test_a_doc_from_elsewhere_has_no_similarity(folder):
    doc = pipeline(folder)("a bank")
    with pytest.raises(DataError, match="12 and 0 dimensions; both must come through the same pipeline"):
        doc.similarity(spacy.blank("en")("a bank"))


def test_vectors_stay_with_merged_tokens_copies_and_pickles(folder):
    nlp = pipeline(folder)
    doc = nlp("the river bank .")
    last = doc[2].vector.copy()
    pickled, copied, part = pickle.loads(pickle.dumps(doc)), doc.copy(), doc[1:3].as_doc()
    with doc.retokenize() as retokenizer:
        retokenizer.merge(doc[1:3])
    np.testing.assert_array_equal(doc[1].vector, last)
    for other in (pickled[2], copied[2], part[1]):
        np.testing.assert_array_equal(other.vector, last)


def test_a_doc_made_of_given_words_is_taken_as_it_is(folder, model):
    nlp = pipeline(folder)
    doc = nlp(Doc(nlp.vocab, words=["New York", "bank"]))
    np.testing.assert_allclose(doc.tensor, model.embed([["New York", "bank"]])[0], atol=1e-6)


def test_a_saved_pipeline_holds_its_model(folder, tmp_path):
    shutil.copytree(folder, tmp_path / "original")
    nlp = pipeline(tmp_path / "original", layer=1, state="fresh")
    expected = nlp(TEXTS[0]).tensor
    nlp.to_disk(tmp_path / "pipeline")
    shutil.rmtree(tmp_path / "original")
    shutil.move(tmp_path / "pipeline", tmp_path / "moved")
    again = spacy.load(tmp_path / "moved")
    np.testing.assert_array_equal(again(TEXTS[0]).tensor, expected)
    again.to_disk(tmp_path / "moved")
    np.testing.assert_array_equal(spacy.load(tmp_path / "moved")(TEXTS[0]).tensor, expected)
    assert not list((tmp_path / "moved").rglob("softmax*"))


SAVED_AS = {
    "an LSTM without a warm state": ("bilm", tiny.CONFIG),
    **{name: ("stelmo", config) for name, config in tiny.WITHOUT_STATE.items()},
}


@pytest.mark.parametrize(("format", "config"), SAVED_AS.values(), ids=SAVED_AS)
def test_a_saved_pipeline_starts_its_sentences_as_before(tmp_path, format, config):
    nlp = pipeline(tiny.folder(tmp_path / "m", format, config))
    expected = nlp(TEXTS[0]).tensor
    nlp.to_disk(tmp_path / "pipeline")
    np.testing.assert_array_equal(spacy.load(tmp_path / "pipeline")(TEXTS[0]).tensor, expected)
    other = spacy.blank("en")
    other.add_pipe("stelmo")
    np.testing.assert_array_equal(other.from_bytes(nlp.to_bytes())(TEXTS[0]).tensor, expected)


@pytest.mark.parametrize("changed", [{"layer": 0}, {"layer": "mean"}, {"state": "warm"}])
def test_what_is_set_when_a_pipeline_is_loaded_wins(folder, tmp_path, changed):
    pipeline(folder, layer="top", state="fresh").to_disk(tmp_path / "pipeline")
    found = spacy.load(tmp_path / "pipeline", config={"components": {"stelmo": changed}})(TEXTS[0]).tensor
    asked = {"layer": "top", "state": "fresh"} | changed
    layer = asked.pop("layer")
    kept = [not token.is_space for token in pipeline(folder)(TEXTS[0])]
    (expected_TD,) = stelmo.load(folder, **asked).embed([words(pipeline(folder)(TEXTS[0]))], layer)
    np.testing.assert_allclose(found[kept], expected_TD, atol=1e-6)


@pytest.mark.parametrize(("before", "after"), [("float32", "float64"), ("float64", "float32")])
def test_a_saved_pipeline_does_not_change_to_or_from_float64(folder, tmp_path, before, after):
    pipeline(folder, precision=before).to_disk(tmp_path / "pipeline")
    with pytest.raises(ConfigError, match=f"precision {after}, but the pipeline was saved with {before}"):
        spacy.load(tmp_path / "pipeline", config={"components": {"stelmo": {"precision": after}}})


def test_a_pipeline_saved_on_a_gpu_is_loaded_on_the_cpu_if_the_configuration_says_so(folder, tmp_path):
    nlp = pipeline(folder, threads=1)
    nlp.to_disk(tmp_path / "pipeline")
    assert not re.search("device|threads", (tmp_path / "pipeline" / "stelmo" / "stelmo.json").read_text())
    settings = tmp_path / "pipeline" / "config.cfg"
    settings.write_text(settings.read_text().replace('device = "cpu"', 'device = "cuda:99"'))
    with pytest.raises(ConfigError, match="device: 'cuda:99' is not available"):
        spacy.load(tmp_path / "pipeline")("a")
    again = spacy.load(tmp_path / "pipeline", config={"components": {"stelmo": {"device": "cpu"}}})
    np.testing.assert_array_equal(again(TEXTS[0]).tensor, nlp(TEXTS[0]).tensor)


def test_another_path_for_the_model_is_taken_if_it_has_the_same_weights(folder, tmp_path):
    shutil.copytree(folder, tmp_path / "original")
    nlp = pipeline(tmp_path / "original")
    expected = nlp(TEXTS[0]).tensor
    nlp.to_disk(tmp_path / "pipeline")
    shutil.rmtree(tmp_path / "pipeline" / "stelmo" / "model")
    shutil.move(tmp_path / "original", tmp_path / "moved")
    moved = {"components": {"stelmo": {"model": str(tmp_path / "moved")}}}
    np.testing.assert_array_equal(spacy.load(tmp_path / "pipeline", config=moved)(TEXTS[0]).tensor, expected)
    tiny.model(tiny.WITHOUT_STATE["transformer"]).save(tmp_path / "other")
    other = {"components": {"stelmo": {"model": str(tmp_path / "other")}}}
    with pytest.raises(ModelError, match="other weights"):
        spacy.load(tmp_path / "pipeline", config=other)("a")


def test_a_pipeline_read_from_bytes_and_saved_again_holds_its_model(folder, tmp_path):
    nlp = pipeline(folder, layer="top")
    other = spacy.blank("en")
    other.add_pipe("stelmo")
    other.from_bytes(nlp.to_bytes()).to_disk(tmp_path / "pipeline")
    again = spacy.load(tmp_path / "pipeline")
    again(TEXTS[0])
    assert again.get_pipe("stelmo")._model == str(tmp_path / "pipeline" / "stelmo" / "model")
    np.testing.assert_array_equal(again(TEXTS[0]).tensor, nlp(TEXTS[0]).tensor)


def test_bytes_hold_the_name_of_the_model(folder):
    nlp = pipeline(folder, layer="top")
    data = nlp.get_pipe("stelmo").to_bytes()
    assert len(data) < 1000
    other = spacy.blank("en")
    other.add_pipe("stelmo")
    other.from_bytes(nlp.to_bytes())
    np.testing.assert_array_equal(other(TEXTS[0]).tensor, nlp(TEXTS[0]).tensor)


def test_the_bundled_model_is_not_copied(tmp_path):
    component = spacy.blank("en").add_pipe("stelmo")
    component.to_disk(tmp_path / "part")
    assert [file.name for file in (tmp_path / "part").iterdir()] == ["stelmo.json"]


def test_other_weights_than_were_saved_are_refused(folder, tmp_path):
    component = pipeline(folder).get_pipe("stelmo")
    component.to_disk(tmp_path / "part", exclude=["model"])
    note = tmp_path / "part" / "stelmo.json"
    note.write_text(re.sub(r'"fingerprint": "\w+"', '"fingerprint": "0123456789abcdef"', note.read_text()))
    nlp = pipeline(folder)
    nlp.get_pipe("stelmo").from_disk(tmp_path / "part")
    with pytest.raises(ModelError, match="other weights"):
        nlp("a")


def test_what_was_not_saved_is_not_loaded(folder, tmp_path):
    component = pipeline(folder).get_pipe("stelmo")
    with pytest.raises(ModelError, match=r"no stelmo\.json"):
        component.from_disk(tmp_path)
    for data in (b"{", b"[]", b'{"model": null}'):
        with pytest.raises(ModelError, match="damaged"):
            component.from_bytes(data)


@pytest.mark.parametrize(
    ("config", "error", "message"),
    [
        ({"model": "no/such/model"}, ModelError, "no such file or folder"),
        ({"layer": 7}, ConfigError, "layer: 7 is not one of"),
        ({"state": "carry"}, ConfigError, "carry"),
        ({"precision": "float8"}, ConfigError, "precision"),
    ],
)
def test_settings_are_refused_in_one_sentence(folder, config, error, message):
    nlp = spacy.blank("en")
    with pytest.raises(error, match=message):
        nlp.add_pipe("stelmo", config={"model": str(folder)} | config)
        nlp("a")


def test_without_spacy_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "spacy.language", None)
    monkeypatch.delitem(sys.modules, "stelmo.integrations.spacy")
    with pytest.raises(ConfigError, match=re.escape("pip install 'stelmo[spacy]'")):
        import stelmo.integrations.spacy  # noqa: F401


def test_the_entry_point_names_the_factory():
    points = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]
    assert points["spacy_factories"] == {"stelmo": "stelmo.integrations.spacy:make"}
    assert callable(stelmo.integrations.spacy.make)


def test_the_page_runs(tmp_path, monkeypatch):
    tiny.folder(tmp_path / "my-model")
    monkeypatch.chdir(tmp_path)
    (snippet,) = re.findall(r"^```python\n(.*?)^```$", DOCS, re.DOTALL | re.MULTILINE)
    names: dict[str, object] = {}
    exec(snippet, names)
    assert names["doc"].tensor.shape == (len(names["doc"]), 12)
    np.testing.assert_allclose(names["again"](names["doc"].text).tensor, names["doc"].tensor, atol=1e-5)
