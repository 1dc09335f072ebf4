"""`Model`: sentences in, vectors out. Knows no format and no maths.

N sentences, T tokens, L layers, P projection, D = 2P, U words.
"""

import copy
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from stelmo.config import ModelConfig, choose
from stelmo.engine import plain, planning
from stelmo.engine.engine import Engine, checked, refuse_state
from stelmo.engine.engine import Sentences as Sentences
from stelmo.engine.planning import Plan
from stelmo.errors import ConfigError, ModelError
from stelmo.formats import models
from stelmo.lm import probabilities as lm
from stelmo.model.bilm import Softmax, State
from stelmo.ops import fast, reference
from stelmo.settings import Dtype, Layer, LoadSettings, StatePolicy
from stelmo.store.saved import Mix, SavedModel
from stelmo.text.ids import Vocabulary, word_ids

if TYPE_CHECKING:
    from stelmo.embed.load import LoadOptions

Array = NDArray[Any]
Reduce = Callable[[Tensor], Tensor]  # the layers (L+1, T, 2P) of one sentence → what is kept of them


class Model:
    """A biLM ready to embed. The same sentence gives the same vector whatever batch or call it comes in.

    With precision int8 the sentences of a batch share the scale of their numbers, so its vectors differ slightly (by up
    to about 0.01) from batch to batch.
    """

    def __init__(self, saved: SavedModel, settings: LoadSettings | None = None) -> None:
        self.settings = settings or LoadSettings()
        self._state_was_chosen = "state" in self.settings.model_fields_set
        if not self._state_was_chosen and saved.start is None:
            # A model of another language or of proteins is warmed up with English sentences only if that is asked for.
            self.settings = self.settings.model_copy(update={"state": "fresh"})
        refuse_state(saved.config, self.settings.state)
        if self.settings.precision == "int8" and not saved.config.has_state:
            raise ConfigError(f"precision: int8 is for LSTMs; a {saved.config.encoder.kind} computes in float32")
        if self.settings.threads is not None:
            torch.set_num_threads(self.settings.threads)
        self.stored_dtype = str(saved.dtype).removeprefix("torch.")
        device = planning.available(self.settings.device)
        planning.refuse_precision(self.settings.precision, device)
        dtype = torch.float64 if self.settings.precision == "float64" else torch.float32
        table = saved.bilm.encoder.table
        as_asked = table.dtype == dtype and table.device == device
        self.bilm = saved.bilm if as_asked else copy.deepcopy(saved.bilm).to(device, dtype)
        self._saved = replace(saved, bilm=self.bilm)
        ids_of = word_ids(saved.config, saved.vocabulary, saved.alphabet)
        warm = None if saved.start is None else saved.start.to(device, dtype)
        self.engine = Engine(self.bilm, ids_of, self.settings, warm)

    @property
    def config(self) -> ModelConfig:
        return self._saved.config

    @property
    def plan(self) -> Plan:
        """How much is computed and kept at once."""
        return self.engine.plan

    @property
    def vocabulary(self) -> Vocabulary | None:
        return self._saved.vocabulary

    @property
    def mixes(self) -> tuple[Mix, ...]:
        """The mixes of the layers that a task learned, if the model was read from a trained task's file."""
        return self._saved.mixes

    def embed(self, sentences: Sentences, layer: Layer = "mean", state: StatePolicy | None = None) -> list[Array]:
        """Lists of tokens → a (T, 2P) array each, in input order. Layer: "mean", "top", or 0 … L."""
        return self.engine.run(sentences, _kept(picking(layer, self.config.depth)), state)[0]

    def layers(self, sentences: Sentences, state: StatePolicy | None = None) -> list[Array]:
        """Lists of tokens → an (L+1, T, 2P) array each; layer 0 is the token layer, without context."""
        return self.engine.run(sentences, _kept(all_layers), state)[0]

    def sentence_vectors(self, sentences: Sentences, layer: Layer = "mean", state: StatePolicy | None = None) -> Array:
        """Lists of tokens → (N, 2P): the mean over a sentence's own tokens; zeros for an empty one."""
        pick = picking(layer, self.config.depth)
        vectors, _ = self.engine.run(sentences, _kept(lambda layers_LTD: mean_of_tokens(pick(layers_LTD))), state)
        numbers = _array(self.bilm.encoder.table[:0]).dtype
        return np.stack(vectors) if vectors else np.zeros((0, self.config.width), numbers)

    def carry(self, sentences: Sentences, state: State | None = None) -> tuple[list[Array], State]:
        """One batch, each row of which starts where the same row of the batch before it ended, as in a call of the
        2018 releases → the layers, and the state to pass with the next batch. Without a state it starts at zero.
        """
        batch = checked(sentences)
        start = self.bilm.zero_state(0) if state is None else state
        return self.engine.run(batch, _kept(all_layers), start, rows=max(1, len(batch)))

    def run(
        self, sentences: Sentences, reduce: Reduce, state: StatePolicy | None = None, carried: State | None = None
    ) -> tuple[list[Array], State | None]:
        """What `reduce` keeps of every sentence, in input order; under carry also the state at the end."""
        policy = self.settings.state if state is None else state
        if policy != "carry":
            return self.engine.run(sentences, _kept(reduce), policy)[0], None
        return self.engine.run(sentences, _kept(reduce), carried or policy, rows=self.settings.batch_rows)

    def __getstate__(self) -> dict[str, Any]:
        """Without the softmax, which is read again; the engine leaves out its packed weights."""
        return {name: value for name, value in self.__dict__.items() if name != "softmax"}

    def forget_words(self) -> None:
        """Empty the cache of token vectors, whose last bits can depend on the words computed together with them."""
        self.engine.forget_words()

    def start_state(self, policy: StatePolicy) -> State:
        """The row that every sentence starts from: zeros, or the model's fixed warm state."""
        return self.engine.start_state(policy)

    def warm_up(self, sentences: Sentences) -> None:
        """Make the state after these sentences the model's own warm state; `save` stores it.

        Sentences then start from it, unless the model was loaded with another `state`.
        """
        self.engine.warm_up(sentences)
        if not self._state_was_chosen:
            self.settings = self.engine.settings = self.settings.model_copy(update={"state": "warm"})

    @cached_property
    def softmax(self) -> Softmax:
        """The language-model head, read when first used: it can be larger than the biLM."""
        read = self._saved.read_softmax
        if read is None:
            raise ModelError(
                "the model has no softmax, so it cannot compute probabilities; load it with softmax=… "
                "(the file *_softmax_weights.hdf5 of the published models)"
            )
        return read().to(self.bilm.encoder.table.device, self.bilm.encoder.table.dtype)

    def log_probs(self, sentences: Sentences, state: StatePolicy | None = None) -> "list[lm.LogProbs]":
        """Lists of tokens → the log-probability of each word in each direction, full softmax."""
        return lm.log_probs(self, self.softmax, sentences, state)

    def substitutes(
        self, sentence: Sequence[str], position: int, k: int = 10, state: StatePolicy | None = None
    ) -> "list[lm.Substitute]":
        """The k words that fit best at a position (from 0), judged by the words to its left and right."""
        return lm.guesses(self, self.softmax, sentence, position, k, state).both

    @torch.inference_mode()
    def token_vectors(self, words: Sequence[str]) -> Array:
        """Words → (U, P): the token layer, one half of layer 0; the other half is equal to it."""
        char_cnn = fast.char_cnn if self.bilm.encoder.table.device.type == "cpu" else reference.char_cnn
        ids_U = torch.from_numpy(self.engine.word_ids(words))
        with torch.autocast(self.bilm.encoder.table.device.type, enabled=False):
            return _array(plain.token_vectors(self.bilm, ids_U, char_cnn))

    def saved(self) -> SavedModel:
        """Everything that a model file stores, with the warm state if the model has its own."""
        return replace(self._saved, start=self.engine.own_warm_state)

    def save(
        self,
        path: str | Path,
        *,
        format: str = "stelmo",
        dtype: str | None = None,
        token_embeddings: bool = False,
        overwrite: bool = False,
    ) -> None:
        """Write a model folder, complete or not at all: our own format ("stelmo") or the published layout ("bilm").

        The published layout has no warm state: a model read from it starts sentences from zeros.
        `dtype` defaults to the model's own. `token_embeddings` adds layer 0 of all vocabulary words.
        """
        saved = self.saved()
        if token_embeddings:
            if format != "bilm" or self.vocabulary is None:
                raise ConfigError("token_embeddings: requires format 'bilm' and a model that has a vocabulary")
            saved = replace(saved, token_vectors=torch.from_numpy(self.token_vectors(self.vocabulary.words)))
        if dtype is not None:
            choose("dtype", dtype, get_args(Dtype))
            saved = saved.to(getattr(torch, dtype))
        models.write(saved, Path(path), format, overwrite)

    save_pretrained = save

    @classmethod
    def from_pretrained(
        cls,
        name: str | Path,
        *,
        revision: str | None = None,
        local_files_only: bool = False,
        **settings: "Unpack[LoadOptions]",
    ) -> "Model":
        """The same as `stelmo.from_pretrained`."""
        from stelmo.embed.load import from_pretrained

        return from_pretrained(name, revision=revision, local_files_only=local_files_only, **settings)


def all_layers(layers_LTD: Tensor) -> Tensor:
    return layers_LTD


def picking(layer: Layer, depth: int) -> Reduce:
    """A function that takes one layer, or the mean of all, out of (L+1, T, 2P)."""
    choose("layer", layer, ("mean", "top", *range(depth)))
    if layer == "mean":
        return lambda layers_LTD: layers_LTD.mean(0)
    number = depth - 1 if layer == "top" else int(layer)
    return lambda layers_LTD: layers_LTD[number]


def mean_of_tokens(vectors: Tensor) -> Tensor:
    """(…, T, D) → (…, D) over the tokens; zeros if there are none."""
    return vectors.sum(-2) / max(1, vectors.shape[-2])


def _kept(reduce: Reduce) -> Callable[[Tensor], Array]:
    """What `reduce` returns, as an array of its own: a view would keep the whole batch in memory."""
    return lambda layers_LTD: _array(reduce(layers_LTD)).copy()


def _array(tensor: Tensor) -> Array:
    return tensor.cpu().numpy()
