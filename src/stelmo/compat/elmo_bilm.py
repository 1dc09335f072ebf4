"""A model → the biLM as AllenNLP's modules call it: character ids in, activations and mask out. Knows no mix.

B sentences, T tokens (both markers included), C characters, P projection, L layers, D = 2P.
"""

import warnings
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from stelmo.config import CharInput
from stelmo.embed.load import load
from stelmo.embed.model import Model
from stelmo.engine import plain as engine
from stelmo.engine.inputs import checked_ids
from stelmo.errors import ConfigError, DataError, ModelError
from stelmo.model import state as states
from stelmo.model.bilm import BiLM
from stelmo.model.state import State
from stelmo.text import chars

File = str | Path | None


def loaded(options_file: File, weight_file: File, **settings: Any) -> Model:
    for name, file in (("options_file", options_file), ("weight_file", weight_file)):
        if file is None or "://" in str(file):
            raise ModelError(f"{name} is {file}; nothing is downloaded here: get the file once and give its path")
    assert weight_file is not None
    return load(weight_file, options=options_file, **settings)


class ElmoBiLm(nn.Module):
    """Character ids (B, T, C) → "activations", L+1 of (B, T+2, 2P), and "mask"; <S> and </S> are put in."""

    start_h: Tensor
    start_c: Tensor
    cache: Tensor | None

    def __init__(
        self,
        model: Model,
        requires_grad: bool = False,
        vocab_to_cache: Sequence[str] | None = None,
        stateful: bool = False,
    ) -> None:
        super().__init__()
        if not isinstance(model.config.input, CharInput):
            raise ModelError("the model does not read bytes, which AllenNLP's classes pass; stelmo.Elmo takes tokens")
        if requires_grad and vocab_to_cache:
            raise ConfigError("vocab_to_cache: cached words would not be trained; leave it out with requires_grad=True")
        self.num_layers, self.max_characters = model.config.depth, model.config.input.max_characters
        self.requires_grad, self.stateful = requires_grad, stateful
        self.bilm: BiLM = model.bilm.requires_grad_(requires_grad)
        self.state: State | None = None
        start = model.start_state("warm")
        # Not in the state dict, which old checkpoints must fit.
        self.register_buffer("start_h", start.h.clone(), persistent=False)
        self.register_buffer("start_c", start.c.clone(), persistent=False)
        self.register_buffer("cache", _cached_vectors(model, vocab_to_cache), persistent=False)

    def get_output_dim(self) -> int:
        return self.bilm.config.width

    def reset_states(self) -> None:
        self.state = None

    def forward(self, inputs: Tensor, word_inputs: Tensor | None = None) -> dict[str, Any]:
        start = self._start(len(inputs))
        with nullcontext() if self.requires_grad else torch.no_grad():
            if word_inputs is not None and self._is_cached(inputs, word_inputs):
                (layers_LBTD, end), lengths_B = self._from_cache(word_inputs, start)
            else:
                batch = engine.batch_of_ids(checked_ids(inputs, self.max_characters))
                (layers_LBTD, end), lengths_B = engine.layers(self.bilm, batch, start), batch.lengths_B
        self._keep(end)
        inside_T = torch.arange(layers_LBTD.shape[2], device=lengths_B.device)
        return {"activations": list(layers_LBTD), "mask": inside_T < lengths_B[:, None]}

    def _start(self, rows: int) -> State:
        if not self.stateful:
            return State(self.start_h, self.start_c).expand(rows)
        state = self.bilm.zero_state(0) if self.state is None else self.state
        self.state = states.grow(state.to(self.start_h.device, self.start_h.dtype), rows)
        return self.state.take(rows)

    def _keep(self, end: State) -> None:
        if self.stateful and self.state is not None:
            self.state = states.replace(self.state, State(end.h.detach(), end.c.detach()))

    def _is_cached(self, inputs: Tensor, word_inputs: Tensor) -> bool:
        """Whether every word has its row; else the characters, if there are any, serve as without a cache."""
        if self.cache is None:
            if inputs is not word_inputs:
                warnings.warn("word_inputs are not used: Elmo was made without vocab_to_cache", stacklevel=5)
            return False
        if bool((word_inputs < len(self.cache) - 2).all()):
            return True
        if inputs is word_inputs:
            raise DataError(
                f"word id {int(word_inputs.max())}; vocab_to_cache has {len(self.cache) - 2} words; "
                "pass the character ids, too"
            )
        return False

    def _from_cache(self, word_inputs: Tensor, start: State) -> tuple[tuple[Tensor, State], Tensor]:
        """The biLM over cached token vectors; the last two rows of the cache are <S> and </S>."""
        assert self.cache is not None
        lengths_B = (word_inputs > 0).sum(1)
        index_BT = nn.functional.pad(word_inputs, (1, 1))
        index_BT[:, 0] = len(self.cache) - 2
        index_BT[torch.arange(len(index_BT)), lengths_B + 1] = len(self.cache) - 1
        return self.bilm(self.cache[index_BT], lengths_B + 2, start), lengths_B + 2


def _cached_vectors(model: Model, words: Sequence[str] | None) -> Tensor | None:
    if words is None:
        return None
    return torch.from_numpy(model.token_vectors([*words, chars.BEGIN_SENTENCE, chars.END_SENTENCE]))
