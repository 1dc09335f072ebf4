"""Question and passage → the span that answers it: the network of Clark and Gardner (2018). Knows no files.

B questions, T tokens of the passage, S of the question, D width, H = 2 × GRU units, K tokens of an answer.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from pydantic import Field
from torch import Tensor, nn

from stelmo.config import Positive, Settings
from stelmo.settings import Share
from stelmo.tasks.inputs import Inputs, WordReader, append_elmo, rounded_up
from stelmo.tasks.layers import CharCnn, Trilinear, VariationalDropout, characters_of, float32_at_least, masked_softmax
from stelmo.tasks.recurrent import BiRnn
from stelmo.tasks.squad.data import Example, Prediction
from stelmo.tasks.task import TaskNetwork


class Size(Settings):
    """Clark and Gardner's settings for SQuAD, which Peters et al. (2018) use."""

    hidden: Positive = Field(90, description="units of each GRU direction; other layers are twice as wide")
    dropout: Share = Field(0.2, description="before each GRU and each attention, one mask per passage")
    character_embedding: Positive = Field(20, description="width of a character's vector")
    character_filters: Positive = Field(100, description="filters, each over five characters")
    character_minimum: Positive = Field(49, description="occurrences in training below which a character is unknown")
    character_dropout: Share = Field(0.2, description="of the characters' vectors")
    word_characters: Positive = Field(14, description="characters read of a word")
    answer_tokens: Positive = Field(17, description="maximum tokens of an answer")
    train_tokens: Positive | None = Field(
        None, description="tokens read of a passage in training; a question answered after them is ignored"
    )


# 94 % of the questions have their answer in the first 150 tokens.
SIZES = {
    "paper": Size(),
    "cpu": Size(hidden=40, character_embedding=12, character_filters=30, train_tokens=150),
    "workstation": Size(hidden=60, character_embedding=16, character_filters=50, train_tokens=200),
}
RECIPES: dict[str, dict[str, Any]] = {
    "paper": {
        "optimizer": "adadelta", "lr": 1.0, "batch": 45, "epochs": 24, "patience": None, "clip": None,
        "average": 0.999,
    },
    "cpu": {
        "optimizer": "adam", "lr": 2e-3, "batch": 32, "epochs": 3, "patience": None, "clip": 5.0,
        "train_examples": 4_000, "dev_examples": 500, "test_examples": 1_500,
    },
    "workstation": {
        "optimizer": "adam", "lr": 1e-3, "batch": 32, "steps": 8_000, "evaluate_every": 500, "patience": 4,
        "plateau": 1, "average": 0.998, "precision": "auto", "clip": 5.0, "dev_examples": 2_000,
    },
}  # fmt: skip
ELMO: dict[str, Any] = {"placement": "both", "l2": 0.0, "dropout": 0.5, "layer_norm": False}
ELMO_CHANGES: dict[str, dict[str, Any]] = {"workstation": {"dropout": 0.2}}
METRIC = "f1"
FILTER_WIDTH = 5
TOKENS = 16  # in half precision, a text's tokens are padded to a multiple of so many


def sentences(example: Example) -> list[tuple[str, ...]]:
    """ELMo reads the passage as one sequence, so that a pronoun's vector depends on the previous sentence."""
    return [example.passage.tokens, example.question]


def inventory(examples: Sequence[Example], size: Size) -> dict[str, list[str]]:
    """Each passage is counted once, however many questions are about it."""
    passages = {id(example.passage): example.passage.tokens for example in examples}
    seen = [*passages.values(), *(example.question for example in examples)]
    return {"characters": characters_of(seen, size.character_minimum)}


class BiAttention(nn.Module):
    """Attention from each passage word to the question, and from the question to the passage (Seo et al. 2017)."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.width, self.likeness = 4 * width, Trilinear(width)

    def forward(self, p_BTD: Tensor, p_mask_BT: Tensor, q_BSD: Tensor, q_mask_BS: Tensor, merge: nn.Linear) -> Tensor:
        """`merge` of [p ; q ; p∘q ; c∘q], where q is what a passage word attends to in the question, and c the passage.

        q is A · question, where A holds the attention shares. So the products with q and c∘q are computed for the
        question, which is much shorter than the passage, and then multiplied by A.
        """
        scores_BTS = self.likeness(p_BTD, q_BSD)
        share_BTS = masked_softmax(scores_BTS, q_mask_BS[:, None])
        best_BT = scores_BTS.masked_fill(~q_mask_BS[:, None], torch.finfo(scores_BTS.dtype).min).amax(2)
        passage_B1D = masked_softmax(best_BT, p_mask_BT)[:, None] @ p_BTD
        p_HD, q_HD, pq_HD, cq_HD = merge.weight.chunk(4, 1)
        question_BSH = q_BSD @ q_HD.t() + (passage_B1D * q_BSD) @ cq_HD.t()
        passage_BTH = nn.functional.linear(p_BTD, p_HD, merge.bias) + (p_BTD * (share_BTS @ q_BSD)) @ pq_HD.t()
        return torch.baddbmm(passage_BTH, share_BTS, question_BSH)


class SelfAttention(nn.Module):
    """Attention from each passage word to all other words of the passage."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.width, self.likeness = 3 * width, Trilinear(width)

    def forward(self, p_BTD: Tensor, mask_BT: Tensor) -> Tensor:
        """(B, T, 3D)"""
        itself_TT = torch.eye(p_BTD.shape[1], dtype=torch.bool, device=p_BTD.device)
        other_BTD = masked_softmax(self.likeness(p_BTD, p_BTD), mask_BT[:, None] & ~itself_TT) @ p_BTD
        return torch.cat([p_BTD, other_BTD, p_BTD * other_BTD], -1)


