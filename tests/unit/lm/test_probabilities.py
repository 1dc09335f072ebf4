"""The biLM as a language model: against plain NumPy, TensorFlow's own numbers, and what probabilities must obey."""

import json
from pathlib import Path

import h5py
import numpy as np
import oracle
import pytest
import tiny
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import stelmo
from stelmo.engine import plain
from stelmo.errors import ConfigError, DataError, ModelError, StelmoError
from stelmo.lm import probabilities as lm
from stelmo.lm.perplexity import perplexity
from stelmo.ops import losses
from stelmo.text.ids import Vocabulary

FIXTURE = Path(__file__).resolve().parents[2] / "fixtures" / "bilm_tf_checkpoint"
WORDS = list(tiny.WORDS)
OPTIONS = oracle.options()
ARRAYS = oracle.random_weights(OPTIONS)
RANDOM = np.random.default_rng(7)
WEIGHT, BIAS = RANDOM.normal(size=(len(WORDS), 4)), RANDOM.normal(size=len(WORDS))
TINY = tiny.model(precision="float64")
TINY_HEAD = TINY.softmax
SENTENCES = [["the", "bank", "."], [], ["a", "quokka"], ["the", "river", "bank", "über", "日本", "."]]


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("model")
    oracle.write(folder, OPTIONS, ARRAYS, WORDS)
    with h5py.File(folder / "softmax_weights.hdf5", "w") as file:
        file["softmax/W"], file["softmax/b"] = WEIGHT, BIAS
    return stelmo.load(folder, precision="float64", state="fresh")


@pytest.fixture(scope="module")
def head(model):
    return model.softmax


def distributions(tokens, start=None):
    """NumPy: ln P of every vocabulary word at every position, forward and backward, (n+2, V); NaN where none is."""
    top = oracle.run(OPTIONS, ARRAYS, tokens, start)[0][-1]
    width = top.shape[1] // 2
    forward, backward = np.full((2, len(top), len(WORDS)), np.nan)
    for position in range(len(top) - 1):
        forward[position + 1] = log_softmax(WEIGHT @ top[position, :width] + BIAS)
        backward[position] = log_softmax(WEIGHT @ top[position + 1, width:] + BIAS)
    return forward, backward


def log_softmax(logits):
    return logits - np.log(np.exp(logits).sum())


def number(token):
    return WORDS.index(token if token in WORDS else "<UNK>")


def expected_scores(tokens):
    forward, backward = distributions(tokens)
    whole = ["<S>", *tokens, "</S>"]
    ahead = [forward[position, number(whole[position])] for position in range(1, len(whole))]
    behind = [backward[position, number(whole[position])] for position in range(len(whole) - 1)]
    return np.array(ahead), np.array(behind)


def test_every_word_is_scored_from_both_sides_as_numpy_does(model, head):
    for tokens, found in zip(SENTENCES, lm.log_probs(model, head, SENTENCES), strict=True):
        forward, backward = expected_scores(tokens)
        np.testing.assert_allclose(found.forward, forward, atol=1e-12)
        np.testing.assert_allclose(found.backward, backward, atol=1e-12)
        assert found.tokens.shape == (len(tokens), 2)
        np.testing.assert_allclose(found.tokens, np.stack([forward[:-1], backward[1:]], 1), atol=1e-12)


def test_a_word_outside_the_vocabulary_is_scored_as_unknown_but_read_by_its_characters(model, head):
    strange, unknown = lm.log_probs(model, head, [["a", "quokka"], ["a", "<UNK>"]])
    assert strange.forward[1] == pytest.approx(unknown.forward[1])  # the same target, the same context
    assert strange.forward[2] != pytest.approx(unknown.forward[2])  # </S> after another word


def test_chunks_change_nothing(model, head, monkeypatch):
    whole = lm.log_probs(model, head, SENTENCES)
    best = lm.candidates(model, head, SENTENCES, 4)
    for size in ("PLACES_TOGETHER", "WORDS_TOGETHER"):
        monkeypatch.setattr(losses, size, 3)
    monkeypatch.setattr(lm, "LOGITS_TOGETHER", 2 * len(WORDS))
    for left, right in zip(whole, lm.log_probs(model, head, SENTENCES), strict=True):
        np.testing.assert_allclose(left.forward, right.forward, atol=1e-12)
        np.testing.assert_allclose(left.backward, right.backward, atol=1e-12)
    for left, right in zip(best, lm.candidates(model, head, SENTENCES, 4), strict=True):
        np.testing.assert_array_equal(left[0].ids, right[0].ids)
        np.testing.assert_array_equal(left[1].ids, right[1].ids)


