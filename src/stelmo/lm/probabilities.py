"""Sentences → the probabilities of their words, and of others in their place. Knows no files.

N places to predict, T tokens, P projection, D = 2P, V words of the vocabulary.

  position     0     1  …  T    T+1
  token       <S>   w_1 … w_T  </S>
  forward      ·     predicted from all words before it  (forward half of the top layer, one position to the left)
  backward     predicted from all words after it  ·      (backward half, one position to the right)
"""

from collections.abc import Callable, Iterator, Sequence
from functools import wraps
from typing import Any, NamedTuple, Protocol, TypeVar, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from stelmo.config import choose
from stelmo.engine import plain, planning
from stelmo.engine.engine import Engine, Sentences, checked
from stelmo.errors import DataError, ModelError
from stelmo.model.bilm import Softmax
from stelmo.ops.losses import full_losses
from stelmo.settings import StatePolicy
from stelmo.text import chars
from stelmo.text.ids import UNKNOWN, Vocabulary

Array = NDArray[Any]
Work = TypeVar("Work", bound=Callable[..., Any])
LOGITS_TOGETHER = 2**24  # 64 MB in float32: 21 places over the 793,471 words of the published models


class LanguageModel(Protocol):
    """The attributes of a `stelmo.Model` that are used here."""

    engine: Engine

    @property
    def vocabulary(self) -> Vocabulary | None: ...

    @property
    def softmax(self) -> Softmax: ...


class LogProbs(NamedTuple):
    """Natural logarithms of one sentence's probabilities; a word outside the vocabulary is scored as <UNK>."""

    forward: Array  # (T+1,): every token, then </S>
    backward: Array  # (T+1,): <S>, then every token

    @property
    def tokens(self) -> Array:
        """(T, 2): forward and backward of every token, without the markers."""
        return np.stack([self.forward[:-1], self.backward[1:]], 1)


class Substitute(NamedTuple):
    """A word for a position: √(forward · backward), normalised to sum to 1; and its probability in each direction."""

    word: str
    probability: float
    forward: float
    backward: float


class Guess(NamedTuple):
    word: str
    probability: float


class Guesses(NamedTuple):
    """The best words for a position: of both directions together, and of each alone."""

    both: list[Substitute]
    forward: list[Guess]
    backward: list[Guess]


class Candidates(NamedTuple):
    """The best words of one direction for each token of a sentence, most probable first."""

    ids: Array  # (T, k)
    log_probs: Array  # (T, k)


def _in_own_precision(work: Work) -> Work:
    """The same function without gradients, and in the model's precision even under the caller's autocast, which would
    round log-probabilities to two or three digits."""

    @wraps(work)
    def exact(model: LanguageModel, *arguments: Any, **options: Any) -> Any:
        device = model.engine.bilm.encoder.table.device.type
        with torch.inference_mode(), torch.autocast(device, enabled=False):
            return work(model, *arguments, **options)

    return cast(Work, exact)


@_in_own_precision
def log_probs(
    model: LanguageModel, softmax: Softmax, sentences: Sentences, state: StatePolicy | None = None
) -> list[LogProbs]:
    """Lists of tokens → the log-probabilities of each sentence's words in both directions, in input order."""
    found, words = checked(sentences), vocabulary_of(model, softmax)
    begin, end = _markers(words)
    results: dict[int, LogProbs] = {}
    for positions, ahead, behind in _predicting(model, found, state):
        ids = [torch.tensor([begin, *map(words.id, found[position]), end]) for position in positions]
        forward = _scores(softmax, ahead, [row[1:] for row in ids])
        backward = _scores(softmax, behind, [row[:-1] for row in ids])
        results.update(zip(positions, map(LogProbs, forward, backward), strict=True))
    return [results[position] for position in range(len(found))]


