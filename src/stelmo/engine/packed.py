"""Many sentences → their layers, fast, on the CPU: `Packed` for LSTMs, `Concatenated` for encoders without a state.

What makes both fast: a word's token vector is computed once and remembered; there is no padding; the marker that a
direction reads last is left out unless its vector is needed; each direction runs in a thread. `Packed` sorts sentences,
longest first, looks up a word's half of the first layer's gates in a table, and runs the first step, the same for all
sentences that start from the same state, once. `Concatenated` lays the words of all sentences one after another.

G directions, B sentences, T tokens, N tokens of a batch, U distinct words, L layers, P projection, D = 2P.
Knows no files and no state policies.
"""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from threading import Lock
from typing import NamedTuple, TypeVar

import torch
from torch import Tensor

from stelmo.engine import plain
from stelmo.engine.plain import Words, refuse_overflow
from stelmo.engine.planning import WORDS_REMEMBERED
from stelmo.model.bilm import BiLM, State, with_residual
from stelmo.ops import fast
from stelmo.ops.runs import Runs
from stelmo.text import chars
from stelmo.text.ids import WordIds

BEGIN, END = 0, 1  # numbers of the markers among a batch's distinct words
WORDS_IN_TABLE = 4096  # a row of gates each: 64 KB for the largest models
WORK_FOR_A_THREAD = 4_000_000  # multiplications in a step of a layer above which a thread per direction pays off
WORK_FOR_A_DIRECTION = 20_000_000  # multiplications in a direction above which a thread of its own pays off
LayerStates = list[tuple[Tensor, Tensor]]  # h (G, B, P) and c (G, B, H) of every layer
Outputs = tuple[list[Tensor], LayerStates]
Versions = list[tuple[int, int]]  # address and number of changes of each parameter
Result = TypeVar("Result")


# Words that are remembered


class CachedWords:
    """The token layer, with vectors remembered as long as the parameters are the same; both CPU paths build on it."""

    def __init__(self, bilm: BiLM, ids_of: WordIds, words: int) -> None:
        self._made_from = versions(bilm)
        self._token_layer = WordCache(
            lambda words: plain.token_vectors(bilm, torch.from_numpy(ids_of(words)), fast.char_cnn), words
        )

    def forget_words(self) -> None:
        self._token_layer.clear()

    def is_stale(self, bilm: BiLM) -> bool:
        """Whether the parameters have changed since this was made."""
        return self._made_from != versions(bilm)


def versions(bilm: BiLM) -> Versions:
    """Equal as long as the parameters are the same."""
    return [(each.data_ptr(), 0 if each.is_inference() else each._version) for each in bilm.parameters()]


class WordCache:
    """Words → token vectors (U, P), each computed once as long as there is room to remember it. Safe for threads."""

    def __init__(self, compute: Callable[[Words], Tensor], capacity: int) -> None:
        self._compute, self._capacity = compute, capacity
        self._rows: dict[str, int] = {}
        self._table_VP = torch.empty(0)
        self._lock = Lock()

    def __call__(self, words: Words) -> Tensor:
        if len(words) > self._capacity:
            return self._compute(words)
        with self._lock:
            new = [word for word in words if word not in self._rows]
            if len(self._rows) + len(new) > self._capacity:  # full: start again with the words needed now
                self._rows.clear()
                new = list(words)
            if new:
                vectors_UP = self._compute(new)
                if not len(self._table_VP):  # untouched pages take no memory
                    self._table_VP = vectors_UP.new_empty(self._capacity, vectors_UP.shape[1])
                first = len(self._rows)
                self._table_VP[first : first + len(new)] = vectors_UP
                self._rows.update(zip(new, range(first, first + len(new)), strict=True))
            return self._table_VP[[self._rows[word] for word in words]]

    def clear(self) -> None:
        with self._lock:
            self._rows.clear()


# Threads


def side_by_side(work: Callable[[int], Result]) -> tuple[Result, Result]:
    """What `work(direction)` returns for each direction, computed at the same time in two threads; with a single thread
    allowed, one after the other."""
    if torch.get_num_threads() == 1:
        return work(0), work(1)

    def limited(direction: int) -> Result:
        torch.set_num_threads(share)
        return work(direction)

    with shared_threads(2) as share, ThreadPoolExecutor(1) as other:  # no thread outlives a call: users may fork
        later = other.submit(limited, 1)
        return limited(0), later.result()


class _NewThreadCount:
    """torch's thread count for new threads: saved when the first of several overlapping blocks begins, restored when
    the last one ends."""

    def __init__(self) -> None:
        self._lock, self._calls, self._threads = Lock(), 0, 0

    def __enter__(self) -> None:
        with self._lock:
            if not self._calls:
                self._threads = _in_new_thread(torch.get_num_threads)
            self._calls += 1

    def __exit__(self, *problem: object) -> None:
        with self._lock:
            self._calls -= 1
            if not self._calls:
                _in_new_thread(partial(torch.set_num_threads, self._threads))


