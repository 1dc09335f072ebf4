"""The alternating highway LSTM against one cell after the other, in values and in every gradient."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.testing import assert_close

from stelmo.tasks.srl.lstm import AlternatingLstm, packing

HIDDEN = 4


def network(layers=3, dropout=0.0, width=5):
    torch.manual_seed(0)
    lstm = AlternatingLstm(width, HIDDEN, layers, dropout).double()
    for parameter in lstm.parameters():
        parameter.data.normal_(0, 0.7)
    return lstm


def batch(lengths, width=5):
    longest = max(lengths)
    mask_BT = torch.arange(longest) < torch.tensor(lengths)[:, None]
    x_BTD = torch.randn(len(lengths), longest, width, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    return x_BTD, mask_BT


def cell(layer, x_D, h_H, c_H, keep_H):
    read = x_D @ layer.kernel + layer.bias
    i, f, o, r, j = (read[: 5 * HIDDEN] + h_H @ layer.state).chunk(5)
    c_H = f.sigmoid() * c_H + i.sigmoid() * j.tanh()
    r = r.sigmoid()
    return keep_H * (r * o.sigmoid() * c_H.tanh() + (1 - r) * read[5 * HIDDEN :]), c_H


def one_by_one(lstm, x_TD, keeps_LH):
    """A sentence without padding through all layers."""
    words = list(x_TD)
    for number, (layer, keep_H) in enumerate(zip(lstm.layers, keeps_LH, strict=True)):
        order = range(len(words)) if number % 2 == 0 else reversed(range(len(words)))
        h_H, c_H = x_TD.new_zeros(2, HIDDEN)
        outputs = {}
        for place in order:
            h_H, c_H = cell(layer, words[place], h_H, c_H, keep_H)
            outputs[place] = h_H
        words = [outputs[place] for place in range(len(words))]
    return torch.stack(words)


def gradients(loss, *tensors):
    return torch.autograd.grad(loss, tensors)


@pytest.mark.parametrize("layers", [1, 2, 5])
@pytest.mark.parametrize("lengths", [[1], [3, 6, 1, 6], [2, 2]], ids=str)
def test_it_is_a_loop_over_cells_with_odd_layers_backwards(lengths, layers):
    lstm, (x_BTD, mask_BT) = network(layers), batch(lengths)
    x_BTD.requires_grad_()
    y_BTH = lstm(x_BTD, mask_BT)
    keeps_LH = x_BTD.new_ones(layers, HIDDEN)
    expected = [one_by_one(lstm, x_TD[:length], keeps_LH) for x_TD, length in zip(x_BTD, lengths, strict=True)]
    assert_close(y_BTH[mask_BT], torch.cat(expected))
    weight = torch.randn_like(y_BTH[mask_BT])
    everything = x_BTD, *lstm.parameters()
    assert_close(
        gradients((y_BTH[mask_BT] * weight).sum(), *everything),
        gradients((torch.cat(expected) * weight).sum(), *everything),
    )


def test_dropout_is_one_mask_a_sentence_and_layer(monkeypatch):
    lstm, (x_BTD, mask_BT) = network(2, dropout=0.5), batch([2, 4])
    drawn = []
    monkeypatch.setattr(
        lstm, "_mask", lambda h, rows: drawn.append((torch.rand(rows, HIDDEN) * 2).double()) or drawn[-1]
    )
    y_BTH = lstm(x_BTD, mask_BT)
    longest_first = [torch.stack([mask_BH[row] for mask_BH in drawn]) for row in range(2)]
    expected = [one_by_one(lstm, x_BTD[1], longest_first[0]), one_by_one(lstm, x_BTD[0, :2], longest_first[1])]
    everything = list(lstm.parameters())
    assert_close(y_BTH[1], expected[0])
    assert_close(y_BTH[0, :2], expected[1])
    assert_close(
        gradients(y_BTH.square().sum(), *everything),
        gradients(torch.cat(expected).square().sum(), *everything),
    )


def test_dropout_keeps_the_mean_and_is_off_when_not_training():
    lstm = network(dropout=0.25)
    mask_BH = lstm._mask(torch.empty(0, dtype=torch.float64), 20_000)
    assert set(mask_BH.unique().tolist()) == {0.0, 1 / 0.75}
    assert mask_BH.mean() == pytest.approx(1.0, abs=0.02)
    assert lstm.eval()._mask(torch.empty(0), 3) is None


@settings(deadline=None, max_examples=20)
@given(st.lists(st.integers(1, 7), min_size=1, max_size=5), st.integers(0, 4))
def test_padding_and_company_change_nothing(lengths, more):
    lstm, (x_BTD, mask_BT) = network(), batch(lengths)
    padding = x_BTD.new_full((len(lengths), more, 5), torch.nan)
    wide = lstm(torch.cat([x_BTD, padding], 1), torch.cat([mask_BT, mask_BT.new_zeros(len(lengths), more)], 1))
    assert not wide[:, mask_BT.shape[1] :].any()
    for row, length in enumerate(lengths):
        assert_close(wide[row, :length], lstm(x_BTD[row : row + 1, :length], mask_BT[row : row + 1, :length])[0])
        assert not wide[row, length:].any()


def test_an_odd_layer_sees_only_what_follows():
    lstm, (x_BTD, mask_BT) = network(1), batch([5])
    x_BTD.requires_grad_()
    (first,) = gradients(lstm(x_BTD, mask_BT)[0, 2].sum(), x_BTD)
    assert first[0, :3].any(1).all()
    assert not first[0, 3:].any()
    lstm = network(2, width=5)
    lstm.layers[0].state.data.zero_()
    lstm.layers[0].bias.data[HIDDEN : 2 * HIDDEN] = -1e9  # the first layer neither reads nor remembers other words
    (second,) = gradients(lstm(x_BTD, mask_BT)[0, 2].sum(), x_BTD)
    assert second[0, 2:].any(1).all()
    assert not second[0, :2].any()


def test_a_mirror_turns_each_sentence_round_by_itself():
    packed = packing(torch.arange(4) < torch.tensor([2, 4, 1])[:, None])
    assert packed.sizes == [3, 2, 1, 1]
    rows = torch.arange(12)[packed.rows_N]
    assert rows.tolist() == [4, 0, 8, 5, 1, 6, 7]
    assert rows[packed.mirror_N].tolist() == [7, 1, 8, 6, 0, 5, 4]
    assert rows[packed.before_N].tolist() == [4, 0, 5, 6]
