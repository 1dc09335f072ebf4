"""Every setting once: name, default, bounds, help. Knows no files.

`ModelConfig` is a biLM's architecture; `LoadSettings` is how a loaded model computes;
`TrainSettings` is how one is trained; `TaskSettings` and `ElmoSettings` are how a task learns, and what of ELMo.
"""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, TypeVar, get_args

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    SerializerFunctionWrapHandler,
    ValidationError,
    model_serializer,
    model_validator,
)

from stelmo.errors import ConfigError, StelmoError

Positive = Annotated[int, Field(gt=0, le=2**31 - 1)]
Clip = Annotated[float, Field(gt=0, le=1e38, allow_inf_nan=False)]  # float32 holds it
Epsilon = Annotated[float, Field(gt=0, le=1, allow_inf_nan=False)]

StatePolicy = Literal["fresh", "warm", "carry"]
Precision = Literal["float32", "float64", "int8", "bfloat16", "float16"]
Dtype = Literal["float16", "float32", "float64"]
Layer = Literal["mean", "top"] | int

STATES: tuple[StatePolicy, ...] = get_args(StatePolicy)


class Settings(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Convolution(Settings):
    """Over the characters of a word; of every filter the strongest window is kept."""

    embedding: Positive = Field(description="width of a character's vector")
    filters: tuple[tuple[Positive, Positive], ...] = Field(min_length=1, description="(width, count) each")
    highways: int = Field(0, ge=0, description="highway layers after the convolution")
    activation: Literal["relu", "tanh"] = Field("relu", description="applied to the strongest window")

    @property
    def width(self) -> int:
        return sum(count for _, count in self.filters)

    def refuse_filters_wider_than(self, characters: int) -> None:
        widest = max(width for width, _ in self.filters)
        if widest > characters:
            raise ValueError(f"a filter of width {widest} does not fit in {characters} characters")


class CharInput(Convolution):
    """Words are read as bytes by a convolution over their characters."""

    kind: Literal["chars"] = "chars"
    max_characters: int = Field(50, ge=3, le=10_000, description="ids a word, its two markers included")
    projection: Literal["after_highways", "after_convolution"] | None = Field(
        None, description="where the projection is; unset: after the highways, and left out where it would be square"
    )
    layer_norm: Epsilon | None = Field(
        None, description="epsilon of a layer norm at the end, added to the standard deviation; unset: no norm"
    )

    @model_validator(mode="after")
    def _filters_fit_in_a_word(self) -> "CharInput":
        self.refuse_filters_wider_than(self.max_characters)
        return self

    @model_serializer(mode="wrap")
    def _without_unset(self, dump: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Files of models without these two do not name them."""
        unset = {name for name in ("projection", "layer_norm") if getattr(self, name) is None}
        return {name: value for name, value in dump(self).items() if name not in unset}


class WordInput(Settings):
    """Words are looked up in a table; the vocabulary numbers them."""

    kind: Literal["words"] = "words"
    words: Positive = Field(description="rows of the table, one for each vocabulary line")


class WordTable(Settings):
    rows: Positive = Field(description="one for each vocabulary line")
    width: Positive = Field(description="width of a word's vector")


class CodePointConvolution(Convolution):
    rows: Positive = Field(description="rows of the character table, one for each symbol of the alphabet")


class CodePointInput(Settings):
    """Words are looked up in a table, read by their Unicode code points, or both; a projection joins the two."""

    kind: Literal["codepoints"] = "codepoints"
    word_table: WordTable | None = None
    convolution: CodePointConvolution | None = None
    max_characters: int = Field(50, ge=3, le=10_000, description="ids a word, its two markers included")

    @property
    def width(self) -> int:
        """Numbers that the projection takes in."""
        return sum(part.width for part in (self.word_table, self.convolution) if part is not None)

    @model_validator(mode="after")
    def _reads_something(self) -> "CodePointInput":
        if self.word_table is None and self.convolution is None:
            raise ValueError("neither a word table nor a convolution; a model reads words, characters or both")
        if self.convolution is not None:
            self.convolution.refuse_filters_wider_than(self.max_characters)
        return self


class LstmConfig(Settings):
    """ELMo's encoder: it reads word by word and carries a state."""

    kind: Literal["lstm"] = "lstm"
    cells: Positive = Field(description="cells of each LSTM")
    projection: Positive = Field(description="width of its output; equal to cells: no projection")
    layers: Positive = Field(2, description="LSTM layers of each direction")
    cell_clip: Clip | None = Field(None, description="bound of the cell")
    projection_clip: Clip | None = Field(None, description="bound of the projected output")
    skip: bool = Field(True, description="from layer 2 on, a layer's input is added to its output")


class TransformerConfig(Settings):
    """Attention to all words before (or after) a word; pre-norm, a norm on the last layer, sinusoidal positions."""

    kind: Literal["transformer"] = "transformer"
    width: Positive = Field(description="width of a word's vector in one direction")
    hidden: Positive = Field(description="inner width of the feed-forward networks")
    layers: Positive = Field(6, description="layers of each direction")
    heads: Positive = Field(8, description="attention heads; they share the width equally")
    epsilon: Epsilon = Field(1e-6, description="of the layer norms, added to the standard deviation")
    positions: Positive = Field(5000, description="rows of the stored position table; longer sentences continue it")

    @property
    def projection(self) -> int:
        return self.width

    @model_validator(mode="after")
    def _heads_share_the_width(self) -> "TransformerConfig":
        if self.width % self.heads or self.width % 2:
            raise ValueError(f"a width of {self.width} for {self.heads} heads; they share an even number equally")
        return self


# Width, outputs and, where the width is 2, the dilation of a convolution over words
WordConvolution = tuple[Positive, Positive] | tuple[Positive, Positive, Positive]


class GatedCnnConfig(Settings):
    """Residual blocks of gated convolutions over the words before (or after) a word."""

    kind: Literal["gated-cnn"] = "gated-cnn"
    width: Positive = Field(description="width of a word's vector in one direction")
    blocks: tuple[tuple[WordConvolution, ...], ...] = Field(
        min_length=1, description="the convolutions of each block, (width, outputs) or (2, outputs, dilation)"
    )

    @property
    def projection(self) -> int:
        return self.width

    @property
    def layers(self) -> int:
        return len(self.blocks)

    @property
    def sees(self) -> int:
        """Words that a vector of the last layer depends on in one direction, its own included."""
        return 1 + sum((conv[0] - 1) * dilation_of(conv) for block in self.blocks for conv in block)

    @model_validator(mode="after")
    def _blocks_fit(self) -> "GatedCnnConfig":
        for number, block in enumerate(self.blocks, 1):
            if not block or block[-1][1] != self.width:
                found = f"{block[-1][1]} outputs" if block else "no convolution"
                raise ValueError(f"block {number} ends in {found}; a block ends in as many as the width, {self.width}")
            for conv in block:
                if len(conv) == 3 and conv[0] != 2:
                    raise ValueError(f"block {number}: a dilated convolution of width {conv[0]}; expected width 2")
        return self


def dilation_of(conv: WordConvolution) -> int:
    return conv[2] if len(conv) == 3 else 1


EncoderConfig = LstmConfig | TransformerConfig | GatedCnnConfig


class ModelConfig(Settings):
    """The architecture of a biLM: what makes two weight files interchangeable.

    In files and settings an LSTM is named by its key, "lstm"; the other encoders are "encoder" with their kind.
    """

    input: CharInput | WordInput | CodePointInput = Field(discriminator="kind")
    encoder: EncoderConfig = Field(discriminator="kind")

    @model_validator(mode="before")
    @classmethod
    def _named_by_its_key(cls, values: Any) -> Any:
        if not isinstance(values, Mapping) or "lstm" not in values:
            return values
        if "encoder" in values:
            raise ValueError("both lstm and encoder; a model has one of them")
        lstm = values["lstm"]
        rest = {name: value for name, value in values.items() if name != "lstm"}
        return {**rest, "encoder": {**lstm, "kind": "lstm"} if isinstance(lstm, Mapping) else lstm}

    @model_serializer(mode="wrap")
    def _with_its_key(self, dump: SerializerFunctionWrapHandler) -> dict[str, Any]:
        values: dict[str, Any] = dump(self)
        if isinstance(self.encoder, LstmConfig) and "encoder" in values:
            lstm = values.pop("encoder")
            values["lstm"] = {name: value for name, value in lstm.items() if name != "kind"}
        return values

    @property
    def lstm(self) -> LstmConfig:
        """The encoder, for code that only LSTMs reach."""
        assert isinstance(self.encoder, LstmConfig)
        return self.encoder

    @property
    def has_state(self) -> bool:
        """Whether the encoder carries a state from word to word; if not, every sentence starts fresh."""
        return isinstance(self.encoder, LstmConfig)

    @property
    def projection(self) -> int:
        """Numbers in a word's vector of one direction: P."""
        return self.encoder.projection

    @property
    def depth(self) -> int:
        """Layers a word has, the token layer included."""
        return self.encoder.layers + 1

    @property
    def width(self) -> int:
        """Numbers in a word's vector: both directions."""
        return 2 * self.projection


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
    threads: Positive | None = Field(None, description="CPU threads of this process; unset: as torch decides")
    memory: Positive | None = Field(
        None, description="MB the whole process may take, the model included; unset: what is fastest"
    )
    batch_tokens: Positive = Field(4096, description="tokens computed together, padding included")
    batch_rows: Positive = Field(64, description="sentences computed together under carry, in input order")


class OutputSettings(Settings):
    """What of the layers goes into a file, and how."""

    layer: Literal["mean", "top", "all"] | int = Field(
        "mean", description="mean (of all layers), top, all, or a number; 0 is the token layer, without context"
    )
    sentence_vectors: bool = Field(False, description="one vector a sentence: the mean over its tokens")
    dtype: Literal["float32", "float16"] = Field("float32", description="numbers in the file")
    forget_sentences: bool = Field(False, description="leave the sentences out of an HDF5 file")
    use_sentence_keys: bool = Field(False, description="in HDF5, name a dataset by its sentence, not by its number")
    block_tokens: Positive = Field(16_384, description="tokens after which finished work is kept on disk")

    @property
    def unit(self) -> str:
        """What has a vector."""
        return "sentence" if self.sentence_vectors else "word"


class ReadSettings(Settings):
    """How text files are read."""

    line_bytes: Positive = Field(256 * 2**20, description="bytes of the longest line that is accepted")


class PrepareSettings(Settings):
    """How text becomes a corpus to train on; together with the files, all that decides its bytes."""

    format: Literal["text", "tokens", "wiki"] | None = Field(
        None,
        description="text (raw, a paragraph or sentence a line), tokens (a tokenised sentence a line), "
        "wiki (as WikiExtractor writes it); unset: seen from each file",
    )
    language: str = Field("en", description="language of raw text, such as en, de, zh")
    contractions: Literal["ptb", "moses"] = Field(
        "ptb", description="ptb: do n't; moses: don 't, as in the 1B-Word text"
    )
    size: int | None = Field(
        None,
        ge=4,
        le=2**31 - 1,
        description="lines of the vocabulary, <S> </S> <UNK> included; unset, and no min_count: 100000",
    )
    min_count: Positive | None = Field(
        None, description="a word of the vocabulary is there so often in the training part"
    )
    vocabulary: str | None = Field(None, description="a vocabulary to use as it is, instead of counting one")
    heldout: float = Field(
        0.01,
        ge=0,
        allow_inf_nan=False,
        description="kept for validation: below 1 a share of the sentences, else their number",
    )
    seed: int = Field(0, ge=0, le=2**63 - 1, description="chooses the lines that are held out")

    @model_validator(mode="after")
    def _one_vocabulary(self) -> "PrepareSettings":
        if self.vocabulary is not None and (self.size is not None or self.min_count is not None):
            raise ValueError("a vocabulary is given or counted, not both; leave out size and min_count")
        if self.heldout > 1 and self.heldout != int(self.heldout):
            raise ValueError(f"heldout {self.heldout}: a share below 1, or a whole number of sentences")
        return self

    @property
    def vocabulary_size(self) -> int | None:
        """Lines of a counted vocabulary at most; only a minimum count: no limit."""
        return 100_000 if self.size is None and self.min_count is None else self.size


Duration = Annotated[str, Field(pattern=r"^\d+(\.\d+)?[smhd]$")]
Share = Annotated[float, Field(ge=0, lt=1)]


class TrainSettings(Settings):
    """How a biLM is trained. Steps are never asked for: they follow from the budget, the batch and the corpus."""

    optimizer: Literal["adagrad", "adam", "adamw", "muon"] = Field(
        "adam", description="adagrad is the paper's; muon: Muon for the LSTMs' matrices, Adam for the rest"
    )
    lr: float = Field(0.003, gt=0, allow_inf_nan=False, description="peak learning rate")
    matrix_lr: float = Field(0.01, gt=0, allow_inf_nan=False, description="peak learning rate of Muon's matrices")
    accumulator: float = Field(1.0, ge=0, allow_inf_nan=False, description="what Adagrad's sums of squares start at")
    weight_decay: float = Field(0.01, ge=0, allow_inf_nan=False, description="of AdamW, and of Muon's matrices")
    warmup: float = Field(0.0, ge=0, description="steps until the peak; below 1: a share of the budget")
    decay: Literal["none", "linear", "cosine"] = Field("none", description="from the peak to zero at the end")
    average: Share | None = Field(
        None,
        description="validate and keep an average of the weights over about 1/(1 - average) steps, such as 0.999; "
        "the weights in training do not change",
    )
    dropout: Share = Field(
        0.1,
        description="before the softmax and at the input of every LSTM layer or gated block; in a Transformer, of its "
        "input, its sublayers and inside the feed-forward networks",
    )
    batch: Positive = Field(64, description="rows of all processes together")
    unroll: Positive = Field(20, description="words of a row in a step")
    negatives: Annotated[int, Field(ge=0)] | Literal["all"] = Field(
        4096, description="sampled words a step; 0 or all: the full softmax"
    )
    window_loss: bool = Field(False, description="differentiate the mean loss times unroll, as published")
    clip: Clip | Literal["none"] = Field(10.0, description="bound of the gradient's norm, softmax included; or none")
    accumulate: Positive = Field(1, description="parts a batch is computed in, one after another: less memory")
    seed: int = Field(0, ge=0, lt=2**31, description="of all that is random")
    epochs: float | None = Field(None, gt=0, allow_inf_nan=False, description="budget: times through the corpus")
    tokens: Positive | None = Field(None, description="budget: words to learn from, ends of sentences included")
    time: Duration | None = Field(
        None, description="budget: 90m, 2h; the schedule follows the clock, so that no two runs end in the same bits"
    )
    processor_time: Duration | None = Field(
        None,
        description="budget: the same in processor time of all threads, which other work on the machine changes less",
    )
    validate_every: Positive | None = Field(None, description="steps; unset: twenty times in the run")
    validate_tokens: Positive | None = Field(None, description="held-out words a validation reads; unset: all")
    patience: Positive | None = Field(None, description="validations without a better one after which to stop")
    log_every: Positive = Field(20, description="steps of a line in the log")
    checkpoint_every: Positive | Duration = Field("5m", description="steps, or a time such as 90s")
    keep: Positive = Field(2, description="checkpoints kept")
    threads: Positive | None = Field(None, description="CPU threads of a process; unset: as torch decides")
    device: str = Field("cpu", description="cpu, cuda, cuda:1; several processes: each its own card")
    precision: Literal["float32", "float64", "bf16", "fp16"] = Field(
        "float32", description="numbers of a step; bf16 and fp16 are mixed precision on a GPU"
    )

    @model_validator(mode="after")
    def _has_one_budget(self) -> "TrainSettings":
        given = [name for name in BUDGETS if getattr(self, name) is not None]
        if len(given) != 1:
            raise ValueError(f"{' and '.join(given) or 'no'} budget; give one of {', '.join(BUDGETS)}")
        return self

    @model_validator(mode="after")
    def _fits_the_device(self) -> "TrainSettings":
        if self.device == "cpu" and self.precision in ("bf16", "fp16"):
            raise ValueError(f"precision {self.precision} is for a GPU; on the CPU take float32")
        if self.batch % self.accumulate:
            raise ValueError(f"a batch of {self.batch} rows cannot be cut into {self.accumulate} equal parts")
        return self


BUDGETS = ("epochs", "tokens", "time", "processor_time")


class VectorSettings(Settings):
    """How a biLM starts from static word vectors (`--vectors`)."""

    dimensions: Positive | None = Field(
        None, description="dimensions of the vectors to use; unset: all, or their main directions where P is smaller"
    )
    words: Positive = Field(100_000, description="most frequent words of the corpus that the encoder learns to spell")
    steps: Positive = Field(2000, description="steps of the spelling lesson; a tenth of them for a model's new softmax")
    batch: Positive = Field(512, description="words drawn in a step of the lesson")
    lr: float = Field(0.003, gt=0, allow_inf_nan=False, description="peak learning rate of the lesson")
    scale: float = Field(1.0, gt=0, allow_inf_nan=False, description="standard deviation of the encoder's outputs")
    rows: float = Field(0.25, gt=0, allow_inf_nan=False, description="standard deviation of the softmax's rows")
    least_known: float = Field(
        0.1, ge=0, le=1, description="share of the corpus's running words that must have a vector"
    )


class TaskSettings(Settings):
    """How a task's network is trained. Its size is defined by each task."""

    optimizer: Literal["adam", "adadelta"] = Field("adam", description="adam, or adadelta (ρ 0.95)")
    lr: float = Field(0.001, gt=0, allow_inf_nan=False, description="learning rate")
    batch: Positive = Field(32, description="examples per step")
    epochs: Positive = Field(
        20, description="passes through the training data at most; with --fraction, as many steps as without it"
    )
    steps: Positive | None = Field(None, description="training steps at most; replaces epochs")
    evaluate_every: Positive | None = Field(None, description="steps between evaluations on dev; unset: one epoch")
    patience: Positive | None = Field(None, description="evaluations without a better score after which to stop")
    plateau: Positive | None = Field(None, description="evaluations without a better score after which lr is halved")
    score_tokens: Positive = Field(8192, description="tokens of a batch when predicting, about, padding included")
    clip: Clip | None = Field(5.0, description="bound of the gradient's norm")
    clip_value: Clip | None = Field(None, description="bound of each number of the gradient")
    weight_decay: float = Field(0.0, ge=0, allow_inf_nan=False, description="L2 on all weights")
    average: float | None = Field(None, gt=0, lt=1, description="decay of the running average that is kept and scored")
    tuned_vectors: bool = Field(False, description="train the static vectors as well")
    train_examples: Positive | None = Field(None, description="examples to learn from; unset: all")
    dev_examples: Positive | None = Field(None, description="examples of the validation; unset: all")
    test_examples: Positive | None = Field(None, description="examples of the final test; unset: all")


Placement = Literal["none", "input", "output", "both"]


class ElmoSettings(Settings):
    """ELMo in a task's network."""

    placement: Placement = Field("input", description="none, input, output or both")
    layers: Literal["all", "top"] = Field("all", description="a learned mix of all layers, or the top one alone")
    l2: float = Field(0.001, ge=0, allow_inf_nan=False, description="λ of the penalty on the mix's weights")
    dropout: Share = Field(0.5, description="of ELMo's vectors")
    layer_norm: bool = Field(False, description="normalise each layer before the mix")
    layer_norm_over: Literal["sentence", "batch"] = Field(
        "sentence",
        description="statistics of the layer norm: over a sentence's own tokens, or over the batch, as in the "
        "released implementations, where a vector depends on the other sentences",
    )
    finetune: bool = Field(False, description="train the biLM as well; its layers are then not precomputed")


def seconds(duration: str) -> float:
    """90m → 5400."""
    return float(duration[:-1]) * {"s": 1, "m": 60, "h": 3600, "d": 86400}[duration[-1]]


def help_of(kind: type[Settings], name: str) -> str:
    """A setting's help, as the command line prints it."""
    return kind.model_fields[name].description or name


AnySettings = TypeVar("AnySettings", bound=Settings)


def parse(kind: type[AnySettings], values: Any, where: str, error: type[StelmoError]) -> AnySettings:
    """Validated settings, or one sentence naming the first thing that is wrong."""
    try:
        return kind.model_validate(values)
    except ValidationError as problem:
        first = problem.errors()[0]
        name = ".".join(_named(first["loc"]))
        found = "" if first["type"] == "missing" else f" (found {_short(first['input'])})"
        raise error(f"{where}: {name + ': ' if name else ''}{first['msg']}{found}") from None


def _named(places: Sequence[object]) -> list[str]:
    """Where a setting is, as files and settings name it: without kinds, and with an LSTM by its own key."""
    kinds = ("chars", "words", "codepoints", "transformer", "gated-cnn")
    names = [str(place) for place in places if place not in kinds]
    return names[1:] if names[:2] == ["encoder", "lstm"] else names


def choose(name: str, value: object, choices: Sequence[object]) -> None:
    """Refuse a value that is not among the choices."""
    if value not in choices:
        raise ConfigError(f"{name}: {value!r} is not one of {', '.join(map(str, choices))}")


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."


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
    answers: Positive = Field(200, description="neighbours, words or guesses of an answer")
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
    min_count: Positive = Field(1, description="a word met less often is left out")
    max_words: Positive = Field(1_000_000, description="distinct words kept in memory; those met later are left out")
