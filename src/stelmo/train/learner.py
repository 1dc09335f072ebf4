"""A model in training: what it starts from, one step after another, the average of its weights. Knows no schedule.

Everything random follows from (seed, step, rank), so there is no generator to store. R rows of all processes,
n rows of the softmax in one process, m in all, S types, V words of the vocabulary.
"""

import copy
import math
from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Generator, Tensor

from stelmo.config import ModelConfig
from stelmo.corpus.folder import Corpus, type_counts
from stelmo.corpus.windows import Sentences, Streams
from stelmo.engine.plain import token_vectors
from stelmo.errors import ConfigError
from stelmo.model.bilm import BiLM, Softmax, State
from stelmo.ops.losses import RowGradient, merge
from stelmo.settings import TrainSettings
from stelmo.text.ids import Alphabet, WordIds
from stelmo.train.batches import Batches, negatives, sampled_words
from stelmo.train.optimizers import Optimizer
from stelmo.train.step import StepBuffers, StepResult, step
from stelmo.train.world import World, local_device

HALF = {"bf16": torch.bfloat16, "fp16": torch.float16}
FP16_SCALE = 1024.0  # keeps small gradients from vanishing in half precision
MARKERS = 2  # types 0 and 1 are <S> and </S>
CENTRED_TYPES = 20_000  # the most frequent words stand for all in the mean of the token layer
AVERAGE_EVERY = 10  # steps: neighbouring weights differ little, and a pass over all of them is not free


class Start(NamedTuple):
    """The weights before the first step."""

    bilm: BiLM
    softmax: Softmax
    frozen: bool  # only the softmax is trained
    alphabet: Alphabet | None  # of a model that reads code points
    fingerprint: str  # a run resumes only from the start it had; empty: random weights

    @property
    def learned(self) -> bool:
        """Whether the weights are trained, so that validating them before the first step is useful."""
        return bool(self.fingerprint)


def random_softmax(words: int, config: ModelConfig, seed: int) -> Softmax:
    softmax = Softmax(words, config.projection).requires_grad_(False)
    softmax.reset(Generator().manual_seed(seed + 1))  # the biLM is drawn from `seed`
    return softmax


def log_frequencies(corpus: Corpus, counts_S: NDArray[np.float64]) -> Tensor:
    """(V,) of the vocabulary's words, each counted once more than it occurs."""
    counts_V = np.bincount(corpus.targets_S, counts_S, len(corpus.vocabulary)) + 1.0
    return torch.from_numpy(np.log(counts_V / counts_V.sum()))


def counted_start(config: ModelConfig, seed: int, corpus: Corpus) -> Start:
    """Random weights, except for the softmax's biases: the words' log frequencies."""
    softmax = random_softmax(len(corpus.vocabulary), config, seed)
    softmax.bias.copy_(log_frequencies(corpus, type_counts(corpus)))
    return Start(BiLM(config).reset(seed), softmax, False, None, "")


@torch.no_grad()
def mean_token_vector(bilm: BiLM, ids_of: WordIds, corpus: Corpus) -> Tensor:
    """(P,): the mean of layer 0 over the words of the training text."""
    types = np.arange(MARKERS, min(len(corpus.targets_S), MARKERS + CENTRED_TYPES))
    x_UP = token_vectors(bilm, torch.from_numpy(ids_of(corpus.words.words(types))))
    counts_U = torch.from_numpy(type_counts(corpus)[types]).to(x_UP)
    return counts_U @ x_UP / counts_U.sum()


class Losses(NamedTuple):
    """The mean cross entropy per token of this process's rows in one step, and the norm of the whole gradient."""

    forward: float
    backward: float
    norm: float


def own_rows(settings: TrainSettings, world: World) -> range:
    """The rows of a batch that belong to this process, which computes them in equal parts."""
    rows = world.rows(settings.batch)
    if len(rows) % settings.accumulate:
        raise ConfigError(
            f"accumulate: the {len(rows)} rows of a process cannot be cut into {settings.accumulate} equal parts"
        )
    return rows