class Reader(TaskNetwork[Example, Prediction]):
    """Encodes both texts, attends from passage to question and to itself, predicts the answer's two ends."""

    def __init__(self, words: WordReader, inventory: Mapping[str, list[str]], size: Size) -> None:
        super().__init__()
        self.words, self.size, wide = words, size, 2 * size.hidden
        self.characters = CharCnn(
            inventory["characters"],
            size.character_embedding,
            [(FILTER_WIDTH, size.character_filters)],
            size.character_dropout,
            size.word_characters,
        )
        self.dropout = VariationalDropout(size.dropout)
        self.encoder = BiRnn(words.width + self.characters.width, size.hidden, kind="gru")
        self.attention = BiAttention(wide + words.output_width)
        self.merged = nn.Sequential(nn.Linear(self.attention.width, wide), nn.ReLU())
        self.rereader = BiRnn(wide, size.hidden, kind="gru")
        self.self_attention = SelfAttention(wide)
        self.self_merged = nn.Sequential(nn.Linear(self.self_attention.width, wide), nn.ReLU())
        self.start_reader = BiRnn(wide, size.hidden, kind="gru")
        self.end_reader = BiRnn(2 * wide, size.hidden, kind="gru")
        # A bias would change all tokens' scores equally.
        self.start, self.end = nn.Linear(wide, 1, bias=False), nn.Linear(wide, 1, bias=False)

    def loss(self, examples: Sequence[Example]) -> Tensor:
        """Cross-entropy of the first answer's ends; the mean over questions whose answer lies in the tokens read."""
        start_BT, end_BT = self(examples, self.size.train_tokens)
        read, ends = self.size.train_tokens, [(e.answers[0].first, e.answers[0].last) for e in examples]
        rows = [row for row, (_, last) in enumerate(ends) if read is None or last < read]
        gold_2B = torch.tensor([ends[row] for row in rows], device=start_BT.device, dtype=torch.long).view(-1, 2).T
        losses = [
            nn.functional.cross_entropy(scores_BT[rows], gold_B, reduction="sum")
            for scores_BT, gold_B in zip((start_BT, end_BT), gold_2B, strict=True)
        ]
        return (losses[0] + losses[1]) / max(1, len(rows))

    def predict(self, examples: Sequence[Example]) -> list[Prediction]:
        """Passages are read completely, also if they are truncated in training."""
        start_BT, end_BT = self(examples, None)
        spans = best_spans(start_BT, end_BT, self.size.answer_tokens)
        return [example.passage.between(*span) for example, span in zip(examples, spans, strict=True)]

    def forward(self, examples: Sequence[Example], longest: int | None) -> tuple[Tensor, Tensor]:
        """Scores of an answer's start and end at each token, (B, T) each; the lowest number at padding."""
        passages = self._read([example.passage.tokens for example in examples], longest)
        questions = self._read([example.question for example in examples], None)
        drop, p_mask_BT, q_mask_BS = self.dropout, passages.mask_BT, questions.mask_BT
        encoded = self.encoder.several([drop(passages.x_BTD), drop(questions.x_BTD)], [p_mask_BT, q_mask_BS])
        p_BTD, q_BSD = drop(append_elmo(encoded[0], passages)), drop(append_elmo(encoded[1], questions))
        p_BTH = self.attention(p_BTD, p_mask_BT, q_BSD, q_mask_BS, self.merged[0]).relu()
        reread_BTH = self.rereader(drop(p_BTH), p_mask_BT)
        p_BTH = p_BTH + self.self_merged(self.self_attention(drop(reread_BTH), p_mask_BT))
        start_BTH = self.start_reader(drop(p_BTH), p_mask_BT)
        end_BTH = self.end_reader(drop(torch.cat([p_BTH, start_BTH], -1)), p_mask_BT)
        ends = ((self.start, start_BTH), (self.end, end_BTH))
        scores = (float32_at_least(score(h_BTH)).squeeze(2) for score, h_BTH in ends)
        start_BT, end_BT = (score_BT.masked_fill(~p_mask_BT, torch.finfo(score_BT.dtype).min) for score_BT in scores)
        return start_BT, end_BT

    def _read(self, sentences: Sequence[Sequence[str]], longest: int | None) -> Inputs:
        """Words and characters. ELMo's vectors are computed on the whole passage before it is truncated."""
        inputs: Inputs = self.words(sentences)
        elmo_BTE = None if inputs.elmo_BTE is None else inputs.elmo_BTE[:, :longest]
        characters_BTF = self.characters([sentence[:longest] for sentence in sentences])
        x_BTD = torch.cat([inputs.x_BTD[:, :longest], characters_BTF], -1)
        inputs = Inputs(x_BTD, inputs.mask_BT[:, :longest], elmo_BTE)
        return rounded_up(inputs, TOKENS) if torch.is_autocast_enabled(x_BTD.device.type) else inputs


def best_spans(start_BT: Tensor, end_BT: Tensor, longest: int) -> list[tuple[int, int]]:
    """The first and the last token of the highest-scoring answer of at most `longest` tokens."""
    ends_BTK = nn.functional.pad(end_BT, (0, longest - 1), value=float("-inf")).unfold(1, longest, 1)
    best_B = (start_BT[:, :, None] + ends_BTK).flatten(1).argmax(1)
    firsts_B, offset_B = best_B // longest, best_B % longest
    return list(zip(firsts_B.tolist(), (firsts_B + offset_B).tolist(), strict=True))


Net = Reader
