"""Runs end to end against the same runs one at a time, in the plainest form; and gradients in double precision."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional as F

from stelmo.ops import runs as along
from stelmo.ops.runs import Runs

LENGTHS = st.lists(st.integers(1, 30), min_size=1, max_size=8)


def random(*shape):
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(sum(shape)))


def plain_attention(qkv_T3D, heads):
    q, k, v = qkv_T3D.view(len(qkv_T3D), 3, heads, -1).permute(1, 2, 0, 3)
    scores = q @ k.transpose(1, 2) / q.shape[-1] ** 0.5
    ahead = torch.ones(scores.shape[1:], dtype=torch.bool).triu(1)
    return (scores.masked_fill(ahead, -torch.inf).softmax(-1) @ v).transpose(0, 1).flatten(1)


def plain_convolution(u_TD, taps_wDO, bias_O, dilation):
    before = (len(taps_wDO) - 1) * dilation
    x_1DT = F.pad(u_TD.t()[None], (before, 0))
    z_TO = F.conv1d(x_1DT, taps_wDO.flip(0).permute(2, 1, 0), bias_O, dilation=dilation)[0].t()
    value, gate = z_TO.chunk(2, 1)
    return value * gate.sigmoid()


@settings(max_examples=40)
@given(LENGTHS)
def test_attention_is_that_of_every_run_alone(lengths):
    qkv = random(sum(lengths), 12)
    expected = torch.cat([plain_attention(part, 2) for part in torch.split(qkv, lengths)])
    torch.testing.assert_close(along.attention(qkv, Runs(lengths), 2), expected, atol=1e-12, rtol=0)


@settings(max_examples=40)
@given(LENGTHS, st.integers(1, 4), st.integers(1, 3))
def test_a_convolution_is_that_of_every_run_alone(lengths, width, dilation):
    u, taps, bias = random(sum(lengths), 3), random(width, 3, 8), random(8)
    parts = [plain_convolution(part, taps, bias, dilation) for part in torch.split(u, lengths)]
    found = along.gated_convolution(u, Runs(lengths), taps, bias, dilation)
    torch.testing.assert_close(found, torch.cat(parts), atol=1e-12, rtol=0)


@settings(max_examples=40)
@given(LENGTHS)
def test_the_other_direction_turns_every_run_around(lengths):
    runs = Runs(lengths)
    order_N, turned = runs.reversed()
    expected = torch.cat([part.flip(0) for part in torch.split(torch.arange(sum(lengths)), lengths)])
    assert order_N.equal(expected)
    assert order_N[order_N].equal(torch.arange(sum(lengths)))
    assert turned.position_N.equal(runs.offset_N[order_N])


@settings(max_examples=40)
@given(LENGTHS)
def test_groups_hold_every_word_once_and_little_padding(lengths):
    groups = Runs(lengths).groups
    assert torch.cat([group.words_n for group in groups]).sort().values.equal(torch.arange(sum(lengths)))
    for group in groups:
        longest = group.words_ST.shape[1]
        assert longest <= along.SHORT or len(group.words_n) > group.words_ST.numel() * 2 // 3


def test_what_stands_before_a_run_is_zero():
    runs, x_ND = Runs([2, 3]), torch.arange(1.0, 6.0)[:, None]
    assert runs.earlier(x_ND, 1)[:, 0].tolist() == [0, 1, 0, 3, 4]
    assert runs.earlier(x_ND, 2)[:, 0].tolist() == [0, 0, 0, 0, 3]
    assert runs.earlier(x_ND, 0) is x_ND


@pytest.mark.parametrize("lengths", [[4], [3, 1, 5]])
def test_gradients_are_right(lengths):
    runs = Runs(lengths)
    qkv = random(sum(lengths), 12).requires_grad_()
    assert torch.autograd.gradcheck(lambda qkv: along.attention(qkv, runs, 2), (qkv,))
    parts = [random(sum(lengths), 2).requires_grad_(), random(3, 2, 4).requires_grad_(), random(4).requires_grad_()]
    assert torch.autograd.gradcheck(lambda u, taps, bias: along.gated_convolution(u, runs, taps, bias, 2), parts)
