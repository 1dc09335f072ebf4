"""AllenNLP's ELMo classes over any model in the published layout. Knows no format and no AllenNLP.

    from allennlp.modules.elmo import Elmo, batch_to_ids              ┐
    from allennlp.modules.scalar_mix import ScalarMix                 ├─►  from stelmo.compat.allennlp import …
    from allennlp.modules.token_embedders import ElmoTokenEmbedder    │
    from allennlp.commands.elmo import ElmoEmbedder                   ┘

By default a sentence has the same vectors in every call. `stateful=True` gives AllenNLP's own: row r of a batch goes
on where row r of the batch before ended, the first from zeros; the memory is `.state`, `reset_states()` empties it.

B sentences, T tokens (+2 with markers), P projection, L layers, D = 2P.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from stelmo.compat.elmo_bilm import ElmoBiLm, File, loaded
from stelmo.compat.elmo_embedder import ElmoEmbedder
from stelmo.engine.inputs import checked
from stelmo.errors import ConfigError
from stelmo.model.mix import EPSILON
from stelmo.model.state import State
from stelmo.ops import reference as ops
from stelmo.text import chars

__all__ = ["Elmo", "ElmoEmbedder", "ElmoTokenEmbedder", "ScalarMix", "batch_to_ids"]


def batch_to_ids(batch: Iterable[Sequence[str]]) -> Tensor:
    """Lists of tokens → character ids (B, T, 50), zeros past a sentence's end."""
    return torch.from_numpy(chars.encode_sentences(checked(batch)))


class ScalarMix(nn.Module):
    """γ · Σ softmax(w)_k · tensor_k, under AllenNLP's parameter names: `scalar_parameters.0` …, `gamma`."""

    def __init__(
        self,
        mixture_size: int,
        do_layer_norm: bool = False,
        initial_scalar_parameters: Sequence[float] | None = None,
        trainable: bool = True,
    ) -> None:
        super().__init__()
        start = [0.0] * mixture_size if initial_scalar_parameters is None else list(initial_scalar_parameters)
        if len(start) != mixture_size or mixture_size < 1:
            raise ConfigError(f"ScalarMix: {len(start)} initial_scalar_parameters for {mixture_size} tensors")
        self.mixture_size, self.do_layer_norm = mixture_size, do_layer_norm
        self.scalar_parameters = nn.ParameterList(nn.Parameter(torch.tensor([float(w)]), trainable) for w in start)
        self.gamma = nn.Parameter(torch.ones(1), trainable)

    def forward(self, tensors: Sequence[Tensor] | Tensor, mask: Tensor | None = None) -> Tensor:
        """Tensors of one shape (…, D) → their mix. The mask (…) is needed, and used, by the layer norm alone."""
        if len(tensors) != self.mixture_size:
            raise ConfigError(f"ScalarMix: {len(tensors)} tensors given; it was made for {self.mixture_size}")
        layers = tensors if isinstance(tensors, Tensor) else torch.stack(list(tensors))
        layers_L1ND = layers.reshape(len(layers), 1, -1, layers.shape[-1])
        if self.do_layer_norm:
            if mask is None:
                raise ConfigError("ScalarMix: do_layer_norm needs the mask of real tokens")
            layers_L1ND = ops.layer_norm(layers_L1ND, mask.reshape(1, -1), EPSILON["allennlp"])
        weights_L = torch.cat(list(self.scalar_parameters)).to(layers.dtype)
        mixed = ops.mix(layers_L1ND, weights_L, self.gamma)
        return mixed.reshape(layers.shape[1:])


