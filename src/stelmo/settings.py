"""Every setting that is not architecture, once: name, default, bounds, help; and how settings are overridden.

`LoadSettings` is how a loaded model computes; `TrainSettings` is how one is trained; `TaskSettings` and `ElmoSettings`
are how a task is trained and how it uses ELMo. Overrides are `name=value` assignments and TOML files.
"""

import re
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

from pydantic import BeforeValidator, Field, model_validator

from stelmo.config import Clip, Positive, Settings
from stelmo.errors import ConfigError

StatePolicy = Literal["fresh", "warm", "carry"]
Precision = Literal["float32", "float64", "int8", "bfloat16", "float16"]
Dtype = Literal["float16", "float32", "float64"]
Layer = Literal["mean", "top"] | int

STATES: tuple[StatePolicy, ...] = get_args(StatePolicy)


class LoadSettings(Settings):
    """How a loaded model computes; none of it is in its files."""

    # Where it is not set, `Model` decides: "warm" is only for a model that has a warm state of its own.
    state: StatePolicy = Field(
        "warm",
        description="state that the LSTMs start from: warm (a fixed state of the model), fresh (zeros), "
        "carry (rows continue from batch to batch, as in the 2018 releases); "
        "default: warm if the model has a warm state of its own, else fresh",
    )
    precision: Precision = Field(
        "float32",
        description="numbers the model computes with: float32, float64; int8 (CPU: weights in 8 bits, faster for wide "
        "models, nearly the same vectors); bfloat16 or float16 (GPU: products in half precision)",
    )
    device: str = Field("cpu", description="cpu, cuda, cuda:1, mps")
    threads: Positive | None = Field(None, description="CPU threads of this process; unset: torch's default")
    memory: Positive | None = Field(
        None, description="MB the whole process may use, the model included; unset: whatever is fastest"
    )
    batch_tokens: Positive = Field(4096, description="tokens computed together, padding included")
    batch_rows: Positive = Field(64, description="sentences computed together under carry, in input order")


class OutputSettings(Settings):
    """Which layers go into a file, and how."""

    layer: Literal["mean", "top", "all"] | int = Field(
        "mean", description="mean (of all layers), top, all, or a number; 0 is the token layer, without context"
    )
    sentence_vectors: bool = Field(False, description="one vector per sentence: the mean over its tokens")
    dtype: Literal["float32", "float16"] = Field(
        "float32", description="type of the numbers in the file: float32 or float16"
    )
    forget_sentences: bool = Field(False, description="leave the sentences out of an HDF5 file")
    use_sentence_keys: bool = Field(False, description="in HDF5, name a dataset by its sentence, not by its number")
    block_tokens: Positive = Field(16_384, description="tokens after which finished work is saved to disk")

    @property
    def unit(self) -> str:
        """What each vector belongs to."""
        return "sentence" if self.sentence_vectors else "word"


class ReadSettings(Settings):
    """How text files are read."""

    line_bytes: Positive = Field(256 * 2**20, description="bytes of the longest line that is accepted")


class PrepareSettings(Settings):
    """How text becomes a training corpus; settings and input files together determine its bytes."""

    format: Literal["text", "tokens", "wiki"] | None = Field(
        None,
        description="text (raw, one paragraph or sentence per line), tokens (one tokenised sentence per line), "
        "wiki (as WikiExtractor writes it); unset: recognised for each file",
    )
    language: str = Field("en", description="language of raw text, such as en, de, zh")
    contractions: Literal["ptb", "moses"] = Field(
        "ptb", description="ptb: do n't; moses: don 't, as in the 1B-Word text"
    )
    size: int | None = Field(
        None,
        ge=4,
        le=2**31 - 1,
        description="lines of the vocabulary, `<S>`, `</S>` and `<UNK>` included; unset, and no min_count: 100000",
    )
    min_count: Positive | None = Field(None, description="how often a vocabulary word must occur in the training part")
    vocabulary: str | None = Field(None, description="a vocabulary to use as it is, instead of counting one")
    heldout: float = Field(
        0.01,
        ge=0,
        allow_inf_nan=False,
        description="kept for validation: below 1 a share of the sentences, else their number",
    )
    seed: int = Field(0, ge=0, le=2**63 - 1, description="seed that selects the lines that are held out")

    @model_validator(mode="after")
    def _one_vocabulary(self) -> "PrepareSettings":
        if self.vocabulary is not None and (self.size is not None or self.min_count is not None):
            raise ValueError("a vocabulary is given or counted, not both; leave out size and min_count")
        if self.heldout > 1 and self.heldout != int(self.heldout):
            raise ValueError(f"heldout {self.heldout}: expected a share below 1, or a whole number of sentences")
        return self

    @property
    def vocabulary_size(self) -> int | None:
        """Lines of a counted vocabulary at most; only a minimum count: no limit."""
        return 100_000 if self.size is None and self.min_count is None else self.size


