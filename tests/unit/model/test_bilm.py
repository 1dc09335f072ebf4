"""The biLM against the oracle for every option it has; its size; its initial values; its state."""

import math

import numpy as np
import oracle
import pytest
import tiny
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from shared import loaded

from stelmo.config import CharInput, LstmConfig, ModelConfig, WordInput
from stelmo.engine import plain
from stelmo.model.bilm import BiLM, State, with_residual
from stelmo.text.ids import Vocabulary, word_ids

VOCABULARY = ["<S>", "</S>", "<UNK>", "the", "bank", "naïve", "🙂", "."]
SENTENCES = [
    ["the", "naïve", "bank", "."],
    [],
    ["🙂"],
    ["<S>", "", "x" * 70, "ж" * 30, "<UNK>", "bank", "the"],
]
TOLERANCE = {"float64": 1e-10, "float32": 2e-5}  # measured: 1.2e-14 and 4.3e-6, where layers reach 19

OPTIONS = {
    "usual": {},
    "no skip": {"skip": False},
    "tanh": {"activation": "tanh"},
    "one filter": {"filters": ((2, 7),)},
    "filters out of order": {"filters": ((5, 2), (1, 3), (3, 6), (1, 2))},
    "no highway": {"highways": 0},
    "two highways": {"highways": 2},
    "three highways": {"highways": 3},
    "F = P": {"filters": ((1, 3), (3, 2)), "projection": 5},
    "F = P, no highway": {"filters": ((1, 3), (3, 2)), "projection": 5, "highways": 0},
    "F < P": {"filters": ((1, 2), (3, 1)), "projection": 5},
    "P = D": {"cells": 5, "projection": 5},
    "P = D, no clips": {"cells": 5, "projection": 5, "cell_clip": None, "proj_clip": None},
    "P > D": {"cells": 3, "projection": 5},
    "one layer": {"layers": 1},
    "three layers": {"layers": 3},
    "three layers, no skip": {"layers": 3, "skip": False},
    "no cell clip": {"cell_clip": None},
    "no projection clip": {"proj_clip": None},
    "no clips": {"cell_clip": None, "proj_clip": None},
    "usual clips": {"cell_clip": 3, "proj_clip": 3},
    "eight characters": {"characters": 8},
    "a hundred characters": {"characters": 100},
    "a filter as wide as a word": {"characters": 6, "filters": ((6, 4), (1, 3))},
    "word ids": {"filters": None},
    "word ids, P = D, three layers": {"filters": None, "cells": 4, "layers": 3},
}


def assert_agrees(options, precision, seed=0):
    """All layers and the end states, from a start state that is not zero."""
    arrays = oracle.random_weights(options, seed, words=len(VOCABULARY))
    model = loaded(options, arrays, VOCABULARY, precision=precision)
    random = np.random.default_rng(seed)
    starts = [[random.normal(0, 0.3, part.shape) for part in oracle.zero_state(options)] for _ in SENTENCES]
    joined = State(
        *(torch.tensor(np.stack(part, 2)).to(model.bilm.encoder.table) for part in zip(*starts, strict=True))
    )
    found, end = model.carry(SENTENCES, joined)
    for row, (tokens, start) in enumerate(zip(SENTENCES, starts, strict=True)):
        expected, (h, c) = oracle.run(options, arrays, tokens, start, VOCABULARY)
        assert np.abs(expected).max() > 1e-3
        np.testing.assert_allclose(found[row], expected[:, 1:-1], rtol=0, atol=TOLERANCE[precision])
        np.testing.assert_allclose(end.h[:, :, row], h, rtol=0, atol=TOLERANCE[precision])
        np.testing.assert_allclose(end.c[:, :, row], c, rtol=0, atol=TOLERANCE[precision])


@pytest.mark.parametrize("precision", ["float64", "float32"])
@pytest.mark.parametrize("changes", OPTIONS.values(), ids=OPTIONS)
def test_every_option_agrees_with_the_oracle(changes, precision):
    assert_agrees(oracle.options(**changes), precision)


clips = st.none() | st.floats(0.2, 3.0)
widths = st.tuples(st.integers(1, 5), st.integers(1, 4))


@settings(deadline=None, max_examples=40, suppress_health_check=[HealthCheck.too_slow])
@given(
    seed=st.integers(0, 999),
    options=st.builds(
        oracle.options,
        cells=st.integers(1, 6),
        projection=st.integers(1, 6),
        layers=st.integers(1, 3),
        cell_clip=clips,
        proj_clip=clips,
        skip=st.booleans(),
        embedding=st.integers(1, 4),
        filters=st.none() | st.lists(widths, min_size=1, max_size=4),
        highways=st.integers(0, 3),
        activation=st.sampled_from(["relu", "tanh"]),
        characters=st.integers(5, 60),
    ),
)
def test_any_architecture_agrees_with_the_oracle(options, seed):
    assert_agrees(options, "float64", seed)