class Elmo(nn.Module):
    """Character ids (B, T, 50) → {"elmo_representations": [(B, T, 2P), …], "mask": (B, T)}.

    Output k has its own `scalar_mix_k`; `scalar_mix_parameters` fixes all of them. With `vocab_to_cache`, ids of its
    words (0: no word) may come as `word_inputs`, or as (B, T) in the place of the characters. `module` is somebody's
    own biLM with `num_layers`, `get_output_dim()` and the output of AllenNLP's; gradients, cache and state are its own.
    """

    def __init__(
        self,
        options_file: File,
        weight_file: File,
        num_output_representations: int,
        requires_grad: bool = False,
        do_layer_norm: bool = False,
        dropout: float = 0.5,
        vocab_to_cache: Sequence[str] | None = None,
        keep_sentence_boundaries: bool = False,
        scalar_mix_parameters: Sequence[float] | None = None,
        module: nn.Module | None = None,
        *,
        stateful: bool = False,
    ) -> None:
        super().__init__()
        if module is None:
            model = loaded(options_file, weight_file)
            self._elmo_lstm: Any = ElmoBiLm(model, requires_grad, vocab_to_cache, stateful)
        elif options_file is None and weight_file is None:
            self._elmo_lstm = module
        else:
            raise ConfigError("module: it takes the place of options_file and weight_file; pass None for both")
        if num_output_representations < 1 or not 0 <= dropout <= 1:
            raise ConfigError(
                f"Elmo: {num_output_representations} representations, dropout {dropout}; expected ≥ 1, 0 … 1"
            )
        self._keep_sentence_boundaries = keep_sentence_boundaries
        self._dropout = nn.Dropout(dropout)
        self._outputs = num_output_representations
        for number in range(num_output_representations):
            mix = ScalarMix(
                self._elmo_lstm.num_layers,
                do_layer_norm,
                scalar_mix_parameters,
                trainable=scalar_mix_parameters is None,
            )
            self.add_module(f"scalar_mix_{number}", mix)

    def get_output_dim(self) -> int:
        return int(self._elmo_lstm.get_output_dim())

    @property
    def state(self) -> State | None:
        """The memory of a stateful module."""
        found: State | None = self._elmo_lstm.state
        return found

    def reset_states(self) -> None:
        """Forget what came before; the next batch starts from zeros."""
        self._elmo_lstm.reset_states()

    def forward(self, inputs: Tensor, word_inputs: Tensor | None = None) -> dict[str, Any]:
        """Axes may stand before B: (…, T, 50) → (…, T, 2P)."""
        alone = inputs.dim() == 2 and word_inputs is None
        shape = inputs.shape if alone else inputs.shape[:-1]
        flat = inputs.flatten(0, -3) if inputs.dim() > 3 else inputs
        words = None if word_inputs is None else word_inputs.flatten(0, -2)
        output = self._elmo_lstm(flat, flat if alone else words)
        mixes = [getattr(self, f"scalar_mix_{number}") for number in range(self._outputs)]
        mixed = [mix(output["activations"], output["mask"]) for mix in mixes]
        mask_BT = output["mask"].bool()
        mask_BT = mask_BT if self._keep_sentence_boundaries else mask_BT[:, 2:]
        return {
            "elmo_representations": [self._finished(mixed_BTD, mask_BT, shape[:-1]) for mixed_BTD in mixed],
            "mask": mask_BT.reshape(*shape[:-1], mask_BT.shape[1]),
        }

    def _finished(self, mixed_BTD: Tensor, mask_BT: Tensor, before: torch.Size) -> Tensor:
        """Without the markers unless they are kept, zero past the end, in the shape of the input."""
        inner_BTD = mixed_BTD if self._keep_sentence_boundaries else mixed_BTD[:, 1:-1]
        dropped: Tensor = self._dropout(torch.where(mask_BT[:, :, None], inner_BTD, 0.0))
        return dropped.reshape(*before, *dropped.shape[1:])


class ElmoTokenEmbedder(nn.Module):
    """One representation of `Elmo`, projected to `projection_dim` if that is given."""

    def __init__(
        self,
        options_file: File = None,
        weight_file: File = None,
        do_layer_norm: bool = False,
        dropout: float = 0.5,
        requires_grad: bool = False,
        projection_dim: int | None = None,
        vocab_to_cache: Sequence[str] | None = None,
        scalar_mix_parameters: Sequence[float] | None = None,
        *,
        stateful: bool = False,
    ) -> None:
        super().__init__()
        self._elmo = Elmo(
            options_file,
            weight_file,
            1,
            requires_grad,
            do_layer_norm,
            dropout,
            vocab_to_cache,
            scalar_mix_parameters=scalar_mix_parameters,
            stateful=stateful,
        )
        width = self._elmo.get_output_dim()
        self._projection = nn.Linear(width, projection_dim) if projection_dim else None
        self.output_dim = projection_dim or width

    def get_output_dim(self) -> int:
        return self.output_dim

    def forward(self, elmo_tokens: Tensor, word_inputs: Tensor | None = None) -> Tensor:
        representation: Tensor = self._elmo(elmo_tokens, word_inputs)["elmo_representations"][0]
        return representation if self._projection is None else self._projection(representation)
