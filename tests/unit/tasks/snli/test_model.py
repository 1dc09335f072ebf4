"""ESIM: its alignment against a loop."""

import torch
from torch.testing import assert_close
from unit.tasks.snli.eight import EIGHT, SMALL, net

from stelmo.tasks.snli.data import LABELS
from stelmo.tasks.snli.model import aligned, inventory, pooled_by_mean_and_max


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
    h_BTH, mask_BT = ragged([4, 1, 3], 1)
    for row_H, h_TH, mask_T in zip(pooled_by_mean_and_max(h_BTH, mask_BT), h_BTH, mask_BT, strict=True):
        assert_close(row_H, torch.cat([h_TH[mask_T].mean(0), h_TH[mask_T].amax(0)]))


def test_words_are_compared_without_padding_as_they_would_be_one_by_one():
    esim, width = net().double().eval(), 2 * SMALL.hidden
    texts, masks = zip(*(ragged(lengths, seed) for seed, lengths in enumerate([[4, 1, 3], [2, 5, 1]])), strict=True)
    others = [x_BTD.flip(0) for x_BTD in texts]
    wide = [[torch.cat([x_BTD] * 5, -1)[..., :width] for x_BTD in some] for some in (texts, others)]
    for h_BTD, other_BTD, mask_BT, found_BTH in zip(*wide, masks, esim._compared(*wide, masks), strict=True):
        both_BTD = torch.cat([h_BTD, other_BTD, h_BTD - other_BTD, h_BTD * other_BTD], -1)
        assert_close(found_BTH, esim.comparison(both_BTD) * mask_BT[..., None])


def test_the_order_of_the_two_sentences_matters():
    esim = net("both").double().eval()
    turned = [one._replace(premise=one.hypothesis, hypothesis=one.premise) for one in EIGHT]
    assert not torch.allclose(esim(EIGHT), esim(turned))


def test_a_label_that_training_lacks_can_be_predicted_all_the_same():
    assert inventory([one for one in EIGHT if one.label != LABELS[1]], SMALL) == {"labels": list(LABELS)}
