"""A document → clusters of mentions: end-to-end span ranking (Lee et al. 2017). Knows no files.

Every span up to a width is a candidate g = [h_start ; h_end ; Σ α x ; width], where α says which of its words is the
head. The best by s_m(g) are kept; each chooses the antecedent j of the highest

    s(i, j) = s_m(i) + s_m(j) + s_a([g_i ; g_j ; g_i ∘ g_j ; same speaker ; distance])      s(i, none) = 0

and learns from the summed likelihood of all antecedents in its own cluster. The paper's genre feature is left out,
because few data sets have genres.

W words, K widths, D of the input, E of the encoder, F of a scorer, G of a span, S candidates, M mentions kept, m of
them at once, J earlier ones they may choose from, A antecedents and none.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from stelmo.config import Positive, Settings
from stelmo.settings import Share
from stelmo.tasks.coref.data import Example, Prediction, Span
from stelmo.tasks.coref.spans import NO_CLUSTER, candidates, cluster_numbers, cut, linked, pruned
from stelmo.tasks.inputs import WordReader, append_elmo
from stelmo.tasks.layers import (
    CharCnn,
    VariationalDropout,
    characters_of,
    feed_forward,
    float32_at_least,
    masked_softmax,
)
from stelmo.tasks.recurrent import BiRnn
from stelmo.tasks.task import TaskNetwork


class Size(Settings):
    """The defaults are the paper's."""

    characters: Positive = Field(8, description="width of a character's vector")
    filters: tuple[tuple[Positive, Positive], ...] = Field(
        ((3, 50), (4, 50), (5, 50)), description="(width, count) each, over the characters of a word"
    )
    hidden: Positive = Field(200, description="hidden units of the LSTM, per direction")
    scorer: Positive = Field(150, description="hidden units of each layer of the scorers")
    scorer_layers: Positive = Field(2, description="hidden layers of the scorers")
    feature: Positive = Field(20, description="width of the vectors of span width, speaker and distance")
    widest: Positive = Field(10, description="words of the widest mention")
    spans: float = Field(0.4, gt=0, le=10, description="mentions kept, for each word of a document")
    antecedents: Positive = Field(250, description="earlier mentions that a mention may choose from")
    lexical_dropout: Share = Field(0.5, description="of the vectors of words and characters")
    dropout: Share = Field(0.2, description="of the LSTM's output and in the scorers")
    sentences: Positive = Field(50, description="of a document in a training step, a random section")
    singletons: bool = Field(True, description="predict clusters of one mention if the training data has them")


# On the CPU, training uses sections of about 300 words of a LitBank document.
SIZES = {
    "paper": Size(),
    "cpu": Size(
        filters=((3, 16), (4, 16), (5, 16)),
        hidden=64,
        scorer=64,
        feature=16,
        widest=8,
        spans=0.25,
        antecedents=100,
        lexical_dropout=0.3,
        sentences=12,
    ),
    "workstation": Size(
        filters=((3, 32), (4, 32), (5, 32)),
        hidden=100,
        scorer=100,
        widest=10,
        spans=0.3,
        antecedents=150,
        lexical_dropout=0.4,
        sentences=25,
    ),
}

RECIPES: dict[str, dict[str, Any]] = {
    "paper": {"optimizer": "adam", "lr": 0.001, "batch": 1, "epochs": 150, "patience": 30, "clip": 5.0},
    # Three to four minutes on one core with LitBank's 80 documents: an epoch takes 14 s, 3 s of them for dev.
    "cpu": {"optimizer": "adam", "lr": 0.002, "batch": 1, "epochs": 15, "patience": 5, "plateau": 2, "clip": 5.0},
    "workstation": {
        "optimizer": "adam",
        "lr": 0.001,
        "batch": 1,
        "steps": 4_000,
        "evaluate_every": 160,
        "patience": 5,
        "plateau": 2,
        "average": 0.998,
        "precision": "auto",
        "clip": 5.0,
    },
}

ELMO: dict[str, Any] = {"placement": "input", "l2": 0.0, "dropout": 0.5, "layer_norm": False}
ELMO_CHANGES: dict[str, dict[str, Any]] = {"workstation": {"dropout": 0.2}}

METRIC = "f1"

NEAREST = (1, 2, 3, 4, 5, 8, 16, 32, 64)  # first distance of each bucket, counted in mentions
LATER_TOGETHER = 16  # mentions whose antecedents are scored by one product (docs/tasks.md)


def sentences(example: Example) -> list[tuple[str, ...]]:
    return list(example.sentences)