class Learner:
    """A model, its optimiser and the text that it reads; `step` is one training step."""

    def __init__(
        self,
        config: ModelConfig,
        settings: TrainSettings,
        words: int,
        sentences: Sentences,
        batches: Batches,
        world: World,
        start: Start | None = None,
    ) -> None:
        self.settings, self.world, self.device = settings, world, local_device(settings.device)
        self._rows = own_rows(settings, world)
        dtype = torch.float64 if settings.precision == "float64" else torch.float32
        self.bilm = BiLM(config).reset(settings.seed).to(self.device, dtype)
        self.softmax = random_softmax(words, config, settings.seed).to(self.device, dtype)
        if start is not None:
            self.bilm.load_state_dict(start.bilm.state_dict())
            self.softmax.load_state_dict(start.softmax.state_dict())
            self.bilm.requires_grad_(not start.frozen)
        self._optimizer = Optimizer(self.bilm, self.softmax, settings)
        self._sentences, self._batches = sentences, batches
        self._streams = self._reading(None)
        self._state = self.bilm.zero_state(len(self._rows))
        self._buffers = StepBuffers()
        self._average = None if settings.average is None else RunningAverage(self.bilm, self.softmax, settings.average)

    def result(self, number: int) -> tuple[BiLM, Softmax]:
        """What is validated and saved after the step of that number: the averaged weights if the settings ask for them,
        else the last ones. Before the first step that the average includes, it holds untrained weights."""
        if self._average is None or number < AVERAGE_EVERY:
            return self.bilm, self.softmax
        return self._average.bilm, self._average.softmax

    def step(self, number: int, lr: float) -> Losses:
        """The step of that number, counted from 1. If it raises, the parameters are unchanged."""
        settings, rows_here, words = self.settings, len(self._rows), len(self.softmax.bias)
        self.bilm.zero_grad(set_to_none=True)
        window, count = self._streams.next(settings.unroll), sampled_words(settings, words)
        # The same negatives in every process; none: the full softmax.
        sampled = negatives(settings.seed, number, words, count).to(self.device) if count else None
        half_dtype = HALF.get(settings.precision)
        # Every process and part adds its share, so that the sum is the gradient of the batch's mean.
        scale = (settings.unroll if settings.window_loss else 1) / (self.world.size * settings.accumulate)
        size, results = rows_here // settings.accumulate, []
        for part, first in enumerate(range(0, rows_here, size)):  # gradients add up in the biLM
            own = slice(first, first + size)
            batch = self._batches(window.of_rows(own)).to(self.device)
            start = State(*(part_LBH[:, :, own] for part_LBH in self._state))
            with torch.autocast(self.device.type, half_dtype, enabled=half_dtype is not None):
                result = step(
                    self.bilm,
                    self.softmax,
                    batch,
                    start,
                    sampled,
                    scale=scale * self._loss_scale,
                    dropout=settings.dropout,
                    seed=(settings.seed, number, self.world.rank, part),
                    buffers=self._buffers,
                )
            results.append(result)
        self._state = State(*(torch.cat(parts, 2) for parts in zip(*(r.state for r in results), strict=True)))
        return self._apply(results, number, lr)

    def _apply(self, results: list[StepResult], number: int, lr: float) -> Losses:
        """Sum the gradients over all processes, clip them, and change the parameters."""
        dense = [p.grad for p in self.bilm.parameters() if p.grad is not None]
        rows = results[0].rows if len(results) == 1 else merge([result.rows for result in results])
        rows = on_rows(rows, self.world.union(rows.rows_n, len(self.softmax.bias)))
        self.world.all_reduce_(*dense, rows.weight_nP, rows.bias_n)
        everything = [*dense, rows.weight_nP, rows.bias_n]
        if self._loss_scale != 1.0:
            torch._foreach_mul_(everything, 1 / self._loss_scale)
        norms = torch.stack(torch._foreach_norm(everything))
        norm = float(torch.linalg.vector_norm(norms.double()))
        losses = Losses(_mean(r.loss_forward for r in results), _mean(r.loss_backward for r in results), norm)
        _refuse_divergence(losses, number, lr)
        bound = math.inf if self.settings.clip == "none" else self.settings.clip
        if norm > bound:
            torch._foreach_mul_(everything, bound / norm)
        self._optimizer.step(rows, lr, number)
        if self._average is not None and number % AVERAGE_EVERY == 0:
            self._average.update(self.bilm, self.softmax, number)
        return losses

    def tensors(self) -> dict[str, Tensor]:
        """Everything that the next step depends on, of all processes."""
        position_R3 = self.world.gather(torch.from_numpy(self._streams.position).to(self.device), 0)
        state = {name: self.world.gather(part, 2) for name, part in zip("hc", self._state, strict=True)}
        named = {
            "bilm": self.bilm.state_dict(),
            "softmax": self.softmax.state_dict(),
            "optimizer": self._optimizer.tensors(),
            "state": state,
            "streams": {"position": position_R3},
            "average": {} if self._average is None else self._average.tensors(),
        }
        return {f"{part}.{name}": tensor.cpu() for part, inner in named.items() for name, tensor in inner.items()}

    def load(self, tensors: Mapping[str, Tensor]) -> None:
        """Resume from what `tensors` returned, with any number of processes."""
        self.bilm.load_state_dict(_under("bilm", tensors))
        self.softmax.load_state_dict(_under("softmax", tensors))
        self._optimizer.load(_under("optimizer", tensors))
        own = slice(self._rows.start, self._rows.stop)
        state = _under("state", tensors)
        self._state = State(*(state[name][:, :, own].to(self.device).clone() for name in "hc"))
        self._streams = self._reading(tensors["streams.position"][own].numpy())
        if self._average is not None:
            self._average.load(_under("average", tensors) or self._average.of(self.bilm, self.softmax))

    def _reading(self, position: NDArray[np.int64] | None) -> Streams:
        settings = self.settings
        return Streams(self._sentences, rows=self._rows, of=settings.batch, seed=settings.seed, position=position)

    @property
    def _loss_scale(self) -> float:
        return FP16_SCALE if self.settings.precision == "fp16" else 1.0