def _duration(text: object) -> object:
    if not isinstance(text, str) or not re.fullmatch(r"\d+(\.\d+)?[smhd]", text):
        raise ValueError("expected a number and one of s, m, h, d, such as 90m")
    return text


Duration = Annotated[str, BeforeValidator(_duration)]
Share = Annotated[float, Field(ge=0, lt=1)]


class TrainSettings(Settings):
    """How a biLM is trained. The number of steps follows from the budget, the batch and the corpus."""

    optimizer: Literal["adagrad", "adam", "adamw", "muon"] = Field(
        "adam", description="adagrad is the paper's; muon: Muon for the LSTMs' matrices, Adam for the rest"
    )
    lr: float = Field(0.003, gt=0, allow_inf_nan=False, description="peak learning rate")
    matrix_lr: float = Field(0.01, gt=0, allow_inf_nan=False, description="peak learning rate of Muon's matrices")
    accumulator: float = Field(1.0, ge=0, allow_inf_nan=False, description="initial value of Adagrad's sums of squares")
    weight_decay: float = Field(0.01, ge=0, allow_inf_nan=False, description="decay of AdamW, and of Muon's matrices")
    warmup: float = Field(0.0, ge=0, description="steps until the peak; below 1: a share of the budget")
    decay: Literal["none", "linear", "cosine", "late"] = Field(
        "none",
        description="course of the learning rate from its peak to zero; late: linear over the last fifth of the budget",
    )
    average: Share | None = Field(
        None,
        description="validate and keep an average of the weights over about 1/(1 - average) steps, such as 0.999; "
        "training itself is not affected",
    )
    dropout: Share = Field(
        0.1,
        description="before the softmax and at the input of every LSTM layer or gated block; in a Transformer, of its "
        "input, its sublayers and inside the feed-forward networks",
    )
    batch: Positive = Field(64, description="rows per step, all processes together")
    unroll: Positive = Field(20, description="words of a row per step")
    negatives: Annotated[int, Field(ge=0)] | Literal["all"] = Field(
        4096, description="sampled words per step; 0 or all: the full softmax"
    )
    count_biases: bool = Field(
        False, description="start the softmax's biases at the words' log frequencies; a start from vectors always does"
    )
    window_loss: bool = Field(False, description="differentiate the mean loss times unroll, as published")
    clip: Clip | Literal["none"] = Field(10.0, description="bound of the gradient's norm, softmax included; or none")
    accumulate: Positive = Field(
        1, description="gradient accumulation: parts of a batch, computed in turn to save memory"
    )
    seed: int = Field(0, ge=0, lt=2**31, description="seed of everything random")
    epochs: float | None = Field(None, gt=0, allow_inf_nan=False, description="budget: passes through the corpus")
    tokens: Positive | None = Field(None, description="budget: words to learn from, ends of sentences included")
    time: Duration | None = Field(
        None, description="budget: 90m, 2h; the schedule follows the clock, so results differ between runs"
    )
    processor_time: Duration | None = Field(
        None,
        description="budget: the same in processor time of all threads, which other work on the machine changes less",
    )
    validate_every: Positive | None = Field(None, description="steps between validations; unset: twenty per run")
    validate_tokens: Positive | None = Field(None, description="held-out tokens used per validation; unset: all")
    patience: Positive | None = Field(None, description="validations without improvement after which to stop")
    log_every: Positive = Field(20, description="steps between lines of the log")
    checkpoint_every: Positive | Duration = Field("5m", description="steps between checkpoints, or a time such as 90s")
    keep: Positive = Field(2, description="checkpoints kept")
    threads: Positive | None = Field(None, description="CPU threads of a process; unset: torch's default")
    device: str = Field("cpu", description="cpu, cuda, cuda:1; with several processes, each uses its own GPU")
    precision: Literal["float32", "float64", "bf16", "fp16"] = Field(
        "float32", description="precision of a step; bf16 and fp16 are mixed precision on a GPU"
    )

    @model_validator(mode="after")
    def _has_one_budget(self) -> "TrainSettings":
        given = [name for name in BUDGETS if getattr(self, name) is not None]
        if len(given) != 1:
            found = f"{' and '.join(given)}: more than one budget" if given else "no budget"
            raise ValueError(f"{found}; give one of {', '.join(BUDGETS)}")
        return self

    @model_validator(mode="after")
    def _fits_the_device(self) -> "TrainSettings":
        if self.device == "cpu" and self.precision in ("bf16", "fp16"):
            raise ValueError(f"precision {self.precision} is for a GPU; use float32 on the CPU")
        if self.batch % self.accumulate:
            raise ValueError(f"a batch of {self.batch} rows cannot be cut into {self.accumulate} equal parts")
        return self


