"""Many sentences → their layers, fast, on the CPU. Knows no files and no policy of states.

What makes it fast: a word's token vector is computed once and kept; so is its half of the first layer's gates, for a
batch; sentences are packed longest first, without padding; the first step, the same for all sentences that start from
the same state, runs once; steps whose output nobody sees do not run; each direction has a thread.

G directions, B sentences, T tokens, N tokens of a batch, U distinct words, L layers, P projection, D = 2P.
"""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import NamedTuple

import torch
from torch import Tensor

from stelmo.engine import plain as engine
from stelmo.model.bilm import BiLM
from stelmo.model.state import State
from stelmo.ops import fast
from stelmo.text import chars

Words = Sequence[str]
BEGIN, END = 0, 1  # numbers of the markers among a batch's distinct words
WORDS_REMEMBERED = 100_000
WORDS_IN_TABLE = 4096  # a row of gates each: 64 KB for the largest models
WORK_FOR_A_THREAD = 4_000_000  # multiplications of a step and layer, from which on a thread for each direction pays
LayerStates = list[tuple[Tensor, Tensor]]  # h (G, B, P) and c (G, B, H) of every layer
Outputs = tuple[list[Tensor], LayerStates]


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
        self._skip, self._lstm = bilm.config.lstm.skip, bilm.config.lstm
        self._layers = [
            fast.pack([ahead.weights, behind.weights], ahead.clips, arrange=arrange)  # type: ignore[list-item, arg-type]
            for ahead, behind in zip(bilm.lstm_forward, bilm.lstm_backward, strict=True)
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
            return start.h.new_zeros(len(self._layers) + 1, 0, 2 * start.h.shape[-1])
        x_UP, index_N = self._words(sentences)
        begun = self._behind_markers(x_UP[[BEGIN, END]], start, len(sentences))
        layers_LND, _ = self._run(x_UP, index_N, packed([len(words) for words in sentences]), begun)
        return layers_LND

    @torch.inference_mode()
    def run_whole(self, sentences: Sequence[Words], start: State) -> tuple[list[Tensor], State]:
        """Sentences, a start state each → the layers (L+1, T+2, 2P) of each, markers included, and its end state."""
        order = sorted(range(len(sentences)), key=lambda row: -len(sentences[row]))
        marked = [[chars.BEGIN_SENTENCE, *sentences[row], chars.END_SENTENCE] for row in order]
        lengths = [len(words) for words in marked]
        x_UP, index_N = self._words(marked)
        begun = [(start.h[:, depth, order], start.c[:, depth, order]) for depth in range(len(self._layers))]
        layers_LND, ends = self._run(x_UP, index_N, packed(lengths), begun)
        place = sorted(range(len(order)), key=order.__getitem__)
        parts = torch.split(layers_LND, lengths, 1)
        return [parts[row] for row in place], State(
            *(torch.stack(part, 1)[:, :, place] for part in zip(*ends, strict=True))
        )

    def _words(self, sentences: Sequence[Words]) -> tuple[Tensor, Tensor]:
        """The token vectors of the distinct words, the two markers first; and which word stands where."""
        numbers = {chars.BEGIN_SENTENCE: BEGIN, chars.END_SENTENCE: END}
        index_N = torch.tensor([numbers.setdefault(word, len(numbers)) for words in sentences for word in words])
        return self._token_layer(list(numbers)), index_N

    def _run(self, x_UP: Tensor, index_N: Tensor, order: Packed, begun: LayerStates) -> tuple[Tensor, LayerStates]:
        """All layers in the order of the sentences, and the end state of each row."""
        index_2N = torch.stack([index_N[order.forward_N], index_N[order.backward_N]])
        work = order.sizes[0] * self._lstm.projection * 4 * self._lstm.cells
        run = self._side_by_side if work >= WORK_FOR_A_THREAD else self._together
        outputs, ends = run(x_UP, index_2N, order.sizes, begun)
        return _joined(x_UP[index_N], outputs, order), ends

    def _together(self, x_UP: Tensor, index_2N: Tensor, sizes: list[int], begun: LayerStates) -> Outputs:
        """Both directions in the same calls: for few rows these cost more than what they do."""
        return self._directions(torch.get_num_threads(), slice(0, 2), x_UP, index_2N, sizes, begun)

    def _side_by_side(self, x_UP: Tensor, index_2N: Tensor, sizes: list[int], begun: LayerStates) -> Outputs:
        """A thread for each direction; who allows one thread gets one direction after the other."""
        with shared_threads(2) as share, ThreadPoolExecutor(1) as other:  # no thread outlives a call: one may fork
            alone = torch.get_num_threads() == 1
            later = None if alone else other.submit(self._directions, share, slice(1, 2), x_UP, index_2N, sizes, begun)
            ahead = self._directions(share, slice(0, 1), x_UP, index_2N, sizes, begun)
            behind = later.result() if later else self._directions(1, slice(1, 2), x_UP, index_2N, sizes, begun)
        outputs = [torch.cat(both) for both in zip(ahead[0], behind[0], strict=True)]
        pairs = zip(ahead[1], behind[1], strict=True)
        return outputs, [(torch.cat([h, h_]), torch.cat([c, c_])) for (h, c), (h_, c_) in pairs]

    @torch.inference_mode()
    def _directions(
        self, threads: int, some: slice, x_UP: Tensor, index_2N: Tensor, sizes: list[int], begun: LayerStates
    ) -> Outputs:
        """The packed outputs (G, N, P) of every layer in some directions, and its state at each row's end."""
        torch.set_num_threads(threads)
        layers = [weights.of(some) for weights in self._layers]
        fill = _first_fill(x_UP, index_2N[some], layers[0])
        outputs: list[Tensor] = []
        ends: LayerStates = []
        for depth, (weights, (h_2BP, c_2BH)) in enumerate(zip(layers, begun, strict=True)):
            y_GNP, h_GBP, c_GBH = fast.lstm(fill, sizes, weights, h_2BP[some], c_2BH[some])
            ends.append((h_GBP, c_GBH))
            outputs.append(y_GNP.add_(outputs[-1]) if self._skip and depth else y_GNP)
            if depth + 1 < len(layers):
                fill = fast.from_outputs(outputs[-1], layers[depth + 1])
        return outputs, ends

    def _behind_markers(self, x_2P: Tensor, start: State, rows: int) -> LayerStates:
        """The state of every layer behind the first marker of each direction, the same for all sentences."""
        states, x_21P = [], x_2P[:, None]
        for depth, weights in enumerate(self._layers):
            fill = fast.from_outputs(x_21P, weights)
            y_21P, h_21P, c_21H = fast.lstm(fill, [1], weights, start.h[:, depth], start.c[:, depth])
            states.append((h_21P.expand(-1, rows, -1), c_21H.expand(-1, rows, -1)))
            x_21P = y_21P + x_21P if self._skip and depth else y_21P
        return states


def _first_fill(x_UP: Tensor, index_GN: Tensor, weights: fast.PackedWeights) -> fast.Fill:
    """A table of the distinct words' gates where words repeat; it would be large where they do not."""
    if len(x_UP) <= WORDS_IN_TABLE:
        return fast.from_table(fast.gate_tables(x_UP, weights), index_GN)
    return fast.from_outputs(x_UP[index_GN], weights)


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


def _joined(x_NP: Tensor, outputs: list[Tensor], order: Packed) -> Tensor:
    width = x_NP.shape[1]
    layers_LND = x_NP.new_empty(len(outputs) + 1, len(x_NP), 2 * width)
    layers_LND[0, :, :width] = layers_LND[0, :, width:] = x_NP
    for depth, (ahead_NP, behind_NP) in enumerate(outputs, 1):
        layers_LND[depth, order.forward_N, :width] = ahead_NP
        layers_LND[depth, order.backward_N, width:] = behind_NP
    return layers_LND
