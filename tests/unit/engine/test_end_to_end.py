"""Encoders without a state: a vector depends on what it may see, and on nothing else in the call."""

import numpy as np
import pytest
import tiny
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import stelmo
from stelmo.engine.plain import Plain

encoders = pytest.mark.parametrize("kind", tiny.WITHOUT_STATE)
MODELS = {kind: tiny.model(config) for kind, config in tiny.WITHOUT_STATE.items()}
IN_DOUBLE = {kind: tiny.model(config, precision="float64") for kind, config in tiny.WITHOUT_STATE.items()}
TOKENS = st.sampled_from([*tiny.WORDS[3:], "new", "x" * 60])
SENTENCES = st.lists(st.lists(TOKENS, max_size=20), min_size=1, max_size=6)


def plain_layers(model, sentences):
    return [
        row.numpy() for row in Plain(model.bilm, model.engine.word_ids).run(sentences, model.start_state("fresh"))[0]
    ]


@encoders
@settings(max_examples=20)
@given(sentences=SENTENCES, data=st.data())
def test_batch_order_and_padding_change_nothing(kind, sentences, data):
    model = IN_DOUBLE[kind]
    together = model.layers(sentences)
    order = data.draw(st.permutations(range(len(sentences))))
    shuffled = model.layers([sentences[number] for number in order])
    padded = plain_layers(model, sentences)
    for number, sentence in enumerate(sentences):
        (alone,) = model.layers([sentence])
        for found in (together[number], shuffled[order.index(number)], padded[number]):
            assert found.shape == (3, len(sentence), 12)
            np.testing.assert_allclose(found, alone, atol=1e-12, rtol=0)


@encoders
@settings(max_examples=20)
@given(sentence=st.lists(TOKENS, min_size=1, max_size=20), data=st.data())
def test_a_changed_word_moves_only_what_may_see_it(kind, sentence, data):
    model = IN_DOUBLE[kind]
    place = data.draw(st.integers(0, len(sentence) - 1))
    changed = [*sentence[:place], "changed", *sentence[place + 1 :]]
    (before,), (after,) = model.layers([sentence]), model.layers([changed])
    moved_LTD = np.abs(before - after) > 1e-12
    assert moved_LTD[0].any(1).tolist() == [position == place for position in range(len(sentence))]
    ahead_LTP, behind_LTP = np.split(moved_LTD[1:], 2, -1)
    assert not ahead_LTP[:, :place].any()
    assert not behind_LTP[:, place + 1 :].any()
    assert ahead_LTP[:, place].any(-1).all()
    assert behind_LTP[:, place].any(-1).all()


def test_a_word_is_seen_as_far_as_the_encoder_reaches():
    sentence = ["the"] * 30
    for kind, reach in (("transformer", 30), ("gated-cnn", tiny.GATED_CNN.sees)):
        model = IN_DOUBLE[kind]
        (before,), (after,) = model.layers([sentence]), model.layers([["bank", *sentence[1:]]])
        moved_T = (np.abs(before - after)[-1, :, :6] > 1e-13).any(-1)
        assert moved_T.nonzero()[0].max() == reach - 1


@encoders
def test_the_position_of_a_word_counts_only_for_the_transformer(kind):
    (layers_LTD,) = IN_DOUBLE[kind].layers([["the"] * 25])
    same = np.allclose(layers_LTD[-1, 20, :6], layers_LTD[-1, 21, :6], atol=1e-9)
    assert same == (kind == "gated-cnn")


@encoders
def test_one_thread_computes_what_two_do(kind, monkeypatch):
    monkeypatch.setattr("stelmo.engine.end_to_end.WORK_FOR_A_THREAD", 0)
    sentences = [["the", "bank", "of"], ["a"], []]
    expected, threads = MODELS[kind].layers(sentences), torch.get_num_threads()
    try:
        torch.set_num_threads(2)
        found = MODELS[kind].layers(sentences)
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(threads)
    for one, right in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, right, atol=1e-6)


@encoders
def test_markers_are_given_where_they_are_asked_for(kind):
    model, sentences = MODELS[kind], [["the", "bank"], [], ["a"] * 5]
    found, _ = model.engine.run(sentences, torch.Tensor.clone, markers=True)
    for with_LTD, right in zip(found, model.layers(sentences), strict=True):
        assert with_LTD.shape[1] == right.shape[1] + 2
        np.testing.assert_allclose(with_LTD[:, 1:-1], right, atol=1e-6)


@encoders
def test_changed_weights_are_used_at_once(kind):
    model = tiny.model(tiny.WITHOUT_STATE[kind])
    before = model.embed([["the", "bank"]])[0]
    model.bilm.encoder.biases[0].add_(1.0)
    assert not np.allclose(model.embed([["the", "bank"]])[0], before)


@encoders
def test_the_default_state_is_fresh_and_nothing_else_can_be_asked_for(kind, tmp_path):
    folder = tiny.folder(tmp_path / "m", config=tiny.WITHOUT_STATE[kind])
    model = stelmo.load(folder)
    assert model.settings.state == "fresh"
    sentence = [["the"]]
    np.testing.assert_array_equal(model.layers(sentence, state="fresh")[0], model.layers(sentence)[0])
    for state in ("warm", "carry"):
        message = f"state: '{state}' is for LSTMs; a {kind} carries no state, so every sentence starts 'fresh'"
        for ask in (
            lambda state=state: stelmo.load(folder, state=state),
            lambda state=state: model.embed(sentence, state=state),
            lambda state=state: model.layers(sentence, state=state),
        ):
            with pytest.raises(stelmo.ConfigError, match=message):
                ask()
    with pytest.raises(stelmo.ConfigError, match="'warm' is for LSTMs"):
        model.warm_up(sentence)
    with pytest.raises(stelmo.ConfigError, match="'warm' is for LSTMs"):
        stelmo.Elmo(model, state="warm")


@encoders
def test_rows_that_would_continue_have_nothing_to_continue(kind):
    model = MODELS[kind]
    first, state = model.carry([["the", "bank"], ["a"]])
    second, _ = model.carry([["the", "bank"], ["a"]], state)
    for one, right in zip(first, second, strict=True):
        np.testing.assert_array_equal(one, right)


@encoders
def test_a_damaged_model_is_refused(kind):
    model = tiny.model(tiny.WITHOUT_STATE[kind])
    model.bilm.encoder.biases[0].fill_(torch.nan)
    with pytest.raises(stelmo.ModelError, match="computes NaN or infinity"):
        model.embed([["the"]])


@pytest.mark.long
@encoders
def test_a_very_long_sentence_takes_memory_in_proportion(kind):
    """The scores of all pairs of these words would take 0.6 GB in each head."""
    resource = pytest.importorskip("resource")
    model, words = MODELS[kind], [["the", "bank", "of", "a"][place % 4] for place in range(12_000)]
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    (vectors_TD,) = model.embed([words])
    assert vectors_TD.shape == (12_000, 12)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 300_000  # KB
