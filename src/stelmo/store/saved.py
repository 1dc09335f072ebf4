"""A model as every format reads and writes it: the biLM, its vocabulary, softmax, start state and mixes."""

import copy
import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor

from stelmo.config import (
    CharInput,
    CodePointInput,
    Convolution,
    EncoderConfig,
    GatedCnnConfig,
    LstmConfig,
    ModelConfig,
    WordInput,
)
from stelmo.errors import ModelError
from stelmo.model.bilm import BiLM, Softmax, State
from stelmo.text import chars
from stelmo.text.ids import WORD_MARKERS, Alphabet, Vocabulary, refuse_flaws

PRECISIONS = (torch.float32, torch.float64, torch.float16)


class Mix(NamedTuple):
    """The mix of layers that a task learned: the raw weights before their softmax, and γ."""

    logits_L: Tensor
    scale: Tensor  # ()


@dataclass(frozen=True)
class SavedModel:
    bilm: BiLM
    format: str
    vocabulary: Vocabulary | None = None
    read_softmax: Callable[[], Softmax] | None = None  # read on demand: it can be larger than the biLM
    start: State | None = None  # the fixed state that `warm` starts from; one row
    mixes: tuple[Mix, ...] = ()  # of a model that was part of a trained task
    token_vectors: Tensor | None = None  # layer 0 of every vocabulary word, a cache in the bilm layout
    alphabet: Alphabet | None = None  # the character ids of a model that reads code points
    license: str = ""  # of the weights, from the model card that they were read with

    @property
    def config(self) -> ModelConfig:
        return self.bilm.config

    @property
    def dtype(self) -> torch.dtype:
        return self.bilm.encoder.table.dtype

    def to(self, dtype: torch.dtype) -> "SavedModel":
        """A copy of the model in another precision."""
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
        """Equal for models with equal architecture, weights and vocabulary."""
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
                refuse_flaws(words.words, WORD_MARKERS, words.name)
            if reads.convolution is not None:
                alphabet, rows = self.alphabet, reads.convolution.rows
                if alphabet is None:
                    raise ModelError("a model that reads code points needs its alphabet; none was found beside it")
                if len(alphabet) != rows:
                    raise ModelError(f"{alphabet.name}: {len(alphabet)} symbols, but the model's table has {rows} rows")

    def _vocabulary_of(self, rows: int) -> Vocabulary:
        """The vocabulary, which must exist and fit the table."""
        if self.vocabulary is None:
            raise ModelError("a model that reads word ids needs its vocabulary (vocab.txt); none was found beside it")
        if len(self.vocabulary) != rows:
            raise ModelError(
                f"{self.vocabulary.name}: {len(self.vocabulary)} words, but the model's table has {rows} rows"
            )
        return self.vocabulary


def _softmax_in(read: Callable[[], Softmax], dtype: torch.dtype) -> Softmax:
    return read().to(dtype)


def empty_bilm(config: ModelConfig) -> BiLM:
    """A model that has shapes but no memory."""
    with torch.device("meta"):
        return BiLM(config)


def filled_bilm(config: ModelConfig, tensors: Mapping[str, Tensor], where: str) -> BiLM:
    """A model that uses these tensors, after checking their shapes and numbers."""
    _refuse_missing_layers(config, len(tensors), where)
    bilm = empty_bilm(config)
    for name, expected in bilm.state_dict().items():
        if name not in tensors:
            raise ModelError(f"{where}: tensor {name} is missing; the file belongs to another architecture")
        check(tensors[name], tuple(expected.shape), f"{where}: tensor {name}")
    unknown = tensors.keys() - bilm.state_dict().keys()
    if unknown:
        raise ModelError(f"{where}: tensor {min(unknown)!r:.60} is not one of this architecture; the file is damaged")
    bilm.load_state_dict(in_one_precision(tensors, where), assign=True)
    return bilm.requires_grad_(False)


