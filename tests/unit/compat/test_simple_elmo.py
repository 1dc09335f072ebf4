"""`ElmoModel`: padded arrays, right averages, substitutes in simple_elmo's dictionaries, against plain NumPy."""

import pickle

import h5py
import numpy as np
import oracle
import pytest
import tiny

from stelmo.compat.simple_elmo import ElmoModel
from stelmo.errors import ConfigError, DataError, MissingModelError, ModelError, StelmoError
from stelmo.formats import bilm

OPTIONS = oracle.options()
ARRAYS = oracle.random_weights(OPTIONS)
WORDS = list(tiny.WORDS)
RANDOM = np.random.default_rng(3)
WEIGHT, BIAS = RANDOM.normal(size=(len(WORDS), 4)), RANDOM.normal(size=len(WORDS))
TEXTS = ["The bank .", ["naïve"], "a  long river\tbank ."]
SENTENCES = [["The", "bank", "."], ["naïve"], ["a", "long", "river", "bank", "."]]
PICKS = {"average": lambda layers: layers.mean(0), "top": lambda layers: layers[-1], "all": lambda layers: layers}
each_choice = pytest.mark.parametrize("layers", PICKS)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("model")
    oracle.write(path, OPTIONS, ARRAYS, WORDS)
    with h5py.File(path / "softmax_weights.hdf5", "w") as file:
        file["softmax/W"], file["softmax/b"] = WEIGHT, BIAS
    return path


@pytest.fixture(scope="module")
def model(folder):
    found = ElmoModel()
    found.load(folder, precision="float64")
    return found


def expected():
    """From a state of zeros."""
    return [oracle.layers(OPTIONS, ARRAYS, tokens) for tokens in SENTENCES]


@each_choice
def test_vectors_come_as_one_array_with_zeros_past_the_end(model, layers):
    found = model.get_elmo_vectors(TEXTS, layers=layers)
    assert found.shape == ((3, 3, 5, 8) if layers == "all" else (3, 5, 8))
    for row, single in zip(found, map(PICKS[layers], expected()), strict=True):
        length = single.shape[-2]
        np.testing.assert_allclose(row[..., :length, :], single, atol=1e-12)
        assert not row[..., length:, :].any()


@pytest.mark.parametrize("warmup", [True, False])
def test_stateful_runs_the_first_batch_twice_and_carries_the_state_as_the_original_does(folder, warmup):
    model = ElmoModel()
    assert model.load(folder, max_batch_size=2, stateful=True, precision="float64") == "The model is now loaded."
    batches = [SENTENCES[:2], SENTENCES[:2], SENTENCES[2:]] if warmup else [SENTENCES[:2], SENTENCES[2:]]
    carried = [layers for batch in oracle.carry(OPTIONS, ARRAYS, batches)[0][-2:] for layers in batch]
    found = model.get_elmo_vectors(TEXTS, warmup=warmup)
    for row, layers in zip(found, carried, strict=True):
        np.testing.assert_allclose(row[: layers.shape[1]], layers.mean(0), atol=1e-12)


def test_the_model_s_warm_state_can_be_asked_for(folder):
    model = ElmoModel()
    model.load(folder, state="warm", precision="float64")
    start = model.model.start_state("warm")
    warm = start.h[:, :, 0].numpy(), start.c[:, :, 0].numpy()
    found = model.get_elmo_vectors(TEXTS, layers="top")
    np.testing.assert_allclose(found[0, :3], oracle.layers(OPTIONS, ARRAYS, SENTENCES[0], warm)[-1], atol=1e-12)


def test_a_model_loaded_with_top_gives_the_top_layer_by_default(folder):
    """An argument of the first releases, which the example scripts pass."""
    model = ElmoModel()
    for top, name in ((True, "top"), (False, "average")):
        model.load(folder, top=top, max_batch_size=96, precision="float64")
        np.testing.assert_array_equal(model.get_elmo_vectors(TEXTS), model.get_elmo_vectors(TEXTS, layers=name))
        averages = model.get_elmo_vector_average(TEXTS)
        np.testing.assert_array_equal(averages, model.get_elmo_vector_average(TEXTS, layers=name))


def test_vectors_are_used_as_in_the_example_scripts(model):
    """Similar words, pairs of texts, a word in its context: plain indexing and products of the arrays."""
    vectors = model.get_elmo_vectors(SENTENCES)
    cropped = [found[: len(tokens), :] for found, tokens in zip(vectors, SENTENCES, strict=True)]
    query = cropped[-2][0, :]
    similar = {word: np.dot(query, row) for word, row in zip(SENTENCES[1], cropped[1], strict=True)}
    assert similar["naïve"] == pytest.approx(np.linalg.norm(query) ** 2)
    left, right = model.get_elmo_vector_average(SENTENCES[:2]), model.get_elmo_vector_average(SENTENCES[1:])
    cosines = [[np.dot(*pair)] for pair in zip(left, right, strict=True)]
    assert np.all(np.abs(cosines) < 1)
    np.testing.assert_allclose(vectors[2, 3, :], expected()[2].mean(0)[3], atol=1e-12)


