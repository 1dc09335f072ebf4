"""Sentences → how probable their words are, and which others would fit: the biLM as the language model it is.

Knows no files. N places to predict, T tokens, P projection, D = 2P, V words of the vocabulary.

  position     0     1  …  T    T+1
  token       <S>   w_1 … w_T  </S>
  forward      ·     predicted from all before it  (the forward half of the top layer, one position to the left)
  backward     predicted from all after it  ·      (the backward half, one position to the right)
"""

from collections.abc import Iterable, Iterator, Sequence
from math import exp
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from stelmo.config import StatePolicy, choose
from stelmo.embed import batches, engine
from stelmo.embed.sentences import checked
from stelmo.errors import DataError, ModelError
from stelmo.model.softmax import Softmax
from stelmo.text import chars
from stelmo.text.vocabulary import UNKNOWN, Vocabulary

if TYPE_CHECKING:
    from stelmo.embed.model import Model

Array = NDArray[Any]
Sentences = Iterable[Sequence[str]]
LOGITS_TOGETHER = 2**24  # 64 MB in float32: 21 places over the 793,471 words of the published models


class LogProbs(NamedTuple):
    """Natural logarithms of one sentence's probabilities; a word outside the vocabulary is scored as <UNK>."""

    forward: Array  # (T+1,): every token, then </S>
    backward: Array  # (T+1,): <S>, then every token

    @property
    def tokens(self) -> Array:
        """(T, 2): forward and backward of every token, without the markers."""
        return np.stack([self.forward[:-1], self.backward[1:]], 1)


class Perplexity(NamedTuple):
    """e to the mean negative logarithm; `combined` is the geometric mean of the two directions."""

    forward: float
    backward: float
    combined: float
    predictions: int  # of each direction: the tokens and one marker a sentence


class Substitute(NamedTuple):
    """A word for a gap: √(forward · backward), made to sum to 1 over all words; and what each direction says."""

    word: str
    probability: float
    forward: float
    backward: float


class Candidates(NamedTuple):
    """The best words of one direction for each token of a sentence, most probable first."""

    ids: Array  # (T, k)
    log_probs: Array  # (T, k)


@torch.inference_mode()
def log_probs(
    model: "Model", softmax: Softmax, sentences: Sentences, state: StatePolicy | None = None
) -> list[LogProbs]:
    """Lists of tokens → the log-probabilities of each sentence's words in both directions, in input order."""
    found, words = checked(sentences), _vocabulary(model, softmax)
    results: dict[int, LogProbs] = {}
    for positions, tops in _top_layers(model, found, state):
        ids = [_target_ids(found[position], words) for position in positions]
        ahead, behind = _predicting(tops)
        forward = _scores(softmax, ahead, [row[1:] for row in ids])
        backward = _scores(softmax, behind, [row[:-1] for row in ids])
        results.update(zip(positions, map(LogProbs, forward, backward), strict=True))
    return [results[position] for position in range(len(found))]


def perplexity(scores: Iterable[LogProbs]) -> Perplexity:
    """Over all predictions of all sentences, full softmax: every token and one marker in each direction."""
    found = list(scores)
    if not found:
        raise DataError("perplexity: no sentences; expected at least one")
    forward = float(np.concatenate([score.forward for score in found]).mean(dtype=float))
    backward = float(np.concatenate([score.backward for score in found]).mean(dtype=float))
    combined = (forward + backward) / 2
    return Perplexity(exp(-forward), exp(-backward), exp(-combined), sum(len(score.forward) for score in found))


@torch.inference_mode()
def substitutes(
    model: "Model",
    softmax: Softmax,
    sentence: Sequence[str],
    position: int,
    k: int = 10,
    state: StatePolicy | None = None,
) -> list[Substitute]:
    """The k words that fit best at a position (from 0), by what stands left and right of it; best first.

    The word that is there has no say. <S>, </S> and <UNK> are no words one could put there.
    """
    (tokens,), words = checked([sentence]), _vocabulary(model, softmax)
    if not 0 <= position < len(tokens):
        raise DataError(f"position {position}: the sentence has {len(tokens)} tokens, numbered from 0")
    ((_, (top_TD,)),) = _top_layers(model, [tokens], state)
    width = top_TD.shape[1] // 2
    forward_V, backward_V = softmax(torch.stack([top_TD[position, :width], top_TD[position + 2, width:]])).double()
    both_V = (forward_V + backward_V) / 2
    both_V[_no_words(words, UNKNOWN)] = -torch.inf
    best = both_V.softmax(0).topk(min(_positive(k), len(words) - 3))
    return [
        Substitute(
            words.words[number], float(probability), float(forward_V[number].exp()), float(backward_V[number].exp())
        )
        for probability, number in zip(best.values, best.indices.tolist(), strict=True)
    ]


