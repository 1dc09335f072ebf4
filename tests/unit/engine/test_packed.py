"""The fast CPU paths against the reference: every architecture, state, batch and order; and what they remember."""

import os
import threading
from concurrent.futures import ThreadPoolExecutor

import efml_oracle
import numpy as np
import oracle
import pytest
import tiny
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from shared import ENGLISH, loaded, needs_english

import stelmo
from stelmo import benchmark as speed
from stelmo.engine import packed
from stelmo.engine.packed import WordCache, shared_threads, steps
from stelmo.engine.plain import Plain
from stelmo.ops import fast

ARCHITECTURES = {
    "usual": oracle.options(highways=2),
    "no skip": oracle.options(skip=False),
    "tanh": oracle.options(activation="tanh"),
    "three layers": oracle.options(layers=3),
    "one layer": oracle.options(layers=1),
    "no projections": oracle.options(cells=6, projection=6, filters=((1, 2), (2, 4))),
    "no clips": oracle.options(cell_clip=None, proj_clip=None),
    "word ids": oracle.options(filters=None),
}
WORDS = ["<S>", "</S>", "<UNK>", "the", "bank", "."]
SENTENCES = st.lists(st.lists(st.sampled_from([*WORDS, "über", "日本語", "x" * 70, "", "🙂"]), max_size=9), max_size=9)
TOLERANCE = {"float64": 1e-10, "float32": 1e-5}  # of a layer's largest number


@torch.no_grad()
def plain(model, sentences, state):
    """The layers by `ops.reference`, sentence by sentence."""
    row = model.start_state(state)
    return [reference(model).run([words], row)[0][0].numpy() for words in sentences]


def reference(model):
    return Plain(model.bilm, model.engine.word_ids)


def assert_equal(found, expected, tolerance):
    for ours, right in zip(found, expected, strict=True):
        assert ours.shape == right.shape
        scale_L11 = np.abs(right).max(axis=(1, 2), initial=0.0, keepdims=True)
        assert (np.abs(ours - right) <= tolerance * scale_L11).all()


MODELS = {
    (name, precision): loaded(
        options, oracle.random_weights(options, words=len(WORDS)), WORDS, precision=precision, batch_tokens=20
    )
    for name, options in ARCHITECTURES.items()
    for precision in TOLERANCE
}


@pytest.mark.parametrize("name", ARCHITECTURES)
@pytest.mark.parametrize("precision", TOLERANCE)
@pytest.mark.parametrize("state", ["fresh", "warm"])
@settings(max_examples=15)
@given(sentences=SENTENCES)
def test_the_engine_is_the_reference(name, precision, state, sentences):
    model = MODELS[name, precision]
    assert_equal(model.layers(sentences, state), plain(model, sentences, state), TOLERANCE[precision])


@pytest.mark.parametrize(("words", "characters"), [(4, 3), (4, 0), (0, 3)])
def test_the_engine_reads_code_points_as_the_reference_does(words, characters, tmp_path):
    description = efml_oracle.architecture(words, characters)
    model = stelmo.load(efml_oracle.write(efml_oracle.random_model(description), tmp_path), precision="float64")
    sentences = [["the", "tree"], ["木", "ü", "x" * 60], []]
    assert_equal(model.layers(sentences, state="warm"), plain(model, sentences, "warm"), 1e-10)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("name", ARCHITECTURES)
def test_directions_side_by_side_are_the_directions_together(name, threads, monkeypatch):
    monkeypatch.setattr(torch, "get_num_threads", lambda: threads)
    model = MODELS[name, "float64"]
    sentences = [["the", "bank", "."], ["a"], ["b", "b"]]
    together, (carried, end) = model.layers(sentences), model.carry(sentences)
    monkeypatch.setattr(packed, "WORK_FOR_A_THREAD", 0)
    assert_equal(model.layers(sentences), together, 1e-12)
    again, same_end = model.carry(sentences)
    assert_equal(again, carried, 1e-12)
    torch.testing.assert_close(same_end, end, atol=1e-12, rtol=1e-12)


@pytest.mark.parametrize("threads", [1, 2])
def test_who_allows_one_thread_gets_no_other(threads, monkeypatch):
    started = []
    monkeypatch.setattr(packed, "WORK_FOR_A_THREAD", 0)
    monkeypatch.setattr(torch, "get_num_threads", lambda: threads)
    monkeypatch.setattr(torch, "set_num_threads", lambda count: started.append(threading.get_ident()))
    next(iter(MODELS.values())).layers([["the", "bank"]])
    assert bool(set(started) - {threading.get_ident()}) == (threads == 2)


@pytest.mark.parametrize(
    ("size", "precision"), [("small", "float64"), pytest.param("full", "float32", marks=pytest.mark.long)]
)
def test_the_published_sizes_are_the_reference_too(size, precision):
    model = speed.random_model(size, precision)
    sentences = [["The", "bank", "of", "the", "river"], ["naïve", "."], ["Hello"]]
    assert_equal(model.layers(sentences), plain(model, sentences, "fresh"), TOLERANCE[precision])


