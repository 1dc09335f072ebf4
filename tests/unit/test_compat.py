"""Paths, URLs and sentences as old scripts give them."""

import numpy as np
import oracle
import pytest

import stelmo
from stelmo.compat.allennlp import ElmoEmbedder
from stelmo.errors import DataError, ModelError

OPTIONS = oracle.options()
ARRAYS = oracle.random_weights(OPTIONS)
ROOT = "https://example.org/models/"


class Series:
    """A column of a pandas table, as far as this package looks."""

    ndim = 1

    def __init__(self, values):
        self.values = values

    def tolist(self):
        return list(self.values)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    oracle.write(tmp_path, OPTIONS, ARRAYS)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_url_stands_for_the_file_of_its_name_in_the_current_folder(folder):
    embedder = ElmoEmbedder(f"{ROOT}options.json", f"{ROOT}weights.hdf5")
    expected = oracle.layers(OPTIONS, ARRAYS, ["a"])
    np.testing.assert_allclose(embedder.embed_sentence(["a"]), expected, atol=1e-5)
    np.testing.assert_allclose(stelmo.load(f"{ROOT}weights.hdf5").layers([["a"]])[0], expected, atol=1e-5)


def test_a_url_without_its_file_is_refused_with_the_url_as_it_is(folder):
    with pytest.raises(ModelError, match=f"^{ROOT}other.hdf5: nothing is downloaded; download this file once"):
        stelmo.load(f"{ROOT}other.hdf5")
    with pytest.raises(ModelError, match=f"^{ROOT}other.json: nothing is downloaded"):
        ElmoEmbedder(f"{ROOT}other.json", "weights.hdf5")


@pytest.mark.parametrize("kind", [list, tuple, np.array, Series])
def test_a_sentence_is_any_sequence_of_tokens(folder, kind):
    tokens = ["the", "naïve", "bank"]
    expected = oracle.layers(OPTIONS, ARRAYS, tokens)
    np.testing.assert_allclose(stelmo.load("weights.hdf5").layers([kind(tokens)])[0], expected, atol=1e-5)
    embedder = ElmoEmbedder("options.json", "weights.hdf5")
    np.testing.assert_allclose(embedder.embed_sentence(kind(tokens)), expected, atol=1e-5)


def test_a_string_is_its_characters_under_the_old_names_alone(folder):
    embedder = ElmoEmbedder("options.json", "weights.hdf5")
    np.testing.assert_allclose(embedder.embed_sentence("SEQ"), embedder.embed_sentence(["S", "E", "Q"]))
    with pytest.raises(DataError, match=r"stelmo.tokenize"):
        stelmo.load("weights.hdf5").layers(["SEQ"])