def _refuse_missing_layers(config: ModelConfig, tensors: int, where: str) -> None:
    """Before a module is created for each layer: a damaged number may say billions."""
    reads = config.input.convolution if isinstance(config.input, CodePointInput) else config.input
    layers = 2 * config.encoder.layers + (reads.highways if isinstance(reads, Convolution) else 0)
    if layers > tensors:
        raise ModelError(
            f"{where}: {tensors} tensors for {layers:,} layers, so some are missing; "
            "the file belongs to another architecture"
        )


def in_one_precision(tensors: Mapping[str, Tensor], where: str) -> dict[str, Tensor]:
    """The tensors in the precision that most of their numbers have; what cannot be converted exactly is refused.

    float16, float32 and float64 stay as they are if all tensors agree; other precisions become float32.
    """
    found = {
        name: tensor if not tensor.is_floating_point() or tensor.dtype in PRECISIONS else tensor.float()
        for name, tensor in tensors.items()
    }
    sizes = dict.fromkeys(PRECISIONS, 0)
    for tensor in found.values():
        if tensor.is_floating_point():
            sizes[tensor.dtype] += tensor.numel()
    common = max(sizes, key=lambda dtype: sizes[dtype])
    for name, tensor in found.items():
        if tensor.is_floating_point() and tensor.dtype != common:
            found[name] = tensor.to(common)
            finite = bool(torch.isfinite(tensor).all())  # `check` refuses the others
            if finite and not torch.equal(found[name].to(tensor.dtype), tensor):
                raise ModelError(
                    f"{where}: tensor {name} holds {tensor.dtype} numbers that are not exact in {common}, "
                    "the precision of the others; save all tensors in one precision"
                )
    return found


def filled_softmax(weight: Tensor, bias: Tensor, config: ModelConfig, where: str) -> Softmax:
    """The softmax (V, P) and its bias (V,), for as many words V as the file has."""
    words = weight.shape[0] if weight.ndim else 0
    check(weight, (words, config.projection), f"{where}: softmax weight")
    check(bias, (words,), f"{where}: softmax bias")
    with torch.device("meta"):
        softmax = Softmax(words, config.projection)
    softmax.load_state_dict(in_one_precision({"weight": weight, "bias": bias}, where), assign=True)
    return softmax.requires_grad_(False)


def check(tensor: Tensor, expected: tuple[int, ...], where: str) -> None:
    """Refuse another shape, other kinds of numbers, and numbers that are not finite in the precision of computing."""
    if tuple(tensor.shape) != expected:
        raise ModelError(f"{where} has shape {tuple(tensor.shape)}; the options say {expected}")
    if not tensor.is_floating_point():
        raise ModelError(f"{where} holds {tensor.dtype}; weights are floating-point numbers")
    if not bool(torch.isfinite(tensor.float()).all()):
        found = "NaN or infinity" if not bool(torch.isfinite(tensor).all()) else "numbers too large for float32"
        raise ModelError(f"{where} holds {found}; the file is damaged or the training diverged")


def describe_input(reads: CharInput | WordInput | CodePointInput) -> str:
    """What a model reads, in words."""
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
    first = isinstance(reads, CharInput) and reads.projection == "after_convolution"
    normed = isinstance(reads, CharInput) and reads.layer_norm is not None
    more = (", projection before them" if first else "") + ("; layer norm" if normed else "")
    highways = f"{reads.highways} highway{'s' * (reads.highways != 1)}"
    return f"filters {filters}; {reads.activation}; {highways}{more}"


def describe_encoder(encoder: EncoderConfig) -> tuple[str, str]:
    """The name of what reads the words in context, and its size in words."""
    each = f"{encoder.layers} layers in each direction"
    if isinstance(encoder, LstmConfig):
        return "LSTM", f"{encoder.cells} cells, projection {encoder.projection}, {each}"
    if isinstance(encoder, GatedCnnConfig):
        return (
            "gated CNN",
            f"width {encoder.width}, {each}; a vector sees {encoder.receptive_field - 1} words to each side",
        )
    return "Transformer", f"width {encoder.width}, inner width {encoder.hidden}, {encoder.heads} heads, {each}"