def inventory(examples: Sequence[Example], size: Size) -> dict[str, list[str]]:
    alone = any(len(cluster) == 1 for example in examples for cluster in example.clusters)
    return {
        "characters": characters_of(sentence for example in examples for sentence in example.sentences),
        "singletons": ["annotated"] if alone else [],
    }


class Ranked(NamedTuple):
    """A document's candidates, the mentions kept, and the scores of their antecedents: none first, then the nearest."""

    candidates: list[Span]
    mention_S: Tensor
    kept: list[int]
    antecedent_MA: Tensor

    @property
    def mentions(self) -> list[Span]:
        return [self.candidates[place] for place in self.kept]


class Scorer(nn.Module):
    """A feed-forward network → one number. `first` is separate, because it is linear in the parts of its input."""

    def __init__(self, width: int, size: Size) -> None:
        super().__init__()
        first, *rest = feed_forward(width, size.scorer, size.scorer_layers, size.dropout)
        assert isinstance(first, nn.Linear)
        self.first, self.rest = first, nn.Sequential(*rest, nn.Linear(size.scorer, 1))

    def forward(self, x: Tensor) -> Tensor:
        return self.after_first(self.first(x))

    def after_first(self, hidden: Tensor) -> Tensor:
        return float32_at_least(self.rest(hidden)[..., 0])


