"""Fresh and warm vectors depend only on the sentence; carry continues as the oracle does; new weights are noticed."""

import pickle

import numpy as np
import oracle
import pytest
import tiny
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from shared import loaded

import stelmo
from stelmo.embed.model import Model
from stelmo.engine.plain import Plain
from stelmo.errors import DataError
from stelmo.model.bilm import State
from stelmo.settings import LoadSettings

OPTIONS = oracle.options()
ARRAYS = oracle.random_weights(OPTIONS)
TOLERANCE = {"float64": 1e-10, "float32": 1e-5}
MODELS = {precision: loaded(OPTIONS, ARRAYS, precision=precision) for precision in TOLERANCE}
CARRYING = MODELS["float64"]

familiar = [
    "the",
    "bank",
    ".",
    "naïve",
    "Ελλάδα",
    "銀行",
    "🙂",
    "👩‍🚀",
    "",
    "<S>",
    "</S>",
    "<UNK>",
    "x" * 60,
    "ж" * 30,
    "\ud800",
]
tokens = st.sampled_from(familiar) | st.text(st.characters(), max_size=6)
a_sentence = st.lists(tokens, max_size=7)
some_sentences = st.lists(a_sentence, max_size=5)
a_few = settings(deadline=None, max_examples=25)
each_precision = pytest.mark.parametrize("precision", TOLERANCE)
each_policy = pytest.mark.parametrize("policy", ["fresh", "warm"])


def again(precision, **changes):
    """The same model, computing under other settings."""
    return Model(MODELS[precision].saved(), LoadSettings(precision=precision, **changes))


def close(found, expected, precision="float64"):
    assert found.shape == expected.shape
    np.testing.assert_allclose(found, expected, rtol=0, atol=TOLERANCE[precision])


def state_of(rows):
    """The oracle's states, one a row, as ours."""
    return State(*(torch.tensor(np.stack(part, 2)) for part in zip(*rows, strict=True)))


def same_state(found, expected):
    torch.testing.assert_close(tuple(found), tuple(expected), rtol=0, atol=1e-10)


# fresh and warm


@each_precision
@each_policy
@a_few
@given(sentence=a_sentence, before=some_sentences, after=some_sentences)
def test_a_sentence_has_the_same_vectors_whatever_stands_beside_it(precision, policy, sentence, before, after):
    model = MODELS[precision]
    alone = model.layers([sentence], state=policy)[0]
    beside = model.layers([*before, sentence, *after], state=policy)[len(before)]
    assert alone.shape == (3, len(sentence), 8)
    close(beside, alone, precision)


@each_precision
@each_policy
@a_few
@given(data=st.data(), batch_tokens=st.integers(1, 40), sentences=some_sentences)
def test_order_and_size_of_batches_change_nothing(precision, policy, data, batch_tokens, sentences):
    order = data.draw(st.permutations(range(len(sentences))))
    shuffled = again(precision, batch_tokens=batch_tokens).layers([sentences[k] for k in order], state=policy)
    expected = MODELS[precision].layers(sentences, state=policy)
    for position, found in zip(order, shuffled, strict=True):
        close(found, expected[position], precision)


@each_policy
@a_few
@given(sentences=some_sentences, others=some_sentences)
def test_calls_in_between_change_nothing(policy, sentences, others):
    first = CARRYING.layers(sentences, state=policy)
    CARRYING.layers(others, state="carry")
    CARRYING.carry(others)
    CARRYING.embed(others, state=policy)
    for found, expected in zip(CARRYING.layers(sentences, state=policy), first, strict=True):
        np.testing.assert_array_equal(found, expected)


@a_few
@given(sentences=some_sentences)
def test_fresh_agrees_with_the_oracle_begun_at_zero(sentences):
    for words, found in zip(sentences, CARRYING.layers(sentences, state="fresh"), strict=True):
        close(found, oracle.layers(OPTIONS, ARRAYS, words))


@a_few
@given(sentences=some_sentences)
def test_warm_agrees_with_the_oracle_begun_at_the_warm_state(sentences):
    warm = [part[:, :, 0].numpy() for part in CARRYING.start_state("warm")]
    assert all(np.abs(part).max() > 0.05 for part in warm)
    for words, found in zip(sentences, CARRYING.layers(sentences, state="warm"), strict=True):
        close(found, oracle.layers(OPTIONS, ARRAYS, words, warm))


