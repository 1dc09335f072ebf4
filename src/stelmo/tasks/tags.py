"""Tags of a sentence ↔ labelled spans, and their F1; a CRF over whole tag sequences. Knows no files and no task.

BIO    every span begins with B-X and continues with I-X
IOB1   a span begins with I-X, and with B-X only where it touches a span of the same label (CoNLL-2003 as published)
BIOUL  a span of one token is U-X; a longer one is B-X, I-X …, L-X

B sentences, T tokens, Y tags. A transition is [from, to]. Every sentence has a token; padding comes after its end.
"""

import re
from collections.abc import Callable, Hashable, Iterable, Sequence, Set
from itertools import pairwise
from typing import Literal, NamedTuple, Self

import torch
from torch import Tensor, nn

from stelmo.tasks.layers import lengths

Scheme = Literal["BIO", "BIOUL"]

_TAG = re.compile(r"O|[BI]-\S+")


class Span(NamedTuple):
    """Tokens start … end-1."""

    start: int
    end: int
    label: str


def is_tag(text: str) -> bool:
    return _TAG.fullmatch(text) is not None


def spans(tags: Sequence[str]) -> list[Span]:
    """The spans of BIO or IOB1 tags, as conlleval reads them: I-X starts a span unless it continues one of X."""
    found: list[Span] = []
    for index, tag in enumerate(tags):
        if tag == "O":
            continue
        if tag.startswith("I-") and found and found[-1].end == index and found[-1].label == tag[2:]:
            found[-1] = found[-1]._replace(end=index + 1)
        else:
            found.append(Span(index, index + 1, tag[2:]))
    return found


def bio(spans: Iterable[Span], length: int) -> list[str]:
    """Spans that do not overlap → the tags of `length` tokens."""
    tags = ["O"] * length
    for start, end, label in spans:
        assert all(tag == "O" for tag in tags[start:end]), f"spans overlap at {start}"
        tags[start:end] = [f"B-{label}", *[f"I-{label}"] * (end - start - 1)]
    return tags


def first_not_bio(tags: Sequence[str]) -> int | None:
    """The first I-X that does not continue a span of X."""
    return _first(tags, lambda before, tag: tag.startswith("I-") and before[2:] != tag[2:])


def first_not_iob1(tags: Sequence[str]) -> int | None:
    """The first B-X that does not directly follow a span of X."""
    return _first(tags, lambda before, tag: tag.startswith("B-") and before[2:] != tag[2:])


def _first(tags: Sequence[str], wrong: Callable[[str, str], bool]) -> int | None:
    return next((index for index, pair in enumerate(pairwise(["O", *tags])) if wrong(*pair)), None)


class Tally(NamedTuple):
    """How many spans were correct, predicted and wanted. The scores are percentages; 0 out of 0 is 0."""

    correct: int = 0
    predicted: int = 0
    wanted: int = 0

    def counting(self, predicted: Set[Hashable], wanted: Set[Hashable]) -> Self:
        """The tally with one more sentence: what is in both sets is correct."""
        return self._replace(
            correct=self.correct + len(predicted & wanted),
            predicted=self.predicted + len(predicted),
            wanted=self.wanted + len(wanted),
        )

    @property
    def fraction(self) -> tuple[float, float]:
        """Numerator and denominator of F1: 2PR/(P+R) equals 2·correct/(predicted + wanted)."""
        return 2.0 * self.correct, float(self.predicted + self.wanted)

    @property
    def precision(self) -> float:
        return 100.0 * self.correct / self.predicted if self.predicted else 0.0

    @property
    def recall(self) -> float:
        return 100.0 * self.correct / self.wanted if self.wanted else 0.0

    @property
    def f1(self) -> float:
        part, whole = self.fraction
        return 100.0 * part / whole if whole else 0.0


# Legal sequences


class Legal(NamedTuple):
    """True where the scheme allows a tag to follow another, to begin a sentence, to end one."""

    transitions_YY: Tensor
    start_Y: Tensor
    end_Y: Tensor


def legal(tags: Sequence[str], scheme: Scheme) -> Legal:
    """A sentence begins and ends as if there were an O on both sides."""
    follows = _follows_in_bioul if scheme == "BIOUL" else _follows_in_bio
    return Legal(
        torch.tensor([[follows(before, tag) for tag in tags] for before in tags]),
        torch.tensor([follows("O", tag) for tag in tags]),
        torch.tensor([follows(tag, "O") for tag in tags]),
    )


def _follows_in_bio(before: str, tag: str) -> bool:
    return tag[0] != "I" or (before[0] in "BI" and before[2:] == tag[2:])


def _follows_in_bioul(before: str, tag: str) -> bool:
    inside, continues = before[0] in "BI", tag[0] in "IL"
    return inside == continues and (not inside or before[2:] == tag[2:])


