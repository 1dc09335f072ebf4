"""The reference against finite differences, against the oracle, and against what it promises."""

import numpy as np
import oracle
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from stelmo.ops import reference

B, T, D, P, H = 3, 4, 3, 2, 5
LENGTHS = torch.tensor([4, 1, 3])
CLIPS = {"biting": (0.6, 0.5), "usual": (3.0, 3.0), "off": (None, None), "cell": (0.6, None), "output": (None, 0.5)}
each_clip = pytest.mark.parametrize("clips", [reference.Clips(*pair) for pair in CLIPS.values()], ids=list(CLIPS))
each_projection = pytest.mark.parametrize("projected", [True, False], ids=["projected", "plain"])


def randoms(seed, *shapes):
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(shape, dtype=torch.float64, generator=generator, requires_grad=True) for shape in shapes]


def lstm_tensors(projected, seed=0, width=D):
    """x, h, c, kernel, bias, and the projection where there is one."""
    out = P if projected else H
    shapes = [(B, T, width), (B, out), (B, H), (width + out, 4 * H), (4 * H,)]
    return randoms(seed, *shapes, *([(H, P)] if projected else []))


def run_lstm(x, h, c, kernel, bias, projection=None, *, clips, lengths=LENGTHS):
    return reference.lstm(x, lengths, reference.LstmWeights(kernel, bias, projection), clips, h, c)


def assert_gradients(function, inputs):
    """Autograd against finite differences, and no input without a gradient."""
    assert torch.autograd.gradcheck(function, inputs, atol=1e-7)
    outputs = function(*inputs)
    total = sum((output**2).sum() for output in (outputs if isinstance(outputs, tuple) else (outputs,)))
    for gradient in torch.autograd.grad(total, inputs):
        assert gradient.abs().max() > 1e-6


def close(found, expected, atol=1e-12):
    expected = np.asarray(expected)
    assert np.abs(expected).max() > 1e-3
    np.testing.assert_allclose(found.detach().numpy(), expected, rtol=0, atol=atol)


# Gradients


@pytest.mark.parametrize("activation", ["relu", "tanh"])
def test_char_cnn_has_the_gradients_of_finite_differences(activation):
    chars = torch.tensor([[1, 2, 3, 4, 4, 4, 4], [1, 5, 4, 4, 4, 4, 4], [2, 2, 3, 5, 6, 1, 3]])
    inputs = randoms(0, (7, 3), (1, 3, 2), (3, 3, 4), (2,), (4,))
    assert_gradients(
        lambda table, k0, k1, b0, b1: reference.char_cnn(chars, table, [k0, k1], [b0, b1], activation), inputs
    )


def test_highway_has_the_gradients_of_finite_differences():
    inputs = randoms(1, (4, 3), (3, 3), (3,), (3, 3), (3,))
    assert_gradients(lambda x, *weights: reference.highway(x, reference.HighwayWeights(*weights)), inputs)


@each_clip
@each_projection
def test_lstm_step_has_the_gradients_of_finite_differences(clips, projected):
    def step(x, h, c, *weights):
        return reference.lstm_step(x[:, 0], h, c, reference.LstmWeights(*weights, *[None] * (3 - len(weights))), clips)

    assert_gradients(step, lstm_tensors(projected))


@each_clip
@each_projection
def test_lstm_over_ragged_rows_has_the_gradients_of_finite_differences(clips, projected):
    assert_gradients(lambda *inputs: run_lstm(*inputs, clips=clips), lstm_tensors(projected))


def test_mix_has_the_gradients_of_finite_differences():
    assert_gradients(reference.mix, randoms(2, (3, 2, 2, 4), (3,), ()))


@pytest.mark.parametrize("by_sentence", [False, True])
def test_layer_norm_has_the_gradients_of_finite_differences(by_sentence):
    mask = torch.tensor([[True, True, True], [True, False, False]])
    assert_gradients(lambda x: reference.layer_norm(x, mask, 1e-12, by_sentence) ** 3, randoms(3, (2, 2, 3, 4)))


# The oracle


@pytest.mark.parametrize("activation", ["relu", "tanh"])
@pytest.mark.parametrize("filters", [((1, 4),), ((2, 3), (1, 2), (5, 4)), ((7, 6),)], ids=str)
def test_char_cnn_agrees_with_the_oracle(activation, filters):
    options = oracle.options(filters=filters, characters=7, activation=activation)
    arrays = oracle.random_weights(options)
    words = ["", "a", "bank", "naïve", "straße-lang", "<S>", "</S>", "🙂"]
    chars = torch.tensor([oracle.raw_ids(word, 7) for word in words])
    kernels = [torch.tensor(arrays[f"CNN/W_cnn_{number}"][0]) for number in range(len(filters))]
    biases = [torch.tensor(arrays[f"CNN/b_cnn_{number}"]) for number in range(len(filters))]
    found = reference.char_cnn(chars, torch.tensor(arrays["char_embed"]), kernels, biases, activation)
    close(found, [oracle.convolved(options, arrays, word) for word in words])


def test_highway_agrees_with_the_oracle():
    x, *weights = randoms(4, (5, 3), (3, 3), (3,), (3, 3), (3,))
    found = reference.highway(x, reference.HighwayWeights(*weights))
    close(found, [oracle.highway(row, *(w.detach().numpy() for w in weights)) for row in x.detach().numpy()])


@each_clip
@each_projection
def test_lstm_agrees_with_the_oracle_row_by_row(clips, projected):
    tensors = lstm_tensors(projected, seed=5)
    outputs, end_h, end_c = run_lstm(*tensors, clips=clips)
    x, h, c, *weights = (tensor.detach().numpy() for tensor in tensors)
    weights += [None] * (3 - len(weights))
    for row, length in enumerate(LENGTHS.tolist()):
        expected = oracle.lstm(x[row, :length], h[row], c[row], *weights, *clips)
        close(outputs[row, :length], expected[0])
        close(end_h[row], expected[1])
        close(end_c[row], expected[2])