@settings(deadline=None, max_examples=25)
@given(
    st.lists(st.lists(st.sampled_from([*WORDS[3:], "x"]), max_size=5), max_size=4), st.sampled_from(["fresh", "warm"])
)
def test_a_sentence_scores_the_same_alone_and_among_others(sentences, state):
    for tokens, found in zip(sentences, lm.log_probs(TINY, TINY_HEAD, sentences, state), strict=True):
        (alone,) = lm.log_probs(TINY, TINY_HEAD, [tokens], state)
        np.testing.assert_allclose(found.forward, alone.forward, atol=1e-9)
        np.testing.assert_allclose(found.backward, alone.backward, atol=1e-9)


def test_the_warm_state_is_where_the_scores_start_by_default(model, head):
    warm = stelmo.embed.model.Model(model.saved(), model.settings.model_copy(update={"state": "warm"}))
    (fresh,), (found,) = lm.log_probs(model, head, [["the"]]), lm.log_probs(warm, head, [["the"]])
    (asked,) = lm.log_probs(model, head, [["the"]], "warm")
    np.testing.assert_array_equal(found.forward, asked.forward)
    assert np.abs(found.forward - fresh.forward).max() > 1e-3


# Perplexity


def test_perplexity_is_that_of_all_predictions_together_and_combines_geometrically(model, head):
    found = perplexity(lm.log_probs(model, head, SENTENCES))
    forward, backward = (np.concatenate(part) for part in zip(*map(expected_scores, SENTENCES), strict=True))
    assert found.forward == pytest.approx(np.exp(-forward.mean()))
    assert found.backward == pytest.approx(np.exp(-backward.mean()))
    assert found.combined == pytest.approx(np.sqrt(found.forward * found.backward))
    assert found.predictions == sum(map(len, SENTENCES)) + len(SENTENCES)


def test_a_softmax_that_knows_nothing_has_the_perplexity_of_its_vocabulary(model, head):
    blank = tiny.Softmax(len(WORDS), 4).to(torch.float64).requires_grad_(False)
    torch.nn.init.zeros_(blank.weight)
    torch.nn.init.zeros_(blank.bias)
    found = perplexity(lm.log_probs(model, blank, SENTENCES))
    assert [found.forward, found.backward, found.combined] == pytest.approx([len(WORDS)] * 3)


def test_perplexity_of_nothing_is_refused():
    with pytest.raises(DataError, match="no sentences"):
        perplexity([])


# Substitutes


@pytest.mark.parametrize("position", [0, 2, 5])
def test_substitutes_are_the_geometric_mean_of_both_directions_over_real_words(model, head, position):
    tokens = SENTENCES[3]
    forward, backward = (part[position + 1] for part in distributions(tokens))
    joint = np.sqrt(np.exp(forward) * np.exp(backward))[3:]  # <S>, </S>, <UNK> are no words
    shares = dict(zip(WORDS[3:], joint / joint.sum(), strict=True))
    found = lm.guesses(model, head, tokens, position, k=100).both
    assert [substitute.word for substitute in found] == sorted(shares, key=lambda word: -shares[word])
    for substitute in found:
        assert substitute.probability == pytest.approx(shares[substitute.word])
        assert substitute.forward == pytest.approx(np.exp(forward[WORDS.index(substitute.word)]))
        assert substitute.backward == pytest.approx(np.exp(backward[WORDS.index(substitute.word)]))
    assert sum(substitute.probability for substitute in found) == pytest.approx(1.0)


def test_each_direction_alone_has_its_own_best_words(model, head):
    tokens = SENTENCES[3]
    found = lm.guesses(model, head, tokens, 2, k=4)
    for guesses, ways in zip((found.forward, found.backward), distributions(tokens), strict=True):
        probabilities = dict(zip(WORDS[3:], np.exp(ways[3, 3:]), strict=True))
        assert [guess.word for guess in guesses] == sorted(probabilities, key=lambda word: -probabilities[word])[:4]
        assert [guess.probability for guess in guesses] == pytest.approx(
            [probabilities[guess.word] for guess in guesses]
        )


