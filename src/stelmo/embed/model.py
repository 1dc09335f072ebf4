"""A model file → `Model`: sentences in, vectors out. Knows no format and no maths.

N sentences, B of one batch, T tokens, L layers, P projection, D = 2P.
"""

import copy
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from stelmo.config import STATES, Dtype, Layer, LoadSettings, ModelConfig, StatePolicy, choose
from stelmo.embed.sentences import checked
from stelmo.engine import batching as batches
from stelmo.engine import memory, start
from stelmo.engine import plain as engine
from stelmo.engine.packed import Bulk
from stelmo.errors import ConfigError, DataError, ModelError
from stelmo.formats import models
from stelmo.lm import probabilities as lm
from stelmo.model import state as states
from stelmo.model.bilm import BiLM
from stelmo.model.softmax import Softmax
from stelmo.model.state import State
from stelmo.ops import fast, int8, reference
from stelmo.store.saved import Mix, SavedModel
from stelmo.text.vocabulary import Vocabulary

Array = NDArray[Any]
Sentences = Iterable[Sequence[str]]
Reduce = Callable[[Tensor], Tensor]  # the layers (L+1, T, 2P) of one sentence → what is kept of them


class Model:
    """A biLM ready to embed. The same sentence gives the same vector whatever batch or call it comes in."""

    def __init__(self, saved: SavedModel, settings: LoadSettings | None = None) -> None:
        self.settings = settings or LoadSettings()
        self._state_was_chosen = "state" in self.settings.model_fields_set
        if not self._state_was_chosen and saved.start is None:
            # Unasked, a model of another language or of proteins is not warmed up with English sentences.
            self.settings = self.settings.model_copy(update={"state": "fresh"})
        if self.settings.threads is not None:
            torch.set_num_threads(self.settings.threads)
        self.stored_dtype = str(saved.dtype).removeprefix("torch.")
        device = _available(self.settings.device)
        _refuse_precision(self.settings.precision, device)
        dtype = torch.float64 if self.settings.precision == "float64" else torch.float32
        self.bilm = _converted(saved.bilm, device, dtype)
        self.word_ids = engine.word_ids(saved.config, saved.vocabulary, saved.alphabet)
        self._saved = replace(saved, bilm=self.bilm)
        self._engine: Bulk | None = None
        self._warm = None if saved.start is None else saved.start.to(device, dtype)
        self._borrowed: State | None = None  # the warm state of a model without its own, from a few English sentences
        self.plan = memory.plan(saved.config, sum(map(Tensor.numel, self.bilm.parameters())), self.settings)

    @property
    def config(self) -> ModelConfig:
        return self._saved.config

    @property
    def vocabulary(self) -> Vocabulary | None:
        return self._saved.vocabulary

    @property
    def mixes(self) -> tuple[Mix, ...]:
        """What a task learned of the layers, where the model comes out of a trained task's file."""
        return self._saved.mixes

    def embed(self, sentences: Sentences, layer: Layer = "mean", state: StatePolicy | None = None) -> list[Array]:
        """Lists of tokens → a (T, 2P) array each, in input order. Layer: "mean", "top", or 0 … L."""
        return self.run(sentences, picking(layer, self.config.depth), state)[0]

    def layers(self, sentences: Sentences, state: StatePolicy | None = None) -> list[Array]:
        """Lists of tokens → an (L+1, T, 2P) array each; layer 0 is the token layer, without context."""
        return self.run(sentences, all_layers, state)[0]

    def sentence_vectors(self, sentences: Sentences, layer: Layer = "mean", state: StatePolicy | None = None) -> Array:
        """Lists of tokens → (N, 2P): the mean over a sentence's own tokens; zeros for an empty one."""
        pick = picking(layer, self.config.depth)
        vectors = self.run(sentences, lambda layers_LTD: mean_of_tokens(pick(layers_LTD)), state)[0]
        numbers = _array(self.bilm.encoder.table[:0]).dtype
        return np.stack(vectors) if vectors else np.zeros((0, self.config.width), numbers)

    def carry(self, sentences: Sentences, state: State | None = None) -> tuple[list[Array], State]:
        """One batch whose rows go on where the same rows of the last one ended, like a call of the 2018
        releases → the layers, and the state to pass with the next batch. Without a state it starts at zero.
        """
        batch = checked(sentences)
        rows = max(1, len(batch))
        return self._in_order(batch, all_layers, state, rows)

    def run(
        self, sentences: Sentences, reduce: Reduce, state: StatePolicy | None = None, carried: State | None = None
    ) -> tuple[list[Array], State | None]:
        """What `reduce` keeps of every sentence, in input order; under carry also the state at the end."""
        policy = self.settings.state if state is None else state
        choose("state", policy, STATES)
        found = checked(sentences)
        if policy == "carry":
            return self._in_order(found, reduce, carried, self.settings.batch_rows)
        return self._by_length(found, reduce, self.start_state(policy)), None

    def __getstate__(self) -> dict[str, Any]:
        """Without the engine, which is made again from the biLM, and without the softmax, which is read again."""
        return {name: value for name, value in self.__dict__.items() if name != "softmax"} | {"_engine": None}

    def forget_words(self) -> None:
        """Compute every word's token vector anew. The last bit of one can depend on which words came with it."""
        if self._engine is not None:
            self._engine.forget_words()

    def start_state(self, policy: StatePolicy) -> State:
        """The row that every sentence starts from: zeros, or the model's fixed warm state."""
        if policy != "warm":
            return self.bilm.zero_state()
        if self._warm is not None:
            return self._warm
        if self._borrowed is None:
            self._borrowed = start.warm_state(self.bilm, self.word_ids, start.WARM_UP)
        return self._borrowed

    def warm_up(self, sentences: Sentences) -> None:
        """Make the state after these sentences the warm state of the model's own; `save` stores it.

        Sentences then start from it, unless the model was loaded with another `state`.
        """
        found = checked(sentences)
        if not found:
            raise DataError("warm_up: no sentences; expected a few of the kind the model was trained on")
        self._warm = start.warm_state(self.bilm, self.word_ids, found)
        if not self._state_was_chosen:
            self.settings = self.settings.model_copy(update={"state": "warm"})

    @cached_property
    def softmax(self) -> Softmax:
        """The language-model head, read when first used: it can be larger than the biLM."""
        read = self._saved.read_softmax
        if read is None:
            raise ModelError(
                "the model has no softmax, so it knows no probabilities; load it with softmax=… "
                "(the file *_softmax_weights.hdf5 of the published models)"
            )
        return read().to(self.bilm.encoder.table.device, self.bilm.encoder.table.dtype)

    def log_probs(self, sentences: Sentences, state: StatePolicy | None = None) -> "list[lm.LogProbs]":
        """Lists of tokens → the log-probability of each word in each direction, full softmax."""
        return lm.log_probs(self, self.softmax, sentences, state)

    def substitutes(
        self, sentence: Sequence[str], position: int, k: int = 10, state: StatePolicy | None = None
    ) -> "list[lm.Substitute]":
        """The k words that fit best at a position (from 0), by what stands left and right of it."""
        return lm.guesses(self, self.softmax, sentence, position, k, state).both

    @torch.inference_mode()
    def token_vectors(self, words: Sequence[str]) -> Array:
        """Words → (U, P): the token layer, one half of layer 0; the other half is equal to it."""
        char_cnn = fast.char_cnn if self.bilm.encoder.table.device.type == "cpu" else reference.char_cnn
        return _array(engine.token_vectors(self.bilm, self.word_ids(words), char_cnn))

    def saved(self) -> SavedModel:
        """All that goes into a model file, with the warm state if the model has its own."""
        return replace(self._saved, start=self._warm)

    def save(
        self,
        path: str | Path,
        *,
        format: str = "stelmo",
        dtype: str | None = None,
        token_embeddings: bool = False,
        overwrite: bool = False,
    ) -> None:
        """A folder, whole or not at all: our own ("stelmo") or the published layout ("bilm").

        Unset, `dtype` is what the model computes with. `token_embeddings` adds layer 0 of all vocabulary words.
        """
        saved = self.saved()
        if token_embeddings:
            saved = replace(saved, token_vectors=torch.from_numpy(self._vocabulary_vectors(format)))
        if dtype is not None:
            choose("dtype", dtype, get_args(Dtype))
            saved = saved.to(getattr(torch, dtype))
        models.write(saved, Path(path), format, overwrite)

    save_pretrained = save

    @classmethod
    def from_pretrained(cls, name: str | Path, **settings: Any) -> "Model":
        """The same as `stelmo.from_pretrained`."""
        from stelmo.embed.load import from_pretrained

        return from_pretrained(name, **settings)

    def _vocabulary_vectors(self, format: str) -> Array:
        if format != "bilm" or self.vocabulary is None:
            raise ConfigError("token_embeddings: a file of the bilm format, for a model that has a vocabulary")
        return self.token_vectors(self.vocabulary.words)

    @torch.inference_mode()
    def _by_length(self, sentences: list[Sequence[str]], reduce: Reduce, row: State) -> list[Array]:
        results: dict[int, Array] = {}
        lengths = [len(sentence) + 2 for sentence in sentences]
        run = self._bulk if self._on_cpu else self._plain
        for positions in batches.by_length(lengths, self.plan.batch_tokens):
            vectors = run([sentences[position] for position in positions], reduce, row)
            results.update(zip(positions, vectors, strict=True))
        return [results[position] for position in range(len(sentences))]

    def _plain(self, batch: list[Sequence[str]], reduce: Reduce, row: State) -> list[Array]:
        layers, _ = self._plain_whole(batch, row.expand(len(batch)))
        return [_kept(reduce, layers_LTD[:, 1:-1]) for layers_LTD in layers]

    def _bulk(self, batch: list[Sequence[str]], reduce: Reduce, row: State) -> list[Array]:
        """On the engine: sentences longest first, so empty ones stand at the end."""
        layers_LND = self._fast_engine().run(batch, row)
        return [_kept(reduce, part_LTD) for part_LTD in torch.split(layers_LND, [len(words) for words in batch], 1)]

    def whole(self, batch: Sequence[Sequence[str]], state: State) -> tuple[list[Tensor], State]:
        """A batch, a start state each → the layers (L+1, T+2, 2P) of each, markers included, and its end state."""
        return self._fast_engine().run_whole(batch, state) if self._on_cpu else self._plain_whole(batch, state)

    @property
    def _on_cpu(self) -> bool:
        return self.bilm.encoder.table.device.type == "cpu"

    def _fast_engine(self) -> Bulk:
        if self._engine is None or self._engine.is_stale(self.bilm):
            self._engine = Bulk(self.bilm, self.word_ids, self.plan.words, arranged(self.settings.precision))
        return self._engine

    def _plain_whole(self, batch: Sequence[Sequence[str]], state: State) -> tuple[list[Tensor], State]:
        """By the modules themselves, on any device; on a GPU in half precision where that is asked for."""
        half = {"bfloat16": torch.bfloat16, "float16": torch.float16}.get(self.settings.precision)
        with torch.autocast(self.bilm.encoder.table.device.type, half, enabled=half is not None):
            layers_LBTD, end = engine.layers(self.bilm, engine.batch_of_tokens(batch, self.word_ids), state)
        rows = zip(layers_LBTD.float().unbind(1) if half else layers_LBTD.unbind(1), batch, strict=True)
        return [row_LTD[:, : len(words) + 2] for row_LTD, words in rows], end

    @torch.inference_mode()
    def _in_order(
        self, sentences: list[Sequence[str]], reduce: Reduce, state: State | None, rows: int
    ) -> tuple[list[Array], State]:
        results: list[Array] = []
        zeros = self.bilm.zero_state(0)
        state = zeros if state is None else state.to(zeros.h.device, zeros.h.dtype)
        for positions in batches.in_order(len(sentences), rows):
            batch = [sentences[position] for position in positions]
            state = states.grow(state, len(batch))
            layers, end = self.whole(batch, state.take(len(batch)))
            state = states.replace(state, end)
            results += [_kept(reduce, layers_LTD[:, 1:-1]) for layers_LTD in layers]
        return results, state


