"""Every setting once: name, default, bounds, help. Knows no files.

`ModelConfig` is a biLM's architecture; `LoadSettings` is how a loaded model computes.
"""

from collections.abc import Sequence
from typing import Annotated, Any, Literal, TypeVar, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from stelmo.errors import ConfigError, StelmoError

Positive = Annotated[int, Field(gt=0, le=2**31 - 1)]
Clip = Annotated[float, Field(gt=0, allow_inf_nan=False)]

StatePolicy = Literal["fresh", "warm", "carry"]
Precision = Literal["float32", "float64"]
Dtype = Literal["float16", "float32", "float64"]
Layer = Literal["mean", "top"] | int

STATES: tuple[StatePolicy, ...] = get_args(StatePolicy)


class Settings(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Convolution(Settings):
    """Over the characters of a word; of every filter the strongest window is kept."""

    embedding: Positive = Field(description="width of a character's vector")
    filters: tuple[tuple[Positive, Positive], ...] = Field(min_length=1, description="(width, count) each")
    highways: int = Field(0, ge=0, description="highway layers behind the convolution")
    activation: Literal["relu", "tanh"] = Field("relu", description="behind the strongest window")

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

    @model_validator(mode="after")
    def _filters_fit_in_a_word(self) -> "CharInput":
        self.refuse_filters_wider_than(self.max_characters)
        return self


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
    cells: Positive = Field(description="cells of each LSTM")
    projection: Positive = Field(description="width of its output; equal to cells: no projection")
    layers: Positive = Field(2, description="LSTM layers of each direction")
    cell_clip: Clip | None = Field(None, description="bound of the cell")
    projection_clip: Clip | None = Field(None, description="bound of the projected output")
    skip: bool = Field(True, description="from layer 2 on, a layer's input is added to its output")


class ModelConfig(Settings):
    """The architecture of a biLM: what makes two weight files interchangeable."""

    input: CharInput | WordInput | CodePointInput = Field(discriminator="kind")
    lstm: LstmConfig

    @property
    def depth(self) -> int:
        """Layers a word has, the token layer included."""
        return self.lstm.layers + 1

    @property
    def width(self) -> int:
        """Numbers in a word's vector: both directions."""
        return 2 * self.lstm.projection


class LoadSettings(Settings):
    """How a loaded model computes; none of it is in its files."""

    state: StatePolicy = Field(
        "warm",
        description="where the LSTMs start: warm (one fixed state of the model), fresh (zeros), "
        "carry (rows go on from batch to batch, as in the 2018 releases)",
    )
    precision: Precision = Field("float32", description="numbers the model computes with")
    device: str = Field("cpu", description="cpu, cuda, cuda:1, mps")
    threads: Positive | None = Field(None, description="CPU threads of this process; unset: as torch decides")
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
        name = ".".join(str(part) for part in first["loc"] if part not in ("chars", "words", "codepoints"))
        found = "" if first["type"] == "missing" else f" (found {_short(first['input'])})"
        raise error(f"{where}: {name + ': ' if name else ''}{first['msg']}{found}") from None


def choose(name: str, value: object, choices: Sequence[object]) -> None:
    """Refuse a value that is not among the choices."""
    if value not in choices:
        raise ConfigError(f"{name}: {value!r} is not one of {', '.join(map(str, choices))}")


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."