def test_the_word_in_the_gap_has_no_say(model, head):
    left = lm.guesses(model, head, ["the", "river", "."], 1, k=5).both
    right = lm.guesses(model, head, ["the", "quokka", "."], 1, k=5).both
    assert [s.word for s in left] == [s.word for s in right]
    np.testing.assert_allclose([s.probability for s in left], [s.probability for s in right], atol=1e-12)
    assert len(left) == 5


@pytest.mark.parametrize("position", [-1, 3])
def test_a_position_outside_the_sentence_is_refused(model, head, position):
    with pytest.raises(DataError, match=f"position {position}: the sentence has 3 tokens"):
        lm.guesses(model, head, ["the", "bank", "."], position)


def test_candidates_are_the_best_words_of_each_direction(model, head):
    for tokens, both in zip(SENTENCES, lm.candidates(model, head, SENTENCES, 4, markers=True), strict=True):
        for found, expected in zip(both, distributions(tokens), strict=True):
            places = expected[1 : len(tokens) + 1]
            np.testing.assert_array_equal(found.ids, np.argsort(-places, axis=1)[:, :4])
            np.testing.assert_allclose(found.log_probs, -np.sort(-places, axis=1)[:, :4], atol=1e-12)


def test_a_full_list_of_candidates_sums_to_one_and_leaves_the_markers_out_unless_asked(model, head):
    (forward, backward), *_ = lm.candidates(model, head, SENTENCES, 99, markers=True)
    np.testing.assert_allclose(np.exp(forward.log_probs).sum(1), 1.0)
    np.testing.assert_allclose(np.exp(backward.log_probs).sum(1), 1.0)
    (forward, backward), *_ = lm.candidates(model, head, SENTENCES, 99)
    assert forward.ids.shape == backward.ids.shape == (3, len(WORDS) - 2)
    assert not {0, 1} & set(np.concatenate([forward.ids, backward.ids]).ravel().tolist())


# Refusals


def test_what_a_language_model_cannot_do_is_refused_in_one_sentence(model, head):
    tiny_head = tiny.softmax()
    cases = [
        (lambda: stelmo.embed.model.Model(tiny.saved(read_softmax=None)).softmax, ModelError, "no softmax"),
        (lambda: lm.log_probs(without_words(), tiny_head, [["a"]]), ModelError, "no vocabulary"),
        (
            lambda: lm.log_probs(with_words("<S>", "</S>"), tiny_head, [["a"]]),
            ModelError,
            "2 words, but the softmax has 10",
        ),
        (lambda: lm.log_probs(model, head, ["a string"]), DataError, "is the string"),
        (lambda: lm.log_probs(model, head, [["a"]], "carry"), ConfigError, "fresh, warm"),
        (lambda: lm.guesses(model, head, ["a"], 0, k=0), DataError, "k 0"),
    ]
    for call, kind, message in cases:
        with pytest.raises(StelmoError, match=message) as refusal:
            call()
        assert refusal.type is kind
        assert "\n" not in str(refusal.value)


def without_words():
    return stelmo.embed.model.Model(tiny.saved(vocabulary=None))


def with_words(*words):
    return stelmo.embed.model.Model(tiny.saved(vocabulary=Vocabulary(words)))


# TensorFlow's numbers


def published(variables):
    """The variables of a bilm-tf checkpoint under the names of the published files."""
    arrays = {}
    for name, value in variables.items():
        name = name.removeprefix("lm/").replace("rnn/multi_rnn_cell/cell_", "RNN/MultiRNNCell/Cell")
        name = name.replace("lstm_cell/projection/kernel", "LSTMCell/W_P_0")
        name = name.replace("lstm_cell/kernel", "LSTMCell/W_0").replace("lstm_cell/bias", "LSTMCell/B")
        arrays[name] = value
    return {name: value for name, value in arrays.items() if "Adagrad" not in name and value.ndim}


