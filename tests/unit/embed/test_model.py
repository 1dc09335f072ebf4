"""`Model`: shapes, order, layers, and what is refused."""

import numpy as np
import pytest
import tiny
import torch

import stelmo
from stelmo.embed.model import Model
from stelmo.errors import ConfigError, ModelError
from stelmo.settings import LoadSettings
from stelmo.store import folder

SENTENCES = [["The", "bank", "."], [], ["a"], ["the", "river", "bank", "."], ["The", "bank", "."]]


def test_vectors_come_in_input_order_with_duplicates_and_empty_sentences():
    vectors = tiny.model().embed(SENTENCES)
    assert [vector.shape for vector in vectors] == [(3, 12), (0, 12), (1, 12), (4, 12), (3, 12)]
    assert all(vector.dtype == np.float32 for vector in vectors)
    np.testing.assert_allclose(vectors[0], vectors[4], atol=1e-6)


def test_a_layer_is_what_layers_has_at_its_place(model):
    layers = model.layers(SENTENCES)
    for number in range(3):
        for chosen, all_of_it in zip(model.embed(SENTENCES, layer=number), layers, strict=True):
            np.testing.assert_array_equal(chosen, all_of_it[number])
    np.testing.assert_array_equal(model.embed(SENTENCES, layer="top")[3], layers[3][2])
    np.testing.assert_allclose(model.embed(SENTENCES)[3], layers[3].mean(0), atol=1e-6)


def test_layer_0_is_the_token_layer_twice(model):
    token_layer = model.embed([["bank", "river"]], layer=0)[0]
    np.testing.assert_array_equal(token_layer[:, :6], token_layer[:, 6:])
    np.testing.assert_allclose(token_layer[:, :6], model.token_vectors(["bank", "river"]), rtol=1e-5)


def test_no_words_have_no_token_vectors(model):
    assert model.token_vectors([]).shape == (0, 6)


def test_a_sentence_vector_is_the_mean_over_its_own_tokens_alone(model):
    vectors = model.embed(SENTENCES)
    found = model.sentence_vectors(SENTENCES)
    assert found.shape == (5, 12)
    np.testing.assert_allclose(found[3], vectors[3].mean(0), atol=1e-6)
    np.testing.assert_array_equal(found[1], 0)


def test_nothing_in_is_nothing_out(model):
    assert model.embed([]) == []
    assert model.sentence_vectors([]).shape == (0, 12)
    assert model.carry([])[0] == []


def test_results_do_not_keep_their_batch_alive():
    vector = tiny.model().layers(SENTENCES)[2]
    assert vector.base is None
    assert vector.flags.c_contiguous


@pytest.mark.parametrize("layer", ["middle", "all", 3, -1, 1.5, None])
def test_a_layer_that_is_not_there_is_refused(layer):
    with pytest.raises(ConfigError, match="layer"):
        tiny.model().embed([["a"]], layer=layer)


def test_the_caller_s_autocast_does_not_change_token_vectors(model):
    expected = model.token_vectors(["the", "new"])
    with torch.autocast("cpu", torch.bfloat16):
        np.testing.assert_array_equal(model.token_vectors(["the", "new"]), expected)


def test_threads_are_honoured():
    before = torch.get_num_threads()
    try:
        tiny.model(threads=1)
        assert torch.get_num_threads() == 1
    finally:
        torch.set_num_threads(before)


def test_very_long_words_and_sentences_work(model):
    long_word, long_sentence = model.embed([["x" * 200_000], ["bank"] * 5_000])
    assert long_word.shape == (1, 12)
    assert long_sentence.shape == (5_000, 12)
    assert np.isfinite(long_sentence).all()


BANKS = {
    "river": ["They walked along the bank of the river .", "The village lies on the south bank of the river ."],
    "money": ["The bank lent money to the company .", "In 1990 the central bank raised interest rates ."],
}


def test_the_bundled_model_tells_the_bank_of_a_river_from_the_one_that_lends_money():
    model = stelmo.load()
    sentences = [text.split() for pair in BANKS.values() for text in pair]
    layers = [
        layers_LTD[:, words.index("bank")] for words, layers_LTD in zip(sentences, model.layers(sentences), strict=True)
    ]
    uses = np.stack(layers, 1)
    uses = uses / np.linalg.norm(uses, axis=-1, keepdims=True)
    of_layer_0, *contextual = uses @ uses.transpose(0, 2, 1)
    np.testing.assert_allclose(of_layer_0, 1.0, atol=1e-5)  # without context a word is a word
    for alike in contextual:
        assert min(alike[0, 1], alike[2, 3]) > alike[:2, 2:].max()


def test_the_bundled_model_knows_probabilities_and_is_small():
    model = stelmo.load()
    sentence = ["He", "was", "born", "in", "London", "and", "died", "in", "Paris", "."]
    in_order, turned_around = (float(score.forward.mean()) for score in model.log_probs([sentence, sentence[::-1]]))
    assert in_order > turned_around + 1
    assert sum(file.stat().st_size for file in folder.ENGLISH.iterdir()) < 25e6


def test_a_model_in_another_precision_leaves_the_first_as_it_is():
    first = tiny.model(precision="float32")
    Model(first.saved(), LoadSettings(precision="float64"))
    assert first.embed([["a"]])[0].dtype == np.float32


def test_a_carried_state_of_another_precision_is_converted():
    _, state = tiny.model(precision="float64").carry([["a"]])
    layers, _ = tiny.model(precision="float32").carry([["a"]], state)
    assert layers[0].dtype == np.float32


@pytest.mark.parametrize("config", [tiny.CONFIG, tiny.WORD_CONFIG], ids=["characters", "word ids"])
@pytest.mark.parametrize("state", ["fresh", "warm", "carry"])
def test_weights_that_overflow_are_an_error_and_never_vectors_of_nan(config, state):
    saved = tiny.saved(config)
    for tensor in saved.bilm.state_dict().values():
        tensor.copy_(tensor.sign() * 1e38)
    model = Model(saved)
    with pytest.raises(ModelError, match="the model computes NaN or infinity") as refusal:
        model.embed([["the", "bank"], ["a"]], state=state)
    assert "\n" not in str(refusal.value)