def test_fresh_and_warm_differ_and_unasked_only_a_model_with_its_own_warm_state_starts_warm():
    sentences = [["the", "bank"]]
    model = loaded(OPTIONS, ARRAYS, precision="float64")
    fresh, warm, unasked = (model.layers(sentences, state=state)[0] for state in ("fresh", "warm", None))
    assert np.abs(fresh - warm)[1:].max() > 1e-3
    np.testing.assert_array_equal(fresh[0], warm[0])
    np.testing.assert_array_equal(unasked, fresh)
    assert model.settings.state == "fresh"
    assert model.saved().start is None  # nor does a saved copy get the English sentences' state
    model.warm_up([["a", "text"]])
    np.testing.assert_array_equal(model.layers(sentences)[0], model.layers(sentences, state="warm")[0])
    chosen = loaded(OPTIONS, ARRAYS, precision="float64", state="fresh")
    chosen.warm_up([["a", "text"]])
    np.testing.assert_array_equal(chosen.layers(sentences)[0], fresh)


@pytest.mark.parametrize("format", ["stelmo", "bilm"])
def test_every_format_is_loaded_with_the_state_it_brings(model, format, tmp_path):
    model.save(tmp_path / "own", format=format)
    own = stelmo.load(tmp_path / "own")
    assert own.settings.state == ("warm" if format == "stelmo" else "fresh")  # bilm's layout stores no state
    expected = model.embed([["a", "bank"]], state=own.settings.state)[0]
    np.testing.assert_allclose(own.embed([["a", "bank"]])[0], expected, atol=1e-6)
    assert stelmo.load(tmp_path / "own", state="warm").settings.state == "warm"


# The warm state


def test_the_warm_state_is_the_same_for_the_same_weights():
    one, other = (loaded(OPTIONS, ARRAYS, precision="float64").start_state("warm") for _ in range(2))
    assert one.h.abs().max() > 0.05
    assert torch.equal(one.h, other.h)
    assert torch.equal(one.c, other.c)


def test_the_warm_state_does_not_depend_on_what_was_embedded_before():
    used = loaded(OPTIONS, ARRAYS, precision="float64")
    used.layers([["something", "else"]], state="fresh")
    used.carry([["and", "more"]])
    assert torch.equal(used.start_state("warm").h, CARRYING.start_state("warm").h)


@each_precision
def test_the_warm_state_survives_saving_and_loading(precision, tmp_path):
    model = loaded(OPTIONS, ARRAYS, precision=precision)
    model.warm_up([["sentences", "of", "its", "own"], ["two"]])
    model.save(tmp_path / "saved")
    found = stelmo.load(tmp_path / "saved", precision=precision)
    assert torch.equal(found.start_state("warm").h, model.start_state("warm").h)
    assert torch.equal(found.start_state("warm").c, model.start_state("warm").c)
    sentences = [["the", "bank"], []]
    for one, other in zip(found.layers(sentences), model.layers(sentences), strict=True):
        np.testing.assert_array_equal(one, other)


def test_warming_up_on_other_sentences_changes_the_warm_state():
    model = loaded(OPTIONS, ARRAYS, precision="float64")
    model.warm_up([["銀行"], ["🙂", "🙂"]])
    assert (model.start_state("warm").h - CARRYING.start_state("warm").h).abs().max() > 1e-3


def test_warming_up_on_one_sentence_is_its_end_state():
    model = loaded(OPTIONS, ARRAYS, precision="float64")
    model.warm_up([["the", "bank"]])
    same_state(model.start_state("warm"), state_of([oracle.run(OPTIONS, ARRAYS, ["the", "bank"])[1]]))


def test_warming_up_on_nothing_is_refused():
    with pytest.raises(stelmo.DataError, match="warm_up"):
        loaded(OPTIONS, ARRAYS).warm_up([])


def test_a_borrowed_warm_state_is_computed_again_when_the_weights_have_changed():
    model = loaded(OPTIONS, ARRAYS, precision="float64")
    before = model.start_state("warm")
    assert model.start_state("warm") is before
    with torch.no_grad():
        model.bilm.lstm_forward[0].bias.add_(0.5)
    after = model.start_state("warm")
    assert (after.h - before.h).abs().max() > 1e-3
    assert torch.equal(after.h, Model(model.saved(), LoadSettings(precision="float64")).start_state("warm").h)


@pytest.mark.parametrize("own", [False, True], ids=["borrowed", "own"])
def test_the_warm_state_follows_a_model_that_is_converted(own):
    model = loaded(OPTIONS, ARRAYS, state="warm")
    if own:
        model.warm_up([["a", "text"]])
    before = model.embed([["a"]])[0]
    stelmo.Elmo(model).double()
    after = model.embed([["a"]])[0]
    assert (before.dtype, after.dtype) == (np.float32, np.float64)
    np.testing.assert_allclose(after, before, atol=1e-5)


