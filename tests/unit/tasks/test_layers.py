"""Layers of several tasks, against plain loops; padding changes nothing."""

import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from stelmo.tasks.layers import (
    CharCnn,
    Trilinear,
    VariationalDropout,
    characters_of,
    masked_max,
    masked_mean,
    masked_softmax,
)


def mask(*lengths: int) -> torch.Tensor:
    return torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]


def test_one_mask_holds_for_all_tokens_of_a_sentence():
    torch.manual_seed(0)
    dropped = VariationalDropout(0.5)(torch.ones(8, 6, 16))
    assert ((dropped == 0) | (dropped == 2)).all()
    assert torch.equal(dropped, dropped[:, :1].expand_as(dropped))
    assert 0.3 < (dropped == 0).float().mean() < 0.7
    assert torch.equal(VariationalDropout(0.5).eval()(dropped), dropped)


def test_trilinear_scores_are_those_of_every_pair():
    torch.manual_seed(0)
    layer, a, b = Trilinear(4), torch.randn(2, 3, 4), torch.randn(2, 5, 4)
    weight = torch.cat([layer.first.weight[0], layer.second.weight[0], layer.product_D])
    scores = layer(a, b)
    for row, t, s in [(0, 0, 0), (1, 2, 4), (0, 1, 3)]:
        pair = torch.cat([a[row, t], b[row, s], a[row, t] * b[row, s]])
        torch.testing.assert_close(scores[row, t, s], weight @ pair)


def test_shares_sum_to_one_over_what_is_let_in_and_to_nothing_without_it():
    shares = masked_softmax(torch.randn(3, 4), torch.tensor([[1, 1, 0, 1], [1, 0, 0, 0], [0, 0, 0, 0]]).bool())
    torch.testing.assert_close(shares.sum(1), torch.tensor([1.0, 1.0, 0.0]))
    assert shares[0, 2] == 0
    assert shares[1, 0] == 1


def test_pooling_sees_real_tokens_alone():
    x_BTD = torch.tensor([[[1.0], [-3.0], [100.0]]])
    assert masked_max(x_BTD, mask(2, 3)[:1]).item() == 1.0
    assert masked_mean(x_BTD, mask(2, 3)[:1]).item() == -1.0


@given(st.lists(st.lists(st.text("abcxyzü", min_size=1, max_size=9), min_size=1, max_size=4), min_size=1, max_size=4))
def test_a_word_has_one_vector_of_letters_wherever_it_stands(sentences):
    torch.manual_seed(0)
    network = CharCnn("abcxyz", 3, [(2, 4), (3, 2)], max_characters=6)
    found = network(sentences)
    for row, sentence in enumerate(sentences):
        for place, word in enumerate(sentence):
            torch.testing.assert_close(found[row, place], network([[word]])[0, 0])
        assert not found[row, len(sentence) :].any()


def test_letters_that_training_lacked_are_one_unknown_letter():
    network = CharCnn("ab", 3, [(2, 4)])
    first, second, third = network([["aq", "aü", "ab"]])[0]
    assert torch.equal(first, second)
    assert not torch.equal(first, third)


def test_the_convolution_is_the_strongest_of_all_windows():
    network = CharCnn("ab", 2, [(2, 3)], max_characters=4)
    convolution = network.convolutions[0]
    ids = network._ids_of("aba")
    padded = nn.functional.pad(network.table(torch.tensor(ids)), (0, 0, 1, 1))
    windows = [padded[start : start + 2].T.flatten() for start in range(5)]
    by_hand = torch.stack([convolution.weight.flatten(1) @ w + convolution.bias for w in windows]).amax(0).relu()
    torch.testing.assert_close(network([["aba"]])[0, 0], by_hand)


def test_characters_are_counted_over_all_words():
    assert characters_of([["ab", "b"], ["c"]]) == ["a", "b", "c"]
    assert characters_of([["ab", "b"], ["c"]], minimum=2) == ["b"]