_NEW_THREADS = _NewThreadCount()


@contextmanager
def shared_threads(workers: int) -> Iterator[int]:
    """The threads each worker may use; torch's own counts are restored when the block ends.

    `torch.set_num_threads` sets two counts: that of the calling thread, and the one that new threads start with. A
    thread that first uses torch during another's block starts with the share, so its own count says nothing about the
    second one, which the last of all blocks restores.
    """
    threads = torch.get_num_threads()
    with _NEW_THREADS:
        try:
            yield max(1, threads // workers)
        finally:
            torch.set_num_threads(threads)


def _in_new_thread(ask: Callable[[], Result]) -> Result:
    with ThreadPoolExecutor(1) as other:
        return other.submit(ask).result()


# LSTMs


class Steps(NamedTuple):
    """The order in which the tokens of sentences, longest first, are computed."""

    sizes: list[int]  # rows of each step
    forward_N: Tensor  # step order → position in the sentences end to end
    backward_N: Tensor


def steps(lengths: Sequence[int]) -> Steps:
    """Lengths in descending order → the order of steps in both directions."""
    lengths_B = torch.tensor(lengths)
    first_B = lengths_B.cumsum(0) - lengths_B
    sizes = [int((lengths_B > step).sum()) for step in range(lengths[0])]
    forward = [first_B[:rows] + step for step, rows in enumerate(sizes)]
    backward = [first_B[:rows] + lengths_B[:rows] - 1 - step for step, rows in enumerate(sizes)]
    return Steps(sizes, torch.cat(forward), torch.cat(backward))


class Packed(CachedWords):
    """Runs sentences on copies of a model's weights, arranged for speed."""

    def __init__(
        self, bilm: BiLM, ids_of: WordIds, words: int = WORDS_REMEMBERED, arrange: fast.Arrange = fast.Dense
    ) -> None:
        super().__init__(bilm, ids_of, words)
        self._config = bilm.config.lstm
        self._layers = [
            fast.pack([forward.weights, backward.weights], forward.clips, arrange=arrange)  # type: ignore[list-item, arg-type]
            for forward, backward in zip(bilm.lstm_forward, bilm.lstm_backward, strict=True)
        ]

    @torch.inference_mode()
    def run(self, sentences: Sequence[Words], start: State, whole: bool = False) -> tuple[list[Tensor], State]:
        """Sentences → the layers (L+1, T, 2P) of each; all start from the one row of `start`, which is returned.

        `whole`: each sentence starts from a row of its own; the layers are (L+1, T+2, 2P), markers included, and the
        state at the end of each sentence is returned.
        """
        order = sorted(range(len(sentences)), key=lambda row: -len(sentences[row]))
        if whole:
            rows: list[Words] = [[chars.BEGIN_SENTENCE, *sentences[row], chars.END_SENTENCE] for row in order]
        else:
            rows = [sentences[row] for row in order if sentences[row]]
        if not rows:
            return [start.h.new_zeros(len(self._layers) + 1, 0, 2 * start.h.shape[-1])] * len(sentences), start
        x_UP, index_N = self._words(rows)
        if whole:
            starts = [(start.h[:, depth, order], start.c[:, depth, order]) for depth in range(len(self._layers))]
        else:
            starts = self._after_first_markers(x_UP[[BEGIN, END]], start, len(rows))
        found = steps([len(words) for words in rows])
        index_2N = torch.stack([index_N[found.forward_N], index_N[found.backward_N]])
        directions = partial(self._directions, x_UP, index_2N, found.sizes, starts)
        if found.sizes[0] * self._config.projection * 4 * self._config.cells >= WORK_FOR_A_THREAD:
            both = side_by_side(lambda number: directions(slice(number, number + 1)))
            (forward, forward_ends), (backward, backward_ends) = both
            outputs = [torch.cat(pair) for pair in zip(forward, backward, strict=True)]
            pairs = zip(forward_ends, backward_ends, strict=True)
            ends = [(torch.cat([h, h_]), torch.cat([c, c_])) for (h, c), (h_, c_) in pairs]
        else:  # both directions in the same calls, which cost more than the work they do for few rows
            outputs, ends = directions(slice(0, 2))
        layers_LND = _joined(x_UP[index_N], outputs, found)
        refuse_overflow(layers_LND)
        inverse = sorted(range(len(order)), key=order.__getitem__)
        lengths = [len(sentences[row]) + 2 * whole for row in order]
        parts = torch.split(layers_LND, lengths, 1)
        end = State(*(torch.stack(part, 1)[:, :, inverse] for part in zip(*ends, strict=True))) if whole else start
        return [parts[row] for row in inverse], end

    def _words(self, sentences: Sequence[Words]) -> tuple[Tensor, Tensor]:
        """The token vectors of the distinct words, the two markers first; and the word at each position."""
        numbers = {chars.BEGIN_SENTENCE: BEGIN, chars.END_SENTENCE: END}
        index_N = torch.tensor([numbers.setdefault(word, len(numbers)) for words in sentences for word in words])
        return self._token_layer(list(numbers)), index_N

    @torch.inference_mode()
    def _directions(self, x_UP: Tensor, index_2N: Tensor, sizes: list[int], start: LayerStates, some: slice) -> Outputs:
        """The packed outputs (G, N, P) of every layer in some directions, and its state at each row's end."""
        outputs: list[Tensor] = []
        ends = []
        for depth, weights in enumerate(layers.of(some) for layers in self._layers):
            fill = fast.from_outputs(outputs[-1], weights) if depth else _first_fill(x_UP, index_2N[some], weights)
            h_2BP, c_2BH = start[depth]
            y_GNP, *end = fast.lstm(fill, sizes, weights, h_2BP[some], c_2BH[some])
            x_GNP = outputs[-1] if depth else y_GNP
            outputs.append(with_residual(depth, y_GNP, x_GNP, self._config.skip, Tensor.add_))
            ends.append((end[0], end[1]))
        return outputs, ends

    def _after_first_markers(self, x_2P: Tensor, start: State, rows: int) -> LayerStates:
        """The state of every layer after the first marker of each direction, the same for all sentences."""
        states, x_21P = [], x_2P[:, None]
        for depth, weights in enumerate(self._layers):
            fill = fast.from_outputs(x_21P, weights)
            y_21P, h_21P, c_21H = fast.lstm(fill, [1], weights, start.h[:, depth], start.c[:, depth])
            x_21P = with_residual(depth, y_21P, x_21P, self._config.skip)
            states.append((h_21P.expand(-1, rows, -1), c_21H.expand(-1, rows, -1)))
        return states


def _first_fill(x_UP: Tensor, index_GN: Tensor, weights: fast.PackedWeights) -> fast.Fill:
    """From a table of the distinct words' gates, unless so many words are distinct that it would be large."""
    if len(x_UP) <= WORDS_IN_TABLE:
        return fast.from_table(fast.gate_tables(x_UP, weights), index_GN)
    return fast.from_outputs(x_UP[index_GN], weights)


def _joined(x_NP: Tensor, outputs: list[Tensor], order: Steps) -> Tensor:
    """The token vectors and the packed outputs of each layer → (L+1, N, 2P) in the order of the sentences."""
    width = x_NP.shape[1]
    layers_LND = x_NP.new_empty(len(outputs) + 1, len(x_NP), 2 * width)
    layers_LND[0, :, :width] = layers_LND[0, :, width:] = x_NP
    for depth, (forward_NP, backward_NP) in enumerate(outputs, 1):
        layers_LND[depth, order.forward_N, :width] = forward_NP
        layers_LND[depth, order.backward_N, width:] = backward_NP
    return layers_LND


# Encoders without a state


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
    forward_runs = Runs(lengths)
    backward_runs = forward_runs.at_positions(
        (forward_runs.lengths_S - last).repeat_interleave(forward_runs.lengths_S) - forward_runs.offset_N
    )
    firsts = forward_runs.first_S.tolist()
    spans = [range(first + 1 - last, first + length) for first, length in zip(firsts, lengths, strict=True)]
    return (
        Reading(_numbers(forward), forward_runs, _numbers(spans)),
        Reading(_numbers(backward), backward_runs, _numbers([span[::-1] for span in spans])),
    )


def _numbers(rows: Sequence[Sequence[int]]) -> Tensor:
    return torch.tensor([number for row in rows for number in row], dtype=torch.long)


class Concatenated(CachedWords):
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
        halves, context = (layers_LND[..., :width], layers_LND[..., width:]), self._bilm.context
        assert context is not None

        @torch.inference_mode()
        def work(direction: int) -> None:
            """Fills one half of the layers."""
            index_N, runs, kept = both[direction]
            x_NP = x_UP[index_N]
            for half_NP, y_NP in zip(halves[direction], [x_NP, *context(direction, x_NP, runs)], strict=True):
                half_NP.copy_(y_NP[kept])

        if len(both[0].index_N) * self._weights >= WORK_FOR_A_DIRECTION:
            side_by_side(work)
        else:
            work(0)
            work(1)
        refuse_overflow(layers_LND)
        return list(torch.split(layers_LND, [len(words) + 2 * whole for words in sentences], 1)), start
