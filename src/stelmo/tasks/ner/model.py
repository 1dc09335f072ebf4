"""Sentences → BIO tags: character CNN, two biLSTMs, CRF (Lample et al. 2016; Peters et al. 2017). Knows no files.

B sentences, T tokens, D width, Y tags. The CRF uses BIOUL tags, which say more; examples and predictions are BIO.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from pydantic import Field
from torch import Tensor, nn

from stelmo.config import Positive, Settings
from stelmo.settings import Share
from stelmo.tasks.inputs import WordReader, append_elmo
from stelmo.tasks.layers import CharCnn, VariationalDropout, characters_of, float32_at_least
from stelmo.tasks.ner.data import Example, Prediction
from stelmo.tasks.recurrent import BiRnn
from stelmo.tasks.tags import Crf, bio_of, bioul, spans
from stelmo.tasks.task import TaskNetwork


class Size(Settings):
    character_embedding: Positive = Field(16, description="width of a character's vector")
    filters: tuple[tuple[Positive, Positive], ...] = Field(((3, 128),), description="over characters: (width, count)")
    hidden: tuple[Positive, ...] = Field((200, 100), description="units per direction of each biLSTM", min_length=1)
    dropout: Share = Field(0.5, description="at the input of each biLSTM, the same for all tokens of a sentence")


SIZES = {
    "paper": Size(),
    "cpu": Size(filters=((3, 50),), hidden=(100, 50)),
    "workstation": Size(filters=((3, 100),), hidden=(150, 75)),
}
RECIPES: dict[str, dict[str, Any]] = {
    "paper": {
        "optimizer": "adam",
        "lr": 0.001,
        "batch": 64,
        "epochs": 75,
        "patience": 25,
        "clip": 5.0,
        "tuned_vectors": True,
    },
    # An epoch of 1,000 sentences and an evaluation on 300 take 3.5 s on one busy core, with ELMo 4.3 s.
    "cpu": {
        "optimizer": "adam",
        "lr": 0.002,
        "batch": 32,
        "epochs": 12,
        "patience": 4,
        "clip": 5.0,
        "tuned_vectors": True,
        "train_examples": 4000,
        "dev_examples": 1000,
    },
    "workstation": {
        "optimizer": "adam",
        "lr": 0.001,
        "batch": 32,
        "steps": 5_000,
        "evaluate_every": 400,
        "patience": 5,
        "decay": "linear",
        "average": 0.998,
        "clip": 5.0,
        "tuned_vectors": True,
    },
}
ELMO: dict[str, Any] = {"placement": "input", "l2": 0.1, "dropout": 0.5, "layer_norm": False}
ELMO_CHANGES: dict[str, dict[str, Any]] = {"workstation": {"dropout": 0.2}}
METRIC = "f1"

RARE = 2  # rarer characters count as unknown, so that the unknown character's vector is trained


def sentences(example: Example) -> list[tuple[str, ...]]:
    return [example.words]


def inventory(examples: Sequence[Example], size: Size) -> dict[str, list[str]]:
    types = sorted({span.label for example in examples for span in spans(example.tags)})
    return {
        "tags": ["O", *(f"{part}-{kind}" for kind in types for part in "BIUL")],
        "characters": characters_of((example.words for example in examples), RARE),
    }


class Tagger(TaskNetwork[Example, Prediction]):
    def __init__(self, words: WordReader, inventory: Mapping[str, list[str]], size: Size) -> None:
        super().__init__()
        self.words, self.tags = words, tuple(inventory["tags"])
        self.characters = CharCnn(inventory["characters"], size.character_embedding, size.filters)
        widths = [words.width + self.characters.width, *(2 * hidden for hidden in size.hidden)]
        self.encoder = nn.ModuleList(BiRnn(width, hidden) for width, hidden in zip(widths, size.hidden, strict=False))
        self.dropout = VariationalDropout(size.dropout)
        self.projection = nn.Linear(widths[-1] + words.output_width, len(self.tags))
        self.crf = Crf(self.tags, "BIOUL")

    def loss(self, examples: Sequence[Example]) -> Tensor:
        scores_BTY, mask_BT = self._scores(examples)
        number = {tag: index for index, tag in enumerate(self.tags)}
        paths = [torch.tensor([number[tag] for tag in bioul(example.tags)]) for example in examples]
        path_BT = nn.utils.rnn.pad_sequence(paths, batch_first=True).to(mask_BT.device)
        return self.crf.loss(scores_BTY, path_BT, mask_BT).mean()

    def predict(self, examples: Sequence[Example]) -> list[Prediction]:
        paths = self.crf.decode(*self._scores(examples))
        return [tuple(bio_of([self.tags[number] for number in path])) for path in paths]

    def _scores(self, examples: Sequence[Example]) -> tuple[Tensor, Tensor]:
        """(B, T, Y), and the mask of real tokens."""
        sentences = [example.words for example in examples]
        inputs = self.words(sentences)
        h_BTD = torch.cat([inputs.x_BTD, self.characters(sentences)], -1)
        for layer in self.encoder:
            h_BTD = layer(self.dropout(h_BTD), inputs.mask_BT)
        return float32_at_least(self.projection(append_elmo(h_BTD, inputs))), inputs.mask_BT


Net = Tagger