def test_half_precision_is_asked_of_the_plain_path():
    """There is no GPU here: the CPU's bfloat16 stands in for it."""
    model = tiny.model()
    sentences = [["the", "bank", "."], ["a"]]
    expected, _ = reference(model).run(sentences, model.start_state("warm"))
    found, _ = reference(model)._replace(precision="bfloat16").run(sentences, model.start_state("warm"))
    for ours, right in zip(found, expected, strict=True):
        assert ours.dtype == torch.float32
        assert 0 < (ours - right).abs().max() < 0.05 * right.abs().max()


@needs_english
def test_a_trained_model_gives_the_same_vectors_to_float32_rounding():
    model = stelmo.load(ENGLISH)
    sentences = stelmo.tokenize("The bank raised its rates. We sat on the bank of the river, watching boats. Yes!")
    found, expected = model.layers(sentences, state="warm"), plain(model, sentences, "warm")
    assert_equal(found, expected, 1e-5)


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("work", [0, 10**9], ids=["side by side", "together"])
def test_any_number_of_threads_gives_the_same_and_is_put_back(threads, work, monkeypatch):
    monkeypatch.setattr(packed, "WORK_FOR_A_THREAD", work)
    model = MODELS["usual", "float64"]
    sentences = [["the", "bank", "."], ["a"]]
    expected = plain(model, sentences, "warm")
    torch.set_num_threads(threads)
    try:
        assert_equal(model.layers(sentences, state="warm"), expected, 1e-10)
        assert torch.get_num_threads() == threads
    finally:
        torch.set_num_threads(1)


