"""Many sentences → their layers, fast, on the CPU. Knows no files and no policy of states.

What makes it fast: a word's token vector is computed once and kept; so is its half of the first layer's gates, for a
batch; sentences are packed longest first, without padding; the first step, the same for all sentences that start from
the same state, runs once; steps whose output nobody sees do not run; each direction has a thread.

B sentences, T tokens, N tokens of a batch, U distinct words, L layers, P projection, D = 2P.
"""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import NamedTuple

import torch
from torch import Tensor

from stelmo.embed import engine
from stelmo.model.bilm import BiLM
from stelmo.model.state import State
from stelmo.ops import fast
from stelmo.text import chars

Words = Sequence[str]
BEGIN, END = 0, 1  # numbers of the markers among a batch's distinct words
WORDS_REMEMBERED = 100_000


class Packed(NamedTuple):
    """Where the tokens of sentences, longest first, stand in the order of steps."""

    sizes: list[int]  # rows of each step
    forward_N: Tensor  # step order → place in the sentences end to end
    backward_N: Tensor


def packed(lengths: Sequence[int]) -> Packed:
    """Lengths in falling order → the order of steps in both directions."""
    lengths_B = torch.tensor(lengths)
    first_B = lengths_B.cumsum(0) - lengths_B
    sizes = [int((lengths_B > step).sum()) for step in range(lengths[0])]
    forward = [first_B[:rows] + step for step, rows in enumerate(sizes)]
    backward = [first_B[:rows] + lengths_B[:rows] - 1 - step for step, rows in enumerate(sizes)]
    return Packed(sizes, torch.cat(forward), torch.cat(backward))


class Bulk:
    """The engine of one model. It holds copies of the weights, arranged for speed."""

    def __init__(self, bilm: BiLM, ids_of: engine.WordIds) -> None:
        self._made_from = _versions(bilm)
        self._skip = bilm.config.lstm.skip
        self._directions = [
            [fast.pack(layer.weights, layer.clips) for layer in stack]  # type: ignore[arg-type]
            for stack in (bilm.lstm_forward, bilm.lstm_backward)
        ]
        self._token_layer = RememberedWords(
            lambda words: engine.token_vectors(bilm, ids_of(words), fast.char_cnn), WORDS_REMEMBERED
        )

    def forget_words(self) -> None:
        self._token_layer.forget()

    def is_stale(self, bilm: BiLM) -> bool:
        """Whether the biLM has learned since its weights were copied."""
        return self._made_from != _versions(bilm)

    @torch.inference_mode()
    def run(self, sentences: Sequence[Words], start: State) -> Tensor:
        """Sentences, longest first, all from one state → (L+1, N, 2P), end to end, without markers."""
        sentences = [words for words in sentences if words]
        if not sentences:
            return start.h.new_zeros(len(self._directions[0]) + 1, 0, 2 * start.h.shape[-1])
        numbers = {chars.BEGIN_SENTENCE: BEGIN, chars.END_SENTENCE: END}
        index_N = torch.tensor([numbers.setdefault(word, len(numbers)) for words in sentences for word in words])
        order = packed([len(words) for words in sentences])
        x_UP = self._token_layer(list(numbers))
        with shared_threads(2) as share, ThreadPoolExecutor(1) as other:  # no thread outlives a call: one may fork
            behind = other.submit(self._direction, share, 1, x_UP, END, index_N[order.backward_N], order.sizes, start)
            forward = self._direction(share, 0, x_UP, BEGIN, index_N[order.forward_N], order.sizes, start)
            backward = behind.result()
        return _joined(x_UP[index_N], forward, backward, order)

    @torch.inference_mode()
    def _direction(
        self, threads: int, number: int, x_UP: Tensor, marker: int, index_N: Tensor, sizes: list[int], start: State
    ) -> list[Tensor]:
        """The packed outputs (N, P) of every layer."""
        torch.set_num_threads(threads)
        layers = self._directions[number]
        begun = self._marker_step(layers, x_UP[marker : marker + 1], State(start.h[number], start.c[number]))
        fill = fast.from_table(fast.gate_tables(x_UP, layers[0]), index_N)
        outputs: list[Tensor] = []
        for depth, (weights, (h_1P, c_1H)) in enumerate(zip(layers, begun, strict=True)):
            y_NP, _, _ = fast.lstm(fill, sizes, weights, h_1P.expand(sizes[0], -1), c_1H.expand(sizes[0], -1))
            outputs.append(y_NP.add_(outputs[-1]) if self._skip and depth else y_NP)
            if depth + 1 < len(layers):
                fill = fast.from_outputs(outputs[-1], layers[depth + 1])
        return outputs

    def _marker_step(self, layers: list[fast.PackedWeights], x_1P: Tensor, start: State) -> list[tuple[Tensor, Tensor]]:
        """The state of every layer behind the first marker, the same for all sentences."""
        states = []
        for depth, weights in enumerate(layers):
            y_1P, h_1P, c_1H = fast.lstm(fast.from_outputs(x_1P, weights), [1], weights, start.h[depth], start.c[depth])
            states.append((h_1P, c_1H))
            x_1P = y_1P + x_1P if self._skip and depth else y_1P
        return states


def _versions(bilm: BiLM) -> list[tuple[int, int]]:
    return [(parameter.data_ptr(), parameter._version) for parameter in bilm.parameters()]


class RememberedWords:
    """Words → token vectors (U, P), each computed once while there is room to remember it."""

    def __init__(self, compute: Callable[[Words], Tensor], capacity: int) -> None:
        self._compute, self._capacity = compute, capacity
        self._rows: dict[str, int] = {}
        self._table_VP = torch.empty(0)

    def __call__(self, words: Words) -> Tensor:
        if len(words) > self._capacity:
            return self._compute(words)
        new = [word for word in words if word not in self._rows]
        if len(self._rows) + len(new) > self._capacity:  # full: begin anew with what is needed now
            self.forget()
            new = list(words)
        if new:
            self._remember(new)
        return self._table_VP[[self._rows[word] for word in words]]

    def forget(self) -> None:
        self._rows.clear()

    def _remember(self, words: Words) -> None:
        vectors_UP = self._compute(words)
        if not len(self._table_VP):  # untouched pages take no memory
            self._table_VP = vectors_UP.new_empty(self._capacity, vectors_UP.shape[1])
        first = len(self._rows)
        self._table_VP[first : first + len(words)] = vectors_UP
        self._rows.update(zip(words, range(first, first + len(words)), strict=True))


@contextmanager
def shared_threads(workers: int) -> Iterator[int]:
    """The threads each worker may use; torch's own count is as before when the block ends."""
    threads = torch.get_num_threads()
    try:
        yield max(1, threads // workers)
    finally:
        torch.set_num_threads(threads)


def _joined(x_NP: Tensor, forward: list[Tensor], backward: list[Tensor], order: Packed) -> Tensor:
    width = x_NP.shape[1]
    layers_LND = x_NP.new_empty(len(forward) + 1, len(x_NP), 2 * width)
    layers_LND[0, :, :width] = layers_LND[0, :, width:] = x_NP
    for depth, (ahead_NP, behind_NP) in enumerate(zip(forward, backward, strict=True), 1):
        layers_LND[depth, order.forward_N, :width] = ahead_NP
        layers_LND[depth, order.backward_N, width:] = behind_NP
    return layers_LND
