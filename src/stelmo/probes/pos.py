"""Parts of speech: CoNLL-U files → tagged sentences; their vectors → a linear classifier and its accuracy.

softmax(W x + b), as in section 5.3 of Peters et al. 2018: what a linear map can find is encoded in the vectors.
N words, D width, C classes, K kinds of vectors.
"""

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

from stelmo.config import choose
from stelmo.errors import DataError
from stelmo.probes.embedding import Embed, blocks
from stelmo.text.files import LineReader

COLUMN = {"upos": 3, "xpos": 4}  # 17 universal tags; the treebank's own, in English those of the Penn Treebank
SPLITS = ("train", "dev", "test")
_NOT_A_WORD = re.compile(r"\d+-\d+|\d+\.\d+")  # a multiword token, an empty node
BATCH = 512
LEARNING_RATE = 0.003
MIN_STEPS = 20  # of a round
ROUNDS = 40
PATIENCE = 2  # rounds without a lower loss before the learning rate is halved
HALVINGS = 3  # after which training ends
BLOCK_ROWS = 16_384  # classified at once

Numbers = NDArray[np.int64]


# The data


class TaggedSentence(NamedTuple):
    tokens: tuple[str, ...]
    tags: tuple[str, ...]
    where: str


def find(folder: Path) -> dict[str, Path]:
    """Split → file: train.conllu, or a treebank's own name, en_ewt-ud-train.conllu."""
    files = {}
    for split in SPLITS:
        found = sorted(path for path in folder.glob("*.conllu*") if re.search(rf"\b{split}\.conllu", path.name))
        if len(found) != 1:
            names = ", ".join(path.name for path in found) or f"no {split}.conllu"
            raise DataError(f"{folder}: {names}; expected one file each for train, dev and test of a treebank")
        files[split] = found[0]
    return files


def read(path: Path, tags: str = "upos") -> list[TaggedSentence]:
    choose("tags", tags, tuple(COLUMN))
    sentences: list[TaggedSentence] = []
    words: list[tuple[str, str]] = []
    where = ""
    with LineReader(path) as reader:
        for number, line in chain(reader, [(0, "")]):  # a last blank line ends the last sentence
            if not line.strip(" \t"):
                if words:
                    tokens, tagged = zip(*words, strict=True)
                    sentences.append(TaggedSentence(tokens, tagged, where))
                words = []
            elif not line.startswith("#") and (word := _word(line, tags, f"{path}:{number}")):
                where = where if words else f"{path}:{number}"
                words.append(word)
    if not sentences:
        raise DataError(f"{path}: no sentences; expected CoNLL-U")
    return sentences


def _word(line: str, tags: str, where: str) -> tuple[str, str] | None:
    """A word and its tag; None for a line that is not a word."""
    fields = line.split("\t")
    if len(fields) != 10:
        raise DataError(f"{where}: {len(fields)} columns; CoNLL-U has 10, with tabs between them")
    if _NOT_A_WORD.fullmatch(fields[0]):
        return None
    tag = fields[COLUMN[tags]]
    if not fields[1] or tag in ("", "_"):
        other = "upos" if tags == "xpos" else "xpos"
        raise DataError(f"{where}: word {fields[1]!r}, {tags} {tag!r}; expected a word with its tag, or choose {other}")
    return fields[1], tag


# The classifier


class LabelledVectors(NamedTuple):
    """The words of several sentences, concatenated."""

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
        """Cross-entropy, summed over the words whose tag occurs in training."""
        gold_N = torch.from_numpy(labels_N)
        return sum(
            float(F.cross_entropy(self.logits(vectors_ND[some]), gold_N[some], ignore_index=-1, reduction="sum"))
            for some in _blocks(len(labels_N))
        )


def _blocks(count: int) -> list[slice]:
    return [slice(start, start + BLOCK_ROWS) for start in range(0, count, BLOCK_ROWS)]


def classes_of(sentences: Iterable[TaggedSentence]) -> list[str]:
    return sorted({tag for sentence in sentences for tag in sentence.tags})


