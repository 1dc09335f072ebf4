"""Many sentences → their layers on the CPU, for encoders without a state. Knows no files.

What makes it fast: a word's token vector is computed once and remembered; words lie end to end, without padding;
the marker that a direction reads last is left out; each direction has a thread.

N words of all sentences, U distinct words, L layers, P width of a direction, D = 2P.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor

from stelmo.engine.packed import BEGIN, END, WORDS_REMEMBERED, CachedWords, shared_threads
from stelmo.engine.plain import Words, refuse_overflow
from stelmo.model.bilm import BiLM, State
from stelmo.ops.runs import Runs
from stelmo.text import chars
from stelmo.text.ids import WordIds

WORK_FOR_A_THREAD = 20_000_000  # multiplications in a direction above which a thread of its own pays off


class Reading(NamedTuple):
    """What one direction reads, in its order."""

    index_N: Tensor  # among the distinct words
    runs: Runs
    kept: Tensor  # positions of the words whose layers are wanted, in the order of the sentences


def readings(sentences: Sequence[Sequence[int]], whole: bool) -> tuple[Reading, Reading]:
    """Numbers of words → what each direction reads; the layers of the markers are wanted if `whole`."""
    last = int(whole)  # of the markers, a direction reads the one that it starts from, and the other if asked
    forward = [[BEGIN, *words, *[END] * last] for words in sentences]
    backward = [[END, *reversed(words), *[BEGIN] * last] for words in sentences]
    lengths = [len(run) for run in forward]
    ahead = Runs(lengths)
    behind = ahead.placed((ahead.lengths_S - last).repeat_interleave(ahead.lengths_S) - ahead.read_N)
    firsts = ahead.first_S.tolist()
    spans = [range(first + 1 - last, first + length) for first, length in zip(firsts, lengths, strict=True)]
    return (
        Reading(_joined(forward), ahead, _joined(spans)),
        Reading(_joined(backward), behind, _joined([span[::-1] for span in spans])),
    )


def _joined(rows: Sequence[Sequence[int]]) -> Tensor:
    return torch.tensor([number for row in rows for number in row], dtype=torch.long)


class EndToEnd(CachedWords):
    """Runs sentences on a model's own weights."""

    def __init__(self, bilm: BiLM, ids_of: WordIds, words: int = WORDS_REMEMBERED) -> None:
        super().__init__(bilm, ids_of, words)
        self._bilm = bilm
        self._weights = sum(map(Tensor.numel, bilm.stacks[0].parameters()))

    @torch.inference_mode()
    def run(self, sentences: Sequence[Words], start: State, whole: bool = False) -> tuple[list[Tensor], State]:
        """As `Packed.run`; the state holds nothing and is returned as it is."""
        numbers = {chars.BEGIN_SENTENCE: BEGIN, chars.END_SENTENCE: END}
        rows = [[numbers.setdefault(word, len(numbers)) for word in words] for words in sentences]
        x_UP = self._token_layer(list(numbers))
        both = readings(rows, whole)
        width = x_UP.shape[1]
        layers_LND = x_UP.new_empty(self._bilm.config.depth, len(both[0].kept), 2 * width)
        halves = layers_LND[..., :width], layers_LND[..., width:]
        work = partial(self._direction, x_UP, both, halves)
        if len(both[0].index_N) * self._weights >= WORK_FOR_A_THREAD:
            _side_by_side(work)
        else:
            work(0, torch.get_num_threads())
            work(1, torch.get_num_threads())
        refuse_overflow(layers_LND)
        return list(torch.split(layers_LND, [len(words) + 2 * whole for words in sentences], 1)), start

    @torch.inference_mode()
    def _direction(
        self,
        x_UP: Tensor,
        both: tuple[Reading, Reading],
        halves: tuple[Tensor, Tensor],
        direction: int,
        threads: int,
    ) -> None:
        """Fills one half of the layers."""
        torch.set_num_threads(threads)
        index_N, runs, kept = both[direction]
        assert self._bilm.context is not None
        x_NP = x_UP[index_N]
        for half_NP, y_NP in zip(halves[direction], [x_NP, *self._bilm.context(direction, x_NP, runs)], strict=True):
            half_NP.copy_(y_NP[kept])


def _side_by_side(work: Callable[[int, int], None]) -> None:
    """A thread for each direction; with a single thread allowed, one direction after the other."""
    with shared_threads(2) as share, ThreadPoolExecutor(1) as other:  # no thread outlives a call: users may fork
        alone = torch.get_num_threads() == 1
        later = None if alone else other.submit(work, 1, share)
        work(0, share)
        if later is None:
            work(1, 1)
        else:
            later.result()
