"""Premise and hypothesis → their relation: ESIM (Chen et al. 2017). Knows no files.

B pairs, T tokens of a sentence, S of the other, R tokens of both with padding, N without, M the same rounded up,
D width, H hidden units, Y labels.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional

from stelmo.config import Positive, Settings
from stelmo.model.mix import Dropout
from stelmo.settings import Share
from stelmo.tasks.cells import ROWS
from stelmo.tasks.inputs import WordReader, append_elmo
from stelmo.tasks.layers import (
    VariationalDropout,
    feed_forward,
    float32_at_least,
    masked_max,
    masked_mean,
    masked_softmax,
)
from stelmo.tasks.recurrent import BiRnn, apart, together
from stelmo.tasks.snli.data import LABELS, Example, Prediction
from stelmo.tasks.task import TaskNetwork


class Size(Settings):
    """Peters et al. (2018), appendix A.3."""

    hidden: Positive = Field(300, description="units of each LSTM direction and of each feed-forward layer")
    dropout: Share = Field(0.5, description="before each LSTM, one mask per sentence, and before the last two layers")
    attention_dropout: Share = Field(0.5, description="after the attention")


# `cpu`: 0.12 s of CPU time per step of 32 pairs, 0.26 s with ELMo, on a shared machine.
SIZES = {
    "paper": Size(),
    "cpu": Size(hidden=64, dropout=0.2, attention_dropout=0.1),
    "workstation": Size(hidden=128, dropout=0.1, attention_dropout=0.1),
}
RECIPES: dict[str, dict[str, Any]] = {
    "paper": {
        "optimizer": "adam", "lr": 4e-4, "batch": 32, "epochs": 75, "patience": 5, "clip": 5.0, "plateau": 1,
        "weight_decay": 1e-4,
    },
    "cpu": {
        "optimizer": "adam", "lr": 1e-3, "batch": 32, "epochs": 5, "patience": 3, "clip": 5.0, "plateau": 2,
        "train_examples": 12_000, "dev_examples": 2_000,
    },
    "workstation": {
        "optimizer": "adam", "lr": 1e-3, "batch": 32, "steps": 10_000, "evaluate_every": 500, "patience": 4,
        "clip": 5.0, "plateau": 2, "average": 0.998, "precision": "auto", "dev_examples": 4_000,
    },
}  # fmt: skip
ELMO: dict[str, Any] = {"placement": "both", "l2": 0.001, "dropout": 0.5, "layer_norm": True}
ELMO_CHANGES: dict[str, dict[str, Any]] = {
    # γ from 0.2: from 1, ELMo hides the static vectors, and the network ends a point lower (docs/decisions.md).
    "workstation": {"dropout": 0.2, "placement": "output", "gamma": 0.2},
}
METRIC = "accuracy"


def sentences(example: Example) -> list[tuple[str, ...]]:
    return [example.premise, example.hypothesis]


def inventory(examples: Sequence[Example], size: Size) -> dict[str, list[str]]:
    """The labels of the task, even those that no example has."""
    return {"labels": list(LABELS)}


class Esim(TaskNetwork[Example, Prediction]):
    """Each word is compared with the words it attends to in the other sentence; a second LSTM reads the comparisons."""

    def __init__(self, words: WordReader, inventory: Mapping[str, list[str]], size: Size) -> None:
        super().__init__()
        self.words, self.labels, hidden = words, list(inventory["labels"]), size.hidden
        self.encoder = BiRnn(words.width, hidden)
        self.attention_dropout = Dropout(size.attention_dropout)
        self.comparison = feed_forward(4 * (2 * hidden + words.output_width), hidden)
        self.composition = BiRnn(hidden, hidden)
        self.dropout = VariationalDropout(size.dropout)
        self.classifier = nn.Sequential(
            Dropout(size.dropout),
            *feed_forward(8 * hidden, hidden, dropout=size.dropout),
            nn.Linear(hidden, len(self.labels)),
        )

    def loss(self, examples: Sequence[Example]) -> Tensor:
        scores_BY = self(examples)
        gold_B = torch.tensor([self.labels.index(example.label) for example in examples], device=scores_BY.device)
        return nn.functional.cross_entropy(scores_BY, gold_B)

    def predict(self, examples: Sequence[Example]) -> list[Prediction]:
        return [self.labels[best] for best in self(examples).argmax(1).tolist()]

    def forward(self, examples: Sequence[Example]) -> Tensor:
        """(B, Y)"""
        sides = [example.premise for example in examples], [example.hypothesis for example in examples]
        inputs = [self.words(sentences) for sentences in sides]
        masks = [one.mask_BT for one in inputs]
        encoded = self.encoder.several([self.dropout(one.x_BTD) for one in inputs], masks)
        a_BTD, b_BSD = (append_elmo(h_BTD, one) for h_BTD, one in zip(encoded, inputs, strict=True))
        compared = self._compared([a_BTD, b_BSD], aligned(a_BTD, masks[0], b_BSD, masks[1]), masks)
        composed = self.composition.several([self.dropout(x_BTH) for x_BTH in compared], masks)
        pooled = [pooled_by_mean_and_max(h_BTH, mask_BT) for h_BTH, mask_BT in zip(composed, masks, strict=True)]
        return float32_at_least(self.classifier(torch.cat(pooled, -1)))

    def _compared(self, texts: Sequence[Tensor], others: Sequence[Tensor], masks: Sequence[Tensor]) -> list[Tensor]:
        """Each word compared with those it attends to, (B, T, H); zero, and not computed, where there is no word."""
        mask_R = torch.cat([mask_BT.flatten() for mask_BT in masks])
        rows_N = mask_R.nonzero()[:, 0]
        rows_M = functional.pad(rows_N, (0, -len(rows_N) % ROWS), value=int(rows_N[0]))
        h_MD, other_MD = (together(some).index_select(0, rows_M) for some in (texts, others))
        both_MD = torch.cat([h_MD, other_MD, h_MD - other_MD, h_MD * other_MD], -1)
        compared_NH = self.comparison(self.attention_dropout(both_MD))[: len(rows_N)]
        return apart(compared_NH.new_zeros(len(mask_R), compared_NH.shape[1]).index_copy(0, rows_N, compared_NH), masks)


def pooled_by_mean_and_max(h_BTH: Tensor, mask_BT: Tensor) -> Tensor:
    """(B, 2H): over the words of each sentence."""
    return torch.cat([masked_mean(h_BTH, mask_BT), masked_max(h_BTH, mask_BT)], -1)


def aligned(a_BTD: Tensor, a_mask_BT: Tensor, b_BSD: Tensor, b_mask_BS: Tensor) -> tuple[Tensor, Tensor]:
    """For each word of one sentence, the words of the other weighted by similarity (equations 11 to 13)."""
    scores_BTS = a_BTD @ b_BSD.transpose(1, 2)
    for_a_BTD = masked_softmax(scores_BTS, b_mask_BS[:, None]) @ b_BSD
    for_b_BSD = masked_softmax(scores_BTS.transpose(1, 2), a_mask_BT[:, None]) @ a_BTD
    return for_a_BTD, for_b_BSD


Net = Esim
