"""`ops.trainable` against autograd through `ops.reference`: values, end state and every gradient."""

import pytest
import torch

from stelmo.ops import reference, trainable
from stelmo.ops.reference import Clips, LstmWeights
from stelmo.text import chars

pytestmark = pytest.mark.usefixtures("each_arithmetic")

CLIPS = {"biting": Clips(0.3, 0.2), "usual": Clips(3.0, 3.0), "off": Clips(None, None), "cell": Clips(0.3, None)}
TOLERANCE = {torch.float64: 1e-10, torch.float32: 2e-5}
STEPS, ROWS = 6, 5


def random(*shape, dtype=torch.float64, scale=0.6):
    return torch.randn(*shape, dtype=dtype) * scale


def assert_close(found, expected, tolerance):
    assert expected.abs().max() > 0
    assert found.shape == expected.shape
    assert (found - expected).norm() <= tolerance * expected.norm()


def layer(inputs, projection, cells, dtype):
    projected = None if projection == cells else random(cells, projection, dtype=dtype)
    kernel = random(inputs + projection, 4 * cells, dtype=dtype)
    return LstmWeights(kernel, random(4 * cells, dtype=dtype), projected)


def unrolled(x_TBD, weights, clips, h_BP, c_BH):
    outputs = []
    for x_BD in x_TBD:
        h_BP, c_BH = reference.lstm_step(x_BD, h_BP, c_BH, weights, clips)
        outputs.append(h_BP)
    return torch.stack(outputs), h_BP, c_BH


def gradients(output, leaves):
    slope = torch.linspace(-1, 2, output.numel(), dtype=output.dtype).view_as(output)
    return torch.autograd.grad(output, leaves, slope)


def compared(run, x_TBD, weights, clips, start):
    leaves = [leaf.clone().requires_grad_() for leaf in (x_TBD, *weights) if leaf is not None]
    y_TBP, *ends = run(leaves[0], LstmWeights(*leaves[1:], *[None] * (4 - len(leaves))), clips, *start)
    return [y_TBP, *ends, *gradients(y_TBP, leaves)]


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("clips", CLIPS.values(), ids=CLIPS)
@pytest.mark.parametrize(("inputs", "projection", "cells"), [(4, 4, 9), (4, 4, 4), (3, 5, 8)])
def test_an_lstm_and_its_gradients_are_the_reference_s(inputs, projection, cells, clips, dtype):
    torch.manual_seed(0)
    arguments = random(STEPS, ROWS, inputs, dtype=dtype), layer(inputs, projection, cells, dtype), clips
    start = random(ROWS, projection, dtype=dtype), random(ROWS, cells, dtype=dtype)
    expected = compared(unrolled, *arguments, start)
    for found, right in zip(compared(trainable.lstm, *arguments, start), expected, strict=True):
        assert_close(found, right, TOLERANCE[dtype])


LENGTHS = {"different": [3, 6, 1, 4, 2], "equal": [6] * 5, "with padding alone at the end": [2, 1, 2, 1, 1]}


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("clips", CLIPS.values(), ids=CLIPS)
@pytest.mark.parametrize("lengths", LENGTHS.values(), ids=LENGTHS)
@pytest.mark.parametrize(("inputs", "projection", "cells"), [(4, 4, 9), (4, 4, 4)])
def test_an_lstm_over_sentences_and_its_gradients_are_the_reference_s(inputs, projection, cells, lengths, clips, dtype):
    torch.manual_seed(0)
    arguments = random(ROWS, STEPS, inputs, dtype=dtype), layer(inputs, projection, cells, dtype), clips
    start = random(ROWS, projection, dtype=dtype), random(ROWS, cells, dtype=dtype)

    def over_sentences(lstm):
        return lambda x_BTD, *others: lstm(x_BTD, torch.tensor(lengths), *others)

    expected = compared(over_sentences(reference.lstm), *arguments, start)
    found = compared(over_sentences(trainable.padded_lstm), *arguments, start)
    for one, right in zip(found, expected, strict=True):
        assert_close(one, right, TOLERANCE[dtype])
    past_end = torch.arange(STEPS) >= torch.tensor(lengths)[:, None]
    assert not found[0][past_end].any()