# carry

ragged_batches = st.lists(some_sentences, max_size=4)
ONE_ROW_BETWEEN = [
    [["the", "bank"], ["a"], ["naïve", "🙂", "."]],
    [["alone"]],
    [["of", "it"], ["b", "c"]],
    [],
    [["one"], ["two"], ["three"], ["four", "rows"]],
]


def carried(batches, state=None):
    results = []
    for batch in batches:
        layers, state = CARRYING.carry(batch, state)
        results.append(layers)
    return results, state


def assert_carried_as_by_the_oracle(batches):
    results, end = carried([[], *batches])
    expected, rows = oracle.carry(OPTIONS, ARRAYS, batches)
    for found, right in zip(results[1:], expected, strict=True):
        for ours, theirs in zip(found, right, strict=True):
            close(ours, theirs)
    assert end.rows == len(rows)
    for number, (h, c) in enumerate(rows):
        close(end.h[:, :, number].numpy(), h)
        close(end.c[:, :, number].numpy(), c)


@a_few
@given(ragged_batches)
def test_carry_goes_on_as_the_oracle_does(batches):
    assert_carried_as_by_the_oracle(batches)


def test_carry_goes_on_as_the_oracle_does_over_batches_of_one_row():
    assert_carried_as_by_the_oracle(ONE_ROW_BETWEEN)


def test_rows_beyond_the_batch_are_untouched_and_new_rows_start_at_zero():
    _, three = carried(ONE_ROW_BETWEEN[:1])
    _, after_one = carried(ONE_ROW_BETWEEN[1:2], three)
    assert torch.equal(after_one.h[:, :, 1:], three.h[:, :, 1:])
    assert torch.equal(after_one.c[:, :, 1:], three.c[:, :, 1:])
    assert (after_one.h[:, :, 0] - three.h[:, :, 0]).abs().max() > 1e-3
    (fourth,) = [layers[3] for layers in carried([[["x"], ["y"], ["z"], ["new", "row"]]], after_one)[0]]
    close(fourth, oracle.layers(OPTIONS, ARRAYS, ["new", "row"]))


def test_a_carried_state_matters_and_the_one_passed_in_stays_as_it_was():
    _, state = carried(ONE_ROW_BETWEEN[:1])
    kept = State(*(part.clone() for part in state))
    first, second = (CARRYING.carry([["the", "bank"]], start)[0][0] for start in (None, state))
    assert np.abs(first - second)[1:].max() > 1e-3
    assert torch.equal(state.h, kept.h)
    assert torch.equal(state.c, kept.c)


@a_few
@given(sentences=st.lists(a_sentence, max_size=9), batch_rows=st.integers(1, 4))
def test_one_call_under_carry_equals_a_call_for_every_batch(sentences, batch_rows):
    model = again("float64", batch_rows=batch_rows, state="carry")
    batches = [sentences[start : start + batch_rows] for start in range(0, len(sentences), batch_rows)]
    expected = [layers for batch in carried(batches)[0] for layers in batch]
    for found, right in zip(model.layers(sentences), expected, strict=True):
        close(found, right)