class SpanRanker(TaskNetwork[Example, Prediction]):
    def __init__(self, words: WordReader, inventory: Mapping[str, list[str]], size: Size) -> None:
        super().__init__()
        self.words, self.size = words, size
        self.singletons = size.singletons and bool(inventory["singletons"])
        self.characters = CharCnn(inventory["characters"], size.characters, size.filters)
        width = words.width + self.characters.width
        self.lexical_dropout, self.dropout = map(VariationalDropout, (size.lexical_dropout, size.dropout))
        self.rnn = BiRnn(width, size.hidden)
        encoded = 2 * size.hidden + words.output_width
        self.head = Scorer(encoded, size)
        self.width = nn.Embedding(size.widest, size.feature)
        self.parts = [encoded, encoded, width, size.feature]
        self.mention = Scorer(sum(self.parts), size)
        self.speaker, self.distance = (nn.Embedding(count, size.feature) for count in (2, len(NEAREST)))
        self.antecedent = Scorer(3 * sum(self.parts) + 2 * size.feature, size)

    def forward(self, example: Example) -> Ranked:
        x_WD, h_WE = self._encoded(example)
        head_W = self.head(h_WE)
        may_WK = candidates([len(sentence) for sentence in example.sentences], self.size.widest)
        spans = [(start, start + width) for start, width in may_WK.nonzero().tolist()]
        mention_S = self._mention_scores(x_WD, h_WE, head_W)[may_WK.to(h_WE.device)]
        kept = pruned(spans, mention_S.tolist(), max(1, int(self.size.spans * len(x_WD))))
        g_MG = self.spans(x_WD, h_WE, head_W, torch.tensor([spans[place] for place in kept], device=h_WE.device))
        speakers = [speaker for sentence in example.speakers for speaker in sentence]
        mine = [speakers[spans[place][0]] for place in kept]
        return Ranked(spans, mention_S, kept, self._antecedent_scores(g_MG, mention_S[kept], mine))

    def _encoded(self, example: Example) -> tuple[Tensor, Tensor]:
        """The words of the document in order; each sentence is encoded separately."""
        inputs = self.words(example.sentences)
        x_BTD = self.lexical_dropout(torch.cat([inputs.x_BTD, self.characters(example.sentences)], -1))
        h_BTE = append_elmo(self.dropout(self.rnn(x_BTD, inputs.mask_BT)), inputs)
        return x_BTD[inputs.mask_BT], h_BTE[inputs.mask_BT]

    def spans(self, x_WD: Tensor, h_WE: Tensor, head_W: Tensor, spans_M2: Tensor) -> Tensor:
        """(M, G)"""
        start_M, end_M = spans_M2.unbind(1)
        words_MK = start_M[:, None] + torch.arange(self.size.widest, device=x_WD.device)
        inside_MK = words_MK <= end_M[:, None]
        words_MK = words_MK.clamp(max=len(x_WD) - 1)
        share_MK = masked_softmax(head_W[words_MK], inside_MK)
        head_MD = (share_MK[:, None] @ x_WD[words_MK])[:, 0]
        return torch.cat([h_WE[start_M], h_WE[end_M], head_MD, self.width(end_M - start_M)], 1)

    def _mention_scores(self, x_WD: Tensor, h_WE: Tensor, head_W: Tensor) -> Tensor:
        """s_m of the spans of each first word and width (W, K), including those that are not candidates.

        The scorer's first layer is linear in the parts of a span. So it is applied to words, of which there are fewer
        than spans, and the span vectors are never built.
        """
        widest, first = self.size.widest, self.mention.first
        start_FE, end_FE, head_FD, width_Ff = first.weight.split_with_sizes(self.parts, 1)
        words_WK = torch.arange(len(x_WD), device=x_WD.device)[:, None] + torch.arange(widest, device=x_WD.device)
        words_WK = words_WK.clamp(max=len(x_WD) - 1)
        inside_KK = torch.ones(widest, widest, dtype=torch.bool, device=x_WD.device).tril()
        share_WKK = masked_softmax(head_W[words_WK][:, None], inside_KK)
        hidden_WKF = share_WKK @ (x_WD @ head_FD.t())[words_WK] + (h_WE @ end_FE.t())[words_WK]
        hidden_WKF = hidden_WKF + (h_WE @ start_FE.t())[:, None] + self.width.weight @ width_Ff.t() + first.bias
        return self.mention.after_first(hidden_WKF)

    def _antecedent_scores(self, g_MG: Tensor, mention_M: Tensor, speakers: Sequence[str]) -> Tensor:
        """s of no antecedent (0), of the previous mention, of the one before that … (M, A); −∞ where there is none."""
        number = {speaker: number for number, speaker in enumerate(dict.fromkeys(speakers))}
        speaker_M = torch.tensor([number[speaker] for speaker in speakers], device=g_MG.device)
        most = min(self.size.antecedents, len(g_MG) - 1)
        place_M = torch.arange(len(g_MG), device=g_MG.device)
        back_K = torch.arange(1, most + 1, device=g_MG.device)
        blocks = []
        for start in range(0, len(g_MG), LATER_TOGETHER):
            later = slice(start, min(start + LATER_TOGETHER, len(g_MG)))
            # Every mention that one of these may choose; at least one, so that no tensor is empty.
            earlier = slice(max(0, start - most), max(1, later.stop - 1))
            distance_Jm = place_M[later] - place_M[earlier, None]
            same_Jm = speaker_M[later] == speaker_M[earlier, None]
            scores_Jm = self._pair_scores(g_MG[earlier], g_MG[later], distance_Jm, same_Jm)
            scores_Jm = scores_Jm + mention_M[later] + mention_M[earlier, None]
            chosen_mK = place_M[later, None] - back_K - earlier.start
            scores_mK = scores_Jm.t().gather(1, chosen_mK.clamp(min=0)).masked_fill(chosen_mK < 0, -torch.inf)
            blocks.append(nn.functional.pad(scores_mK, (1, 0)))
        return torch.cat(blocks)

    def _pair_scores(self, earlier_JG: Tensor, later_mG: Tensor, distance_Jm: Tensor, same_Jm: Tensor) -> Tensor:
        """s_a of each earlier mention with each later one (J, m); of no use where the distance is below 1.

        The first layer is split up as above: W₁ g_i + (W₂ + W₃ diag(g_i)) g_j + …, so that a later mention i becomes a
        bias and a matrix, and neither the pairs nor g_i ∘ g_j are ever built.
        """
        first, parts = self.antecedent.first, [later_mG.shape[1]] * 3 + [self.size.feature] * 2
        later_FG, earlier_FG, both_FG, speaker_Ff, distance_Ff = first.weight.split_with_sizes(parts, 1)
        bias_mF = nn.functional.linear(later_mG, later_FG, first.bias)
        hidden_JmF = _products(earlier_JG, later_mG, earlier_FG, both_FG)
        # Speaker and distance together have few values, so they are a product, too, which is faster than looking up.
        speaker_2F, distance_9F = self.speaker.weight @ speaker_Ff.t(), self.distance.weight @ distance_Ff.t()
        value_Jm = same_Jm * len(NEAREST) + _bucket(distance_Jm.clamp(min=1))
        features_JmC = nn.functional.one_hot(value_Jm, 2 * len(NEAREST)).to(later_mG.dtype)
        features_JmF = features_JmC @ (speaker_2F[:, None] + distance_9F).flatten(0, 1)
        return self.antecedent.after_first(hidden_JmF + bias_mF + features_JmF)

    def loss(self, examples: Sequence[Example]) -> Tensor:
        """The sum over the mentions of a random section of each document; the mean over the documents.

        The likelihood of antecedents does not train a mention that has none: it may score below 0. Where singleton
        clusters are to be found, every candidate also learns whether it is a mention.
        """
        losses = []
        for example in examples:
            spare = len(example.sentences) - self.size.sentences
            if spare > 0:
                example = cut(example, int(torch.randint(spare + 1, ())), self.size.sentences)
            ranked: Ranked = self(example)
            number_M = torch.tensor(cluster_numbers(ranked.mentions, example.clusters))
            total = marginal_loss(ranked.antecedent_MA, number_M.to(ranked.antecedent_MA.device))
            if self.singletons:
                wanted = cluster_numbers(ranked.candidates, example.clusters)
                is_mention_S = (torch.tensor(wanted, device=total.device) != NO_CLUSTER).to(total.dtype)
                total = total + nn.functional.binary_cross_entropy_with_logits(
                    ranked.mention_S, is_mention_S, reduction="sum"
                )
            losses.append(total)
        return torch.stack(losses).mean()

    def predict(self, examples: Sequence[Example]) -> list[Prediction]:
        return [self._clusters(self(example)) for example in examples]

    def _clusters(self, ranked: Ranked) -> Prediction:
        best_M = ranked.antecedent_MA.argmax(1).tolist()
        antecedents = [mention - back if back else None for mention, back in enumerate(best_M)]
        alone = (ranked.mention_S[ranked.kept] > 0).tolist() if self.singletons else [False] * len(antecedents)
        return linked(ranked.mentions, antecedents, alone)


