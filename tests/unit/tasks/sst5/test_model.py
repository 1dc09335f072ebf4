"""The biattentive network: its attention and pooling against loops."""

import torch
from torch.testing import assert_close
from unit.tasks.sst5.eight import net

from stelmo.tasks.sst5.model import compared


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
