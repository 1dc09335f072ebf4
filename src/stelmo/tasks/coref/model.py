"""A document → clusters of mentions: end-to-end span ranking (Lee et al. 2017). Knows no files.

Every span up to a width is a candidate g = [h_start ; h_end ; Σ α x ; width], where α says which of its words is the
head. The best by s_m(g) are kept; each chooses the antecedent j of the highest

    s(i, j) = s_m(i) + s_m(j) + s_a([g_i ; g_j ; g_i ∘ g_j ; same speaker ; distance])      s(i, none) = 0

and learns from the summed likelihood of all antecedents in its own cluster. The paper's genre feature is left out,
because few data sets have genres.

W words, K widths, D of the input, E of the encoder, F of a scorer, G of a span, S candidates, M mentions kept,
A antecedents and none, P pairs.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from pydantic import Field
from torch import Tensor, nn

from stelmo.config import Positive, Settings
from stelmo.settings import Share
from stelmo.tasks.coref.data import Clusters, Example, Prediction, Span
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

NO_CLUSTER = -1


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
        "steps": 6_400,
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
PAIRS_TOGETHER = 2_048  # their vectors stay in the cache; larger blocks are slower (docs/tasks.md)


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
        later_P, earlier_P = pairs(len(g_MG), self.size.antecedents)
        number = {speaker: number for number, speaker in enumerate(dict.fromkeys(speakers))}
        speaker_M = torch.tensor([number[speaker] for speaker in speakers])
        same_P = (speaker_M[later_P] == speaker_M[earlier_P]).long()
        pairs_P4 = torch.stack([later_P, earlier_P, same_P, _bucket(later_P - earlier_P)], 1).to(g_MG.device)
        scores_P = mention_M[later_P] + mention_M[earlier_P] + self._pair_scores(g_MG, pairs_P4)
        scores_MA = scores_P.new_full((len(g_MG), min(self.size.antecedents + 1, len(g_MG))), -torch.inf)
        scores_MA[:, 0] = 0.0
        return scores_MA.index_put((later_P, later_P - earlier_P), scores_P)

    def _pair_scores(self, g_MG: Tensor, pairs_P4: Tensor) -> Tensor:
        """s_a (P,). The first layer is split up as above; only g_i ∘ g_j is computed for each pair."""
        first, parts = self.antecedent.first, [g_MG.shape[1]] * 3 + [self.size.feature] * 2
        later_FG, earlier_FG, both_FG, speaker_Ff, distance_Ff = first.weight.split_with_sizes(parts, 1)
        later_MF, earlier_MF = g_MG @ later_FG.t() + first.bias, g_MG @ earlier_FG.t()
        speaker_2F, distance_9F = self.speaker.weight @ speaker_Ff.t(), self.distance.weight @ distance_Ff.t()
        scores = []
        for some_p4 in torch.split(pairs_P4, PAIRS_TOGETHER):
            later_p, earlier_p, same_p, bucket_p = some_p4.unbind(1)
            hidden_pF = (g_MG[later_p] * g_MG[earlier_p]) @ both_FG.t() + later_MF[later_p] + earlier_MF[earlier_p]
            scores.append(self.antecedent.after_first(hidden_pF + speaker_2F[same_p] + distance_9F[bucket_p]))
        return torch.cat(scores)

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


def marginal_loss(scores_MA: Tensor, number_M: Tensor) -> Tensor:
    """−Σ log Σ p(antecedent), summed over the antecedents in the mention's own cluster, or "none" if there are none."""
    place_M = torch.arange(len(number_M), device=scores_MA.device)
    antecedent_MA = place_M[:, None] - torch.arange(scores_MA.shape[1], device=scores_MA.device)
    same_MA = number_M[antecedent_MA.clamp(min=0)] == number_M[:, None]
    right_MA = same_MA & (antecedent_MA >= 0) & (number_M != NO_CLUSTER)[:, None]
    right_MA[:, 0] = ~right_MA[:, 1:].any(1)
    right_M = scores_MA.masked_fill(~right_MA, -torch.inf).logsumexp(1)
    return (scores_MA.logsumexp(1) - right_M).sum()


