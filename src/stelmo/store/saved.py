"""What a model file holds, whatever its format: the common ground of all readers and writers."""

import copy
import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor

from stelmo.config import CharInput, CodePointInput, Convolution, ModelConfig, WordInput
from stelmo.errors import ModelError
from stelmo.model.bilm import BiLM
from stelmo.model.softmax import Softmax
from stelmo.model.state import State
from stelmo.text import chars, codepoints
from stelmo.text.codepoints import Alphabet
from stelmo.text.vocabulary import Vocabulary


class Mix(NamedTuple):
    """What a task learned of the layers: the raw weights before their softmax, and γ."""

    logits_L: Tensor
    scale: Tensor  # ()


@dataclass(frozen=True)
class SavedModel:
    bilm: BiLM
    format: str
    vocabulary: Vocabulary | None = None
    read_softmax: Callable[[], Softmax] | None = None  # read when asked for: it can be larger than the biLM
    start: State | None = None  # the fixed state `warm` begins from; one row
    mixes: tuple[Mix, ...] = ()  # where the model comes out of a trained task
    token_vectors: Tensor | None = None  # layer 0 of every vocabulary word, a cache that the bilm layout has a file for
    alphabet: Alphabet | None = None  # numbers the characters of a model that reads code points

    @property
    def config(self) -> ModelConfig:
        return self.bilm.config

    @property
    def dtype(self) -> torch.dtype:
        return self.bilm.encoder.table.dtype

    def to(self, dtype: torch.dtype) -> "SavedModel":
        """The same model in other numbers; this one stays as it is."""
        head = self.read_softmax
        return replace(
            self,
            bilm=copy.deepcopy(self.bilm).to(dtype),
            read_softmax=None if head is None else partial(_softmax_in, head, dtype),
            start=None if self.start is None else self.start.to(self.start.h.device, dtype),
            mixes=tuple(Mix(*(part.to(dtype) for part in mix)) for mix in self.mixes),
            token_vectors=None if self.token_vectors is None else self.token_vectors.to(dtype),
        )

    def fingerprint(self) -> str:
        """Equal for equal models: architecture, numbers, vocabulary."""
        digest = hashlib.sha256(self.config.model_dump_json().encode())
        for name, tensor in self.bilm.state_dict().items():
            digest.update(name.encode())
            digest.update(memoryview(tensor.cpu().contiguous().numpy()).cast("B"))
        for word in (*(self.vocabulary or ()), *(self.alphabet.symbols if self.alphabet else ())):
            digest.update(word.encode("utf-8", "surrogatepass") + b"\n")
        return digest.hexdigest()[:32]

    def __post_init__(self) -> None:
        reads = self.config.input
        if isinstance(reads, WordInput):
            words = self._vocabulary_of(reads.words)
            missing = [word for word in (chars.BEGIN_SENTENCE, chars.END_SENTENCE) if word not in words]
            if missing:
                raise ModelError(f"{words.name}: no line {missing[0]}; a model that reads word ids needs it")
        if isinstance(reads, CodePointInput):
            if reads.word_table is not None:
                words = self._vocabulary_of(reads.word_table.rows)
                codepoints.refuse_flaws(words.words, codepoints.WORD_MARKERS, words.name)
            if reads.convolution is not None:
                self._refuse_alphabet(reads.convolution.rows)

    def _vocabulary_of(self, rows: int) -> Vocabulary:
        """The vocabulary, which must be there and fit the table."""
        if self.vocabulary is None:
            raise ModelError("a model that reads word ids needs its vocabulary (vocab.txt); none was found beside it")
        if len(self.vocabulary) != rows:
            raise ModelError(
                f"{self.vocabulary.name}: {len(self.vocabulary)} words, but the model's table has {rows} rows"
            )
        return self.vocabulary

    def _refuse_alphabet(self, rows: int) -> None:
        if self.alphabet is None:
            raise ModelError("a model that reads code points needs its alphabet; none was found beside it")
        if len(self.alphabet) != rows:
            raise ModelError(
                f"{self.alphabet.name}: {len(self.alphabet)} symbols, but the model's table has {rows} rows"
            )


def _softmax_in(read: Callable[[], Softmax], dtype: torch.dtype) -> Softmax:
    return read().to(dtype)


def empty_bilm(config: ModelConfig) -> BiLM:
    """The shapes of a model without its memory."""
    with torch.device("meta"):
        return BiLM(config)


def filled_bilm(config: ModelConfig, tensors: Mapping[str, Tensor], where: str) -> BiLM:
    """A model around those very tensors, once every one has its shape and holds finite numbers."""
    bilm = empty_bilm(config)
    for name, expected in bilm.state_dict().items():
        if name not in tensors:
            raise ModelError(f"{where}: tensor {name} is missing; the file belongs to another architecture")
        check(tensors[name], tuple(expected.shape), f"{where}: tensor {name}")
    unknown = tensors.keys() - bilm.state_dict().keys()
    if unknown:
        raise ModelError(f"{where}: tensor {min(unknown)!r:.60} is not one of this architecture; the file is damaged")
    bilm.load_state_dict(tensors, assign=True)
    return bilm.requires_grad_(False)


def filled_softmax(weight: Tensor, bias: Tensor, config: ModelConfig, where: str) -> Softmax:
    """V × P and V: as many words as the file has."""
    check(weight, (len(weight), config.lstm.projection), f"{where}: softmax weight")
    check(bias, (len(weight),), f"{where}: softmax bias")
    with torch.device("meta"):
        softmax = Softmax(*weight.shape)
    softmax.load_state_dict({"weight": weight, "bias": bias}, assign=True)
    return softmax.requires_grad_(False)


def check(tensor: Tensor, expected: tuple[int, ...], where: str) -> None:
    if tuple(tensor.shape) != expected:
        raise ModelError(f"{where} has shape {tuple(tensor.shape)}; the options say {expected}")
    if not tensor.is_floating_point():
        raise ModelError(f"{where} holds {tensor.dtype}; weights are floating-point numbers")
    if not bool(torch.isfinite(tensor).all()):
        raise ModelError(f"{where} holds NaN or infinity; the file is damaged or the training diverged")


def describe_input(reads: CharInput | WordInput | CodePointInput) -> str:
    """What a model reads, for a person."""
    if isinstance(reads, WordInput):
        return f"word ids, {reads.words:,} words"
    if isinstance(reads, CharInput):
        return f"bytes of a word (at most {reads.max_characters - 2}); {_filters(reads)}"
    parts = [f"word ids, {reads.word_table.rows:,} words"] if reads.word_table is not None else []
    if reads.convolution is not None:
        parts.append(f"code points of a word (at most {reads.max_characters - 2}); {_filters(reads.convolution)}")
    return "; ".join(parts)


def _filters(reads: Convolution) -> str:
    filters = " ".join(f"{width}×{count}" for width, count in reads.filters)
    return f"filters {filters}; {reads.activation}; {reads.highways} highways"
