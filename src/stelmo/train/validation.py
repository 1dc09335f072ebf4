"""Held-out sentences → the perplexity of both directions, over the whole vocabulary.

The state is zero at the start and carried along the rows, as in training; every word and every end of a sentence
counts once. T steps, B rows, N tokens, V words of the vocabulary, P projection.
"""

from collections.abc import Iterator

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from stelmo.corpus.windows import Sentences, Window, held_out
from stelmo.lm.perplexity import Perplexity
from stelmo.model.bilm import BiLM
from stelmo.model.softmax import Softmax
from stelmo.model.state import State
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
    rows = min(rows, len(sentences))
    own = slice(world.rank, rows, world.size)
    table = bilm.encoder.table
    state = bilm.zero_state(len(range(rows)[own]))
    sums = torch.zeros(3, dtype=torch.float64, device=table.device)  # forward, backward, tokens
    for window, mask_TB in _limited(held_out(sentences, rows=rows, steps=steps), tokens):
        if state.rows:
            part = Window(*(types_2TB[:, :, own] for types_2TB in window))
            counted_TB = torch.from_numpy(mask_TB[:, own].copy()).to(table.device)
            losses_2, state = _window_losses(bilm, softmax, batches(part).to(table.device), counted_TB, state)
            sums += torch.cat([losses_2, counted_TB.sum()[None]])
    world.sum_(sums)
    forward, backward, count = sums.tolist()
    return Perplexity.of(-forward, -backward, int(count))


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
