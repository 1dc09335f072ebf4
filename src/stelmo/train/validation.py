"""Held-out sentences → the perplexity of both directions, over the whole vocabulary; of one input file or of all.

The state is zero at the start and carried along the rows, as in training; an encoder without a state reads whole
sentences. Every word and every end of a sentence counts once. T steps, B rows, N tokens, V words of the vocabulary,
P projection.
"""

from collections.abc import Callable, Iterator
from itertools import islice
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from stelmo.corpus.assemble import Advance, Progress
from stelmo.corpus.folder import AGAIN, Corpus
from stelmo.corpus.prepare import silent
from stelmo.corpus.windows import BEGIN, END, Sentences, Window, held_out, whole
from stelmo.embed.model import Model
from stelmo.errors import ConfigError, DataError
from stelmo.lm.perplexity import Perplexity
from stelmo.lm.probabilities import vocabulary_of
from stelmo.model.bilm import BiLM, Softmax, State
from stelmo.ops.losses import full_losses
from stelmo.settings import TrainSettings
from stelmo.text.chars import BEGIN_SENTENCE, END_SENTENCE
from stelmo.text.ids import Vocabulary
from stelmo.train.batches import Batch, Batches
from stelmo.train.step import DIRECTIONS, outputs, side_by_side
from stelmo.train.world import World

ALL = "all"  # in place of an input file's name
STEPS: int = TrainSettings.model_fields["unroll"].default  # where windows are cut changes nothing
Masked = tuple[Window, NDArray[np.bool_]]
Watch = Callable[[Window, NDArray[np.bool_]], None]


def figures(found: Perplexity) -> dict[str, float]:
    """The figures by their names in the log."""
    return {
        "perplexity": found.combined,
        "perplexity_forward": found.forward,
        "perplexity_backward": found.backward,
        "heldout_tokens": found.predictions,
    }


def validate(
    bilm: BiLM,
    softmax: Softmax,
    sentences: Sentences,
    batches: Batches,
    *,
    rows: int,
    steps: int,
    world: World,
    tokens: int | None = None,
    watch: Watch | None = None,
) -> Perplexity:
    """Perplexity on all sentences, or on evenly spaced ones with about `tokens` tokens; the processes share the rows.

    `watch` is called after each window, with the types of all processes and the mask of those that count.
    """
    if not bilm.config.has_state:
        rows, steps = world.size, rows * steps  # windows of one row: the processes take turns
    if tokens is not None:
        sentences = sentences.spread(tokens)
    rows = min(rows, len(sentences))
    own = slice(world.rank, rows, world.size)
    table = bilm.encoder.table
    state = bilm.zero_state(len(range(rows)[own]))
    sums = torch.zeros(3, dtype=torch.float64, device=table.device)  # forward, backward, tokens
    windows = held_out(sentences, rows=rows, steps=steps) if bilm.config.has_state else _uncut(sentences, rows, steps)
    for window, mask_TB in windows:
        if state.rows:
            part = window.of_rows(own)
            counted_TB = torch.from_numpy(mask_TB[:, own].copy()).to(table.device)
            losses_2, state = _window_losses(bilm, softmax, batches(part).to(table.device), counted_TB, state)
            sums += torch.cat([losses_2, counted_TB.sum()[None]])
        if watch is not None:
            watch(window, mask_TB)
    world.all_reduce_(sums)
    forward, backward, count = sums.tolist()
    return Perplexity.of(-forward, -backward, int(count))


def _uncut(sentences: Sentences, rows: int, steps: int) -> Iterator[Masked]:
    """Windows of whole sentences, `rows` of them side by side; masked cells hold <S>."""
    windows = whole(sentences, steps)
    while group := list(islice(windows, rows)):
        longest = max(window.inputs_2TB.shape[1] for window in group)
        joined = [np.zeros((2, longest, rows), np.int64) for _ in Window._fields]
        mask_TB = np.zeros((longest, rows), bool)
        for row, window in enumerate(group):
            length = window.inputs_2TB.shape[1]
            mask_TB[:length, row] = True
            for part, found_2T1 in zip(joined, window, strict=True):
                part[:, :length, row] = found_2T1[:, :, 0]
        yield Window(*joined), mask_TB