@torch.inference_mode()
def candidates(
    model: "Model",
    softmax: Softmax,
    sentences: Sentences,
    k: int,
    *,
    markers: bool = False,
    state: StatePolicy | None = None,
) -> list[tuple[Candidates, Candidates]]:
    """The k best words of each direction for every token of every sentence; <S> and </S> only with `markers`."""
    found, words = checked(sentences), _vocabulary(model, softmax)
    banned = [] if markers else _no_words(words)
    k = min(_positive(k), len(words) - len(banned))
    results: dict[int, tuple[Candidates, Candidates]] = {}
    for positions, tops in _top_layers(model, found, state):
        ahead, behind = _predicting(tops)
        forward = _best(softmax, [h_TP[:-1] for h_TP in ahead], k, banned)
        backward = _best(softmax, [h_TP[1:] for h_TP in behind], k, banned)
        results.update(zip(positions, zip(forward, backward, strict=True), strict=True))
    return [results[position] for position in range(len(found))]


def _vocabulary(model: "Model", softmax: Softmax) -> Vocabulary:
    if model.vocabulary is None:
        raise ModelError("the model has no vocabulary, so its softmax has no words; load it with vocabulary=…")
    if len(model.vocabulary) != len(softmax.bias):
        raise ModelError(
            f"{model.vocabulary.name}: {len(model.vocabulary)} words, but the softmax has {len(softmax.bias)}; "
            "the two belong to different models"
        )
    return model.vocabulary


def _no_words(words: Vocabulary, *more: str) -> list[int]:
    return [words.require(symbol) for symbol in (chars.BEGIN_SENTENCE, chars.END_SENTENCE, *more)]


def _positive(k: int) -> int:
    if k < 1:
        raise DataError(f"k {k}: expected the number of words wanted, at least 1")
    return k


def _target_ids(tokens: Sequence[str], words: Vocabulary) -> Tensor:
    """(T+2,), the markers included."""
    begin, end = words.require(chars.BEGIN_SENTENCE), words.require(chars.END_SENTENCE)
    return torch.tensor([begin, *map(words.id, tokens), end])


def _top_layers(
    model: "Model", sentences: Sequence[Sequence[str]], state: StatePolicy | None
) -> Iterator[tuple[list[int], list[Tensor]]]:
    """Batches of positions among the sentences, each with its top layer (T+2, 2P), the markers included."""
    policy = model.settings.state if state is None else state
    choose("state", policy, ("fresh", "warm"))
    row = model.start_state(policy)
    lengths = [len(tokens) + 2 for tokens in sentences]
    for positions in batches.by_length(lengths, model.settings.batch_tokens):
        batch = engine.batch_of_tokens([sentences[position] for position in positions], model.word_ids)
        layers_LBTD, _ = engine.layers(model.bilm, batch, row.expand(len(positions)))
        yield positions, [layers_LBTD[-1, i, : lengths[position]] for i, position in enumerate(positions)]


def _predicting(tops: Sequence[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
    """The halves of each top layer that predict a word: of w_1 … </S> ahead, of <S> … w_T behind, (T+1, P) each."""
    width = tops[0].shape[1] // 2
    return [top_TD[:-1, :width] for top_TD in tops], [top_TD[1:, width:] for top_TD in tops]


def _chunks(softmax: Softmax, h_NP: Tensor) -> Iterator[Tensor]:
    """Log-probabilities (n, V), a few places at a time: all at once would be gigabytes."""
    return map(softmax, torch.split(h_NP, max(1, LOGITS_TOGETHER // len(softmax.bias))))


def _scores(softmax: Softmax, places: Sequence[Tensor], targets: Sequence[Tensor]) -> list[Array]:
    """The log-probability of each target at its place, sentence by sentence."""
    h_NP = torch.cat(list(places))
    rest_N = torch.cat(list(targets)).to(h_NP.device)
    scores = []
    for log_probs_NV in _chunks(softmax, h_NP):
        now_N, rest_N = rest_N[: len(log_probs_NV)], rest_N[len(log_probs_NV) :]
        scores.append(log_probs_NV.gather(1, now_N[:, None])[:, 0].cpu())
    return [part.numpy() for part in torch.split(torch.cat(scores), [len(row) for row in targets])]


def _best(softmax: Softmax, places: Sequence[Tensor], k: int, banned: list[int]) -> list[Candidates]:
    ids, values = [torch.empty(0, k, dtype=torch.long)], [torch.empty(0, k, dtype=softmax.bias.dtype)]
    for log_probs_NV in _chunks(softmax, torch.cat(list(places))):
        log_probs_NV[:, banned] = -torch.inf
        best = log_probs_NV.topk(k)
        ids.append(best.indices.cpu())
        values.append(best.values.cpu())
    lengths = [len(h_TP) for h_TP in places]
    parts = zip(torch.split(torch.cat(ids), lengths), torch.split(torch.cat(values), lengths), strict=True)
    return [Candidates(numbers.numpy(), found.numpy()) for numbers, found in parts]