@_in_own_precision
def guesses(
    model: LanguageModel,
    softmax: Softmax,
    sentence: Sequence[str],
    position: int,
    k: int = 10,
    state: StatePolicy | None = None,
) -> Guesses:
    """The k best words for a position (from 0), judged by the words to its left and right, together and each alone.

    The word at the position itself is ignored. <S>, </S> and <UNK> are never among the results.
    """
    (tokens,), words = checked([sentence]), vocabulary_of(model, softmax)
    if not 0 <= position < len(tokens):
        raise DataError(f"position {position}: the sentence has {len(tokens)} tokens, numbered from 0")
    ((_, (ahead_TP,), (behind_TP,)),) = _predicting(model, [tokens], state)
    logs_2V = softmax(torch.stack([ahead_TP[position], behind_TP[position + 1]])).double()
    logs_2V[:, _markers(words, UNKNOWN)] = -torch.inf
    k = min(_positive(k), len(words) - 3)
    forward_V, backward_V = logs_2V.exp()
    both = [
        Substitute(word, probability, float(forward_V[number]), float(backward_V[number]))
        for number, (word, probability) in _ranked(logs_2V.mean(0).softmax(0), words, k)
    ]
    alone = ([guess for _, guess in _ranked(direction_V, words, k)] for direction_V in (forward_V, backward_V))
    return Guesses(both, *alone)


def _ranked(probabilities_V: Tensor, words: Vocabulary, k: int) -> Iterator[tuple[int, Guess]]:
    """The ids of the k best words, and the words with their probabilities."""
    best = probabilities_V.topk(k)
    for probability, number in zip(best.values.tolist(), best.indices.tolist(), strict=True):
        yield number, Guess(words.words[number], probability)


@_in_own_precision
def candidates(
    model: LanguageModel,
    softmax: Softmax,
    sentences: Sentences,
    k: int,
    *,
    markers: bool = False,
    state: StatePolicy | None = None,
) -> list[tuple[Candidates, Candidates]]:
    """The k best words of each direction for every token of every sentence; <S> and </S> only with `markers`."""
    found, words = checked(sentences), vocabulary_of(model, softmax)
    banned = [] if markers else _markers(words)
    k = min(_positive(k), len(words) - len(banned))
    results: dict[int, tuple[Candidates, Candidates]] = {}
    for positions, ahead, behind in _predicting(model, found, state):
        forward = _best(softmax, [h_TP[:-1] for h_TP in ahead], k, banned)
        backward = _best(softmax, [h_TP[1:] for h_TP in behind], k, banned)
        results.update(zip(positions, zip(forward, backward, strict=True), strict=True))
    return [results[position] for position in range(len(found))]


@_in_own_precision
def predicting_at(
    model: LanguageModel, sentences: Sentences, positions: Sequence[int], state: StatePolicy | None = None
) -> Array:
    """(N, P): for each sentence the vector that predicts the word at its position from the words around it.

    It is the mean of both directions: its products with the softmax's rows, plus the bias, are the mean log-
    probabilities of both, less a number that is the same for all words. The word at the position itself is ignored.
    """
    found = checked(sentences)
    predicting_NP = np.empty((len(found), model.softmax.weight.shape[1]), np.float32)
    for batch, ahead, behind in _predicting(model, found, state):
        for number, ahead_TP, behind_TP in zip(batch, ahead, behind, strict=True):
            position = positions[number]
            predicting_NP[number] = ((ahead_TP[position] + behind_TP[position + 1]) / 2).float().cpu().numpy()
    return predicting_NP


def vocabulary_of(model: LanguageModel, softmax: Softmax) -> Vocabulary:
    """The words of the softmax's rows."""
    if model.vocabulary is None:
        raise ModelError("the model has no vocabulary, so its softmax has no words; load the model with vocabulary=…")
    if len(model.vocabulary) != len(softmax.bias):
        raise ModelError(
            f"{model.vocabulary.name}: {len(model.vocabulary)} words, but the softmax has {len(softmax.bias)}; "
            "the two belong to different models"
        )
    return model.vocabulary