BUDGETS = ("epochs", "tokens", "time", "processor_time")


class VectorSettings(Settings):
    """How a biLM starts from static word vectors (`--vectors`)."""

    dimensions: Positive | None = Field(
        None, description="dimensions of the vectors to use; unset: all, or their main directions where P is smaller"
    )
    words: Positive = Field(
        20_000, description="most frequent words, whose vectors the encoder learns to predict from their spelling"
    )
    steps: Positive = Field(2000, description="steps of that training; a tenth of them for a model's new softmax")
    batch: Positive = Field(512, description="words per step of that training")
    lr: float = Field(0.003, gt=0, allow_inf_nan=False, description="peak learning rate of that training")
    scale: float = Field(1.0, gt=0, allow_inf_nan=False, description="standard deviation of the encoder's outputs")
    rows: float = Field(0.1, gt=0, allow_inf_nan=False, description="standard deviation of the softmax's rows")
    least_known: float = Field(
        0.1, ge=0, le=1, description="least share of the corpus's tokens whose word has a vector"
    )


class TaskSettings(Settings):
    """How a task's network is trained. Its size is defined by each task."""

    optimizer: Literal["adam", "adadelta"] = Field("adam", description="adam, or adadelta (ρ 0.95)")
    lr: float = Field(0.001, gt=0, allow_inf_nan=False, description="learning rate")
    bilm_lr_factor: float = Field(
        0.02, gt=0, allow_inf_nan=False, description="with --finetune, the biLM's learning rate as a multiple of lr"
    )
    batch: Positive = Field(32, description="examples per step")
    epochs: Positive = Field(
        20, description="passes through the training data at most; with --fraction, as many steps as without it"
    )
    steps: Positive | None = Field(None, description="training steps at most; replaces epochs")
    evaluate_every: Positive | None = Field(None, description="steps between evaluations on dev; unset: one epoch")
    patience: Positive | None = Field(None, description="evaluations without improvement after which to stop")
    plateau: Positive | None = Field(None, description="evaluations without improvement after which lr is halved")
    decay: Literal["none", "linear"] = Field(
        "none", description="linear: lr falls to zero over the steps of the run, whose limit can then not be raised"
    )
    score_tokens: Positive = Field(8192, description="approximate tokens of a batch when predicting, padding included")
    clip: Clip | None = Field(5.0, description="bound of the gradient's norm")
    clip_value: Clip | None = Field(None, description="bound of each number of the gradient")
    weight_decay: float = Field(0.0, ge=0, allow_inf_nan=False, description="L2 on all weights")
    average: float | None = Field(None, gt=0, lt=1, description="decay of the running average that is kept and scored")
    precision: Literal["float32", "bfloat16", "auto"] = Field(
        "float32",
        description="of a training step's large products; auto: bfloat16 where the processor has instructions for it",
    )
    tuned_vectors: bool = Field(False, description="train the static vectors as well")
    train_examples: Positive | None = Field(None, description="examples to learn from; unset: all")
    dev_examples: Positive | None = Field(
        None, description="examples of the validation; unset: all. Without a test file, the others are the test"
    )
    test_examples: Positive | None = Field(None, description="examples of the final test; unset: all")


