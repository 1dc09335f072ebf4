"""The architecture of a model, and how settings are validated. Knows no files.

`ModelConfig` is a biLM's architecture. `Settings` is the base of everything that can be configured: each field has a
type, a default, bounds and help. `settings.py` has all settings that are not architecture.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, TypeVar

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


class Settings(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Convolution(Settings):
    """A convolution over the characters of a word; each filter keeps the maximum over all windows."""

    embedding: Positive = Field(description="width of a character's vector")
    filters: tuple[tuple[Positive, Positive], ...] = Field(
        min_length=1, description="(width, count) of each kind of filter"
    )
    highways: int = Field(0, ge=0, description="highway layers after the convolution")
    activation: Literal["relu", "tanh"] = Field("relu", description="applied to the maximum")

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
    max_characters: int = Field(50, ge=3, le=10_000, description="ids per word, its two markers included")
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
    max_characters: int = Field(50, ge=3, le=10_000, description="ids per word, its two markers included")

    @property
    def width(self) -> int:
        """Numbers that the projection reads."""
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
            raise ValueError(
                f"a width of {self.width} for {self.heads} heads; expected an even number that the heads divide"
            )
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
    def receptive_field(self) -> int:
        """Words that a vector of the last layer depends on in one direction, itself included."""
        return 1 + sum((conv[0] - 1) * dilation_of(conv) for block in self.blocks for conv in block)

    @model_validator(mode="after")
    def _blocks_fit(self) -> "GatedCnnConfig":
        for number, block in enumerate(self.blocks, 1):
            if not block or block[-1][1] != self.width:
                found = f"{block[-1][1]} outputs" if block else "no convolution"
                raise ValueError(f"block {number} ends in {found}; expected as many as the width, {self.width}")
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


def help_of(kind: type[Settings], name: str, before: str = "", after: str = "") -> str:
    """A setting's help, as the command line prints it: a sentence, unless it begins with a value ("mean (of all …")."""
    text = f"{before}{kind.model_fields[name].description or name}{after}."
    return text[0].upper() + text[1:] if re.match(r"[a-z]+ \w", text) else text


AnySettings = TypeVar("AnySettings", bound=Settings)


def parse(kind: type[AnySettings], values: Any, where: str, error: type[StelmoError]) -> AnySettings:
    """Validated settings; if they are invalid, an error that names the first problem."""
    try:
        return kind.model_validate(values)
    except ValidationError as problem:
        raise error(f"{where}: {_first_problem(problem, kind)}") from None


def _first_problem(problem: ValidationError, kind: type[Settings]) -> str:
    """Which setting, what is expected, what was found."""
    errors = problem.errors()
    place = _named(errors[0]["loc"])
    same = [one for one in errors if _named(one["loc"]) == place]  # a union has one error for each of its types
    other = [one for one in same if one["type"] != "literal_error"]
    first = (other or same)[0]
    value, name = first["input"], ".".join(place)
    shown = repr(value) if len(repr(value)) <= 80 else repr(value)[:77] + "..."
    if len(other) < len(same) and (not other or isinstance(value, str)):
        choices = [one["ctx"]["expected"].replace("'", "").replace(" or ", ", ") for one in same if one not in other]
        return f"{name}: {shown} is {'neither a number nor' if other else 'not'} one of {', '.join(choices)}"
    if first["type"] == "extra_forbidden":
        known = f"; expected one of {', '.join(sorted(kind.model_fields))}" if len(place) == 1 else ""
        return f"{name}: there is no such setting{known}"
    if first["type"] == "value_error":  # our own sentence
        message = str(first["ctx"]["error"])
    else:
        message = first["msg"].removeprefix("Input ").split(", unable to parse")[0]
    of_one_setting = first["type"] != "missing" and not isinstance(value, Mapping)
    return f"{name + ': ' if name else ''}{message}{f' (found {shown})' if of_one_setting else ''}"


_TYPE = re.compile(r"(literal|tuple|constrained-|function-).*|int|float|str")  # as pydantic names the types of a union


def _named(places: Sequence[object]) -> list[str]:
    """Where a setting is, as files and settings name it: without kinds and types, and with an LSTM by its own key."""
    kinds = ("chars", "words", "codepoints", "transformer", "gated-cnn")
    names = [str(place) for place in places if place not in kinds and not _TYPE.fullmatch(str(place))]
    return names[1:] if names[:2] == ["encoder", "lstm"] else names


def choose(name: str, value: object, choices: Sequence[object]) -> None:
    """Refuse a value that is not among the choices."""
    if value not in choices:
        raise ConfigError(f"{name}: {value!r} is not one of {', '.join(map(str, choices))}")
