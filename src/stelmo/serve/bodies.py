"""Bodies of requests and answers, as the OpenAPI shows them. Knows no model and no limit that is a setting."""

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator


def _encodable(text: str) -> str:
    """JSON can say "\\ud800", half of a character, which no answer could hold."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ValueError("a lone surrogate; expected text that UTF-8 can hold") from None
    return text


Text = Annotated[str, AfterValidator(_encodable)]
LayerName = Literal["mean", "top"] | Annotated[int, Field(ge=0, le=1000, strict=True)]
Number = Annotated[float, Field(ge=-1000, le=1000, allow_inf_nan=False)]
Tokens = Annotated[list[Text], Field(min_length=1)]
Position = Annotated[int, Field(ge=0, le=2**31 - 1, strict=True)]
Count = Annotated[int, Field(ge=1, le=2**31 - 1, strict=True)]
Method = Literal["pca", "tsne", "umap"]

BANK = ["We", "sat", "on", "the", "bank", "of", "the", "river", "."]
LOAN = ["The", "bank", "gave", "us", "a", "loan", "."]


class Body(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


def _example(*examples: dict[str, Any]) -> ConfigDict:
    return ConfigDict(json_schema_extra={"examples": list(examples)})


class Mix(Body):
    """γ · Σ s_l h_l. The weights are taken as they are: shares s_0 … s_L, one for each layer."""

    model_config = _example({"weights": [0.2, 0.5, 0.3], "gamma": 1.0})
    weights: list[Number] = Field(min_length=1, max_length=1000)
    gamma: Number = 1.0

    @model_validator(mode="after")
    def _is_something(self) -> "Mix":
        if max(map(abs, self.weights)) < 1e-6 or abs(self.gamma) < 1e-6:
            raise ValueError("a mix of nothing: all weights are zero, or gamma is")
        return self


class Mixed(Body):
    """A body that says which layers it is about: by `mix`, or by `layer`; by neither: their mean."""

    mix: Mix | None = None
    layer: LayerName | None = None

    @model_validator(mode="after")
    def _one_of_both(self) -> "Mixed":
        if self.mix is not None and self.layer is not None:
            raise ValueError("mix and layer; give one of the two")
        return self


class TokenizeRequest(Body):
    model_config = _example({"text": "They fell in love. Stocks fell."})
    text: Text


class TokenizeAnswer(Body):
    sentences: list[list[str]]


class EmbedRequest(Body):
    model_config = _example({"sentences": [BANK, LOAN], "layer": "top"}, {"text": "Stocks fell.", "layer": "all"})
    sentences: list[list[Text]] | None = None
    text: Text | None = Field(None, description="instead of sentences: raw text, tokenised here")
    layer: LayerName | Literal["all"] = "mean"

    @model_validator(mode="after")
    def _one_of_both(self) -> "EmbedRequest":
        if (self.sentences is None) == (self.text is None):
            raise ValueError("give sentences (lists of tokens) or text, one of the two")
        return self


class EmbedAnswer(Body):
    """A (T, D) list each; with layer "all" (L+1, T, D)."""

    sentences: list[list[str]]
    vectors: list[list[list[float]]] | list[list[list[list[float]]]]


class SimilarityRequest(Mixed):
    model_config = _example(
        {"first": BANK, "second": LOAN, "layer": 2}, {"first": BANK, "second": LOAN, "layers": "each"}
    )
    first: Tokens
    second: Tokens
    layers: Literal["each"] | None = Field(None, description="a matrix for each layer instead of one")


class SimilarityAnswer(Body):
    """Cosines of all word pairs, a row for each word of the first sentence."""

    first: list[str]
    second: list[str]
    similarity: list[list[float]] | None = None
    layers: list[list[list[float]]] | None = None


class GuessRequest(Body):
    model_config = _example({"tokens": ["The", "___", "barked", "."], "position": 1, "k": 5})
    tokens: Tokens
    position: Position
    k: Count = 10


class Guess(Body):
    word: str
    probability: float


class GuessAnswer(Body):
    """By what stands before the place, by what stands after it, and by both."""

    forward: list[Guess]
    backward: list[Guess]
    both: list[Guess]


class ModelAnswer(Body):
    name: str
    parameters: int
    layers: int = Field(description="layers of a word, the token layer included")
    width: int
    vocabulary: int | None
    fingerprint: str
    has_softmax: bool


class TaskOutput(Body):
    placement: str
    weights: list[float]
    gamma: float


class TaskAnswer(Body):
    name: str
    task: str
    outputs: list[TaskOutput]


class WordUses(Body):
    word: str
    uses: int


class WordsAnswer(Body):
    words: list[WordUses]


class NeighboursRequest(Mixed):
    model_config = _example({"tokens": BANK, "position": 4, "layer": 2, "k": 5})
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
    contextual: list[ContextualNeighbour]
    static: list[StaticNeighbour]


class MapRequest(Body):
    model_config = _example({"word": "bank", "mixes": [2], "method": "pca"})
    word: Text
    mixes: list[Mix | LayerName] = Field(["mean"], min_length=1, max_length=2)
    method: Method = "pca"
    clusters: Annotated[int, Field(ge=1, le=20, strict=True)] | None = Field(
        None, description="unset: as the uses part"
    )
    limit: Count = Field(500, description="uses at most; of more, some from all over the corpus")
    seed: Annotated[int, Field(ge=0, le=2**31 - 1, strict=True)] = 0


class MapUse(Body):
    id: int
    tokens: list[str]
    position: int
    cluster: int


class FlatMap(Body):
    mix: Mix | LayerName
    points: list[tuple[float, float]]
    trustworthiness: float = Field(description="1: neighbours on the map are neighbours in truth; lower: some are not")


class Cluster(Body):
    size: int
    words: list[str]


class MapAnswer(Body):
    word: str
    uses: list[MapUse]
    maps: list[FlatMap]
    clusters: list[Cluster]
    method: Method


class JobAnswer(Body):
    job: str


class JobState(Body):
    state: Literal["running", "done", "failed"]
    progress: float
    map: MapAnswer | None = None
    error: str | None = None


class Health(Body):
    status: Literal["ok"]


class Problem(Body):
    model_config = _example({"error": "position 9: the sentence has 4 tokens, numbered from 0"})
    error: str