def labels(sentences: Iterable[TaggedSentence], classes: Sequence[str]) -> Numbers:
    """(N,): −1 for a tag that does not occur in training, which no classifier can predict."""
    number = {tag: index for index, tag in enumerate(classes)}
    return np.array([number.get(tag, -1) for sentence in sentences for tag in sentence.tags])


def embed_words(sentences: Sequence[TaggedSentence], classes: Sequence[str], embed: Embed) -> LabelledVectors:
    found: list[NDArray[np.float16]] = []
    for some in blocks(sentences):
        embedded = embed([sentence.tokens for sentence in some])
        found.append(np.concatenate([words_TKD.astype(np.float16) for words_TKD in embedded]))
    return LabelledVectors(np.concatenate(found), labels(sentences, classes))


# Learning


def fit(train_ND: NDArray[Any], labels_N: Numbers, dev_ND: NDArray[Any], dev_N: Numbers, seed: int = 0) -> Classifier:
    """The classifier with the lowest loss on the dev words; deterministic for the same words and seed.

    It starts from zeros and learns with Adam. The learning rate is halved when the dev loss stops falling, until this
    does not help either. Inputs are standardised, so that one learning rate suits vectors of any length.
    """
    mean_D = torch.from_numpy(train_ND.mean(0, dtype=np.float32))
    scale_D = torch.from_numpy(train_ND.std(0, dtype=np.float32))
    scale_D[scale_D < 1e-6] = 1.0  # a constant dimension carries no information
    classes = int(labels_N.max()) + 1
    weight_CD, bias_C = torch.zeros(classes, train_ND.shape[1]), torch.zeros(classes)
    classifier = Classifier(mean_D, scale_D, weight_CD.requires_grad_(), bias_C.requires_grad_())
    optimizer = torch.optim.Adam([classifier.weight_CD, classifier.bias_C], LEARNING_RATE)
    generator = torch.Generator().manual_seed(seed)
    best, lowest, waited, halved = classifier, math.inf, 0, 0
    for _ in range(ROUNDS):
        _round(classifier, optimizer, torch.as_tensor(train_ND), torch.from_numpy(labels_N), generator)
        loss = classifier.loss(dev_ND, dev_N)
        if loss < lowest:
            best, lowest, waited = Classifier(*(part.detach().clone() for part in classifier)), loss, 0
            continue
        waited += 1
        if waited == PATIENCE:
            waited, halved = 0, halved + 1
            if halved > HALVINGS:
                break
            optimizer.param_groups[0]["lr"] /= 2
    return best


def _round(
    classifier: Classifier, optimizer: torch.optim.Adam, train_ND: Tensor, labels_N: Tensor, generator: torch.Generator
) -> None:
    """One pass through the words, or several passes if there are few of them."""
    for _ in range(math.ceil(MIN_STEPS / math.ceil(len(train_ND) / BATCH))):
        for rows in torch.split(torch.randperm(len(train_ND), generator=generator), BATCH):
            loss = F.cross_entropy(classifier.logits(train_ND[rows]), labels_N[rows])
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()


def accuracy(predicted_N: Numbers, labels_N: Numbers) -> float:
    """Percent; NaN if there are no words."""
    return 100 * float(np.mean(predicted_N == labels_N)) if len(labels_N) else math.nan


# The baseline


def most_frequent(train: Iterable[TaggedSentence], test: Iterable[TaggedSentence], classes: Sequence[str]) -> Numbers:
    """Each word's most frequent tag in training; for an unknown word, the most frequent tag of all."""
    counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for sentence in train:
        for word, tag in zip(sentence.tokens, sentence.tags, strict=True):
            counts[word][tag] += 1
    total = sum(counts.values(), Counter[str]())
    number = {tag: index for index, tag in enumerate(classes)}
    best = {word: number[of_word.most_common(1)[0][0]] for word, of_word in counts.items()}
    rest = number[total.most_common(1)[0][0]]
    return np.array([best.get(word, rest) for sentence in test for word in sentence.tokens])


def is_unknown(train: Iterable[TaggedSentence], test: Iterable[TaggedSentence]) -> NDArray[np.bool_]:
    """(N,): whether a word of the test sentences never occurs in training."""
    known = {word for sentence in train for word in sentence.tokens}
    return np.array([word not in known for sentence in test for word in sentence.tokens], bool)