@torch.no_grad()
def _window_losses(
    bilm: BiLM, softmax: Softmax, batch: Batch, counted_TB: Tensor, state: State
) -> tuple[Tensor, State]:
    """The summed losses of the two directions, and the state after the window."""
    h_2TBP, state = outputs(bilm, batch, state)

    def loss(direction: int) -> Tensor:
        h_NP, targets_N = h_2TBP[direction][counted_TB], batch.targets_2TB[direction][counted_TB]
        return full_losses(h_NP, targets_N, softmax.weight, softmax.bias).double().sum()

    # One thread each: two threads in one product wait for each other, which is very slow on a busy machine.
    return torch.stack(side_by_side(loss, DIRECTIONS, h_2TBP.device)), state


# The held-out text of a corpus, by its input files


class HeldOut(NamedTuple):
    """How well a model predicts the held-out text of one input file, or of all (`ALL`)."""

    file: str
    words: int  # that were predicted; with the ends of sentences, the perplexity's predictions
    unknown: int  # words outside the model's vocabulary, scored as <UNK>
    perplexity: Perplexity


def measure_heldout(
    model: Model,
    corpus: Corpus,
    *,
    rows: int,
    tokens: int | None = None,
    progress: Progress = silent,
) -> list[HeldOut]:
    """Each input file that has held-out sentences, then all held-out text, each validated as pretraining does.

    Words are looked up in the model's vocabulary, so models with different vocabularies can be compared. With
    `tokens`, each result is measured on evenly spaced sentences with about that many tokens.
    """
    if model.settings.precision not in ("float32", "float64"):
        raise ConfigError(f"precision: {model.settings.precision}; validation computes in float32 or float64")
    vocabulary = vocabulary_of(model, model.softmax)
    parts = _heldout_by_input(corpus)
    targets_S = _targets(corpus, vocabulary)
    batches = Batches(model.engine.word_ids, corpus.words, targets_S)
    sizes = [part.tokens + len(part) for _, part in parts]
    total = sum(size if tokens is None else min(size, tokens) for size in sizes)
    count = _Count(targets_S == vocabulary.unknown)
    found = []
    with progress("scoring", lambda: min(1.0, count.predictions / total)) as count.advance:
        for file, part in parts:
            count.words = count.unknown = 0
            perplexity = validate(
                model.bilm,
                model.softmax,
                part,
                batches,
                rows=rows,
                steps=STEPS,
                world=World(),
                tokens=tokens,
                watch=count,
            )
            found.append(HeldOut(file, count.words, count.unknown, perplexity))
    return found if len(found) > 1 else [*found, found[0]._replace(file=ALL)]


def _heldout_by_input(corpus: Corpus) -> list[tuple[str, Sentences]]:
    """The held-out sentences of each input that has any; then, of more than one, all."""
    everything, inputs = Sentences(corpus.heldout), corpus.manifest.by_input
    if not len(everything):
        raise DataError(f"{corpus.path}: no held-out sentences; prepare the text with --heldout 0.01")
    if inputs is None:
        raise DataError(
            f"{corpus.path}: prepared by an earlier version, which did not record which held-out sentences come from "
            f"which input; {AGAIN} (its words stay the same, so runs on it can be resumed)"
        )
    if sum(sizes.heldout.sentences for sizes in inputs) != len(everything):
        raise DataError(f"{corpus.path}: the manifest's by_input does not add up to its held-out sentences; {AGAIN}")
    parts, first = [], 0
    for file, sizes in zip(corpus.manifest.inputs, inputs, strict=True):
        if count := sizes.heldout.sentences:
            parts.append((file.name, everything.part(first, count)))
            first += count
    return parts if len(parts) == 1 else [*parts, (ALL, everything)]


def _targets(corpus: Corpus, vocabulary: Vocabulary) -> NDArray[np.int32]:
    """The number in the vocabulary of each type that the held-out text has; of other types <UNK>."""
    for symbol in (BEGIN_SENTENCE, END_SENTENCE):
        vocabulary.require(symbol)
    types = np.unique(np.concatenate([(BEGIN, END), *(shard.types_N for shard in corpus.heldout)]))
    targets_S = np.full(len(corpus.words), vocabulary.unknown, np.int32)
    targets_S[types] = [vocabulary.id(word) for word in corpus.words.words(types)]
    return targets_S


class _Count:
    """Counts the words that `validate` scores."""

    advance: Advance

    def __init__(self, unknown_S: NDArray[np.bool_]) -> None:
        self._unknown_S = unknown_S
        self.predictions = self.words = self.unknown = 0

    def __call__(self, window: Window, mask_TB: NDArray[np.bool_]) -> None:
        types_N = window.targets_2TB[0][mask_TB]
        words_N = types_N[types_N != END]
        self.words += len(words_N)
        self.unknown += int(self._unknown_S[words_N].sum())
        self.predictions += len(types_N)
        self.advance(len(types_N))
