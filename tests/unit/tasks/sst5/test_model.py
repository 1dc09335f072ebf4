"""The biattentive network: its attention and pooling against loops; learns, and reads every placement of ELMo."""

import pytest
import tiny
import torch
from torch.testing import assert_close

from stelmo.embed.elmo import Elmo
from stelmo.tasks.sst5.data import Example
from stelmo.tasks.sst5.model import SIZES, Net, Size, compared, inventory, sentences
from stelmo.tasks.words import StaticTable, WordReader, places

SMALL = Size(
    word_dropout=0.0,
    projected=10,
    projected_dropout=0.0,
    hidden=6,
    pooled_dropout=0.0,
    classifier=((16, 0.0), (8, 0.0)),
)
EIGHT = [
    Example(tuple(text.split()), label, "f:1")
    for text, label in (
        ("It simply shines .", 4),
        ("( dull )", 0),
        ("so-so", 2),
        ("the bank was a river", 3),
        ("not the worst", 1),
        ("the worst", 0),
        ("a film of the bank , for the bank , by the bank .", 2),
        ("über", 4),
    )
]


def net(placement="none", size=SMALL):
    torch.manual_seed(0)
    words = ["the", "bank", "river", ".", "worst", "so-so"]
    static = StaticTable(words, torch.randn(len(words), 5), tuned=True)
    elmo = None if placement == "none" else Elmo(tiny.model(), outputs=len(places(placement)), dropout=0.0)
    return Net(WordReader(static, elmo, placement), inventory(EIGHT, size), size)


def ragged(lengths=(4, 1, 3), width=5):
    generator = torch.Generator().manual_seed(1)
    h_BTD = torch.randn(len(lengths), max(lengths), width, generator=generator, dtype=torch.float64)
    return h_BTD, torch.arange(max(lengths)) < torch.tensor(lengths)[:, None], lengths


def test_every_token_is_compared_with_what_it_attends_to():
    x_BTD, mask_BT, lengths = ragged()
    keys_BTH = x_BTD[:, :, :3] * 0.7
    found = compared(x_BTD, keys_BTH, mask_BT)
    for b, length in enumerate(lengths):
        for t in range(length):
            shares_T = torch.stack([(keys_BTH[b, t] * keys_BTH[b, s]).sum() for s in range(length)]).exp()
            context_D = sum(share / shares_T.sum() * x_BTD[b, s] for s, share in enumerate(shares_T))
            own_D = x_BTD[b, t]
            assert_close(found[b, t], torch.cat([own_D, own_D - context_D, own_D * context_D]))


def test_the_pooled_sentence_is_its_highest_lowest_mean_and_weighted_mean():
    bcn = net().double()
    h_BTD, mask_BT, lengths = ragged(width=12)
    found = bcn._pooled(h_BTD, mask_BT)
    for row_D, h_TD, length in zip(found, h_BTD, lengths, strict=True):
        real_TD = h_TD[:length]
        weights_T = torch.stack([bcn.weigh.weight[0] @ token for token in real_TD]).softmax(0)
        weighted_D = sum(weight * token for weight, token in zip(weights_T, real_TD, strict=True))
        assert_close(row_D, torch.cat([real_TD.amax(0), real_TD.amin(0), real_TD.mean(0), weighted_D]))


def test_it_learns_eight_sentences_by_heart():
    bcn = net()
    optimizer = torch.optim.Adam(bcn.parameters(), 0.02)
    for _ in range(60):
        optimizer.zero_grad()
        bcn.loss(EIGHT).backward()
        optimizer.step()
    assert bcn.eval().predict(EIGHT) == [example.label for example in EIGHT]


@pytest.mark.parametrize("placement", ["none", "input", "output", "both"])
def test_the_gradient_reaches_every_parameter(placement):
    bcn = net(placement)
    bcn.loss(EIGHT).backward()
    learned = {name: parameter for name, parameter in bcn.named_parameters() if parameter.requires_grad}
    assert {name for name, parameter in learned.items() if parameter.grad is None or not parameter.grad.any()} == set()


def test_padding_changes_neither_loss_nor_labels():
    bcn = net("both").double().eval()
    assert bcn.predict(EIGHT) == [bcn.predict([one])[0] for one in EIGHT]
    assert_close(bcn.loss(EIGHT), torch.stack([bcn.loss([one]) for one in EIGHT]).mean())


def test_every_size_makes_a_network_that_trains():
    for size in SIZES.values():
        assert net("both", size).train().loss(EIGHT[:3]).isfinite()


def test_words_are_asked_for_as_they_are_precomputed():
    asked = []
    bcn = net()
    bcn.words.register_forward_pre_hook(lambda _, given: asked.extend(given[0]))
    bcn.predict(EIGHT)
    assert asked == [sentence for one in EIGHT for sentence in sentences(one)]