Placement = Literal["none", "input", "output", "both"]


class ElmoSettings(Settings):
    """ELMo in a task's network."""

    placement: Placement = Field("input", description="none, input, output or both")
    layers: Literal["all", "top"] = Field("all", description="all (a learned mix of them) or top (only the top layer)")
    l2: float = Field(0.001, ge=0, allow_inf_nan=False, description="λ of the penalty on the mix's weights")
    gamma: float = Field(1.0, gt=0, allow_inf_nan=False, description="initial value of the scale γ")
    dropout: Share = Field(0.5, description="dropout of ELMo's vectors")
    layer_norm: bool = Field(False, description="normalise each layer before the mix")
    layer_norm_over: Literal["sentence", "batch"] = Field(
        "sentence",
        description="statistics of the layer norm: over a sentence's own tokens, or over the batch, as in the "
        "released implementations, where a vector depends on the other sentences",
    )
    finetune: bool = Field(False, description="train the biLM as well; its layers are then not precomputed")


class ServeSettings(Settings):
    """Limits of the HTTP service; requests beyond them are refused."""

    body_bytes: Positive = Field(2_000_000, description="bytes of a request's body")
    body_seconds: float = Field(10.0, gt=0, allow_inf_nan=False, description="seconds to receive a request's body")
    header_seconds: float = Field(10.0, gt=0, allow_inf_nan=False, description="seconds to receive a request's headers")
    connections: Positive = Field(1000, description="open connections; beyond that the slowest one is closed")
    sentences: int = Field(1000, gt=0, le=10_000, description="sentences of a request")
    sentence_tokens: Positive = Field(1000, description="tokens of a sentence")
    tokens: Positive = Field(10_000, description="tokens of a request")
    token_characters: Positive = Field(500, description="characters of a token")
    seconds: float = Field(30.0, gt=0, allow_inf_nan=False, description="seconds to compute an answer")
    answers: Positive = Field(200, description="maximum number of neighbours, words or guesses in an answer")
    uses: Positive = Field(2000, description="uses of a word on a map")
    requests: Positive = Field(128, description="requests accepted and not yet answered; more are refused with 429")
    queue_tokens: Positive = Field(50_000, description="tokens waiting for the model; more are refused with 429")
    batch_tokens: Positive = Field(2048, description="tokens of several requests computed together")
    batch_wait: float = Field(
        0.002, ge=0, le=1, allow_inf_nan=False, description="seconds that a batch waits for more requests"
    )
    jobs: Positive = Field(8, description="maps being computed or waiting to be fetched")


class WordSettings(Settings):
    """One vector for each word of a corpus."""

    layer: Layer = Field("mean", description="mean (of all layers), top, or a number; 0 is the token layer")
    min_count: Positive = Field(1, description="words that occur less often are left out")
    max_words: Positive = Field(1_000_000, description="distinct words kept in memory; further words are left out")


def seconds(duration: str) -> float:
    """90m → 5400."""
    return float(duration[:-1]) * {"s": 1, "m": 60, "h": 3600, "d": 86400}[duration[-1]]


# Overrides


def read_toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as problem:
        reason = getattr(problem, "strerror", None) or problem
        raise ConfigError(f"{path}: cannot be read as TOML ({reason}); expected a file of settings") from None


def parse_assignments(assignments: Iterable[str]) -> dict[str, Any]:
    """["lr=0.002", "lstm.cells=512"] → {"lr": 0.002, "lstm": {"cells": 512}}"""
    values: dict[str, Any] = {}
    for assignment in assignments:
        name, equals, text = assignment.partition("=")
        if not equals or not name.strip():
            raise ConfigError(f"--set {assignment}: not an assignment; expected NAME=VALUE, such as lr=0.002")
        *parts, last = name.strip().split(".")
        place = values
        for part in parts:
            place = place.setdefault(part, {})
            if not isinstance(place, dict):
                raise ConfigError(f"--set {assignment}: {part} was set to a value before; expected one or the other")
        place[last] = _value(text.strip())
    return values


def _value(text: str) -> Any:
    """A TOML value; anything else is a string, so that strings need no quotes."""
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text