def average_decay(decay: float, number: int) -> float:
    """The decay of the weight average at a step: lower at first, so that the untrained weights are soon forgotten."""
    return min(decay, (1 + number) / (10 + number))


class RunningAverage:
    """An exponential average of the weights: steps at a high learning rate scatter around it."""

    def __init__(self, bilm: BiLM, softmax: Softmax, decay: float) -> None:
        self.bilm, self.softmax = copy.deepcopy(bilm).requires_grad_(False), copy.deepcopy(softmax)
        self._decay = decay

    @torch.no_grad()
    def update(self, bilm: BiLM, softmax: Softmax, number: int) -> None:
        """Include the weights after the step of that number, for `AVERAGE_EVERY` steps."""
        decay = average_decay(self._decay, number) ** AVERAGE_EVERY
        found = self.of(bilm, softmax)
        torch._foreach_lerp_(list(self.tensors().values()), list(found.values()), 1 - decay)

    def tensors(self) -> dict[str, Tensor]:
        return self.of(self.bilm, self.softmax)

    @staticmethod
    def of(bilm: BiLM, softmax: Softmax) -> dict[str, Tensor]:
        parts = {"bilm": bilm.state_dict(), "softmax": softmax.state_dict()}
        return {f"{part}.{name}": tensor for part, inner in parts.items() for name, tensor in inner.items()}

    def load(self, tensors: Mapping[str, Tensor]) -> None:
        self.bilm.load_state_dict(_under("bilm", tensors))
        self.softmax.load_state_dict(_under("softmax", tensors))


def on_rows(part: RowGradient, rows_m: Tensor) -> RowGradient:
    """The same gradient over more rows: those that any process has."""
    if rows_m is part.rows_n:
        return part
    place_n = torch.searchsorted(rows_m, part.rows_n)
    weight_mP = part.weight_nP.new_zeros(len(rows_m), part.weight_nP.shape[1])
    bias_m = part.bias_n.new_zeros(len(rows_m))
    weight_mP[place_n], bias_m[place_n] = part.weight_nP, part.bias_n
    return RowGradient(rows_m, weight_mP, bias_m)


def _under(part: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    start = f"{part}."
    return {name.removeprefix(start): tensor for name, tensor in tensors.items() if name.startswith(start)}


def _mean(values: Iterable[float]) -> float:
    found = list(values)
    return sum(found) / len(found)


def _refuse_divergence(losses: Losses, number: int, lr: float) -> None:
    if all(map(math.isfinite, losses)):
        return
    what = "gradient" if math.isfinite(losses.forward + losses.backward) else "loss"
    raise ConfigError(
        f"step {number}: the {what} is not a number (learning rate {lr:.3g}); the last checkpoint is kept, "
        "so start another run with a lower lr, a longer warmup or a smaller clip"
    )
