"""flair's tokens get our vectors; a tagger trains on them and its file is complete; and the page's example.

Runs in an environment of its own: tests/environments/flair.sh.
"""

import importlib
import re
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
import tiny

from stelmo.errors import ConfigError

# flair and the libraries it pins warn of much.
pytestmark = pytest.mark.filterwarnings("ignore")

DOCS = Path(__file__).parents[3] / "docs" / "integrations" / "flair.md"
SENTENCES = [["The", "grass", "is", "green", "."], ["über", "日本"], ["bank"]]


@pytest.fixture(scope="module")
def flair():
    return pytest.importorskip("flair", reason="flair has an environment of its own: tests/environments/flair.sh")


@pytest.fixture(scope="module")
def embeddings(flair):
    return importlib.import_module("stelmo.integrations.flair").StelmoEmbeddings


def vectors(flair, found):
    sentences = [flair.data.Sentence(tokens) for tokens in SENTENCES]
    found.embed(sentences)
    return [np.stack([token.embedding.cpu().numpy() for token in sentence]) for sentence in sentences]


@pytest.mark.parametrize("config", tiny.ENCODERS.values(), ids=tiny.ENCODERS)
def test_the_modes_are_those_of_the_old_class(config, flair, embeddings):
    model = tiny.model(config)
    for mode, expected in {
        "all": [np.concatenate(list(layers_LTD), -1) for layers_LTD in model.layers(SENTENCES)],
        "top": model.embed(SENTENCES, "top"),
        "average": model.embed(SENTENCES, "mean"),
    }.items():
        found = embeddings(model, mode)
        for ours, theirs in zip(expected, vectors(flair, found), strict=True):
            np.testing.assert_allclose(theirs, ours, rtol=1e-5, atol=1e-5)
            assert found.embedding_length == ours.shape[1]


def test_two_models_do_not_share_a_name(embeddings, tmp_path):
    ours, others = tiny.model(), tiny.model(state="fresh")
    assert embeddings(ours).name == embeddings(ours).name
    assert len({embeddings(ours).name, embeddings(ours, "top").name, embeddings(others).name}) == 3


def test_a_sentence_without_tokens_is_left_alone(flair, embeddings):
    empty = flair.data.Sentence([])
    embeddings(tiny.model()).embed([empty, flair.data.Sentence(["a"])])
    assert len(empty) == 0


def test_a_tagger_learns_and_its_file_is_complete(flair, embeddings, tmp_path):
    from flair.models import SequenceTagger

    folder = tiny.folder(tmp_path / "model")
    sentence = flair.data.Sentence(["The", "bank"])
    sentence[0].add_label("pos", "DET")
    sentence[1].add_label("pos", "NOUN")
    labels = flair.data.Corpus([sentence], [sentence], [sentence]).make_label_dictionary("pos", add_unk=False)
    tagger = SequenceTagger(embeddings(folder, "top", state="fresh"), labels, "pos", hidden_size=4, use_crf=False)
    loss, _ = tagger.forward_loss([sentence])
    loss.backward()
    tagger.save(tmp_path / "tagger.pt")
    shutil.rmtree(folder)
    again = SequenceTagger.load(tmp_path / "tagger.pt")
    for ours, theirs in zip(
        tiny.model().embed(SENTENCES, "top", "fresh"), vectors(flair, again.embeddings), strict=True
    ):
        np.testing.assert_allclose(theirs, ours, rtol=1e-5, atol=1e-5)


def test_a_file_has_no_device_and_is_loaded_on_that_of_flair(flair, embeddings, monkeypatch):
    params = embeddings(tiny.model(threads=1, state="fresh")).to_params()
    assert params["settings"] == {"state": "fresh", "precision": "float32"}
    on_a_gpu = params | {"settings": params["settings"] | {"device": "cuda:99", "memory": 1}}  # as in older files
    assert embeddings.from_params(on_a_gpu).model.settings.device == str(flair.device)
    monkeypatch.setattr(flair, "device", "cuda:99")
    with pytest.raises(ConfigError, match="device: 'cuda:99' is not available"):
        embeddings.from_params(params)
    on_the_cpu = embeddings.from_params(params | {"settings": params["settings"] | {"precision": "int8"}})
    assert on_the_cpu.model.settings.device == "cpu"


def test_half_precision_of_a_gpu_becomes_float32_on_the_cpu_with_a_note(flair, embeddings, monkeypatch):
    params = embeddings(tiny.model()).to_params()
    params["settings"]["precision"] = "float16"
    monkeypatch.setattr(flair, "device", "cpu")
    with pytest.warns(UserWarning, match="precision float16 requires a GPU"):
        found = embeddings.from_params(params)
    assert found.model.settings.precision == "float32"


def test_what_it_cannot_do_is_named(embeddings):
    with pytest.raises(ConfigError, match="embedding_mode"):
        embeddings(tiny.model(), "best")
    with pytest.raises(ConfigError, match="carry"):
        embeddings(tiny.model(state="carry"))


def test_without_flair_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "flair", None)
    monkeypatch.delitem(sys.modules, "stelmo.integrations.flair", raising=False)
    with pytest.raises(ConfigError, match=r"pip install 'stelmo\[flair\]'"):
        importlib.import_module("stelmo.integrations.flair")


def test_the_page_example_runs(flair, monkeypatch, tmp_path):
    tiny.folder(tmp_path / "my-model")
    monkeypatch.chdir(tmp_path)
    (snippet,) = re.findall(r"^```python\n(.*?)^```$", DOCS.read_text(), re.DOTALL | re.MULTILINE)
    names = {}
    exec(snippet, names)
    expected = tiny.model().layers([["The", "grass", "is", "green", "."]])[0]
    np.testing.assert_allclose(names["vector"].cpu(), np.concatenate(expected[:, 1]), rtol=1e-5, atol=1e-5)
