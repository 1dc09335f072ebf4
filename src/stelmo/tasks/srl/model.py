"""Words and one marked predicate → BIO tags: a deep alternating LSTM (He et al. 2017). Knows no files.

There are no transition scores: tags are learned independently, and only decoding ensures that they are well formed.
B frames, T tokens, D width of the input, H hidden units, Y labels.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from pydantic import Field
from torch import Tensor, nn

from stelmo.config import Positive, Settings
from stelmo.settings import Share
from stelmo.tasks import tags
from stelmo.tasks.inputs import WordReader, append_elmo
from stelmo.tasks.layers import float32_at_least
from stelmo.tasks.recurrent import AlternatingLstm
from stelmo.tasks.srl.data import Example, Prediction
from stelmo.tasks.task import TaskNetwork


class Size(Settings):
    """The defaults are the paper's."""

    predicate: Positive = Field(100, description="width of the vector that marks the predicate")
    hidden: Positive = Field(300, description="hidden units of each layer")
    layers: Positive = Field(8, description="layers, alternately forwards and backwards")
    dropout: Share = Field(0.1, description="recurrent dropout, one mask per sentence")


SIZES = {
    "paper": Size(),
    "cpu": Size(predicate=32, hidden=64),
    "workstation": Size(predicate=50, hidden=128),
}

RECIPES: dict[str, dict[str, Any]] = {
    "paper": {
        "optimizer": "adadelta",
        "lr": 1.0,
        "batch": 80,
        "epochs": 500,
        "patience": 200,
        "clip": None,
        "clip_value": 1.0,
        "tuned_vectors": True,
    },
    # Under four minutes on one core: an epoch takes 18 s, of which 1 s is the dev evaluation. Adam suits few steps.
    "cpu": {
        "optimizer": "adam",
        "lr": 0.003,
        "batch": 32,
        "epochs": 12,
        "patience": 4,
        "plateau": 2,
        "clip": 1.0,
        "train_examples": 4000,
        "dev_examples": 800,
        "test_examples": 2400,
    },
    "workstation": {
        "optimizer": "adam",
        "lr": 0.002,
        "batch": 32,
        "steps": 12_000,
        "evaluate_every": 600,
        "patience": 4,
        "decay": "linear",
        "average": 0.998,
        "precision": "auto",
        "clip": 1.0,
        "dev_examples": 1500,
    },
}

ELMO: dict[str, Any] = {"placement": "input", "l2": 0.001, "dropout": 0.1, "layer_norm": False}
ELMO_CHANGES: dict[str, dict[str, Any]] = {}

METRIC = "f1"


def sentences(example: Example) -> list[tuple[str, ...]]:
    return [example.words]


def inventory(examples: Sequence[Example], size: Size) -> dict[str, list[str]]:
    return {"labels": sorted({tag for example in examples for tag in example.tags} | {"O"})}


class RoleTagger(TaskNetwork[Example, Prediction]):
    transitions_YY: Tensor
    start_Y: Tensor
    end_Y: Tensor

    def __init__(self, words: WordReader, inventory: Mapping[str, list[str]], size: Size) -> None:
        super().__init__()
        self.words, self.labels = words, inventory["labels"]
        self._numbers = {label: number for number, label in enumerate(self.labels)}
        self.predicate = nn.Embedding(2, size.predicate)
        self.lstm = AlternatingLstm(words.width + size.predicate, size.hidden, size.layers, size.dropout)
        self.label = nn.Linear(size.hidden + words.output_width, len(self.labels))
        for name, legal in tags.legal(self.labels, "BIO")._asdict().items():
            self.register_buffer(name, torch.where(legal, 0.0, -torch.inf), persistent=False)

    def forward(self, examples: Sequence[Example]) -> tuple[Tensor, Tensor]:
        """log p of each label at each token (B, T, Y), and the mask of real tokens (B, T)."""
        inputs = self.words([example.words for example in examples])
        is_predicate_BT = torch.zeros_like(inputs.mask_BT, dtype=torch.long)
        is_predicate_BT[range(len(examples)), [example.predicate for example in examples]] = 1
        x_BTD = torch.cat([inputs.x_BTD, self.predicate(is_predicate_BT)], -1)
        h_BTH = append_elmo(self.lstm(x_BTD, inputs.mask_BT), inputs)
        return float32_at_least(self.label(h_BTH)).log_softmax(-1), inputs.mask_BT

    def loss(self, examples: Sequence[Example]) -> Tensor:
        """−log p, the mean over all tokens."""
        logp_BTY, mask_BT = self(examples)
        wanted_N = [self._numbers[tag] for example in examples for tag in example.tags]
        return nn.functional.nll_loss(logp_BTY[mask_BT], torch.tensor(wanted_N, device=mask_BT.device))

    def predict(self, examples: Sequence[Example]) -> list[Prediction]:
        """The most probable well-formed tags."""
        logp_BTY, mask_BT = self(examples)
        paths = tags.viterbi(logp_BTY, mask_BT, self.transitions_YY, self.start_Y, self.end_Y)
        return [tuple(self.labels[number] for number in path) for path in paths]


Net = RoleTagger
