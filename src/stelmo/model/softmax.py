"""The language model's output layer, shared by both directions. Knows no files.

V words of the vocabulary, P projection.
"""

import torch
from torch import Generator, Tensor, nn


class Softmax(nn.Module):
    def __init__(self, words: int, projection: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(words, projection))
        self.bias = nn.Parameter(torch.empty(words))

    def reset(self, generator: Generator) -> None:
        nn.init.normal_(self.weight, 0, self.weight.shape[1] ** -0.5, generator)
        nn.init.zeros_(self.bias)

    def forward(self, h_NP: Tensor) -> Tensor:
        """Outputs of the top layer in one direction → log-probabilities of the word each predicts (N, V)."""
        return torch.log_softmax(h_NP @ self.weight.T + self.bias, -1)