class _Products(torch.autograd.Function):
    """(W₂ + W₃ diag(g_i)) g_j of each earlier mention j and later mention i, (J, m, F).

    One mention's matrix stays in the cache while it is computed and, backwards, while its gradient is used; autograd
    would pass several times through the matrices of all of them.
    """

    @staticmethod
    def forward(ctx: Any, earlier_JG: Tensor, later_mG: Tensor, earlier_FG: Tensor, both_FG: Tensor) -> Tensor:
        device = earlier_JG.device.type
        half = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else both_FG.dtype
        earlier_JG = earlier_JG.to(half)
        matrices_mFG = both_FG.new_empty(len(later_mG), *both_FG.shape, dtype=half)
        for matrix_FG, later_G in zip(matrices_mFG, later_mG, strict=True):
            torch.addcmul(earlier_FG, both_FG, later_G, out=matrix_FG)
        ctx.save_for_backward(earlier_JG, later_mG, both_FG, matrices_mFG)
        products_JR = earlier_JG @ matrices_mFG.flatten(0, 1).t()  # R = m · F
        return products_JR.view(len(earlier_JG), *matrices_mFG.shape[:2])

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, dy_JmF: Tensor) -> tuple[Tensor, ...]:
        earlier_JG, later_mG, both_FG, matrices_mFG = ctx.saved_tensors
        dy_JR = dy_JmF.flatten(1)
        dearlier_JG = dy_JR @ matrices_mFG.flatten(0, 1)
        dmatrices_mFG = (dy_JR.t() @ earlier_JG).view_as(matrices_mFG)
        dlater_mG, dboth_FG = torch.empty_like(later_mG), torch.zeros_like(both_FG)
        for dmatrix_FG, later_G, dlater_G in zip(dmatrices_mFG, later_mG, dlater_mG, strict=True):
            dboth_FG.addcmul_(dmatrix_FG, later_G)
            torch.sum(dmatrix_FG * both_FG, 0, out=dlater_G)
        return dearlier_JG, dlater_mG, dmatrices_mFG.sum(0), dboth_FG


_products: Callable[..., Tensor] = _Products.apply


def marginal_loss(scores_MA: Tensor, number_M: Tensor) -> Tensor:
    """−Σ log Σ p(antecedent), summed over the antecedents in the mention's own cluster, or "none" if there are none."""
    place_M = torch.arange(len(number_M), device=scores_MA.device)
    antecedent_MA = place_M[:, None] - torch.arange(scores_MA.shape[1], device=scores_MA.device)
    same_MA = number_M[antecedent_MA.clamp(min=0)] == number_M[:, None]
    right_MA = same_MA & (antecedent_MA >= 0) & (number_M != NO_CLUSTER)[:, None]
    right_MA[:, 0] = ~right_MA[:, 1:].any(1)
    right_M = scores_MA.masked_fill(~right_MA, -torch.inf).logsumexp(1)
    return (scores_MA.logsumexp(1) - right_M).sum()


def _bucket(distance: Tensor) -> Tensor:
    return torch.bucketize(distance, torch.tensor(NEAREST, device=distance.device), right=True) - 1


Net = SpanRanker
