"""GRUs and LSTMs against torch's packed sequences, highway LSTMs against a loop over cells: values, gradients."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.testing import assert_close

from stelmo.tasks import recurrent
from stelmo.tasks.cells import packing
from stelmo.tasks.recurrent import AlternatingLstm, BiRnn

HIDDEN = 4


def network(layers=3, dropout=0.0, width=5):
    torch.manual_seed(0)
    lstm = AlternatingLstm(width, HIDDEN, layers, dropout).double()
    for parameter in lstm.parameters():
        parameter.data.normal_(0, 0.7)
    return lstm


def mask(lengths):
    return torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]


def batch(lengths, width=5):
    mask_BT = mask(lengths)
    x_BTD = torch.randn(*mask_BT.shape, width, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
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


# Both directions


@pytest.mark.parametrize("kind", ["lstm", "gru"])
def test_a_sentence_is_read_alike_whatever_stands_beside_it(kind):
    torch.manual_seed(0)
    rnn, x_BTD = BiRnn(3, 4, kind), torch.randn(3, 5, 3)
    together = rnn(x_BTD, mask([5, 1, 3]))
    for row, length in enumerate((5, 1, 3)):
        alone = rnn(x_BTD[row : row + 1, :length], mask([length]))
        assert_close(together[row, :length], alone[0])
        assert not together[row, length:].any()


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU])
def test_values_and_gradients_are_those_of_packed_sequences(kind):
    torch.manual_seed(0)
    rnn = BiRnn(3, 4, kind.__name__.lower()).double()
    packed = kind(3, 4, bidirectional=True, batch_first=True).double()
    names = {name: (part, name) for name, part in rnn.ahead.named_parameters()}
    names |= {f"{name}_reverse": (part, name) for name, part in rnn.back.named_parameters()}
    packed.load_state_dict({name: part.detach() for name, (part, _) in names.items()})
    x_BTD, lengths = torch.randn(3, 5, 3, dtype=torch.float64, requires_grad=True), torch.tensor([5, 1, 3])
    read, _ = packed(nn.utils.rnn.pack_padded_sequence(x_BTD, lengths, batch_first=True, enforce_sorted=False))
    expected, _ = nn.utils.rnn.pad_packed_sequence(read, batch_first=True)
    found = rnn(x_BTD, mask([5, 1, 3]))
    assert_close(found, expected)
    weight = torch.randn_like(expected)
    (expected * weight).sum().backward()
    expected_dx, x_BTD.grad = x_BTD.grad, None
    (found * weight).sum().backward()
    assert_close(x_BTD.grad, expected_dx)
    for name, parameter in packed.named_parameters():
        assert_close(names[name][0].grad, parameter.grad)


def test_recurrent_matrices_start_orthogonal_gate_by_gate():
    weight = BiRnn(3, 4).ahead.weight_hh_l0
    for gate in torch.split(weight, 4):
        assert_close(gate @ gate.T, torch.eye(4))


@pytest.mark.parametrize("kind", ["lstm", "gru"])
def test_several_texts_at_once_are_read_as_each_alone(kind):
    torch.manual_seed(0)
    rnn, (a_BTD, a_mask_BT), (b_BSD, b_mask_BS) = BiRnn(5, 4, kind).double(), batch([2, 4, 1]), batch([7, 3])
    together = rnn.several([a_BTD, b_BSD], [a_mask_BT, b_mask_BS])
    assert_close(together, [rnn(a_BTD, a_mask_BT), rnn(b_BSD, b_mask_BS)])
    apart = rnn(a_BTD, a_mask_BT).square().sum() + rnn(b_BSD, b_mask_BS).square().sum()
    assert_close(
        gradients(sum(h_BTH.square().sum() for h_BTH in together), *rnn.parameters()),
        gradients(apart, *rnn.parameters()),
    )


def test_a_gru_computes_the_same_as_by_torch_in_single_precision():
    torch.manual_seed(0)
    rnn, x_BTD, mask_BT = BiRnn(6, 8, "gru"), torch.randn(4, 30, 6, requires_grad=True), mask([30, 4, 17, 30])
    found, (expected,) = rnn(x_BTD, mask_BT), rnn._by_torch([x_BTD], [mask_BT])
    assert_close(found, expected)
    weight, everything = torch.randn_like(found), (x_BTD, *rnn.parameters())
    assert_close(
        gradients((found * weight).sum(), *everything),
        gradients((expected * weight).sum(), *everything),
        rtol=1e-4,
        atol=1e-4,
    )


@given(st.lists(st.integers(1, 60), min_size=1, max_size=40), st.booleans())
def test_blocks_have_every_token_once(lengths, whole):
    lengths = sorted(lengths, reverse=True)
    blocks = recurrent._blocks(lengths, whole)
    assert [block.first for block in blocks] == [0, *(block.end for block in blocks[:-1])]
    assert len(blocks) == 1 or not whole
    for row, length in enumerate(lengths):
        assert max(block.end for block in blocks if row < block.rows) >= length


def test_a_few_long_sentences_do_not_lengthen_the_others():
    blocks = recurrent._blocks([200, 60, *[20] * 30], whole=False)
    assert blocks == [(0, 20, 32), (20, 60, 2), (60, 200, 1)]
    assert recurrent._blocks([24, *[20] * 31], whole=False) == [(0, 24, 32)]  # too few steps for a block of their own


@pytest.mark.parametrize("kind", ["lstm", "gru"])
def test_a_sentence_without_words_has_zeros(kind):
    torch.manual_seed(0)
    rnn, (x_BTD, mask_BT) = BiRnn(5, 4, kind), batch([0, 3, 2])
    found = rnn(x_BTD.float(), mask_BT)
    assert not found[0].any()
    assert_close(found[1], rnn(x_BTD[1:2].float(), mask_BT[1:2])[0])


@pytest.mark.parametrize("kind", ["lstm", "gru"])
def test_an_rnn_of_torch_reads_blocks_as_it_reads_each_sentence(kind):
    torch.manual_seed(0)
    rnn, lengths = BiRnn(5, 4, kind).double(), [3, 40, 9, 1, 22, 9, 60, 2]
    x_BTD, mask_BT = batch(lengths)
    x_BTD.requires_grad_()
    assert len(recurrent._blocks(sorted(lengths, reverse=True), whole=False)) > 2
    (found,) = rnn._by_torch([x_BTD], [mask_BT])
    rows = []
    for x_TD, length in zip(x_BTD, lengths, strict=True):
        ahead, _ = rnn.ahead(x_TD[:length, None])
        back, _ = rnn.back(x_TD[:length, None].flip(0))
        rows.append(torch.cat([ahead, back.flip(0)], -1)[:, 0])
    expected = nn.utils.rnn.pad_sequence(rows, batch_first=True)
    assert_close(found, expected)
    weight, everything = torch.randn_like(found), (x_BTD, *rnn.parameters())
    assert_close(gradients((found * weight).sum(), *everything), gradients((expected * weight).sum(), *everything))


# Half precision


def in_both_precisions(rnn):
    """Outputs in single and in half precision, and every gradient of both."""
    x_BTD, mask_BT = torch.randn(4, 12, 6, requires_grad=True), mask([12, 4, 7, 12])
    everything = (x_BTD, *rnn.parameters())
    single = rnn(x_BTD, mask_BT)
    with torch.autocast("cpu", torch.bfloat16):
        half = rnn(x_BTD, mask_BT)
    weight = torch.randn_like(single)
    return single, half, *(gradients((y_BTH.float() * weight).sum(), *everything) for y_BTH in (single, half))


@pytest.mark.parametrize(
    "make",
    [lambda: BiRnn(6, 16, "lstm"), lambda: BiRnn(6, 16, "gru"), lambda: AlternatingLstm(6, 16, 3, 0.0)],
    ids=["lstm", "gru", "highway"],
)
def test_in_half_precision_values_and_gradients_are_those_of_single_precision_to_its_rounding(make):
    torch.manual_seed(0)
    single, half, wanted, found = in_both_precisions(make())
    assert (half - single).abs().max() < 0.02
    for got, want in zip(found, wanted, strict=True):
        assert got.dtype == torch.float32
        assert (got - want).norm() < 0.02 * want.norm()


@pytest.mark.parametrize("make", [lambda: BiRnn(6, 16, "gru"), lambda: AlternatingLstm(6, 16, 3, 0.0)])
def test_layers_computed_by_hand_use_half_precision_where_it_is_asked_for(make):
    torch.manual_seed(0)
    single, half, wanted, found = in_both_precisions(make())
    assert (single.dtype, half.dtype) == (torch.float32, torch.bfloat16)
    assert any(not torch.equal(got, want) for got, want in zip(found, wanted, strict=True))