def test_tensorflow_computed_the_same_probabilities(tmp_path):
    arrays = published(np.load(FIXTURE / "expected.npz"))
    with h5py.File(tmp_path / "softmax_weights.hdf5", "w") as file:
        for name in ("softmax/W", "softmax/b"):
            file[name] = arrays.pop(name)
    words = (FIXTURE / "vocab.txt").read_text(encoding="utf-8").split()
    oracle.write(tmp_path, json.loads((FIXTURE / "options.json").read_text()), arrays, words)
    model = stelmo.load(tmp_path, state="fresh")
    expected = np.load(FIXTURE / "expected_outputs.npz")
    for case in "01":
        sentence = expected[f"sentence_{case}"].tolist()
        ids = [words.index(word) if word in words else 2 for word in ["<S>", *sentence, "</S>"]]
        (found,) = model.log_probs([sentence])
        forward, backward = (expected[f"{way}_log_probabilities_{case}"] for way in ("forward", "backward"))
        np.testing.assert_allclose(found.forward, forward[np.arange(len(ids) - 1), ids[1:]], atol=1e-5)
        np.testing.assert_allclose(found.backward, backward[np.arange(1, len(ids)), ids[:-1]], atol=1e-5)


@pytest.mark.parametrize("kind", tiny.WITHOUT_STATE)
def test_encoders_without_a_state_predict_from_the_markers_of_each_sentence(kind):
    """A Transformer's </S> has another vector in every length of sentence."""
    model = tiny.model(tiny.WITHOUT_STATE[kind], precision="float64")
    sentences = [["the", "bank"], [], ["a"] * 9]
    batch = plain.batch_of_tokens(sentences, model.engine.word_ids)
    layers_LBTD, _ = plain.layers(model.bilm, batch, model.bilm.zero_state(3))
    for row, (tokens, found) in enumerate(zip(sentences, model.log_probs(sentences), strict=True)):
        ids = [model.vocabulary.id(word) for word in ("<S>", *tokens, "</S>")]
        top_TD = layers_LBTD[-1, row, : len(ids)]
        ahead, behind = model.softmax(top_TD[:-1, :6]), model.softmax(top_TD[1:, 6:])
        np.testing.assert_allclose(found.forward, [ahead[t, ids[t + 1]] for t in range(len(tokens) + 1)], atol=1e-10)
        np.testing.assert_allclose(found.backward, [behind[t, ids[t]] for t in range(len(tokens) + 1)], atol=1e-10)


@pytest.mark.parametrize("kind", tiny.WITHOUT_STATE)
def test_the_word_in_the_gap_has_no_say_with_any_encoder(kind):
    model = tiny.model(tiny.WITHOUT_STATE[kind], precision="float64")
    one, other = (model.substitutes(["the", word, "of", "a"], 1, k=3) for word in ("bank", "x"))
    assert [guess.word for guess in one] == [guess.word for guess in other]
    assert one[0].probability == pytest.approx(other[0].probability, rel=1e-9)


@pytest.mark.parametrize("name", tiny.ENCODERS)
def test_the_vector_that_predicts_a_position_gives_the_mean_log_probability_of_both_directions(name):
    model = tiny.model(tiny.ENCODERS[name])
    sentences, positions = [["the", "bank", "."], ["river"], ["a", "bank", "über", "the", "river"]], [1, 0, 4]
    predicting_NP = lm.predicting_at(model, sentences, positions)
    found_NV = predicting_NP @ model.softmax.weight.numpy().T + model.softmax.bias.numpy()
    for number, (tokens, position) in enumerate(zip(sentences, positions, strict=True)):
        guesses = lm.guesses(model, model.softmax, tokens, position, 99).both
        ids = [model.vocabulary.id(guess.word) for guess in guesses]
        expected = np.log([guess.forward for guess in guesses]) / 2 + np.log([guess.backward for guess in guesses]) / 2
        difference = found_NV[number, ids] - expected
        np.testing.assert_allclose(difference, difference[0], atol=1e-4)


@pytest.mark.parametrize("half", [torch.bfloat16, torch.float16])
def test_the_caller_s_autocast_does_not_round_probabilities(half):
    model, sentence = tiny.model(), ["the", "bank", "."]

    def found():
        scores = lm.log_probs(model, model.softmax, [sentence])[0]
        best = [guess.probability for guess in lm.guesses(model, model.softmax, sentence, 1, 3).forward]
        ((forward, _),) = lm.candidates(model, model.softmax, [sentence], 3)
        return np.concatenate([scores.forward, scores.backward, best, forward.log_probs.ravel()])

    expected = found()
    with torch.autocast("cpu", half):
        np.testing.assert_allclose(found(), expected, rtol=1e-5)