def _bucket(distance_P: Tensor) -> Tensor:
    return torch.bucketize(distance_P, torch.tensor(NEAREST), right=True) - 1


Net = SpanRanker


# Spans of a document


def candidates(lengths: Sequence[int], widest: int) -> Tensor:
    """(W, K): whether the span of K + 1 words that begins here ends within its sentence."""
    left_W = torch.cat([torch.arange(length, 0, -1) for length in lengths])
    return torch.arange(widest) < left_W[:, None]


def pruned(spans: Sequence[Span], scores: Sequence[float], keep: int) -> list[int]:
    """The positions of the best spans, in document order; a span that crosses a better one is left out."""
    kept: list[int] = []
    crossing = _Crossing()
    for place in sorted(range(len(spans)), key=lambda place: -scores[place]):
        if len(kept) == keep:
            break
        if not crossing.with_any(spans[place]):
            crossing.add(spans[place])
            kept.append(place)
    return sorted(kept, key=lambda place: spans[place])


class _Crossing:
    """The spans accepted so far; checks whether another span overlaps one of them without nesting."""

    def __init__(self) -> None:
        self._last_end: dict[int, int] = {}  # of the spans that begin at a word
        self._first_start: dict[int, int] = {}  # of the spans that end at a word

    def add(self, span: Span) -> None:
        start, end = span
        self._last_end[start] = max(end, self._last_end.get(start, end))
        self._first_start[end] = min(start, self._first_start.get(end, start))

    def with_any(self, span: Span) -> bool:
        start, end = span
        return any(
            self._last_end.get(inside + 1, end) > end or self._first_start.get(inside, start) < start
            for inside in range(start, end)
        )


def pairs(mentions: int, antecedents: int) -> tuple[Tensor, Tensor]:
    """Each mention paired with the mentions directly before it: (P,) and (P,)."""
    later_MK = torch.arange(mentions)[:, None].expand(-1, min(antecedents, mentions - 1))
    earlier_MK = later_MK - torch.arange(1, later_MK.shape[1] + 1)
    real_MK = earlier_MK >= 0
    return later_MK[real_MK], earlier_MK[real_MK]


def cluster_numbers(spans: Iterable[Span], clusters: Clusters) -> list[int]:
    number = {span: number for number, cluster in enumerate(clusters) for span in cluster}
    return [number.get(span, NO_CLUSTER) for span in spans]


def linked(mentions: Sequence[Span], antecedents: Sequence[int | None], alone: Sequence[bool]) -> Clusters:
    """Chains of antecedents → clusters. A mention without a chain is a cluster if it may be `alone`, else dropped."""
    clusters: list[list[int]] = []
    of: list[list[int]] = []
    for mention, antecedent in enumerate(antecedents):
        if antecedent is None:
            clusters.append([])
        of.append(clusters[-1] if antecedent is None else of[antecedent])
        of[-1].append(mention)
    return tuple(
        frozenset(mentions[mention] for mention in cluster)
        for cluster in clusters
        if len(cluster) > 1 or alone[cluster[0]]
    )


def cut(example: Example, first: int, count: int) -> Example:
    """`count` sentences from number `first`, and the mentions inside them."""
    chosen = slice(first, first + count)
    start = sum(map(len, example.sentences[:first]))
    end = start + sum(map(len, example.sentences[chosen]))
    inside = (
        frozenset((a - start, b - start) for a, b in cluster if start <= a and b < end) for cluster in example.clusters
    )
    return example._replace(
        sentences=example.sentences[chosen],
        speakers=example.speakers[chosen],
        clusters=tuple(cluster for cluster in inside if cluster),
    )