def test_positions_past_a_sentence_are_zero_in_every_layer():
    options = oracle.options()
    bilm = loaded(options, oracle.random_weights(options)).bilm
    layers, _ = bilm(torch.ones(2, 5, 4), torch.tensor([2, 5]), bilm.zero_state(2))
    assert layers[:, 0, 2:].abs().max() == 0
    assert bool((layers[:, 0, :2].abs().amax(-1) > 0).all())


FILTERS = ((1, 32), (2, 32), (3, 64), (4, 128), (5, 256), (6, 512), (7, 1024))
PUBLISHED = {
    "small": (1024, 128, 1, 13_593_296),
    "medium": (2048, 256, 1, 28_027_728),
    "original": (4096, 512, 2, 93_600_848),
}


@pytest.mark.parametrize(("cells", "projection", "highways", "expected"), PUBLISHED.values(), ids=PUBLISHED)
def test_the_published_sizes_have_the_published_number_of_parameters(cells, projection, highways, expected):
    config = ModelConfig(
        input=CharInput(embedding=16, filters=FILTERS, highways=highways),
        lstm=LstmConfig(cells=cells, projection=projection),
    )
    with torch.device("meta"):
        found = sum(parameter.numel() for parameter in BiLM(config).parameters())
    assert found - 16 == expected  # the row of "no token here" is ours


def untrained(activation="relu", seed=1):
    config = ModelConfig(
        input=CharInput(embedding=16, filters=((2, 64), (5, 64)), highways=1, activation=activation),
        lstm=LstmConfig(cells=96, projection=48, layers=2),
    )
    return BiLM(config).reset(seed)


def test_the_same_seed_gives_the_same_initial_values_and_another_seed_others():
    first, again, other = (untrained(seed=seed).state_dict() for seed in (1, 1, 2))
    random = {name for name, tensor in first.items() if tensor.std() > 0}
    assert {name for name in first if not torch.equal(first[name], other[name])} == random
    assert all(torch.equal(first[name], again[name]) for name in first)


def test_initial_values_do_not_touch_the_global_generator():
    before = torch.get_rng_state()
    untrained()
    assert torch.equal(torch.get_rng_state(), before)


def assert_uniform(tensor, limit):
    assert 0.97 * limit < tensor.abs().max() <= limit
    assert abs(tensor.mean()) < 0.05 * limit
    assert tensor.std().item() == pytest.approx(limit / math.sqrt(3), rel=0.05)


def assert_normal(tensor, deviation):
    assert tensor.abs().max() > 2.5 * deviation
    assert abs(tensor.mean()) < 0.08 * deviation
    assert tensor.std().item() == pytest.approx(deviation, rel=0.05)
    assert ((tensor.abs() < deviation).double().mean()).item() == pytest.approx(0.683, abs=0.04)


def test_initial_values_are_distributed_as_in_the_original_training():
    bilm = untrained()
    encoder, highway = bilm.encoder, bilm.encoder.highways[0]
    assert_uniform(encoder.table[1:], 1.0)
    assert_normal(highway.carry, 128**-0.5)
    assert_normal(highway.transform, 128**-0.5)
    assert_normal(encoder.projection, 128**-0.5)
    for kernel in encoder.kernels:
        assert_uniform(kernel, 0.05)
    for lstm in (*bilm.lstm_forward, *bilm.lstm_backward):
        assert_uniform(lstm.kernel, math.sqrt(6 / (2 * 48 + 4 * 96)))
        assert_uniform(lstm.projection, math.sqrt(6 / (96 + 48)))


def test_initial_kernels_under_tanh_are_normal():
    for kernel in untrained("tanh").encoder.kernels:
        assert_normal(kernel, (len(kernel) * 16) ** -0.5)


def test_initial_biases_are_zero_but_for_the_carry_gate():
    tensors = untrained().state_dict()
    biases = {name: tensor for name, tensor in tensors.items() if "bias" in name}
    carry = biases.pop("encoder.highways.0.carry_bias")
    assert torch.equal(carry, torch.full((128,), -2.0))
    assert len(biases) == 2 + 1 + 1 + 4
    assert all(torch.equal(tensor, torch.zeros_like(tensor)) for tensor in biases.values())
    assert torch.equal(tensors["encoder.table"][0], torch.zeros(16))


def test_the_initial_word_table_is_normal():
    config = ModelConfig(input=WordInput(words=500), lstm=LstmConfig(cells=8, projection=16))
    assert_normal(BiLM(config).reset(0).encoder.table, 16**-0.5)


CONFIG = LstmConfig(cells=5, projection=3, layers=2)
counts = st.integers(0, 5)
one_or_more = st.integers(1, 5)