def test_the_batcher_numbers_characters_with_both_markers(model):
    ids = model.batcher.batch_sentences([["a", "b"], ["c"]])
    assert ids.shape == (2, 4, model.max_chars)
    assert ids[1, :3, 1].tolist() == [257, ord("c") + 1, 258]
    assert not ids[1, 3].any()


def test_the_model_can_be_pickled_after_use(model):
    expected_vectors = model.get_elmo_vectors(TEXTS)
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.get_elmo_vectors(TEXTS), expected_vectors)
    assert again.get_elmo_substitutes(["a"]) == model.get_elmo_substitutes(["a"])


@each_choice
def test_averages_are_over_a_sentences_own_words_and_have_length_one(model, layers):
    found = model.get_elmo_vector_average(TEXTS, layers=layers)
    for row, single in zip(found, map(PICKS[layers], expected()), strict=True):
        mean = single.mean(-2)
        np.testing.assert_allclose(row, mean / np.linalg.norm(mean), atol=1e-12)
        assert np.linalg.norm(row) == pytest.approx(1.0)


def test_an_average_does_not_depend_on_the_sentences_beside_it(model):
    alone = model.get_elmo_vector_average(TEXTS[:1])[0]
    np.testing.assert_allclose(model.get_elmo_vector_average(TEXTS)[0], alone, atol=1e-12)


def test_an_empty_sentence_is_all_zeros(model):
    assert not model.get_elmo_vectors(["", "a"])[0].any()
    assert not model.get_elmo_vector_average(["", "a"])[0].any()


def test_the_sizes_are_there_under_their_old_names(model):
    assert (model.vector_size, model.n_layers, model.batch_size) == (8, 3, 32)
    assert list(model.vocab) == WORDS


def log_softmax(logits):
    return logits - np.log(np.exp(logits).sum())


@pytest.mark.parametrize("nodelimiters", [True, False])
def test_substitutes_name_what_each_direction_expects(folder, nodelimiters):
    model = ElmoModel()
    model.load(folder, full=True, precision="float64")
    found = model.get_elmo_substitutes(["the river .", "", ["a", "quokka"]], topn=4, nodelimiters=nodelimiters)
    assert [[place["word"] for place in sentence] for sentence in found] == [["the", "river", "."], [], ["a", "<UNK>"]]
    top = oracle.run(OPTIONS, ARRAYS, ["the", "river", "."])[0][-1]
    for position, place in enumerate(found[0]):
        contexts = {"forward": top[position, :4], "backward": top[position + 2, 4:]}
        for direction, context in contexts.items():
            log_probs = log_softmax(WEIGHT @ context + BIAS)
            allowed = [number for number in np.argsort(-log_probs) if number > 1 or not nodelimiters]
            best = [int(number) for number in allowed[:4]]
            assert place[direction]["candidates"] == best
            assert place[direction]["candidate_words"] == [WORDS[number] for number in best]
            np.testing.assert_allclose(place[direction]["logp"], log_probs[best], atol=6e-5)


def test_the_softmax_is_read_when_it_is_first_needed(folder, monkeypatch):
    asked = []
    read = bilm.read_softmax
    monkeypatch.setattr(bilm, "read_softmax", lambda *arguments: asked.append(1) or read(*arguments))
    model = ElmoModel()
    model.load(folder)
    assert not asked
    model.get_elmo_substitutes(["a"])
    assert len(model.get_elmo_substitutes(["a"])[0][0]["forward"]["candidates"]) == 3
    assert asked == [1]


def test_what_cannot_be_done_is_refused_in_one_sentence(model, tmp_path):
    oracle.write(tmp_path, OPTIONS, ARRAYS)
    cases = [
        (lambda: ElmoModel().get_elmo_vectors([["a"]]), ConfigError, "call load"),
        (lambda: ElmoModel().load(tmp_path / "nowhere"), MissingModelError, "no such file"),
        (lambda: ElmoModel().load(tmp_path, full=True), ModelError, "no softmax"),
        (lambda: ElmoModel().load(tmp_path, max_batch_size=0), ConfigError, "batch_rows"),
        (lambda: model.get_elmo_vectors("a b"), DataError, "expected a list of sentences"),
        (lambda: model.get_elmo_vectors([]), DataError, "no sentences"),
        (lambda: model.get_elmo_vector_average([]), DataError, "no sentences"),
        (lambda: model.get_elmo_vectors([[1]]), DataError, "tokens are strings"),
        (lambda: model.get_elmo_vectors([["a"]], layers="mean"), ConfigError, "average, top, all"),
        (lambda: model.get_elmo_vectors([["a"]], session=object()), ConfigError, "TensorFlow is not used"),
        (lambda: model.get_elmo_substitutes(["a"], topn=0), DataError, "at least 1"),
    ]
    for call, kind, message in cases:
        with pytest.raises(StelmoError, match=message) as refusal:
            call()
        assert refusal.type is kind
        assert "\n" not in str(refusal.value)