def bioul(tags: Sequence[str]) -> list[str]:
    """BIO → BIOUL."""
    converted = list(tags)
    for start, end, label in spans(tags):
        converted[end - 1] = f"L-{label}" if end - start > 1 else f"U-{label}"
    return converted


def bio_of(tags: Sequence[str]) -> list[str]:
    """Legal BIOUL → BIO."""
    return [{"U": "B", "L": "I"}.get(tag[0], tag[0]) + tag[1:] for tag in tags]


# Paths


def path_score(
    scores_BTY: Tensor, path_BT: Tensor, mask_BT: Tensor, transitions_YY: Tensor, start_Y: Tensor, end_Y: Tensor
) -> Tensor:
    """(B,): the sum of a path's scores, transitions, start and end. The path may hold any tag at padding."""
    emitted_BT = scores_BTY.gather(2, path_BT[:, :, None])[:, :, 0]
    moved_BT = transitions_YY[path_BT[:, :-1], path_BT[:, 1:]]
    last_B = path_BT.gather(1, lengths(mask_BT)[:, None] - 1)[:, 0]
    inside = torch.where(mask_BT, emitted_BT, 0.0).sum(1) + torch.where(mask_BT[:, 1:], moved_BT, 0.0).sum(1)
    return inside + start_Y[path_BT[:, 0]] + end_Y[last_B]


def log_partition(
    scores_BTY: Tensor, mask_BT: Tensor, transitions_YY: Tensor, start_Y: Tensor, end_Y: Tensor
) -> Tensor:
    """(B,): log Σ exp(score) over all paths, by the forward algorithm."""
    total_BY = start_Y + scores_BTY[:, 0]
    for t in range(1, scores_BTY.shape[1]):
        grown_BY = (total_BY[:, :, None] + transitions_YY).logsumexp(1) + scores_BTY[:, t]
        total_BY = torch.where(mask_BT[:, t, None], grown_BY, total_BY)
    return (total_BY + end_Y).logsumexp(1)


def viterbi(
    scores_BTY: Tensor, mask_BT: Tensor, transitions_YY: Tensor, start_Y: Tensor, end_Y: Tensor
) -> list[list[int]]:
    """The highest-scoring path of each sentence, without padding. A path through −∞ is never chosen."""
    best_BY = start_Y + scores_BTY[:, 0]
    stay_BY = torch.arange(best_BY.shape[1], device=best_BY.device).expand_as(best_BY)
    pointers: list[Tensor] = []
    for t in range(1, scores_BTY.shape[1]):
        reached_BY, from_BY = (best_BY[:, :, None] + transitions_YY).max(1)
        real_B1 = mask_BT[:, t, None]
        pointers.append(torch.where(real_B1, from_BY, stay_BY))
        best_BY = torch.where(real_B1, reached_BY + scores_BTY[:, t], best_BY)
    # Follow the pointers back from the last tags. Padding points to itself, so a short sentence keeps its last tag.
    path = [(best_BY + end_Y).argmax(1)]
    for from_BY in reversed(pointers):
        path.append(from_BY.gather(1, path[-1][:, None])[:, 0])
    paths_BT = torch.stack(path[::-1], 1)
    return [tags[:length] for tags, length in zip(paths_BT.tolist(), lengths(mask_BT).tolist(), strict=True)]


class Crf(nn.Module):
    """A conditional random field over the tags of a sentence (Lafferty et al. 2001).

    The likelihood sums over all paths; the scheme only restricts decoding, as in the paper.
    """

    legal_YY: Tensor
    legal_start_Y: Tensor
    legal_end_Y: Tensor

    def __init__(self, tags: Sequence[str], scheme: Scheme) -> None:
        super().__init__()
        self.transitions_YY = nn.Parameter(nn.init.xavier_normal_(torch.empty(len(tags), len(tags))))
        self.start_Y = nn.Parameter(torch.randn(len(tags)))
        self.end_Y = nn.Parameter(torch.randn(len(tags)))
        for name, allowed in zip(("legal_YY", "legal_start_Y", "legal_end_Y"), legal(tags, scheme), strict=True):
            self.register_buffer(name, allowed, persistent=False)

    def loss(self, scores_BTY: Tensor, path_BT: Tensor, mask_BT: Tensor) -> Tensor:
        """(B,): −log p(path)."""
        moves = (self.transitions_YY, self.start_Y, self.end_Y)
        return log_partition(scores_BTY, mask_BT, *moves) - path_score(scores_BTY, path_BT, mask_BT, *moves)

    def decode(self, scores_BTY: Tensor, mask_BT: Tensor) -> list[list[int]]:
        """The best legal path of each sentence."""
        return viterbi(
            scores_BTY,
            mask_BT,
            self.transitions_YY.masked_fill(~self.legal_YY, -torch.inf),
            self.start_Y.masked_fill(~self.legal_start_Y, -torch.inf),
            self.end_Y.masked_fill(~self.legal_end_Y, -torch.inf),
        )
