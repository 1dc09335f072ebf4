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
WORDS_IN_TABLE = 4096  # a row of gates each: 64 KB for the largest models
LayerStates = list[tuple[Tensor, Tensor]]  # h (B, P) and c (B, H) of every layer of one direction


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

    def __init__(
        self, bilm: BiLM, ids_of: engine.WordIds, words: int = WORDS_REMEMBERED, arrange: fast.Arrange = fast.Dense
    ) -> None:
        self._made_from = _versions(bilm)
        self._skip = bilm.config.lstm.skip
        self._directions = [
            [fast.pack(layer.weights, layer.clips, arrange=arrange) for layer in stack]  # type: ignore[arg-type]
            for stack in (bilm.lstm_forward, bilm.lstm_backward)
        ]
        self._token_layer = RememberedWords(
            lambda words: engine.token_vectors(bilm, ids_of(words), fast.char_cnn), words
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
        x_UP, index_N = self._words(sentences)
        begun = [
            self._behind_marker(number, x_UP[marker : marker + 1], start, len(sentences))
            for number, marker in enumerate((BEGIN, END))
        ]
        layers_LND, _ = self._layers(x_UP, index_N, packed([len(words) for words in sentences]), begun)
        return layers_LND

    @torch.inference_mode()
    def run_whole(self, sentences: Sequence[Words], start: State) -> tuple[list[Tensor], State]:
        """Sentences, a start state each → the layers (L+1, T+2, 2P) of each, markers included, and its end state."""
        order = sorted(range(len(sentences)), key=lambda row: -len(sentences[row]))
        marked = [[chars.BEGIN_SENTENCE, *sentences[row], chars.END_SENTENCE] for row in order]
        lengths = [len(words) for words in marked]
        x_UP, index_N = self._words(marked)
        begun = [list(zip(h_LBP[:, order], c_LBH[:, order], strict=True)) for h_LBP, c_LBH in zip(*start, strict=True)]
        layers_LND, ends = self._layers(x_UP, index_N, packed(lengths), begun)
        place = sorted(range(len(order)), key=order.__getitem__)
        parts = torch.split(layers_LND, lengths, 1)
        return [parts[row] for row in place], State(*(part[:, :, place] for part in ends))

    def _words(self, sentences: Sequence[Words]) -> tuple[Tensor, Tensor]:
        """The token vectors of the distinct words, the two markers first; and which word stands where."""
        numbers = {chars.BEGIN_SENTENCE: BEGIN, chars.END_SENTENCE: END}
        index_N = torch.tensor([numbers.setdefault(word, len(numbers)) for words in sentences for word in words])
        return self._token_layer(list(numbers)), index_N

    def _layers(self, x_UP: Tensor, index_N: Tensor, order: Packed, begun: list[LayerStates]) -> tuple[Tensor, State]:
        """All layers in the order of the sentences, and the end state of each row."""
        places = (order.forward_N, order.backward_N)
        with shared_threads(2) as share, ThreadPoolExecutor(1) as other:  # no thread outlives a call: one may fork
            work = [(share, number, x_UP, index_N[places[number]], order.sizes, begun[number]) for number in (0, 1)]
            behind = other.submit(self._direction, *work[1])
            found = [self._direction(*work[0]), behind.result()]
        ends = [[torch.stack(parts) for parts in zip(*states, strict=True)] for _, states in found]
        layers_LND = _joined(x_UP[index_N], found[0][0], found[1][0], order)
        return layers_LND, State(*(torch.stack(parts) for parts in zip(*ends, strict=True)))

    @torch.inference_mode()
    def _direction(
        self, threads: int, number: int, x_UP: Tensor, index_N: Tensor, sizes: list[int], begun: LayerStates
    ) -> tuple[list[Tensor], LayerStates]:
        """The packed outputs (N, P) of every layer, and its state at each row's end."""
        torch.set_num_threads(threads)
        layers = self._directions[number]
        fill = _first_fill(x_UP, index_N, layers[0])
        outputs: list[Tensor] = []
        ends: LayerStates = []
        for depth, (weights, (h_BP, c_BH)) in enumerate(zip(layers, begun, strict=True)):
            y_NP, *end = fast.lstm(fill, sizes, weights, h_BP, c_BH)
            ends.append((end[0], end[1]))
            outputs.append(y_NP.add_(outputs[-1]) if self._skip and depth else y_NP)
            if depth + 1 < len(layers):
                fill = fast.from_outputs(outputs[-1], layers[depth + 1])
        return outputs, ends

    def _behind_marker(self, number: int, x_1P: Tensor, start: State, rows: int) -> LayerStates:
        """The state of every layer behind the first marker, the same for all sentences."""
        states = []
        for depth, weights in enumerate(self._directions[number]):
            fill = fast.from_outputs(x_1P, weights)
            y_1P, h_1P, c_1H = fast.lstm(fill, [1], weights, start.h[number, depth], start.c[number, depth])
            states.append((h_1P.expand(rows, -1), c_1H.expand(rows, -1)))
            x_1P = y_1P + x_1P if self._skip and depth else y_1P
        return states


def _first_fill(x_UP: Tensor, index_N: Tensor, weights: fast.PackedWeights) -> fast.Fill:
    """A table of the distinct words' gates where words repeat; it would be large where they do not."""
    if len(x_UP) <= WORDS_IN_TABLE:
        return fast.from_table(fast.gate_tables(x_UP, weights), index_N)
    return fast.from_outputs(x_UP[index_N], weights)


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
