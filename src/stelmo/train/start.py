"""What a training run starts from, unless it is random weights: a model (`tune`) or static vectors (`warm_start`).

S types, V words of the vocabulary.
"""

from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Generator, Tensor

from stelmo.config import ModelConfig
from stelmo.corpus.folder import Corpus
from stelmo.corpus.windows import BEGIN, END
from stelmo.model.bilm import BiLM, Softmax
from stelmo.settings import TrainSettings
from stelmo.text.ids import Alphabet


class Start(NamedTuple):
    """The weights before the first step."""

    bilm: BiLM
    softmax: Softmax
    frozen: bool  # only the softmax is trained
    alphabet: Alphabet | None  # of a model that reads code points
    fingerprint: str  # a run resumes only from the start it had; empty: random weights

    @property
    def learned(self) -> bool:
        """Whether it is worth validating before the first step."""
        return bool(self.fingerprint)


def random_softmax(words: int, config: ModelConfig, seed: int) -> Softmax:
    softmax = Softmax(words, config.projection).requires_grad_(False)
    softmax.reset(Generator().manual_seed(seed + 1))  # the biLM is drawn from `seed`
    return softmax


def counted_start(config: ModelConfig, seed: int, corpus: Corpus) -> Start:
    """Random weights, but for the softmax's biases: the words' log frequencies."""
    softmax = random_softmax(len(corpus.vocabulary), config, seed)
    softmax.bias.copy_(log_frequencies(corpus, type_counts(corpus)))
    return Start(BiLM(config).reset(seed), softmax, False, None, "")


def type_counts(corpus: Corpus) -> NDArray[np.float64]:
    """How often each type occurs in the training part; <S> and </S> once for every sentence."""
    types = len(corpus.targets_S)
    counts_S = np.zeros(types)
    for shard in corpus.train:
        counts_S += np.bincount(shard.types_N, minlength=types)
    counts_S[[BEGIN, END]] = corpus.manifest.train.sentences
    return counts_S


def log_frequencies(corpus: Corpus, counts_S: NDArray[np.float64]) -> Tensor:
    """(V,) of the vocabulary's words, each counted once more than it occurs."""
    counts_V = np.bincount(corpus.targets_S, counts_S, len(corpus.vocabulary)) + 1.0
    return torch.from_numpy(np.log(counts_V / counts_V.sum()))


def sampled_words(settings: TrainSettings, words: int) -> int:
    """How many negatives a step draws; 0 means the full softmax, also where more than half of the words were asked."""
    if settings.negatives == "all" or settings.negatives > words // 2:
        return 0
    return settings.negatives
