"""`Elmo`: an nn.Module that puts a biLM into somebody's network. Knows no files.

B sentences, T tokens of the longest, K outputs, L layers, C characters, D = 2P.
"""

from collections.abc import Sequence
from contextlib import nullcontext

import torch
from torch import Tensor, nn

from stelmo.config import WordInput, choose
from stelmo.embed import engine
from stelmo.embed.model import Model
from stelmo.embed.sentences import checked
from stelmo.errors import ConfigError
from stelmo.model.mix import LayerNorm, ScalarMix
from stelmo.model.state import State


class Elmo(nn.Module):
    """Tokens → vectors (B, T, 2P), or (K, B, T, 2P) for K > 1 outputs, and the mask (B, T) of real tokens.

    Each output has a learned mix of its own, in `mixes`; add their `.penalty()` to the loss. The biLM is frozen
    unless `trainable`. `keep_boundaries` leaves <S> and </S> in, so T grows by two.
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
        state: str | None = None,
    ) -> None:
        super().__init__()
        policy = model.settings.state if state is None else state
        choose("state", policy, ("fresh", "warm"))
        if outputs < 1 or not 0 <= dropout < 1:
            raise ConfigError(f"Elmo: outputs {outputs}, dropout {dropout}; expected at least 1, and 0 to below 1")
        self.config, self.word_ids = model.config, model.word_ids
        self.trainable, self.keep_boundaries = trainable, keep_boundaries
        self.bilm = model.bilm.requires_grad_(trainable)
        self.mixes = nn.ModuleList(ScalarMix(model.config.depth, layer_norm, l2, top_only) for _ in range(outputs))
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
        mask_BT = _inside(lengths_B if self.keep_boundaries else lengths_B - 2)
        mixed = [self._mixed(mix, layers_LBTD, lengths_B, mask_BT) for mix in self.mixes]  # type: ignore[arg-type]
        return mixed[0] if len(mixed) == 1 else torch.stack(mixed), mask_BT

    def _batch(self, sentences: Sequence[Sequence[str]] | Tensor) -> engine.Batch:
        if not isinstance(sentences, Tensor):
            return engine.batch_of_tokens(checked(sentences), self.word_ids)
        if isinstance(self.config.input, WordInput) or sentences.dim() != 3:
            raise ConfigError(
                f"Elmo: a tensor of shape {tuple(sentences.shape)}; expected character ids (B, T, C) for a model "
                "that reads characters, or lists of tokens"
            )
        return engine.batch_of_ids(sentences)

    def _mixed(self, mix: ScalarMix, layers_LBTD: Tensor, lengths_B: Tensor, mask_BT: Tensor) -> Tensor:
        """One output; zero where there is no token."""
        if mix.layer_norm == "allennlp":  # its statistics count the markers; bilm's do not
            mixed_BTD = mix(layers_LBTD, _inside(lengths_B))
            mixed_BTD = mixed_BTD if self.keep_boundaries else mixed_BTD[:, 1:-1]
        else:
            mixed_BTD = mix(layers_LBTD if self.keep_boundaries else layers_LBTD[:, :, 1:-1], mask_BT)
        dropped: Tensor = self.dropout(torch.where(mask_BT[:, :, None], mixed_BTD, 0.0))
        return dropped


def _inside(lengths_B: Tensor) -> Tensor:
    """Which positions of each row, up to the longest, hold a token."""
    return torch.arange(int(lengths_B.max()), device=lengths_B.device) < lengths_B[:, None]
