"""Words' vectors and tags → a linear classifier, and how often it is right. Knows vectors as arrays, no files.

softmax(W x + b), as in section 5.3 of Peters et al. 2018: what a linear map finds is there in the vectors.
N words, D width, C classes.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

from stelmo.probes.pos_data import Sentence
from stelmo.probes.uses import Embed, blocks

BATCH = 512
RATE = 0.003
LEAST_STEPS = 20  # of a round
ROUNDS = 40
PATIENCE = 2  # rounds without a smaller loss until the rate is halved
HALVINGS = 3  # and after so many, the end
BLOCK_ROWS = 16_384  # classified at once

Numbers = NDArray[np.int64]


class Words(NamedTuple):
    """All words of some sentences, end to end."""

    vectors_NKD: NDArray[np.float16]  # half precision: a treebank of 250,000 words, 3 × 1,024 numbers each, is 1.5 GB
    labels_N: Numbers


class Classifier(NamedTuple):
    """softmax(W (x − mean) / scale + b)"""

    mean_D: Tensor
    scale_D: Tensor
    weight_CD: Tensor
    bias_C: Tensor

    def logits(self, vectors_ND: NDArray[Any] | Tensor) -> Tensor:
        x_ND = torch.as_tensor(vectors_ND).float()
        return F.linear((x_ND - self.mean_D) / self.scale_D, self.weight_CD, self.bias_C)

    @torch.inference_mode()
    def predict(self, vectors_ND: NDArray[Any]) -> Numbers:
        return np.concatenate([self.logits(vectors_ND[some]).argmax(1).numpy() for some in _blocks(len(vectors_ND))])

    @torch.inference_mode()
    def loss(self, vectors_ND: NDArray[Any], labels_N: Numbers) -> float:
        """Summed over the words whose tag is known."""
        gold_N = torch.from_numpy(labels_N)
        return sum(
            float(F.cross_entropy(self.logits(vectors_ND[some]), gold_N[some], ignore_index=-1, reduction="sum"))
            for some in _blocks(len(labels_N))
        )


def _blocks(count: int) -> list[slice]:
    return [slice(start, start + BLOCK_ROWS) for start in range(0, count, BLOCK_ROWS)]


def classes_of(sentences: Iterable[Sentence]) -> list[str]:
    return sorted({tag for sentence in sentences for tag in sentence.tags})


def labels(sentences: Iterable[Sentence], classes: Sequence[str]) -> Numbers:
    """(N,): −1 for a tag that training does not have, which no classifier gets right."""
    number = {tag: index for index, tag in enumerate(classes)}
    return np.array([number.get(tag, -1) for sentence in sentences for tag in sentence.tags])


def embedded(sentences: Sequence[Sentence], classes: Sequence[str], embed: Embed) -> Words:
    parts: list[NDArray[np.float16]] = []
    for some in blocks(sentences):
        found = embed([sentence.tokens for sentence in some])
        parts.append(np.concatenate([words_TKD.astype(np.float16) for words_TKD in found]))
    return Words(np.concatenate(parts), labels(sentences, classes))


# Learning


def fit(train_ND: NDArray[Any], labels_N: Numbers, dev_ND: NDArray[Any], dev_N: Numbers, seed: int = 0) -> Classifier:
    """The classifier with the smallest loss on the dev words; the same one for the same words and seed.

    Adam. The rate is halved where the dev words no longer gain, until halving does not help either.
    """
    classifier = _start(train_ND, int(labels_N.max()) + 1)
    optimizer = torch.optim.Adam([classifier.weight_CD, classifier.bias_C], RATE)
    generator = torch.Generator().manual_seed(seed)
    best, least, waited, halved = classifier, math.inf, 0, 0
    for _ in range(ROUNDS):
        _round(classifier, optimizer, torch.as_tensor(train_ND), torch.from_numpy(labels_N), generator)
        loss = classifier.loss(dev_ND, dev_N)
        if loss < least:
            best, least, waited = _copy(classifier), loss, 0
            continue
        waited += 1
        if waited == PATIENCE:
            waited, halved = 0, halved + 1
            if halved > HALVINGS:
                break
            optimizer.param_groups[0]["lr"] /= 2
    return best


def _start(train_ND: NDArray[Any], classes: int) -> Classifier:
    """Zeros. Dimensions are brought to mean 0 and deviation 1, so that one rate suits vectors of any length."""
    mean_D = torch.from_numpy(train_ND.mean(0, dtype=np.float32))
    scale_D = torch.from_numpy(train_ND.std(0, dtype=np.float32))
    weight_CD, bias_C = torch.zeros(classes, train_ND.shape[1]), torch.zeros(classes)
    scale_D[scale_D < 1e-6] = 1.0  # a dimension that never changes tells nothing
    return Classifier(mean_D, scale_D, weight_CD.requires_grad_(), bias_C.requires_grad_())


def _round(
    classifier: Classifier, optimizer: torch.optim.Adam, train_ND: Tensor, labels_N: Tensor, generator: torch.Generator
) -> None:
    """Once through the words, or as often as it takes to make some progress with few."""
    for _ in range(math.ceil(LEAST_STEPS / math.ceil(len(train_ND) / BATCH))):
        for rows in torch.split(torch.randperm(len(train_ND), generator=generator), BATCH):
            loss = F.cross_entropy(classifier.logits(train_ND[rows]), labels_N[rows])
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()


def _copy(classifier: Classifier) -> Classifier:
    return Classifier(*(part.detach().clone() for part in classifier))


def accuracy(predicted_N: Numbers, labels_N: Numbers) -> float:
    """Percent; of no words: not a number."""
    return 100 * float(np.mean(predicted_N == labels_N)) if len(labels_N) else math.nan


# What the figures are measured against


def most_frequent(train: Iterable[Sentence], test: Iterable[Sentence], classes: Sequence[str]) -> Numbers:
    """Each word's most frequent tag in training; an unknown word gets the most frequent tag of all."""
    counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for sentence in train:
        for word, tag in zip(sentence.tokens, sentence.tags, strict=True):
            counts[word][tag] += 1
    total = sum(counts.values(), Counter[str]())
    number = {tag: index for index, tag in enumerate(classes)}
    best = {word: number[of_word.most_common(1)[0][0]] for word, of_word in counts.items()}
    rest = number[total.most_common(1)[0][0]]
    return np.array([best.get(word, rest) for sentence in test for word in sentence.tokens])


def is_unknown(train: Iterable[Sentence], test: Iterable[Sentence]) -> NDArray[np.bool_]:
    """(N,): whether a word of the test sentences never occurs in training."""
    known = {word for sentence in train for word in sentence.tokens}
    return np.array([word not in known for sentence in test for word in sentence.tokens], bool)