def _markers(words: Vocabulary, *more: str) -> list[int]:
    """The ids of <S>, </S> and `more`."""
    return [words.require(symbol) for symbol in (chars.BEGIN_SENTENCE, chars.END_SENTENCE, *more)]


def _positive(k: int) -> int:
    if k < 1:
        raise DataError(f"k {k}: expected the number of words to return, at least 1")
    return k


def _predicting(
    model: LanguageModel, sentences: Sequence[Sequence[str]], state: StatePolicy | None
) -> Iterator[tuple[list[int], list[Tensor], list[Tensor]]]:
    """Batches of positions among the sentences, each with the halves of its top layer that predict a word:
    w_1 … </S> forward, <S> … w_T backward, (T+1, P) each."""
    engine, config = model.engine, model.engine.bilm.config
    policy = engine.settings.state if state is None else state
    choose("state", policy, ("fresh", "warm"))
    # Without a state, the vector of a marker depends on the length of its sentence.
    at_markers = _at_markers(engine, policy) if config.has_state else None
    lengths, width = [len(tokens) + 2 for tokens in sentences], config.projection
    for positions in planning.by_length(lengths, engine.plan.batch_tokens):
        batch = [sentences[position] for position in positions]
        if at_markers is None:
            tops, _ = engine.run(batch, lambda layers_LTD: layers_LTD[-1], "fresh", markers=True)
            yield positions, [top_TD[:-1, :width] for top_TD in tops], [top_TD[1:, width:] for top_TD in tops]
        else:
            first_1P, last_1P = at_markers
            tops, _ = engine.run(batch, lambda layers_LTD: layers_LTD[-1], policy)
            forward = [torch.cat([first_1P, top_TD[:, :width].to(first_1P)]) for top_TD in tops]
            backward = [torch.cat([top_TD[:, width:].to(last_1P), last_1P]) for top_TD in tops]
            yield positions, forward, backward


def _at_markers(engine: Engine, policy: StatePolicy) -> tuple[Tensor, Tensor]:
    """The forward half of the top layer at <S> and the backward half at </S>: the same for every sentence."""
    empty = plain.batch_of_tokens([[]], engine.word_ids)
    layers_LBTD, _ = plain.layers(engine.bilm, empty, engine.start_state(policy))
    first_D, last_D = layers_LBTD[-1, 0]
    width = len(first_D) // 2
    return first_D[None, :width], last_D[None, width:]


def _scores(softmax: Softmax, places: Sequence[Tensor], targets: Sequence[Tensor]) -> list[Array]:
    """The log-probability of each target at its place, sentence by sentence."""
    h_NP = torch.cat(list(places))
    targets_N = torch.cat(list(targets)).to(h_NP.device)
    scores_N = -full_losses(h_NP, targets_N, softmax.weight, softmax.bias)
    return [part.numpy() for part in torch.split(scores_N.cpu(), [len(row) for row in targets])]


def _best(softmax: Softmax, places: Sequence[Tensor], k: int, banned: list[int]) -> list[Candidates]:
    """The k best words at each place, sentence by sentence; `banned` ids are never among them."""
    ids, values = [torch.empty(0, k, dtype=torch.long)], [torch.empty(0, k, dtype=softmax.bias.dtype)]
    # A few places at a time: the logits of all would take gigabytes.
    for h_nP in torch.split(torch.cat(list(places)), max(1, LOGITS_TOGETHER // len(softmax.bias))):
        log_probs_nV = softmax(h_nP)
        log_probs_nV[:, banned] = -torch.inf
        best = log_probs_nV.topk(k)
        ids.append(best.indices.cpu())
        values.append(best.values.cpu())
    lengths = [len(h_TP) for h_TP in places]
    parts = zip(torch.split(torch.cat(ids), lengths), torch.split(torch.cat(values), lengths), strict=True)
    return [Candidates(numbers.numpy(), found.numpy()) for numbers, found in parts]