def test_a_forked_process_embeds_too(model):
    model.embed([["bank"]])
    child = os.fork()
    if child == 0:
        os._exit(0 if model.embed([["bank"]])[0].shape == (1, 12) else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@given(st.lists(st.integers(1, 9), min_size=1, max_size=9).map(lambda lengths: sorted(lengths, reverse=True)))
def test_packing_puts_every_token_once_in_reading_order(lengths):
    order = steps(lengths)
    assert sum(order.sizes) == sum(lengths)
    first = np.cumsum([0, *lengths[:-1]])
    for places, reading in ((order.forward_N, lambda n: range(n)), (order.backward_N, lambda n: range(n)[::-1])):
        found = np.split(places.numpy(), np.cumsum(order.sizes)[:-1])
        for row, length in enumerate(lengths):
            assert [int(step[row]) for step in found[:length]] == [first[row] + place for place in reading(length)]


@given(st.lists(st.lists(st.sampled_from("abcdefgh"), min_size=1, max_size=8, unique=True), max_size=8))
def test_words_are_computed_once_while_there_is_room_and_never_wrong(calls):
    asked = []

    def compute(words):
        asked.extend(words)
        return torch.tensor([[float(ord(word))] for word in words])

    remembered = WordCache(compute, 5)
    for words in calls:
        assert remembered(words)[:, 0].tolist() == [float(ord(word)) for word in words]
    asked.clear()
    remembered(["a", "b"])
    remembered(["b", "a"])
    assert len(asked) <= 2


def test_threads_are_put_back_after_a_failure():
    before = torch.get_num_threads()
    with pytest.raises(KeyError), shared_threads(2):
        torch.set_num_threads(1)
        raise KeyError
    assert torch.get_num_threads() == before


def in_new_thread(ask):
    with ThreadPoolExecutor(1) as other:
        return other.submit(ask).result()


@pytest.fixture
def four_threads():
    torch.set_num_threads(4)
    yield
    torch.set_num_threads(1)


def test_a_thread_that_starts_during_another_s_share_does_not_make_it_the_default(four_threads):
    def share():
        with shared_threads(2) as count:
            torch.set_num_threads(count)

    with ThreadPoolExecutor(1) as other:
        with shared_threads(2) as count:
            torch.set_num_threads(count)
            assert other.submit(torch.get_num_threads).result() == 2  # inherited
        other.submit(share).result()  # after the block
    assert in_new_thread(torch.get_num_threads) == torch.get_num_threads() == 4


def test_of_two_shares_at_the_same_time_the_last_restores_the_default(four_threads):
    entered, left = threading.Event(), threading.Event()

    def late():
        with shared_threads(2) as count:
            torch.set_num_threads(count)
            entered.set()
            left.wait()

    with ThreadPoolExecutor(1) as other:
        with shared_threads(2) as count:
            torch.set_num_threads(count)
            running = other.submit(late)
            entered.wait()
        left.set()
        running.result()
    assert in_new_thread(torch.get_num_threads) == torch.get_num_threads() == 4


def test_a_small_batch_leaves_the_number_of_threads_alone(monkeypatch):
    monkeypatch.setattr(torch, "set_num_threads", lambda count: pytest.fail("set"))
    for model in (MODELS["usual", "float32"], *WITHOUT_STATE.values()):
        model.layers([["the", "bank"]])


@pytest.mark.parametrize("name", ARCHITECTURES)
@settings(max_examples=15)
@given(batches=st.lists(SENTENCES.filter(bool), min_size=1, max_size=3))
def test_carried_states_are_the_reference_s(name, batches):
    model = MODELS[name, "float64"]
    state = right = None
    for batch in batches:
        found, state = model.carry(batch, state)
        rows = len(batch)
        right = (model.bilm.zero_state(0) if right is None else right).grow(rows)
        with torch.no_grad():
            layers, end = reference(model).run(batch, right.take(rows), whole=True)
        right = right.replace(end)
        assert_equal(found, [layers_LTD[:, 1:-1].numpy() for layers_LTD in layers], 1e-10)
        for ours, expected in zip(state, right, strict=True):
            torch.testing.assert_close(ours, expected, atol=1e-10, rtol=1e-10)


def test_more_words_than_a_table_holds_change_nothing(monkeypatch):
    model = MODELS["usual", "float64"]
    sentences = [["the", "bank", ".", "a", "b", "c"], ["d"]]
    expected = model.layers(sentences)
    monkeypatch.setattr(packed, "WORDS_IN_TABLE", 3)
    assert_equal(model.layers(sentences), expected, 1e-10)


@pytest.mark.parametrize("together", [1, 5, 1000])
def test_input_products_of_any_number_of_steps_are_the_same(monkeypatch, together):
    model = MODELS["three layers", "float64"]
    sentences = [["the", "bank", ".", "a"], ["d", "the"]]
    monkeypatch.setattr(fast, "TOKENS_TOGETHER", together)
    assert_equal(model.layers(sentences, state="warm"), plain(model, sentences, "warm"), 1e-10)


def cosines(a, b):
    return (a * b).sum(-1) / np.linalg.norm(a, axis=-1) / np.linalg.norm(b, axis=-1)


@needs_english
def test_8_bit_vectors_point_where_those_of_32_do():
    sentences = stelmo.tokenize("The bank raised its rates. We sat on the bank of the river, watching boats. Yes!")
    for narrow, wide in zip(
        stelmo.load(ENGLISH, precision="int8").layers(sentences), stelmo.load(ENGLISH).layers(sentences), strict=True
    ):
        assert narrow.dtype == np.float32
        assert cosines(narrow, wide).min() > 0.999
        assert abs(narrow[1:] - wide[1:]).max() > 1e-4  # they are not the same numbers


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_every_architecture_runs_in_8_bits(name):
    options = ARCHITECTURES[name]
    model = loaded(options, oracle.random_weights(options, words=len(WORDS)), WORDS, precision="int8")
    wide = MODELS[name, "float32"]
    sentences = [["the", "bank"], ["."], []]
    assert_equal(model.layers(sentences), wide.layers(sentences), 0.1)


encoders = pytest.mark.parametrize("kind", tiny.WITHOUT_STATE)
WITHOUT_STATE = {kind: tiny.model(config) for kind, config in tiny.WITHOUT_STATE.items()}
IN_DOUBLE = {kind: tiny.model(config, precision="float64") for kind, config in tiny.WITHOUT_STATE.items()}
TOKENS = st.sampled_from([*tiny.WORDS[3:], "new", "x" * 60])
TOKEN_LISTS = st.lists(st.lists(TOKENS, max_size=20), min_size=1, max_size=6)


def plain_layers(model, sentences):
    return [
        row.numpy() for row in Plain(model.bilm, model.engine.word_ids).run(sentences, model.start_state("fresh"))[0]
    ]


@encoders
@settings(max_examples=20)
@given(sentences=TOKEN_LISTS, data=st.data())
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
    for kind, reach in (("transformer", 30), ("gated-cnn", tiny.GATED_CNN.receptive_field)):
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
    monkeypatch.setattr("stelmo.engine.packed.WORK_FOR_A_DIRECTION", 0)
    sentences = [["the", "bank", "of"], ["a"], []]
    expected, threads = WITHOUT_STATE[kind].layers(sentences), torch.get_num_threads()
    try:
        torch.set_num_threads(2)
        found = WITHOUT_STATE[kind].layers(sentences)
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(threads)
    for one, right in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, right, atol=1e-6)


@encoders
def test_markers_are_given_where_they_are_asked_for(kind):
    model, sentences = WITHOUT_STATE[kind], [["the", "bank"], [], ["a"] * 5]
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
    model = WITHOUT_STATE[kind]
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
    model, words = WITHOUT_STATE[kind], [["the", "bank", "of", "a"][place % 4] for place in range(12_000)]
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    (vectors_TD,) = model.embed([words])
    assert vectors_TD.shape == (12_000, 12)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 300_000  # KB