def all_layers(layers_LTD: Tensor) -> Tensor:
    return layers_LTD


def picking(layer: Layer, depth: int) -> Reduce:
    """The layer, or the mean of all, out of (L+1, T, 2P)."""
    choose("layer", layer, ("mean", "top", *range(depth)))
    if layer == "mean":
        return lambda layers_LTD: layers_LTD.mean(0)
    number = depth - 1 if layer == "top" else int(layer)
    return lambda layers_LTD: layers_LTD[number]


def mean_of_tokens(vectors: Tensor) -> Tensor:
    """(…, T, D) → (…, D) over the tokens that are there; of none: zeros."""
    return vectors.sum(-2) / max(1, vectors.shape[-2])


def arranged(precision: str) -> fast.Arrange:
    """How the engine multiplies gates."""
    return int8.Int8 if precision == "int8" else fast.Dense


def _converted(bilm: BiLM, device: torch.device, dtype: torch.dtype) -> BiLM:
    """The biLM where and in what it computes; the one given stays as it is."""
    table = bilm.encoder.table
    if table.dtype == dtype and table.device == device:
        return bilm
    return copy.deepcopy(bilm).to(device, dtype)


def _array(tensor: Tensor) -> Array:
    return tensor.cpu().numpy()


def _kept(reduce: Reduce, layers_LTD: Tensor) -> Array:
    """A copy: a view would keep the whole batch alive."""
    return _array(reduce(layers_LTD)).copy()


def _refuse_precision(precision: str, device: torch.device) -> None:
    if precision == "int8":
        if device.type != "cpu":
            raise ConfigError(f"precision: int8 runs on the CPU alone, not on {device}; use float16 there")
        int8.adds_in_16_bits()  # refuses where the processor or the build cannot
    if precision in ("bfloat16", "float16") and device.type == "cpu":
        raise ConfigError(f"precision: {precision} is for a GPU (--device cuda); on the CPU int8 is the fast one")


def _available(name: str) -> torch.device:
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError, NotImplementedError) as problem:
        reason = str(problem).split("\n")[0].split(". ")[0]
        raise ConfigError(f"device: {name!r} is not available here ({reason}); cpu always is") from None
    return device
