"""`Elmo`: an nn.Module that makes a biLM part of another network; `Cached`: stored layers in place of the biLM.

Knows no file format. B sentences, T tokens of the longest, K outputs, L layers, C characters, P projection, D = 2P.
"""

import hashlib
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from stelmo.config import CharInput, ModelConfig, choose
from stelmo.embed.model import Model
from stelmo.engine import plain
from stelmo.engine.engine import Engine, Sentences, checked, checked_ids
from stelmo.errors import ConfigError, DataError
from stelmo.model.bilm import BiLM, State
from stelmo.model.mix import Dropout, LayerNorm, ScalarMix
from stelmo.store.layers import KEY_BYTES, LayerFolder
from stelmo.store.saved import Mix

Array = NDArray[Any]


class LayerShape(NamedTuple):
    """The shape of layers that do not come from a biLM."""

    depth: int
    width: int


class Cached:
    """The layers that `stelmo.precompute` stored; `Elmo` accepts it in place of the model. Pickled by its path."""

    def __init__(
        self, folder: LayerFolder, config: ModelConfig | LayerShape, mixes: Sequence[Mix], dtype: torch.dtype
    ) -> None:
        self.config, self.mixes = config, mixes
        self.state = folder.manifest.settings["state"]
        self.dtype = dtype  # of a batch: what the model computes in; the folder may hold float16
        self._folder = folder

    def __len__(self) -> int:
        """Distinct sentences."""
        return len(self._folder)

    def __contains__(self, sentence: Sequence[str]) -> bool:
        return key_of(checked([sentence])[0]) in self._folder

    def layers(self, sentence: Sequence[str]) -> Array:
        """(L+1, T, 2P) as stored: a view of the file, not to be written to."""
        return self._layers(checked([sentence])[0])

    def batch(self, sentences: Sentences) -> tuple[Tensor, Tensor]:
        """Layers (L+1, B, T, 2P), zero past a sentence's end, and the mask (B, T) of real tokens."""
        found = checked(sentences)
        if not found:
            raise DataError("batch: no sentences; expected at least one")
        lengths_B = torch.tensor([len(sentence) for sentence in found])
        shape = self.config.depth, len(found), int(lengths_B.max()), self.config.width
        layers_LBTD = torch.zeros(shape, dtype=self.dtype)
        numbers_LBTD = layers_LBTD.numpy()
        for row, sentence in enumerate(found):
            numbers_LBTD[:, row, : len(sentence)] = self._layers(sentence)
        return layers_LBTD, torch.arange(shape[2]) < lengths_B[:, None]

    def _layers(self, sentence: Sequence[str]) -> Array:
        key = key_of(sentence)
        if key not in self._folder:
            shown = " ".join(sentence)
            raise DataError(
                f"{self._folder.folder} has no layers of {shown!r:.60}; add the sentence with stelmo.precompute"
            )
        return self._folder[key]


def key_of(sentence: Sequence[str]) -> bytes:
    """Equal only for equal tokens: each is preceded by its length, so that ["ab"] differs from ["a", "b"]."""
    text = "".join(f"{len(token)}:{token}" for token in sentence)
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=KEY_BYTES).digest()


