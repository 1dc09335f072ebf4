"""ESIM: its alignment against a loop; learns, and reads every placement of ELMo."""

import pytest
import tiny
import torch
from torch.testing import assert_close

from stelmo.embed.elmo import Elmo
from stelmo.tasks.snli.data import LABELS, Example
from stelmo.tasks.snli.model import SIZES, Net, Size, aligned, inventory, sentences
from stelmo.tasks.words import StaticTable, WordReader, places

SMALL = Size(hidden=6, dropout=0.0, attention_dropout=0.0)
EIGHT = [
    Example(tuple(premise.split()), tuple(hypothesis.split()), LABELS[label], str(label), "f:1")
    for premise, hypothesis, label in (
        ("the river is a river .", "it is a river", 0),
        ("the bank", "the river", 2),
        ("a bank by the river", "the bank sleeps .", 1),
        ("über", "über", 0),
        ("the dog sleeps", "the dog runs by the bank of the long river .", 2),
        ("the dog runs", "a dog is happy", 1),
        ("dog", "cat", 2),
        ("a dog and a cat and the bank .", "cat", 0),
    )
]


def net(placement="none", size=SMALL, layer_norm=False):
    torch.manual_seed(0)
    words = ["the", "bank", "river", ".", "dog", "cat"]
    static = StaticTable(words, torch.randn(len(words), 5), tuned=True)
    outputs = len(places(placement))
    elmo = None if placement == "none" else Elmo(tiny.model(), outputs, dropout=0.0, layer_norm=layer_norm)
    return Net(WordReader(static, elmo, placement), inventory(EIGHT, size), size)


def ragged(lengths, seed):
    generator = torch.Generator().manual_seed(seed)
    x_BTD = torch.randn(len(lengths), max(lengths), 5, generator=generator, dtype=torch.float64)
    return x_BTD, torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]


def weighted(word_D, other_SD):
    shares_S = torch.stack([word_D @ other_D for other_D in other_SD]).softmax(0)
    return sum(share * other_D for share, other_D in zip(shares_S, other_SD, strict=True))


def test_every_word_gets_the_words_of_the_other_sentence_by_their_likeness():
    (a_BTD, a_mask_BT), (b_BSD, b_mask_BS) = ragged([4, 1, 3], 1), ragged([2, 5, 1], 2)
    for_a_BTD, for_b_BSD = aligned(a_BTD, a_mask_BT, b_BSD, b_mask_BS)
    for row in range(3):
        a_TD, b_SD = a_BTD[row][a_mask_BT[row]], b_BSD[row][b_mask_BS[row]]
        assert_close(for_a_BTD[row][a_mask_BT[row]], torch.stack([weighted(word_D, b_SD) for word_D in a_TD]))
        assert_close(for_b_BSD[row][b_mask_BS[row]], torch.stack([weighted(word_D, a_TD) for word_D in b_SD]))


def test_a_sentence_is_pooled_by_its_mean_and_its_strongest():
    esim = net().double()
    composed = []
    esim.composition.register_forward_hook(lambda _, __, h_BTH: composed.append(h_BTH))
    (h_BTD, mask_BT), (other_BTD, _) = ragged([4, 1, 3], 1), ragged([4, 1, 3], 2)
    wide = [torch.cat([x_BTD, x_BTD, x_BTD[:, :, :2]], -1) for x_BTD in (h_BTD, other_BTD)]
    pooled_BH = esim._composed(*wide, mask_BT)
    for row_H, h_TH, mask_T in zip(pooled_BH, composed[0], mask_BT, strict=True):
        assert_close(row_H, torch.cat([h_TH[mask_T].mean(0), h_TH[mask_T].amax(0)]))


def test_it_learns_eight_pairs_by_heart():
    esim = net()
    optimizer = torch.optim.Adam(esim.parameters(), 0.02)
    for _ in range(60):
        optimizer.zero_grad()
        esim.loss(EIGHT).backward()
        optimizer.step()
    assert esim.eval().predict(EIGHT) == [example.label for example in EIGHT]


@pytest.mark.parametrize("placement", ["none", "input", "output", "both"])
def test_the_gradient_reaches_every_parameter(placement):
    esim = net(placement, layer_norm=True)
    esim.loss(EIGHT).backward()
    learned = {name: parameter for name, parameter in esim.named_parameters() if parameter.requires_grad}
    assert {name for name, parameter in learned.items() if parameter.grad is None or not parameter.grad.any()} == set()


def test_padding_changes_neither_loss_nor_labels():
    esim = net("both").double().eval()
    assert_close(esim(EIGHT), torch.cat([esim([one]) for one in EIGHT]))
    assert_close(esim.loss(EIGHT), torch.stack([esim.loss([one]) for one in EIGHT]).mean())
    assert esim.predict(EIGHT) == [esim.predict([one])[0] for one in EIGHT]


def test_the_order_of_the_two_sentences_matters():
    esim = net("both").double().eval()
    turned = [one._replace(premise=one.hypothesis, hypothesis=one.premise) for one in EIGHT]
    assert not torch.allclose(esim(EIGHT), esim(turned))


def test_every_size_makes_a_network_that_trains():
    for size in SIZES.values():
        assert net("both", size).train().loss(EIGHT[:3]).isfinite()


def test_a_label_that_training_lacks_can_be_predicted_all_the_same():
    assert inventory([one for one in EIGHT if one.label != LABELS[1]], SMALL) == {"labels": list(LABELS)}


def test_words_are_asked_for_as_they_are_precomputed():
    asked = set()
    esim = net()
    esim.words.register_forward_pre_hook(lambda _, given: asked.update(given[0]))
    esim.predict(EIGHT)
    assert asked == {sentence for one in EIGHT for sentence in sentences(one)}
