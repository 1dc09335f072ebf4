"""`Embedder`: every output layer against plain NumPy, the same in any order."""

import pickle

import efml_oracle
import numpy as np
import oracle
import pytest

from stelmo.compat.elmoformanylangs import Embedder
from stelmo.errors import ConfigError, DataError, ModelError

OPTIONS = oracle.options()
ARRAYS = oracle.random_weights(OPTIONS)
SENTENCES = [["今", "天", "天氣", "真", "好"], ["潮水"], [], ["退", "了"]]


@pytest.fixture(scope="module")
def embedder(folder):
    return Embedder(folder, batch_size=2, precision="float64")


@pytest.mark.parametrize(
    ("output_layer", "of"),
    [(-1, lambda layers: layers.mean(0)), (-2, lambda layers: layers)]
    + [(number, lambda layers, number=number: layers[number]) for number in range(3)],
)
def test_every_output_layer_is_what_numpy_computes(embedder, output_layer, of):
    found = embedder.sents2elmo(SENTENCES, output_layer)
    assert isinstance(found, list)
    for single, tokens in zip(found, SENTENCES, strict=True):
        np.testing.assert_allclose(single, of(oracle.layers(OPTIONS, ARRAYS, tokens)), atol=1e-12)


def test_the_mean_is_the_default_and_order_and_calls_change_nothing(embedder):
    first, again = embedder.sents2elmo(SENTENCES), embedder.sents2elmo(SENTENCES[::-1])[::-1]
    for left, right in zip(first, again, strict=True):
        np.testing.assert_allclose(left, right, atol=1e-12)
    np.testing.assert_allclose(first[0], embedder.sents2elmo(SENTENCES, -1)[0])


def test_no_sentences_give_no_arrays(embedder):
    assert embedder.sents2elmo([]) == []


def test_what_cannot_be_done_is_refused(embedder, folder, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ModelError, match=r"zht\.model: no such file or folder"):
        Embedder()
    with pytest.raises(ConfigError, match="output_layer: 3 is not one of -2, -1, 0, 1, 2"):
        embedder.sents2elmo(SENTENCES, 3)
    with pytest.raises(DataError, match="is a string"):
        embedder.sents2elmo("a sentence")
    with pytest.raises(ConfigError, match="batch_rows"):
        Embedder(folder, batch_size=0)


def test_the_byte_models_markers_are_words_of_a_model_of_code_points(tmp_path):
    """ELMoForManyLangs marks sentences with <bos> and <eos>; <S> and </S> have no meaning there."""
    characters = (*efml_oracle.CHARACTERS, "<", ">", "/", "S")
    made = efml_oracle.random_model(efml_oracle.architecture(), characters=characters)
    embedder = Embedder(efml_oracle.write(made, tmp_path), precision="float64")
    tokens = ["the", "<S>", "tree", "</S>", "<S>"]
    for _ in range(2):
        found = embedder.sents2elmo([["tree"], tokens], output_layer=-2)[1]
        np.testing.assert_allclose(found, efml_oracle.layers(made, tokens), atol=1e-12)


def test_the_embedder_can_be_pickled_after_use(embedder):
    expected = embedder.sents2elmo(SENTENCES)
    for found, single in zip(pickle.loads(pickle.dumps(embedder)).sents2elmo(SENTENCES), expected, strict=True):
        np.testing.assert_array_equal(found, single)


def test_a_white_space_symbol_that_is_alone_in_char_dic_counts_as_the_ideographic_space(tmp_path):
    """The original strips every line, and takes one without a symbol for U+3000."""
    characters = efml_oracle.CHARACTERS
    as_read = efml_oracle.random_model(efml_oracle.architecture(), characters=characters)
    no_break = tuple("\u00a0" if symbol == "\u3000" else symbol for symbol in characters)
    as_written = efml_oracle.random_model(efml_oracle.architecture(), characters=no_break)
    embedder = Embedder(efml_oracle.write(as_written, tmp_path), precision="float64")
    tokens = ["a\u3000b", "a\u00a0b"]
    np.testing.assert_allclose(
        embedder.sents2elmo([tokens], output_layer=-2)[0], efml_oracle.layers(as_read, tokens), atol=1e-12
    )
