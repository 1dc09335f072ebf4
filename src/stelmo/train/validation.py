"""Held-out sentences → the perplexity of both directions, over the whole vocabulary.

The state is zero at the start and carried along the rows, as in training; an encoder without a state reads whole
sentences. Every word and every end of a sentence counts once. T steps, B rows, N tokens, V words of the vocabulary,
P projection.
"""

from collections.abc import Iterator

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from stelmo.corpus.windows import Sentences, Window, held_out, whole
from stelmo.lm.perplexity import Perplexity
from stelmo.model.bilm import BiLM, Softmax, State
from stelmo.ops.losses import full_losses
from stelmo.train.batches import Batch, Batches
from stelmo.train.step import DIRECTIONS, outputs, side_by_side
from stelmo.train.world import World

Masked = tuple[Window, NDArray[np.bool_]]


def figures(found: Perplexity) -> dict[str, float]:
    """By their names in the log."""
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
) -> Perplexity:
    """On all sentences, or about the first `tokens` of them; the processes share the rows."""
    if not bilm.config.has_state:
        rows, steps = world.size, rows * steps  # windows of one row: the processes take turns
    rows = min(rows, len(sentences))
    own = slice(world.rank, rows, world.size)
    table = bilm.encoder.table
    state = bilm.zero_state(len(range(rows)[own]))
    sums = torch.zeros(3, dtype=torch.float64, device=table.device)  # forward, backward, tokens
    windows = held_out(sentences, rows=rows, steps=steps) if bilm.config.has_state else _uncut(sentences, rows, steps)
    for window, mask_TB in _limited(windows, tokens):
        if state.rows:
            part = window.of_rows(own)
            counted_TB = torch.from_numpy(mask_TB[:, own].copy()).to(table.device)
            losses_2, state = _window_losses(bilm, softmax, batches(part).to(table.device), counted_TB, state)
            sums += torch.cat([losses_2, counted_TB.sum()[None]])
    world.sum_(sums)
    forward, backward, count = sums.tolist()
    return Perplexity.of(-forward, -backward, int(count))


def _uncut(sentences: Sentences, rows: int, steps: int) -> Iterator[Masked]:
    """Windows of whole sentences, as many side by side as there are processes."""
    waiting: list[Window] = []
    for window in whole(sentences, steps):
        waiting.append(window)
        if len(waiting) == rows:
            yield _side_by_side(waiting, rows)
            waiting = []
    if waiting:
        yield _side_by_side(waiting, rows)


def _side_by_side(windows: list[Window], rows: int) -> Masked:
    """Windows of one row each → one of so many rows; masked cells hold <S>."""
    longest = max(window.inputs_2TB.shape[1] for window in windows)
    joined = [np.zeros((2, longest, rows), np.int64) for _ in Window._fields]
    mask_TB = np.zeros((longest, rows), bool)
    for row, window in enumerate(windows):
        steps = window.inputs_2TB.shape[1]
        mask_TB[:steps, row] = True
        for part, found_2T1 in zip(joined, window, strict=True):
            part[:, :steps, row] = found_2T1[:, :, 0]
    return Window(*joined), mask_TB


def _limited(windows: Iterator[Masked], tokens: int | None) -> Iterator[Masked]:
    seen = 0
    for window, mask_TB in windows:
        yield window, mask_TB
        seen += int(mask_TB.sum())
        if tokens is not None and seen >= tokens:
            return


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