def random_state(rows, seed=0):
    generator = torch.Generator().manual_seed(seed)
    zeros = State.zeros(CONFIG, rows, torch.device("cpu"), torch.float64)
    return State(*(torch.randn(part.shape, dtype=part.dtype, generator=generator) for part in zeros))


def same(found, expected):
    return torch.equal(found.h, expected.h) and torch.equal(found.c, expected.c)


def test_zeros_have_directions_layers_rows_and_each_parts_width():
    state = State.zeros(CONFIG, 4, torch.device("cpu"), torch.float64)
    assert state.h.shape == (2, 2, 4, 3)
    assert state.c.shape == (2, 2, 4, 5)
    assert state.rows == 4
    assert not state.h.any()
    assert not state.c.any()
    assert state.h.dtype == state.c.dtype == torch.float64


@settings(deadline=None)
@given(counts, counts)
def test_grow_keeps_the_rows_there_and_adds_zeros_up_to_the_number_asked_for(rows, asked):
    before = random_state(rows)
    after = before.grow(asked)
    assert after.rows == max(rows, asked)
    assert same(after.take(rows), before)
    assert not after.h[:, :, rows:].any()
    assert not after.c[:, :, rows:].any()


@settings(deadline=None)
@given(one_or_more, counts)
def test_replace_exchanges_the_first_rows_and_leaves_the_others(new, others):
    before, first = random_state(new + others), random_state(new, seed=1)
    after = before.replace(first)
    assert after.rows == before.rows
    assert same(after.take(new), first)
    assert same(State(after.h[:, :, new:], after.c[:, :, new:]), State(before.h[:, :, new:], before.c[:, :, new:]))


@settings(deadline=None)
@given(one_or_more)
def test_expand_repeats_the_one_row(rows):
    row = random_state(1)
    assert same(row.expand(rows), State(row.h.repeat(1, 1, rows, 1), row.c.repeat(1, 1, rows, 1)))


def test_grow_and_replace_leave_what_they_are_given_untouched():
    before, first = random_state(2), random_state(1, seed=1)
    before.grow(3).replace(first)
    assert same(before, random_state(2))
    assert same(first, random_state(1, seed=1))


@pytest.mark.parametrize(
    ("depth", "skip", "expected"), [(0, True, 10), (1, True, 13), (2, True, 13), (0, False, 10), (1, False, 10)]
)
def test_from_the_second_layer_on_the_input_is_added_to_the_output(depth, skip, expected):
    assert with_residual(depth, 10, 3, skip) == expected


def test_the_sum_can_be_computed_in_another_way():
    assert with_residual(1, 10, 3, True, max) == 10


def layers_of(bilm):
    ids = word_ids(bilm.config, Vocabulary(tiny.WORDS))
    batch = plain.batch_of_tokens([["the", "bank", "."], ["river"]], ids)
    layers, end = plain.layers(bilm, batch, bilm.zero_state(2))
    return layers, end, torch.arange(layers.shape[2]) < batch.lengths_B[:, None]


NORMED = tiny.CHARS.model_copy(update={"layer_norm": 1e-6})
WITH_OFFSET = {
    "characters": tiny.CONFIG,
    "layer norm": ModelConfig(input=NORMED, lstm=tiny.LSTM),
    "word ids": tiny.WORD_CONFIG,
}
WITHOUT_OFFSET = {
    "F = P": ModelConfig(input=CharInput(embedding=4, filters=((1, 2), (3, 4))), lstm=tiny.LSTM),
    "projected first": ModelConfig(
        input=tiny.CHARS.model_copy(update={"projection": "after_convolution"}), lstm=tiny.LSTM
    ),
    "transformer": tiny.ENCODERS["transformer"],
}


@pytest.mark.parametrize("config", WITH_OFFSET.values(), ids=WITH_OFFSET)
def test_centring_moves_layer_0_and_nothing_else(config):
    bilm, mean = tiny.bilm(config, dtype=torch.float64), torch.randn(6, dtype=torch.float64) * 3
    before, end, inside = layers_of(bilm)
    assert bilm.centre(mean)
    after, end_after, _ = layers_of(bilm)
    torch.testing.assert_close(after[1:], before[1:], rtol=0, atol=1e-12)
    torch.testing.assert_close(end_after, end, rtol=0, atol=1e-12)
    moved = (before[0] - after[0])[inside]
    torch.testing.assert_close(moved, torch.cat([mean, mean]).expand_as(moved), rtol=0, atol=1e-12)


@pytest.mark.parametrize("config", WITHOUT_OFFSET.values(), ids=WITHOUT_OFFSET)
def test_what_cannot_be_centred_is_unchanged(config):
    bilm = tiny.bilm(config)
    before = {name: tensor.clone() for name, tensor in bilm.state_dict().items()}
    assert not bilm.centre(torch.ones(6))
    assert all(torch.equal(tensor, before[name]) for name, tensor in bilm.state_dict().items())