def test_the_clips_called_biting_bite_here_and_there():
    outputs, _, cells = run_lstm(*lstm_tensors(True), clips=reference.Clips(*CLIPS["biting"]))
    assert 0.1 < (outputs.abs() == 0.5).double().mean() < 0.9
    assert 0.1 < (cells.abs() == 0.6).double().mean() < 0.9


def test_a_plain_lstm_has_no_projection_clip():
    clipped, free = (run_lstm(*lstm_tensors(False), clips=reference.Clips(0.3, limit)) for limit in (0.01, None))
    assert clipped[0].abs().max() > 0.01
    assert torch.equal(clipped[0], free[0])


def test_mix_agrees_with_the_oracle():
    layers, logits, scale = randoms(6, (3, 2, 4, 5), (3,), ())
    expected = oracle.mix(*(part.detach().numpy() for part in (layers, logits, scale)))
    close(reference.mix(layers, logits, scale), expected)


def test_layer_norm_agrees_with_the_oracle_on_the_tokens_that_count():
    (layers,) = randoms(7, (3, 2, 4, 5))
    mask = torch.tensor([[True, True, True, True], [True, True, False, False]])
    found = reference.layer_norm(layers * 3 + 2, mask, 1e-13)
    batch = [layers[:, 0] * 3 + 2, layers[:, 1, :2] * 3 + 2]
    first, second = oracle.layer_norm_allennlp([sentence.detach().numpy() for sentence in batch])
    close(found[:, 0], first)
    close(found[:, 1, :2], second)


# Promises


@st.composite
def ragged(draw):
    """Seed, lengths of some rows, positions of padding behind the longest."""
    lengths = draw(st.lists(st.integers(1, 6), min_size=1, max_size=4))
    return draw(st.integers(0, 999)), torch.tensor(lengths), draw(st.integers(0, 3))


def ragged_lstm(seed, lengths, extra):
    rows, longest = len(lengths), int(lengths.max())
    shapes = [(rows, longest + extra, D), (rows, P), (rows, H), (D + P, 4 * H), (4 * H,), (H, P)]
    return [tensor.detach() for tensor in randoms(seed, *shapes)]


@settings(deadline=None, max_examples=40)
@given(ragged(), st.integers(0, 6), st.sampled_from(list(CLIPS.values())))
def test_splitting_a_sequence_and_passing_the_state_changes_nothing(case, cut, limits):
    x, h, c, *weights = ragged_lstm(*case)
    clips, (_, lengths, _), cut = reference.Clips(*limits), case, min(cut, x.shape[1] - 1)
    whole = run_lstm(x, h, c, *weights, clips=clips, lengths=lengths)
    head = run_lstm(x[:, : cut + 1], h, c, *weights, clips=clips, lengths=lengths)
    padded = torch.nn.functional.pad(x[:, cut + 1 :], (0, 0, 0, 1))
    tail = run_lstm(padded, *head[1:], *weights, clips=clips, lengths=(lengths - cut - 1).clamp(min=0))
    assert whole[0].abs().max() > 1e-3
    torch.testing.assert_close(torch.cat([head[0], tail[0][:, :-1]], 1), whole[0], rtol=0, atol=1e-12)
    torch.testing.assert_close(tail[1:], whole[1:], rtol=0, atol=1e-12)


@settings(deadline=None, max_examples=40)
@given(ragged(), st.floats(-1e6, 1e6))
def test_what_stands_in_the_padding_changes_nothing(case, garbage):
    x, *rest = ragged_lstm(*case)
    inside = torch.arange(x.shape[1])[None, :, None] < case[1][:, None, None]
    clips = reference.Clips(0.6, 0.5)
    found = run_lstm(torch.where(inside, x, garbage), *rest, clips=clips, lengths=case[1])
    expected = run_lstm(x[:, : case[1].max()], *rest, clips=clips, lengths=case[1])
    torch.testing.assert_close(found[0][:, : case[1].max()], expected[0], rtol=0, atol=1e-12)
    torch.testing.assert_close(found[1:], expected[1:], rtol=0, atol=1e-12)


@settings(deadline=None, max_examples=40)
@given(ragged())
def test_outputs_past_a_rows_length_are_zero_and_those_within_are_not(case):
    outputs, _, _ = run_lstm(*ragged_lstm(*case), clips=reference.Clips(3.0, 3.0), lengths=case[1])
    inside = torch.arange(outputs.shape[1]) < case[1][:, None]
    assert torch.equal(outputs.abs().sum(-1) > 0, inside)


@settings(deadline=None, max_examples=40)
@given(ragged())
def test_a_rows_end_state_is_its_last_output(case):
    outputs, end, _ = run_lstm(*ragged_lstm(*case), clips=reference.Clips(3.0, 3.0), lengths=case[1])
    assert torch.equal(outputs[torch.arange(len(outputs)), case[1] - 1], end)


@settings(deadline=None, max_examples=40)
@given(ragged())
def test_reverse_turns_each_row_within_its_length_and_twice_changes_nothing(case):
    x, lengths = ragged_lstm(*case)[0], case[1]
    turned = reference.reverse(x, lengths)
    for row, length in enumerate(lengths.tolist()):
        assert torch.equal(turned[row, :length], x[row, :length].flip(0))
        assert torch.equal(turned[row, length:], x[row, length:])
    assert torch.equal(reference.reverse(turned, lengths), x)
