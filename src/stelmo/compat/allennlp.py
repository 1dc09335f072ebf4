"""AllenNLP's ELMo classes over any model in the published layout.

    from allennlp.modules.elmo import Elmo, batch_to_ids              ┐
    from allennlp.modules.scalar_mix import ScalarMix                 │
    from allennlp.modules.token_embedders import ElmoTokenEmbedder    ├─►  from stelmo.compat.allennlp import …
    from allennlp.commands.elmo import ElmoEmbedder                   │
    from allennlp.common.checks import ConfigurationError             ┘

Every sentence starts from zeros, as in the first call of the original, so it has the same vectors in every call.
`stateful=True` carries the LSTM state from batch to batch as the original does: row r of a batch continues row r of
the previous one; `stelmo.compat.allennlp_stateful` has the same names with that default. `state="warm"` starts every
sentence from the model's warm state.

B sentences, T tokens (+2 with markers), P projection, L layers, D = 2P.
"""

import inspect
from collections.abc import MutableMapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from stelmo.compat import File
from stelmo.compat.elmo_bilm import (
    ELMoCharacterMapper,
    ELMoTokenCharactersIndexer,
    _ElmoBiLm,
    _ElmoCharacterEncoder,
    batch_to_ids,
    remove_sentence_boundaries,
)
from stelmo.compat.elmo_embedder import (
    DEFAULT_BATCH_SIZE,
    DEFAULT_OPTIONS_FILE,
    DEFAULT_WEIGHT_FILE,
    ElmoEmbedder,
    empty_embedding,
    main,
)
from stelmo.errors import ConfigError
from stelmo.errors import ConfigError as ConfigurationError
from stelmo.model.bilm import State
from stelmo.model.mix import EPSILON
from stelmo.ops import reference as ops

# What the old scripts import, by the module they import it from.
IMPORTS = {
    "allennlp.modules.elmo": ("Elmo", "batch_to_ids", "_ElmoBiLm", "_ElmoCharacterEncoder"),
    "allennlp.modules.scalar_mix": ("ScalarMix",),
    "allennlp.modules": ("Elmo", "ScalarMix"),
    "allennlp.modules.token_embedders": ("ElmoTokenEmbedder",),
    "allennlp.commands.elmo": (
        "ElmoEmbedder",
        "DEFAULT_OPTIONS_FILE",
        "DEFAULT_WEIGHT_FILE",
        "DEFAULT_BATCH_SIZE",
        "empty_embedding",
    ),
    "allennlp.commands": ("main",),
    "allennlp.data.token_indexers.elmo_indexer": ("ELMoTokenCharactersIndexer", "ELMoCharacterMapper"),
    "allennlp.data.token_indexers": ("ELMoTokenCharactersIndexer",),
    "allennlp.common.checks": ("ConfigurationError",),
    "allennlp.nn.util": ("remove_sentence_boundaries",),
}

__all__ = [  # noqa: RUF022 (in the order of IMPORTS)
    "Elmo",
    "batch_to_ids",
    "_ElmoBiLm",
    "_ElmoCharacterEncoder",
    "ScalarMix",
    "ElmoTokenEmbedder",
    "ElmoEmbedder",
    "DEFAULT_OPTIONS_FILE",
    "DEFAULT_WEIGHT_FILE",
    "DEFAULT_BATCH_SIZE",
    "empty_embedding",
    "main",
    "ELMoTokenCharactersIndexer",
    "ELMoCharacterMapper",
    "ConfigurationError",
    "remove_sentence_boundaries",
]

# AllenNLP's ELMo names that have no counterpart here, and what replaces them.
ABSENT = {
    "allennlp.modules.elmo_lstm.ElmoLstm": "`stelmo.Elmo`; `elmo._elmo_lstm._elmo_lstm` has only its state",
    "allennlp.modules.token_embedders.ElmoTokenEmbedderMultiLang": "an `ElmoTokenEmbedder` for each language",
    "allennlp.commands.elmo.Elmo": "`main`, or the command `stelmo embed`",
    "allennlp.nn.util.add_sentence_boundary_token_ids": "not needed: every class adds the markers itself",
}


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
        """Tensors of one shape (…, D) → their mix. Only the layer norm uses the mask (…), and requires it."""
        if len(tensors) != self.mixture_size:
            raise ConfigError(f"ScalarMix: {len(tensors)} tensors; it was made for {self.mixture_size}")
        layers = tensors if isinstance(tensors, Tensor) else torch.stack(list(tensors))
        layers_L1ND = layers.reshape(len(layers), 1, -1, layers.shape[-1])
        if self.do_layer_norm:
            if mask is None:
                raise ConfigError("ScalarMix: do_layer_norm requires the mask of real tokens")
            layers_L1ND = ops.layer_norm(layers_L1ND, mask.reshape(1, -1).bool(), EPSILON["allennlp"])
        weights_L = torch.cat(list(self.scalar_parameters)).to(layers.dtype)
        mixed = ops.mix(layers_L1ND, weights_L, self.gamma)
        return mixed.reshape(layers.shape[1:])