class Elmo(nn.Module):
    """Tokens → vectors (B, T, 2P), or (K, B, T, 2P) for K > 1 outputs, and the mask (B, T) of real tokens.

    Each output has its own learned mix, in `mixes`; add their `.penalty()` to the loss. The biLM is frozen
    unless `trainable`. `keep_boundaries` keeps <S> and </S>, so T grows by two. γ starts from `gamma`; `learned` starts
    the mixes from those of the task that the model's file comes from. Layers that `stelmo.precompute` stored can be
    passed in place of the model, unless the biLM is trained or the markers are needed.
    """

    start_h: Tensor
    start_c: Tensor
    bilm: BiLM

    def __init__(
        self,
        model: Model | Cached,
        outputs: int = 1,
        dropout: float = 0.5,
        trainable: bool = False,
        *,
        keep_boundaries: bool = False,
        layer_norm: bool | LayerNorm = False,
        top_only: bool = False,
        l2: float = 0.001,
        gamma: float = 1.0,
        learned: bool = False,
        state: str | None = None,
    ) -> None:
        super().__init__()
        if outputs < 1 or not 0 <= dropout < 1:
            raise ConfigError(f"Elmo: outputs {outputs}, dropout {dropout}; expected at least 1, and 0 to below 1")
        self.config, self.trainable, self.keep_boundaries = model.config, trainable, keep_boundaries
        mixes = [ScalarMix(model.config.depth, layer_norm, l2, top_only, gamma) for _ in range(outputs)]
        if learned:
            if len(model.mixes) != outputs:
                raise ConfigError(f"Elmo: {outputs} outputs, but the model's file has {len(model.mixes)} learned mixes")
            for mix, (logits_L, scale) in zip(mixes, model.mixes, strict=True):
                mix.start_from(logits_L, scale)
        self.mixes = nn.ModuleList(mixes)
        self.dropout = Dropout(dropout)
        self.cached = model if isinstance(model, Cached) else None
        if isinstance(model, Cached):
            _refuse_what_is_not_stored(model, state, trainable, keep_boundaries or layer_norm == "allennlp")
            self.mixes.to(model.dtype)
            return
        policy = model.settings.state if state is None else state
        choose("state", policy, ("fresh", "warm"))
        # Another Elmo may train the same biLM, so one that does not train it leaves requires_grad alone.
        self.bilm = model.bilm.requires_grad_() if trainable else model.bilm
        self.engine = Engine(model.bilm, model.engine.word_ids, model.settings)
        self.mixes.to(model.bilm.encoder.table.device, model.bilm.encoder.table.dtype)
        start = model.start_state("warm" if policy == "warm" else "fresh")
        self.register_buffer("start_h", start.h.clone())
        self.register_buffer("start_c", start.c.clone())

    def forward(self, sentences: Sequence[Sequence[str]] | Tensor) -> tuple[Tensor, Tensor]:
        """Lists of tokens, or their character ids (B, T, C) as `stelmo.text.chars.encode_sentences` makes them."""
        if self.cached is not None:
            if isinstance(sentences, Tensor):
                raise ConfigError(
                    "Elmo: a tensor of ids, but precomputed layers are found by tokens; pass lists of tokens"
                )
            layers_LBTD, mask_BT = self.cached.batch(sentences)
            # The module may have been moved, and a replica of DataParallel has no parameters().
            scale: Tensor = self.mixes[0].scale  # type: ignore[assignment]
            layers_LBTD, mask_BT = layers_LBTD.to(scale), mask_BT.to(scale.device)
            return _one_or_stacked([self._dropped(mix(layers_LBTD, mask_BT), mask_BT) for mix in self.mixes]), mask_BT
        layers_LBTD, lengths_B = self._layers(sentences)
        width = layers_LBTD.shape[2]
        mask_BT = _inside(lengths_B, width) if self.keep_boundaries else _inside(lengths_B - 2, width - 2)
        mixed = [self._mixed(mix, layers_LBTD, lengths_B, mask_BT) for mix in self.mixes]  # type: ignore[arg-type]
        return _one_or_stacked(mixed), mask_BT

    def _layers(self, sentences: Sequence[Sequence[str]] | Tensor) -> tuple[Tensor, Tensor]:
        """The layers (L+1, B, T, 2P) and lengths, both with markers."""
        start = State(self.start_h, self.start_c)
        # Asked at every call: a biLM can be unfrozen, or frozen, at any time. A replica of DataParallel has no
        # parameters(); its engine is that of the original module.
        parameters = self.engine.bilm.parameters()
        learns = torch.is_grad_enabled() and any(parameter.requires_grad for parameter in parameters)
        if isinstance(sentences, Tensor):
            words = self.bilm.config.input
            if not isinstance(words, CharInput):
                raise ConfigError("Elmo: a tensor of ids, but the model does not read bytes; pass lists of tokens")
            batch = plain.batch_of_ids(checked_ids(sentences, words.max_characters))
        else:
            found = checked(sentences)
            if not found:
                raise DataError("Elmo: no sentences; expected at least one")
            if not learns and start.h.device.type == "cpu":
                start, rows = start.expand(len(found)), len(found)
                parts, _ = self.engine.run(found, lambda layers_LTD: layers_LTD, start, rows=rows, markers=True)
                layers_TBLD = torch.nn.utils.rnn.pad_sequence([part_LTD.transpose(0, 1) for part_LTD in parts])
                return layers_TBLD.permute(2, 1, 0, 3), torch.tensor([len(tokens) + 2 for tokens in found])
            batch = plain.batch_of_tokens(found, self.engine.word_ids)
        start = start.expand(len(batch.lengths_B))
        if learns:
            self.engine.forget_weights()  # optimisers may change them through `.data`
            layers_LBTD = plain.trained_layers(self.bilm, batch, start)
        else:
            with torch.no_grad():
                layers_LBTD, _ = plain.layers(self.bilm, batch, start)
        return layers_LBTD, batch.lengths_B.to(layers_LBTD.device)

    def _mixed(self, mix: ScalarMix, layers_LBTD: Tensor, lengths_B: Tensor, mask_BT: Tensor) -> Tensor:
        """One output; zero where there is no token."""
        if mix.layer_norm == "allennlp":  # its statistics count the markers; bilm's do not
            mixed_BTD = mix(layers_LBTD, _inside(lengths_B, layers_LBTD.shape[2]))
            mixed_BTD = mixed_BTD if self.keep_boundaries else mixed_BTD[:, 1:-1]
        else:
            mixed_BTD = mix(layers_LBTD if self.keep_boundaries else layers_LBTD[:, :, 1:-1], mask_BT)
        return self._dropped(mixed_BTD, mask_BT)

    def _dropped(self, mixed_BTD: Tensor, mask_BT: Tensor) -> Tensor:
        dropped: Tensor = self.dropout(torch.where(mask_BT[:, :, None], mixed_BTD, 0.0))
        return dropped


def _refuse_what_is_not_stored(cached: Cached, state: str | None, trainable: bool, markers: bool) -> None:
    if state not in (None, cached.state):
        raise ConfigError(f"Elmo: state {state!r}, but the layers were precomputed with {cached.state!r}")
    if trainable:
        raise ConfigError("Elmo: trainable, but precomputed layers cannot change; pass the model itself")
    if markers:
        raise ConfigError(
            "Elmo: keep_boundaries and layer_norm 'allennlp' need <S> and </S>, which precomputed layers lack; "
            "pass the model itself"
        )


def _one_or_stacked(outputs: list[Tensor]) -> Tensor:
    return outputs[0] if len(outputs) == 1 else torch.stack(outputs)


def _inside(lengths_B: Tensor, width: int) -> Tensor:
    """Which of `width` positions of each row hold a token."""
    return torch.arange(width, device=lengths_B.device) < lengths_B[:, None]
