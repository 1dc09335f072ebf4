"""Sentences → labels 0–4: the biattentive classification network (McCann et al. 2017). Knows no files.

B sentences, T tokens, D width.
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
from stelmo.tasks.layers import feed_forward, float32_at_least, masked_max, masked_mean, masked_softmax
from stelmo.tasks.recurrent import BiRnn
from stelmo.tasks.sst5.data import LABELS, Example, Prediction
from stelmo.tasks.task import TaskNetwork


class Size(Settings):
    word_dropout: Share = Field(0.5, description="of the words' vectors")
    projected: Positive = Field(300, description="units of the layer between the words and the first biLSTM")
    projected_dropout: Share = Field(0.25, description="after that layer")
    hidden: Positive = Field(300, description="units per direction of both biLSTMs")
    pooled_dropout: Share = Field(0.1, description="of the pooled sentence")
    classifier: tuple[tuple[Positive, Share], ...] = Field(
        ((1200, 0.2), (600, 0.3)), description="ReLU layers before the labels: (units, dropout)"
    )


# A narrow network in a short run needs less dropout than a wide one in a long run.
CPU = Size(word_dropout=0.2, projected=100, projected_dropout=0.1, hidden=64, classifier=((200, 0.1), (100, 0.1)))
WORKSTATION = Size(
    word_dropout=0.4, projected=150, projected_dropout=0.2, hidden=128, classifier=((400, 0.2), (200, 0.2))
)
SIZES = {"paper": Size(), "cpu": CPU, "workstation": WORKSTATION}
RECIPES: dict[str, dict[str, Any]] = {
    "paper": {"optimizer": "adam", "lr": 0.001, "batch": 100, "epochs": 20, "patience": 5, "clip": 5.0},
    # An epoch of 2,000 phrases and an evaluation on 300 sentences take 2.7 s on one busy core, with ELMo twice 5 s.
    "cpu": {
        "optimizer": "adam",
        "lr": 0.002,
        "batch": 50,
        "epochs": 6,
        "patience": 3,
        "clip": 5.0,
        "train_examples": 15_000,
    },
    "workstation": {
        "optimizer": "adam",
        "lr": 0.001,
        "batch": 64,
        "steps": 8_000,
        "evaluate_every": 400,
        "patience": 5,
        "plateau": 2,
        "average": 0.998,
        "precision": "auto",
        "clip": 5.0,
    },
}
ELMO: dict[str, Any] = {"placement": "both", "l2": 0.001, "dropout": 0.5, "layer_norm": False}
ELMO_CHANGES: dict[str, dict[str, Any]] = {"workstation": {"dropout": 0.2}}
METRIC = "accuracy"


def sentences(example: Example) -> list[tuple[str, ...]]:
    return [example.words]


def inventory(examples: Sequence[Example], size: Size) -> dict[str, list[str]]:
    """Nothing: the five labels are fixed, and words belong to the WordReader."""
    return {}


class Bcn(TaskNetwork[Example, Prediction]):
    def __init__(self, words: WordReader, inventory: Mapping[str, list[str]], size: Size) -> None:
        super().__init__()
        self.words = words
        self.word_dropout, self.pooled_dropout = Dropout(size.word_dropout), Dropout(size.pooled_dropout)
        self.project = feed_forward(words.width, size.projected, 1, size.projected_dropout)
        self.encoder = BiRnn(size.projected, size.hidden)
        self.integrator = BiRnn(3 * (2 * size.hidden + words.output_width), size.hidden)
        self.weigh = nn.Linear(2 * size.hidden, 1, bias=False)
        # ReLU layers as in the ELMo paper, which reports worse results with the maxout layers of the original.
        steps: list[nn.Module] = []
        width = 8 * size.hidden
        for units, dropout in size.classifier:
            steps.append(feed_forward(width, units, 1, dropout))
            width = units
        self.classifier = nn.Sequential(*steps, nn.Linear(width, len(LABELS)))

    def loss(self, examples: Sequence[Example]) -> Tensor:
        logits_BY = self._logits(examples)
        labels_B = torch.tensor([example.label for example in examples], device=logits_BY.device)
        return nn.functional.cross_entropy(logits_BY, labels_B)

    def predict(self, examples: Sequence[Example]) -> list[Prediction]:
        labels: list[int] = self._logits(examples).argmax(1).tolist()
        return labels

    def _logits(self, examples: Sequence[Example]) -> Tensor:
        """(B, 5)"""
        inputs = self.words([example.words for example in examples])
        x_BTD = self.project(self.word_dropout(inputs.x_BTD))
        h_BTD = self.encoder(x_BTD, inputs.mask_BT)
        h_BTD = self.integrator(compared(append_elmo(h_BTD, inputs), h_BTD, inputs.mask_BT), inputs.mask_BT)
        return float32_at_least(self.classifier(self.pooled_dropout(self._pooled(h_BTD, inputs.mask_BT))))

    def _pooled(self, h_BTD: Tensor, mask_BT: Tensor) -> Tensor:
        """(B, 4D): the maximum, the minimum, the mean, and a mean with learned weights."""
        weights_B1T = masked_softmax(self.weigh(h_BTD).transpose(1, 2), mask_BT[:, None])
        return torch.cat(
            [
                masked_max(h_BTD, mask_BT),
                -masked_max(-h_BTD, mask_BT),
                masked_mean(h_BTD, mask_BT),
                (weights_B1T @ h_BTD)[:, 0],
            ],
            1,
        )


def compared(x_BTD: Tensor, keys_BTH: Tensor, mask_BT: Tensor) -> Tensor:
    """[x ; x−c ; x∘c] (B, T, 3D), where c is what each token attends to in the sentence, by its key.

    The network was designed for two texts that attend to each other; here both are the same text. Keys are the
    encoder's output, without ELMo.
    """
    attention_BTT = masked_softmax(keys_BTH @ keys_BTH.transpose(1, 2), mask_BT[:, None])
    context_BTD = attention_BTT @ x_BTD
    return torch.cat([x_BTD, x_BTD - context_BTD, x_BTD * context_BTD], -1)


Net = Bcn