class Elmo(nn.Module):
    """Character ids (B, T, 50) → {"elmo_representations": [(B, T, 2P), …], "mask": (B, T)}.

    Output k has its own `scalar_mix_k`; `scalar_mix_parameters` fixes all of them. With `vocab_to_cache`, ids of its
    words (0: no word) can be passed as `word_inputs`, or as (B, T) in place of the characters. `module` is a custom
    biLM with `num_layers`, `get_output_dim()` and AllenNLP's output; it handles gradients, cache and state itself.
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
        state: str = "fresh",
    ) -> None:
        super().__init__()
        if module is None:
            self._elmo_lstm: Any = _ElmoBiLm(
                options_file, weight_file, requires_grad, vocab_to_cache, stateful=stateful, state=state
            )
        elif options_file is None and weight_file is None:
            self._elmo_lstm = module
        else:
            raise ConfigError("module: it replaces options_file and weight_file; pass None for both")
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

    @classmethod
    def from_params(cls, params: Any) -> "Elmo":
        """From the settings of an AllenNLP configuration, a dictionary or `Params`."""
        return cls(**_checked(Elmo, _settings(params)))

    def get_output_dim(self) -> int:
        return int(self._elmo_lstm.get_output_dim())

    @property
    def _scalar_mixes(self) -> list[nn.Module]:
        return [getattr(self, f"scalar_mix_{number}") for number in range(self._outputs)]

    @property
    def state(self) -> State | None:
        """The LSTM state that a stateful module carries to the next batch."""
        found: State | None = self._elmo_lstm.state
        return found

    def reset_states(self) -> None:
        """Forget the previous batches; the next one starts from zeros."""
        self._elmo_lstm.reset_states()

    def forward(self, inputs: Tensor, word_inputs: Tensor | None = None) -> dict[str, Any]:
        """More axes may come before B: (…, T, 50) → (…, T, 2P).

        As in AllenNLP, `inputs` is not read if the cache has all `word_inputs`: it may be the same ids, or zeros.
        """
        words = inputs if word_inputs is None and inputs.dim() == 2 else word_inputs
        reads_words = words is inputs or getattr(self._elmo_lstm, "cache", None) is not None
        shape = words.shape if words is not None and reads_words else inputs.shape[:-1]
        flat = inputs.flatten(0, -3) if inputs.dim() > 3 else inputs
        output = self._elmo_lstm(flat, None if words is None else words.flatten(0, -2))
        mask_BT = output["mask"].long()
        mask_BT = mask_BT if self._keep_sentence_boundaries else mask_BT[:, 2:]
        representations = []
        for mix in self._scalar_mixes:
            mixed_BTD = mix(output["activations"], output["mask"])
            inner_BTD = mixed_BTD if self._keep_sentence_boundaries else mixed_BTD[:, 1:-1]
            dropped_BTD = self._dropout(torch.where(mask_BT[:, :, None] > 0, inner_BTD, 0.0))
            representations.append(dropped_BTD.reshape(*shape[:-1], *dropped_BTD.shape[1:]))
        return {
            "elmo_representations": representations,
            "mask": mask_BT.reshape(*shape[:-1], mask_BT.shape[1]),
        }


class ElmoTokenEmbedder(nn.Module):
    """One representation of `Elmo`, projected to `projection_dim` if that is given."""

    def __init__(
        self,
        options_file: File = DEFAULT_OPTIONS_FILE,
        weight_file: File = DEFAULT_WEIGHT_FILE,
        do_layer_norm: bool = False,
        dropout: float = 0.5,
        requires_grad: bool = False,
        projection_dim: int | None = None,
        vocab_to_cache: Sequence[str] | None = None,
        scalar_mix_parameters: Sequence[float] | None = None,
        *,
        stateful: bool = False,
        state: str = "fresh",
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
            state=state,
        )
        width = self._elmo.get_output_dim()
        self._projection = nn.Linear(width, projection_dim) if projection_dim else None
        self.output_dim = projection_dim or width

    @classmethod
    def from_params(cls, vocab: Any, params: Any) -> "ElmoTokenEmbedder":
        """From the settings of an AllenNLP configuration; `namespace_to_cache` takes its words from the vocabulary."""
        settings = _settings(params)
        namespace = settings.pop("namespace_to_cache", None)
        if namespace is not None:
            settings["vocab_to_cache"] = list(vocab.get_token_to_index_vocabulary(namespace))
        return cls(**_checked(ElmoTokenEmbedder, settings))

    def get_output_dim(self) -> int:
        return self.output_dim

    def forward(
        self, inputs: Tensor | None = None, word_inputs: Tensor | None = None, *, elmo_tokens: Tensor | None = None
    ) -> Tensor:
        """Character ids (…, T, 50), called `inputs` in AllenNLP 0.9 and `elmo_tokens` in 1.0 → (…, T, 2P)."""
        ids = inputs if elmo_tokens is None else elmo_tokens
        representation: Tensor = self._elmo(ids, word_inputs)["elmo_representations"][0]
        return representation if self._projection is None else self._projection(representation)


def _settings(params: MutableMapping[str, Any]) -> dict[str, Any]:
    """The settings without the entry that names the class. `Params` are emptied, and put both files into the archive
    that AllenNLP makes of a trained model; a plain dictionary is not changed."""
    found = dict(params)
    if hasattr(params, "add_file_to_archive"):
        for name in ("options_file", "weight_file"):
            params.add_file_to_archive(name)
        params.clear()
    found.pop("type", None)
    return found


def _checked(made: type[nn.Module], settings: dict[str, Any]) -> dict[str, Any]:
    try:
        inspect.signature(made).bind(**settings)
    except TypeError as problem:
        raise ConfigError(f"{made.__name__}: {problem}") from None
    return settings
