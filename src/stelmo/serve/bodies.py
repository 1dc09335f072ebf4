"""Bodies of requests and answers, as in the OpenAPI description. Knows no model and no limit that is a setting."""

from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Discriminator,
    Field,
    PlainValidator,
    Tag,
    WithJsonSchema,
    model_validator,
)


def encodable(text: str) -> str:
    """JSON can contain "\\ud800", half of a character, which cannot be sent back in UTF-8."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ValueError("contains a lone surrogate; expected text that can be encoded in UTF-8") from None
    return text


Text = Annotated[str, AfterValidator(encodable)]
LAYER_SCHEMA = {"anyOf": [{"type": "string", "enum": ["mean", "top"]}, {"type": "integer", "minimum": 0}]}


def _layer(value: Any) -> str | int:
    """Only the type: which layers there are depends on the model, and is checked there."""
    if isinstance(value, str | int) and not isinstance(value, bool):
        return value
    raise ValueError('expected "mean", "top" or the number of a layer')


LayerName = Annotated[str | int, PlainValidator(_layer), WithJsonSchema(LAYER_SCHEMA)]
LayerOrAll = Annotated[
    str | int,
    PlainValidator(_layer),
    WithJsonSchema({"anyOf": [{"type": "string", "enum": ["mean", "top", "all"]}, LAYER_SCHEMA["anyOf"][1]]}),
]
Number = Annotated[float, Field(ge=-1000, le=1000, allow_inf_nan=False)]
# Lists are validated up to the first mistake: a million of them would hold the event loop for seconds.
Words = Annotated[list[Text], Field(fail_fast=True)]
Tokens = Annotated[Words, Field(min_length=1)]
Position = Annotated[int, Field(ge=0, le=2**31 - 1, strict=True)]
Count = Annotated[int, Field(ge=1, le=2**31 - 1, strict=True)]
UseId = Annotated[int, Field(ge=0, le=2**31 - 1, strict=True)]
Method = Literal["pca", "tsne", "umap"]

BANK = ["We", "sat", "on", "the", "bank", "of", "the", "river", "."]
LOAN = ["The", "bank", "gave", "us", "a", "loan", "."]


class Body(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    @model_validator(mode="before")
    @classmethod
    def _has_few_fields(cls, value: Any) -> Any:
        """One mistake for many unknown fields: tens of thousands would hold the event loop."""
        known = len(cls.model_fields)
        if isinstance(value, dict) and len(value) > 2 * known + 10:
            raise ValueError(f"{len(value):,} fields; expected at most {known}: {', '.join(cls.model_fields)}")
        return value


def example(*examples: dict[str, Any]) -> ConfigDict:
    return ConfigDict(json_schema_extra={"examples": list(examples)})


class Mix(Body):
    """γ · Σ s_l h_l. The weights s_0 … s_L, one per layer, are used as given, without a softmax."""

    model_config = example({"weights": [0.2, 0.5, 0.3], "gamma": 1.0})
    weights: list[Number] = Field(min_length=1, max_length=1000)
    gamma: Number = 1.0

    @model_validator(mode="after")
    def _is_not_zero(self) -> "Mix":
        if max(map(abs, self.weights)) < 1e-6 or abs(self.gamma) < 1e-6:
            raise ValueError("all weights are zero, or gamma is zero; expected a mix that is not zero")
        return self


MixOrLayer = Annotated[
    Annotated[Mix, Tag("mix")] | Annotated[LayerName, Tag("layer")],
    Discriminator(lambda value: "mix" if isinstance(value, dict | Mix) else "layer"),
]


class Mixed(Body):
    """A body that chooses its layers by `mix` or by `layer`; the default is the mean of all layers."""

    mix: Mix | None = None
    layer: LayerName | None = None

    @model_validator(mode="after")
    def _one_of_both(self) -> "Mixed":
        if self.mix is not None and self.layer is not None:
            raise ValueError("both mix and layer are given; expected one of the two")
        return self


class TokenizeRequest(Body):
    model_config = example({"text": "They fell in love. Stocks fell."})
    text: Text


class TokenizeAnswer(Body):
    model_config = example({"sentences": [["They", "fell", "in", "love", "."], ["Stocks", "fell", "."]]})
    sentences: list[list[str]]


class EmbedRequest(Body):
    model_config = example({"sentences": [BANK, LOAN], "layer": "top"}, {"text": "Stocks fell.", "layer": "all"})
    sentences: Annotated[list[Words], Field(fail_fast=True)] | None = None
    text: Text | None = Field(None, description="raw text instead of sentences; it is tokenised by the server")
    layer: LayerOrAll = "mean"

    @model_validator(mode="after")
    def _one_of_both(self) -> "EmbedRequest":
        if (self.sentences is None) == (self.text is None):
            raise ValueError("expected sentences (lists of tokens) or text, one of the two")
        return self


class EmbedAnswer(Body):
    """Per sentence a (T, D) list; with layer "all" an (L+1, T, D) list."""

    model_config = example({"sentences": [["Stocks"]], "vectors": [[[0.1, -0.2, 0.3]]]})
    sentences: list[list[str]]
    vectors: list[list[list[float]]] | list[list[list[list[float]]]]


class SimilarityRequest(Mixed):
    model_config = example(
        {"first": BANK, "second": LOAN, "layer": 2}, {"first": BANK, "second": LOAN, "layers": "each"}
    )
    first: Tokens
    second: Tokens
    layers: Literal["each"] | None = Field(None, description="one matrix per layer instead of a single one")


class SimilarityAnswer(Body):
    """Cosines of all word pairs, one row per word of the first sentence."""

    model_config = example({"first": ["a"], "second": ["a", "bank"], "similarity": [[1.0, 0.2]], "layers": None})
    first: list[str]
    second: list[str]
    similarity: list[list[float]] | None = None
    layers: list[list[list[float]]] | None = None


class GuessRequest(Body):
    model_config = example({"tokens": ["The", "___", "barked", "."], "position": 1, "k": 5})
    tokens: Tokens
    position: Position
    k: Count = 10


class Guess(Body):
    word: str
    probability: float


class GuessAnswer(Body):
    """Predictions from the words before the position, from those after it, and from both."""

    model_config = example(
        {
            "forward": [{"word": "first", "probability": 0.02}],
            "backward": [{"word": "dogs", "probability": 0.1}],
            "both": [{"word": "dog", "probability": 0.4}],
        }
    )
    forward: list[Guess]
    backward: list[Guess]
    both: list[Guess]


class ModelAnswer(Body):
    model_config = example(
        {
            "name": "english",
            "parameters": 13_000_000,
            "layers": 3,
            "width": 256,
            "vocabulary": 50_000,
            "fingerprint": "5f0c",
            "has_softmax": True,
            "map_methods": ["pca", "tsne"],
            "version": "0.1.0",
            "credit": "sentences of Wikipedia, CC BY-SA 3.0",
            "language": "en",
            "contractions": "ptb",
        }
    )
    name: str
    parameters: int
    layers: int = Field(description="layers of a word, including the token layer")
    width: int
    vocabulary: int | None
    fingerprint: str
    has_softmax: bool
    map_methods: list[Method] = Field(description="methods that this server can draw maps with")
    version: str = Field(description="version of stelmo")
    credit: str = Field(description="whose text the index contains, if that is known")
    language: str = Field(description="language by whose rules this server tokenises texts")
    contractions: str = Field(description="how it splits English contractions: ptb or moses")


class TaskOutput(Body):
    placement: str
    weights: list[float]
    gamma: float


class TaskAnswer(Body):
    model_config = example(
        {
            "name": "run",
            "task": "ner",
            "outputs": [{"placement": "input", "weights": [0.2, 0.5, 0.3], "gamma": 1.1}],
        }
    )
    name: str
    task: str
    outputs: list[TaskOutput]


class WordUses(Body):
    word: str
    uses: int


class WordsAnswer(Body):
    model_config = example({"words": [{"word": "bank", "uses": 120}]})
    words: list[WordUses]


class NeighboursRequest(Mixed):
    model_config = example({"tokens": BANK, "position": 4, "layer": 2, "k": 5})
    tokens: Tokens
    position: Position
    k: Count = 10
    word: Text | None = Field(None, description="only uses of this word")


class ContextualNeighbour(Body):
    id: int
    tokens: list[str]
    position: int
    similarity: float


class StaticNeighbour(Body):
    word: str
    similarity: float


class NeighboursAnswer(Body):
    model_config = example(
        {
            "contextual": [{"id": 7, "tokens": ["a", "river", "bank"], "position": 2, "similarity": 0.8}],
            "static": [{"word": "banks", "similarity": 0.7}],
        }
    )
    contextual: list[ContextualNeighbour]
    static: list[StaticNeighbour]


class OwnUse(Body):
    """A word in a sentence that need not be in the index."""

    model_config = example({"tokens": LOAN, "position": 1})
    tokens: Tokens
    position: Position


class MapRequest(Body):
    model_config = example({"word": "bank", "mixes": [2], "method": "pca", "near": 5})
    word: Text
    mixes: list[MixOrLayer] = Field(["mean"], min_length=1, max_length=2)
    method: Method = "pca"
    clusters: Annotated[int, Field(ge=1, le=20, strict=True)] | None = Field(
        None, description="number of groups; by default it is estimated"
    )
    limit: Count = Field(500, description="largest number of uses; if there are more, a sample spread over the corpus")
    seed: Annotated[int, Field(ge=0, le=2**31 - 1, strict=True)] = 0
    near: Annotated[int, Field(ge=0, le=20, strict=True)] = Field(0, description="nearest uses listed for each use")
    own: OwnUse | None = Field(None, description="a further use to place on the maps, which it does not change")


class MapUse(Body):
    id: int
    tokens: list[str]
    position: int
    cluster: int
    columns: dict[str, str] = Field({}, description="what the columns of the indexed data say about the use")


Near = list[tuple[int, float]]


class Placed(Body):
    point: tuple[float, float]
    near: Near = Field(description="nearest uses on the map: the place in `uses`, and the cosine")


class FlatMap(Body):
    mix: MixOrLayer
    points: list[tuple[float, float]]
    trustworthiness: float = Field(description="1 if all neighbours on the map are true ones, lower if not")
    near: list[Near] = Field([], description="of each use its nearest ones on the map, if they were asked for")
    own: Placed | None = None


class Cluster(Body):
    size: int
    words: list[str]
    examples: list[int] = Field(description="uses nearest to the centre, by their place in `uses`")


class MapAnswer(Body):
    model_config = example(
        {
            "word": "bank",
            "total": 1,
            "uses": [{"id": 7, "tokens": ["a", "bank"], "position": 1, "cluster": 0}],
            "maps": [{"mix": 2, "points": [[0.0, 0.0]], "trustworthiness": 1.0}],
            "clusters": [{"size": 1, "words": [], "examples": [0]}],
            "method": "pca",
        }
    )
    word: str
    total: int = Field(description="uses of the word in the index; the map shows at most `limit` of them")
    uses: list[MapUse]
    maps: list[FlatMap]
    clusters: list[Cluster]
    method: Method


class SubstitutesRequest(Body):
    model_config = example({"groups": [[0, 1], [2]], "k": 3})
    groups: list[Annotated[list[UseId], Field(min_length=1, fail_fast=True)]] = Field(
        min_length=1,
        max_length=20,
        fail_fast=True,
        description="ids of uses in each group, as in the answer of /v1/map",
    )
    k: Count = 3


class SubstitutesAnswer(Body):
    model_config = example({"groups": [["shore", "edge", "coast"], ["company", "office", "fund"]]})
    groups: list[list[str]]


class JobAnswer(Body):
    model_config = example({"job": "3q2-7w"})
    job: str


class JobState(Body):
    model_config = example({"state": "running", "progress": 0.4, "map": None, "error": None})
    state: Literal["running", "done", "failed"]
    progress: float
    map: MapAnswer | None = None
    error: str | None = None


class Health(Body):
    model_config = example({"status": "ok"})
    status: Literal["ok"]


class Problem(Body):
    """What went wrong (RFC 9457)."""

    model_config = example(
        {
            "type": "about:blank",
            "title": "Unprocessable Entity",
            "status": 422,
            "detail": "position 9: the sentence has 4 tokens, numbered from 0",
            "message": "position 9: the sentence has 4 tokens, numbered from 0",
        }
    )
    type: Literal["about:blank"] = "about:blank"
    title: str
    status: int
    detail: str
    message: str = Field(description="the same as detail; OpenAI's client shows this field")
