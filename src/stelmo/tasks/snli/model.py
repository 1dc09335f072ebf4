"""Premise and hypothesis → their relation: ESIM (Chen et al. 2017). Knows no files.

B pairs, T tokens of a sentence, S of the other, D width, H hidden units, Y labels.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from pydantic import Field
from torch import Tensor, nn

from stelmo.config import Positive, Settings
from stelmo.model.mix import Dropout
from stelmo.settings import Share
from stelmo.tasks.inputs import WordReader, append_elmo
from stelmo.tasks.layers import (
    VariationalDropout,
    feed_forward,
    float32_at_least,
    masked_max,
    masked_mean,
    masked_softmax,
)
from stelmo.tasks.recurrent import BiRnn
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
        a_BTD, a_mask_BT = self._encoded([example.premise for example in examples])
        b_BSD, b_mask_BS = self._encoded([example.hypothesis for example in examples])
        for_a_BTD, for_b_BSD = aligned(a_BTD, a_mask_BT, b_BSD, b_mask_BS)
        a_BH = self._composed(a_BTD, for_a_BTD, a_mask_BT)
        b_BH = self._composed(b_BSD, for_b_BSD, b_mask_BS)
        return float32_at_least(self.classifier(torch.cat([a_BH, b_BH], -1)))

    def _encoded(self, sentences: Sequence[Sequence[str]]) -> tuple[Tensor, Tensor]:
        """One encoder for both sentences."""
        inputs = self.words(sentences)
        return append_elmo(self.encoder(self.dropout(inputs.x_BTD), inputs.mask_BT), inputs), inputs.mask_BT

    def _composed(self, h_BTD: Tensor, other_BTD: Tensor, mask_BT: Tensor) -> Tensor:
        """(B, 4H): the mean and the maximum over the second LSTM's outputs."""
        both_BTD = torch.cat([h_BTD, other_BTD, h_BTD - other_BTD, h_BTD * other_BTD], -1)
        compared_BTH = self.comparison(self.attention_dropout(both_BTD))
        composed_BTH = self.composition(self.dropout(compared_BTH), mask_BT)
        return torch.cat([masked_mean(composed_BTH, mask_BT), masked_max(composed_BTH, mask_BT)], -1)


def aligned(a_BTD: Tensor, a_mask_BT: Tensor, b_BSD: Tensor, b_mask_BS: Tensor) -> tuple[Tensor, Tensor]:
    """For each word of one sentence, the words of the other weighted by similarity (equations 11 to 13)."""
    scores_BTS = a_BTD @ b_BSD.transpose(1, 2)
    for_a_BTD = masked_softmax(scores_BTS, b_mask_BS[:, None]) @ b_BSD
    for_b_BSD = masked_softmax(scores_BTS.transpose(1, 2), a_mask_BT[:, None]) @ a_BTD
    return for_a_BTD, for_b_BSD


Net = Esim
