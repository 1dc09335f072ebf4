"""`Elmo`: an nn.Module that puts a biLM into somebody's network. Knows no files.

B sentences, T tokens of the longest, K outputs, L layers, C characters, D = 2P.
"""

from collections.abc import Sequence
from contextlib import nullcontext

import torch
from torch import Tensor, nn

from stelmo.config import CharInput, choose
from stelmo.embed import engine
from stelmo.embed.model import Model
from stelmo.embed.sentences import checked, checked_ids
from stelmo.errors import ConfigError, DataError
from stelmo.model.mix import LayerNorm, ScalarMix
from stelmo.model.state import State
from stelmo.store.saved import Mix


class Elmo(nn.Module):
    """Tokens → vectors (B, T, 2P), or (K, B, T, 2P) for K > 1 outputs, and the mask (B, T) of real tokens.

    Each output has a learned mix of its own, in `mixes`; add their `.penalty()` to the loss. The biLM is frozen
    unless `trainable`. `keep_boundaries` leaves <S> and </S> in, so T grows by two. `learned` starts the mixes from
    those of the task that the model's file comes from.
    """

    start_h: Tensor
    start_c: Tensor

    def __init__(
        self,
        model: Model,
        outputs: int = 1,
        dropout: float = 0.5,
        trainable: bool = False,
        *,
        keep_boundaries: bool = False,
        layer_norm: bool | LayerNorm = False,
        top_only: bool = False,
        l2: float = 0.001,
        learned: bool = False,
        state: str | None = None,
    ) -> None:
        super().__init__()
        policy = model.settings.state if state is None else state
        choose("state", policy, ("fresh", "warm"))
        if outputs < 1 or not 0 <= dropout < 1:
            raise ConfigError(f"Elmo: outputs {outputs}, dropout {dropout}; expected at least 1, and 0 to below 1")
        self.config, self.word_ids = model.config, model.word_ids
        self.trainable, self.keep_boundaries = trainable, keep_boundaries
        self.bilm = model.bilm.requires_grad_() if trainable else model.bilm  # another Elmo may train the same biLM
        mixes = [ScalarMix(model.config.depth, layer_norm, l2, top_only) for _ in range(outputs)]
        if learned:
            _start(mixes, model.mixes)
        self.mixes = nn.ModuleList(mixes)
        self.mixes.to(model.bilm.encoder.table.device, model.bilm.encoder.table.dtype)
        self.dropout = nn.Dropout(dropout)
        start = model.start_state("warm" if policy == "warm" else "fresh")
        self.register_buffer("start_h", start.h.clone())
        self.register_buffer("start_c", start.c.clone())

    def forward(self, sentences: Sequence[Sequence[str]] | Tensor) -> tuple[Tensor, Tensor]:
        """Lists of tokens, or their character ids (B, T, C) as `stelmo.text.chars.encode_sentences` makes them."""
        batch = self._batch(sentences)
        start = State(self.start_h, self.start_c).expand(len(batch.lengths_B))
        with nullcontext() if self.trainable else torch.no_grad():
            layers_LBTD, _ = engine.layers(self.bilm, batch, start)
        lengths_B = batch.lengths_B.to(layers_LBTD.device)
        width = layers_LBTD.shape[2]
        mask_BT = _inside(lengths_B, width) if self.keep_boundaries else _inside(lengths_B - 2, width - 2)
        mixed = [self._mixed(mix, layers_LBTD, lengths_B, mask_BT) for mix in self.mixes]  # type: ignore[arg-type]
        return mixed[0] if len(mixed) == 1 else torch.stack(mixed), mask_BT

    def _batch(self, sentences: Sequence[Sequence[str]] | Tensor) -> engine.Batch:
        if isinstance(sentences, Tensor):
            if not isinstance(self.config.input, CharInput):
                raise ConfigError("Elmo: a tensor of ids, but the model does not read bytes; pass lists of tokens")
            return engine.batch_of_ids(checked_ids(sentences, self.config.input.max_characters))
        found = checked(sentences)
        if not found:
            raise DataError("Elmo: no sentences; expected at least one")
        return engine.batch_of_tokens(found, self.word_ids)

    def _mixed(self, mix: ScalarMix, layers_LBTD: Tensor, lengths_B: Tensor, mask_BT: Tensor) -> Tensor:
        """One output; zero where there is no token."""
        if mix.layer_norm == "allennlp":  # its statistics count the markers; bilm's do not
            mixed_BTD = mix(layers_LBTD, _inside(lengths_B, layers_LBTD.shape[2]))
            mixed_BTD = mixed_BTD if self.keep_boundaries else mixed_BTD[:, 1:-1]
        else:
            mixed_BTD = mix(layers_LBTD if self.keep_boundaries else layers_LBTD[:, :, 1:-1], mask_BT)
        dropped: Tensor = self.dropout(torch.where(mask_BT[:, :, None], mixed_BTD, 0.0))
        return dropped


def _start(mixes: Sequence[ScalarMix], learned: Sequence[Mix]) -> None:
    if len(learned) != len(mixes):
        raise ConfigError(f"Elmo: {len(mixes)} outputs, but the model's file has {len(learned)} learned mixes")
    for mix, (logits_L, scale) in zip(mixes, learned, strict=True):
        mix.start_from(logits_L, scale)


def _inside(lengths_B: Tensor, width: int) -> Tensor:
    """Which of `width` positions of each row hold a token."""
    return torch.arange(width, device=lengths_B.device) < lengths_B[:, None]
