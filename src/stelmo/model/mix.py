"""Layers → one vector per token, by weights that a task learns; dropout for such vectors. Knows no files.

L layers, B sentences, T tokens, D width.
"""

from typing import Literal

import torch
from torch import Tensor, nn

from stelmo.config import choose
from stelmo.errors import ConfigError
from stelmo.ops import reference as ops

LayerNorm = Literal["bilm", "allennlp", "sentence"]
# The two releases take statistics over the batch and differ in epsilon and in whether <S> and </S> count; see `Elmo`.
# "sentence" takes them over each sentence's own tokens, so that a vector does not depend on the batch.
EPSILON = {"bilm": 1e-12, "allennlp": 1e-13, "sentence": 1e-12}


class ScalarMix(nn.Module):
    """γ · Σ_l softmax(w)_l · h_l, with learned w and γ (Peters et al. 2018, eq. 1), initially 0 and `gamma`.

    `top_only` learns only γ, for the last layer. `layer_norm=True` means "bilm", the original's.
    """

    def __init__(
        self,
        depth: int,
        layer_norm: bool | LayerNorm = False,
        l2: float = 0.001,
        top_only: bool = False,
        gamma: float = 1.0,
    ) -> None:
        super().__init__()
        if depth < 1 or l2 < 0:
            raise ConfigError(f"ScalarMix: depth {depth}, l2 {l2}; depth is at least 1 and l2 not negative")
        choose("layer_norm", layer_norm, (False, True, *EPSILON))
        self.depth, self.l2, self.top_only = depth, l2, top_only
        # The choices include what equals a bool, such as 1 and np.True_.
        named = layer_norm if isinstance(layer_norm, str) else None
        self.layer_norm: LayerNorm | None = named or ("bilm" if layer_norm else None)
        self.logits = None if top_only else nn.Parameter(torch.zeros(depth))
        self.scale = nn.Parameter(torch.tensor(float(gamma)))

    @property
    def weights(self) -> list[float]:
        """The share of each layer, summing to 1."""
        if self.logits is None:
            return [0.0] * (self.depth - 1) + [1.0]
        return [float(share) for share in self.logits.detach().softmax(0)]

    @torch.no_grad()
    def start_from(self, logits_L: Tensor, scale: Tensor) -> None:
        """Start from the weights that another task learned."""
        if self.logits is None or len(logits_L) != self.depth:
            raise ConfigError(
                f"ScalarMix: {len(logits_L)} weights; expected {self.depth}, for a mix that is not top_only"
            )
        self.logits.copy_(logits_L)
        self.scale.copy_(scale)

    def penalty(self, around: Literal["zero", "mean"] = "zero") -> Tensor:
        """λ·Σ w² on the raw weights, as released; around the mean: λ·Σ (w − 1/L)². γ is never penalised."""
        choose("around", around, ("zero", "mean"))
        if self.logits is None:
            return torch.zeros_like(self.scale)
        centre = 0.0 if around == "zero" else 1 / self.depth
        return self.l2 * ((self.logits - centre) ** 2).sum()

    def forward(self, layers_LBTD: Tensor, mask_BT: Tensor | None = None) -> Tensor:
        """The mask says which tokens count in the layer norm; without one, all do."""
        if len(layers_LBTD) != self.depth:
            raise ConfigError(f"ScalarMix: {len(layers_LBTD)} layers given; it was made for {self.depth}")
        if self.layer_norm is not None:
            if mask_BT is None:
                mask_BT = layers_LBTD.new_ones(layers_LBTD.shape[1:3])
            by_sentence = self.layer_norm == "sentence"
            layers_LBTD = ops.layer_norm(layers_LBTD, mask_BT, EPSILON[self.layer_norm], by_sentence)
        if self.logits is None:
            return self.scale * layers_LBTD[-1]
        return ops.mix(layers_LBTD, self.logits, self.scale)


class Dropout(nn.Dropout):
    """`torch.nn.Dropout`, several times as fast on a CPU, where torch draws each Bernoulli number by itself.

    A draw of 64 bits decides on four numbers, so p is rounded to a multiple of 1/65,536.
    """

    def forward(self, x: Tensor) -> Tensor:
        dropped = round(self.p * 65_536)
        if x.device.type != "cpu" or not self.training or dropped in (0, 65_536):
            return super().forward(x)
        draws = torch.empty(-(-x.numel() // 4), dtype=torch.int64).random_(-(2**63), None).view(torch.int16)
        keep = torch.ge(draws[: x.numel()].view(x.shape), dropped - 32_768, out=torch.empty(x.shape, dtype=x.dtype))
        return x * keep.mul_(1 / (1 - self.p))