def test_the_clips_of_the_test_bite():
    torch.manual_seed(0)
    x_TBD, weights = random(STEPS, ROWS, 4), layer(4, 4, 9, torch.float64)
    start = random(ROWS, 4), random(ROWS, 9)
    bitten, free = (unrolled(x_TBD, weights, CLIPS[name], *start) for name in ("biting", "off"))
    assert 0 < (bitten[0].abs() == 0.2).double().mean() < 1
    assert 0 < (bitten[2].abs() == 0.3).double().mean() < 1
    assert (bitten[0] - free[0]).abs().max() > 0.1


def test_memory_is_used_again_and_the_numbers_do_not_notice():
    torch.manual_seed(0)
    buffers = trainable.Buffers()

    def again(*arguments):
        return trainable.lstm(*arguments, buffers)

    for rows in (ROWS, ROWS, 2):
        arguments = random(STEPS, rows, 4), layer(4, 4, 9, torch.float64), CLIPS["biting"]
        start = random(rows, 4), random(rows, 9)
        for found, right in zip(compared(again, *arguments, start), compared(unrolled, *arguments, start), strict=True):
            assert_close(found, right, 1e-10)
    assert buffers.take("gates", start[0], STEPS, 2, 36) is buffers.take("gates", start[0], STEPS, 2, 36)


def test_a_buffer_overwritten_before_its_way_back_is_noticed():
    buffers = trainable.Buffers()
    weights = layer(4, 4, 9, torch.float64)
    x_TBD = random(STEPS, ROWS, 4).requires_grad_()
    first, _, _ = trainable.lstm(x_TBD, weights, CLIPS["off"], random(ROWS, 4), random(ROWS, 9), buffers)
    trainable.lstm(x_TBD, weights, CLIPS["off"], random(ROWS, 4), random(ROWS, 9), buffers)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        first.sum().backward()


FILTERS = {"narrow": [(1, 3)], "usual": [(1, 4), (2, 3), (3, 5)], "wide": [(7, 6), (2, 3)], "whole": [(50, 2), (1, 1)]}
WORDS = {
    "short": ["a", "of", "", "the", "river", "<S>", "</S>", "aaaaaaaa", "日本"],
    "long": ["ab" * 30, "x" * 48, "y" * 44, "z" * 43, "the"],
    "many": ["ab" * (number % 29) + str(number) for number in range(90)],
}


def convolved(run, ids, table, kernels, biases, activation):
    leaves = [leaf.clone().requires_grad_() for leaf in (table, *kernels, *biases)]
    count = len(kernels)
    x_UF = run(ids, leaves[0], leaves[1 : 1 + count], leaves[1 + count :], activation)
    return [x_UF, *gradients(x_UF, leaves)]


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("words", WORDS.values(), ids=WORDS)
@pytest.mark.parametrize("filters", FILTERS.values(), ids=FILTERS)
@pytest.mark.parametrize("activation", ["relu", "tanh"])
def test_a_convolution_and_its_gradients_are_the_reference_s(activation, filters, words, dtype):
    torch.manual_seed(1)
    ids = torch.from_numpy(chars.encode_words(words))
    kernels = [random(width, 4, count, dtype=dtype) for width, count in filters]
    arguments = ids, random(chars.ROWS, 4, dtype=dtype), kernels, [random(n, dtype=dtype) for _, n in filters]
    expected = convolved(reference.char_cnn, *arguments, activation)
    for found, right in zip(convolved(trainable.char_cnn, *arguments, activation), expected, strict=True):
        assert_close(found, right, TOLERANCE[dtype])


def test_where_windows_are_alike_the_gradient_is_counted_once():
    ids = torch.from_numpy(chars.encode_words(["aaaaaaaaaaaa"]))
    table = torch.zeros(chars.ROWS, 2, dtype=torch.float64)
    table[ord("a") + 1] = torch.tensor([1.0, 2.0])
    kernel = torch.ones(3, 2, 1, dtype=torch.float64)
    arguments = ids, table, [kernel], [torch.zeros(1, dtype=torch.float64)], "tanh"
    expected = convolved(reference.char_cnn, *arguments)
    for found, right in zip(convolved(trainable.char_cnn, *arguments)[1:3], expected[1:3], strict=True):
        assert_close(found, right, 1e-10)