def test_each_call_under_carry_starts_anew():
    model = again("float64", state="carry")
    first, second = (model.layers([["the", "bank"], ["a"]]) for _ in range(2))
    for one, other in zip(first, second, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("state", ["cold", "", "Warm", 1])
def test_an_unknown_state_is_refused(state):
    with pytest.raises(stelmo.ConfigError, match=r"state: .* is not one of fresh, warm, carry"):
        CARRYING.embed([["a"]], state=state)


def test_an_unknown_state_is_refused_when_loading():
    with pytest.raises(stelmo.ConfigError, match="state"):
        loaded(OPTIONS, ARRAYS, state="cold")


# The packed copy of the weights


def assert_up_to_date(model, before):
    after = model.layers([["bank"]])[0]
    assert abs(after - before).max() > 1e-3
    expected = Plain(model.bilm, model.engine.word_ids).run([["bank"]], model.start_state("warm"))[0][0]
    np.testing.assert_allclose(after, expected.numpy(), atol=1e-10)


def test_a_model_that_learns_is_never_embedded_with_its_old_weights():
    model = tiny.model(precision="float64")
    before = model.layers([["bank"]])[0]
    elmo = stelmo.Elmo(model, dropout=0.0, trainable=True)
    optimiser = torch.optim.SGD(elmo.parameters(), lr=0.1)
    elmo([["bank", "."]])[0].sum().backward()
    optimiser.step()
    assert_up_to_date(model, before)


def test_an_optimiser_s_step_alone_makes_the_copy_stale():
    model = tiny.model(precision="float64")
    before, copied = model.layers([["bank"]])[0], model.engine.compute()
    assert model.engine.compute() is copied
    with torch.no_grad():
        model.bilm.lstm_backward[1].bias.add_(0.5)
    assert model.engine.compute() is not copied
    assert_up_to_date(model, before)


def test_a_model_made_in_inference_mode_computes_the_same():
    with torch.inference_mode():
        model = tiny.model()
    np.testing.assert_array_equal(model.embed([["the", "bank"]])[0], tiny.model().embed([["the", "bank"]])[0])


def test_a_pickled_engine_leaves_the_copy_out_and_computes_the_same():
    engine = tiny.model().engine
    expected, _ = engine.run([["the", "bank"]], torch.clone)
    again = pickle.loads(pickle.dumps(engine))
    assert again._packed is None
    found, _ = again.run([["the", "bank"]], torch.clone)
    assert torch.equal(found[0], expected[0])


def test_markers_are_there_only_where_they_are_asked_for():
    engine = tiny.model().engine
    start = engine.start_state("fresh").expand(2)
    sentences = [["the", "bank"], []]
    without, _ = engine.run(sentences, torch.clone, start, rows=2)
    whole, end = engine.run(sentences, torch.clone, start, rows=2, markers=True)
    assert [layers.shape for layers in whole] == [(3, 4, 12), (3, 2, 12)]
    assert all(torch.equal(left, right[:, 1:-1]) for left, right in zip(without, whole, strict=True))
    assert end.rows == 2


@pytest.mark.parametrize("first", ["embed", "log_probs"])
def test_the_warm_state_may_start_a_network_that_is_trained(model, first):
    getattr(model, first)([["bank"]])
    assert not model.start_state("warm").h.is_inference()


def test_empty_sentences_share_one_result_and_change_no_other_bit():
    model, calls = MODELS["float32"], []

    def keep(layers_LTD):
        calls.append(layers_LTD.shape)
        return layers_LTD.numpy().copy()

    filled = [["the", "bank"], ["."], ["the"]]
    between = [[], filled[0], [], filled[1], [], filled[2], *[[]] * 100]
    alone, _ = model.engine.run(filled, keep, "fresh")
    calls.clear()
    found, _ = model.engine.run(between, keep, "fresh")
    assert len(calls) == 4
    assert {layers.shape for layers, words in zip(found, between, strict=True) if not words} == {
        (3, 0, alone[0].shape[2])
    }
    for one, other in zip(alone, (found[place] for place in (1, 3, 5)), strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("config", [*tiny.ENCODERS.values(), tiny.WORD_CONFIG], ids=[*tiny.ENCODERS, "word ids"])
def test_the_caller_s_autocast_changes_neither_the_vectors_nor_what_is_remembered(config):
    sentences, expected = [["the", "bank"], ["a"]], tiny.model(config).layers([["the", "bank"], ["a"]])
    model = tiny.model(config)
    with torch.autocast("cpu", torch.bfloat16):
        inside = model.layers(sentences)
    for found in (inside, model.layers(sentences)):
        for one, right in zip(found, expected, strict=True):
            np.testing.assert_array_equal(one, right)


def test_a_warm_state_borrowed_under_autocast_is_the_usual_one():
    with torch.autocast("cpu", torch.bfloat16):
        found = loaded(OPTIONS, ARRAYS).start_state("warm")
    assert torch.equal(found.h, loaded(OPTIONS, ARRAYS).start_state("warm").h)


# What is not a list of sentences; character ids are checked in test_elmo.py


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("The bank .", r"stelmo\.tokenize"),
        (["The bank .", "A river ."], "sentence 0 is the string"),
        (["The", "bank"], "pass a single sentence as"),
        ([["a"], ["b", 3]], "sentence 1, token 1 is int 3"),
        ([["a", None]], "token 1 is NoneType"),
        ([["a"], None], "sentence 1 is NoneType"),
        ([[b"a"]], "token 0 is bytes"),
        (7, "is not a list of sentences"),
    ],
)
def test_what_is_not_tokens_is_refused_with_the_way_out(given, message):
    with pytest.raises(DataError, match=message):
        tiny.model().embed(given)
