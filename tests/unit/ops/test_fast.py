"""`ops.fast` against `ops.reference`: values and end state, with clips biting, usual and off, and ragged lengths."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from stelmo.ops import fast, reference
from stelmo.ops.reference import Clips, LstmWeights
from stelmo.text import chars

pytestmark = pytest.mark.usefixtures("each_arithmetic")

LENGTHS = [7, 5, 5, 2, 1]
CLIPS = {"biting": Clips(0.3, 0.2), "usual": Clips(3.0, 3.0), "off": Clips(None, None), "cell": Clips(0.3, None)}
TOLERANCE = {torch.float64: 1e-11, torch.float32: 2e-5}


def random(*shape, dtype=torch.float64, scale=0.6):
    return torch.randn(*shape, dtype=dtype) * scale


def weights(projection, cells, dtype):
    projected = None if projection == cells else random(cells, projection, dtype=dtype)
    return LstmWeights(random(2 * projection, 4 * cells, dtype=dtype), random(4 * cells, dtype=dtype), projected)


def packed(x_BTD, lengths):
    """Step by step, the rows that are that long."""
    return torch.cat([x_BTD[: sum(n > t for n in lengths), t] for t in range(max(lengths))])


def assert_close(found, expected, tolerance):
    assert expected.abs().max() > 0
    assert found.shape == expected.shape
    torch.testing.assert_close(found, expected, atol=tolerance, rtol=tolerance)


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("clips", CLIPS.values(), ids=CLIPS)
@pytest.mark.parametrize(("projection", "cells", "together"), [(6, 10, 4), (6, 10, 1024), (6, 6, 4), (3, 40, 7)])
@pytest.mark.parametrize("ahead", [1, 3, 64])
def test_an_lstm_over_packed_sentences_is_the_reference_s(
    projection, cells, together, clips, dtype, ahead, monkeypatch
):
    monkeypatch.setattr(fast, "TOKENS_TOGETHER", ahead)
    torch.manual_seed(0)
    layers = [weights(projection, cells, dtype) for _ in range(2)]
    x_GBTD = random(2, len(LENGTHS), max(LENGTHS), projection, dtype=dtype)
    h_GBP, c_GBH = (random(2, len(LENGTHS), width, dtype=dtype) for width in (projection, cells))
    expected = [
        (packed(y_BTP, LENGTHS), *ends)
        for y_BTP, *ends in (
            reference.lstm(x_BTD, torch.tensor(LENGTHS), layer, clips, h_BP, c_BH)
            for x_BTD, layer, h_BP, c_BH in zip(x_GBTD, layers, h_GBP, c_GBH, strict=True)
        )
    ]
    sizes = [sum(n > t for n in LENGTHS) for t in range(max(LENGTHS))]
    x_GND = torch.stack([packed(x_BTD, LENGTHS) for x_BTD in x_GBTD])
    both = fast.pack(layers, clips, together)
    for some in (slice(0, 2), slice(0, 1), slice(1, 2)):
        found = fast.lstm(fast.from_outputs(x_GND[some], both.of(some)), sizes, both.of(some), h_GBP[some], c_GBH[some])
        for ours, right in zip(found, zip(*expected[some], strict=True), strict=True):
            assert_close(ours, torch.stack(right), TOLERANCE[dtype])


def test_gates_of_a_table_of_words_are_those_of_the_words():
    torch.manual_seed(0)
    layer = fast.pack([weights(3, 5, torch.float64) for _ in range(2)], CLIPS["usual"], 4)
    x_UD, index_2N = random(6, 3), torch.tensor([[0, 3, 3, 5], [5, 1, 0, 2]])
    start = random(2, 2, 3), random(2, 2, 5)
    of_table = fast.lstm(fast.from_table(fast.gate_tables(x_UD, layer), index_2N), [2, 2], layer, *start)
    of_words = fast.lstm(fast.from_outputs(x_UD[index_2N], layer), [2, 2], layer, *start)
    for ours, right in zip(of_table, of_words, strict=True):
        assert_close(ours, right, 1e-11)


def test_the_start_state_is_left_as_it_was():
    layer = fast.pack([weights(3, 5, torch.float64)], CLIPS["usual"])
    h_GBP, c_GBH = random(1, 2, 3), random(1, 2, 5)
    before = h_GBP.clone(), c_GBH.clone()
    fast.lstm(fast.from_outputs(random(1, 4, 3), layer), [2, 2], layer, h_GBP, c_GBH)
    assert torch.equal(h_GBP, before[0])
    assert torch.equal(c_GBH, before[1])


FILTERS = {"narrow": [(1, 3)], "usual": [(1, 4), (2, 3), (3, 5)], "wide": [(7, 6), (2, 3)], "whole": [(50, 2), (1, 1)]}


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("filters", FILTERS.values(), ids=FILTERS)
@pytest.mark.parametrize("activation", ["relu", "tanh"])
@given(words=st.lists(st.text(max_size=60), min_size=1, max_size=12))
def test_the_convolution_over_the_windows_a_word_can_touch_is_the_whole_one(words, activation, filters, dtype):
    torch.manual_seed(1)
    ids = torch.from_numpy(chars.encode_words(words))
    table = random(chars.ROWS, 4, dtype=dtype)
    kernels = [random(width, 4, count, dtype=dtype) for width, count in filters]
    biases = [random(count, dtype=dtype) for _, count in filters]
    found = fast.char_cnn(ids, table, kernels, biases, activation)
    expected = reference.char_cnn(ids, table, kernels, biases, activation)
    torch.testing.assert_close(found, expected, atol=TOLERANCE[dtype], rtol=TOLERANCE[dtype])


def test_words_of_every_length_in_one_call():
    """More words than are convolved together, up to those that leave no room for padding."""
    torch.manual_seed(2)
    ids = torch.from_numpy(chars.encode_words(["ab" * (number % 31) for number in range(300)]))
    arguments = random(chars.ROWS, 4), [random(5, 4, 6), random(2, 4, 3)], [random(6), random(3)], "relu"
    assert_close(fast.char_cnn(ids, *arguments), reference.char_cnn(ids, *arguments), 1e-11)
