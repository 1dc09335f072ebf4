"""Texts → one vector each, in the formats of OpenAI and of text-embeddings-inference.   N texts, T tokens, D width.

The vector of a text is the mean of its tokens' vectors (the mean of the layers), over all of its sentences.
"""

import base64
from collections.abc import Sequence
from typing import Annotated, Any, Literal

import numpy as np
from fastapi import APIRouter
from pydantic import Field, PlainValidator, WithJsonSchema
from starlette.exceptions import HTTPException
from starlette.responses import Response

from stelmo.errors import DataError
from stelmo.explore import mixing
from stelmo.serve import answers
from stelmo.serve.bodies import Body, Count, Text, encodable, example
from stelmo.serve.context import Array, Context, Here, mixed, within

router = APIRouter(responses=answers.PROBLEMS)

TEXTS_SCHEMA: dict[str, Any] = {
    "anyOf": [
        {"type": "string", "minLength": 1},
        {"type": "array", "minItems": 1, "items": {"type": "string", "minLength": 1}},
        {
            "type": "array",
            "minItems": 1,
            "items": {"type": "array", "minItems": 1, "items": {"type": "string", "minLength": 1}},
        },
    ]
}


def _texts(value: Any) -> list[str | list[str]]:
    """One text, several texts, or several texts as lists of words."""
    texts = [value] if isinstance(value, str) else value
    if not isinstance(texts, list) or not texts:
        raise ValueError("expected a text or a list of texts")
    flat = [part for text in texts for part in (text if isinstance(text, list) else [text])]
    kinds = set(map(type, flat))
    if kinds & {int, bool}:
        raise ValueError("contains token ids, which belong to another tokenizer; expected texts, or lists of words")
    if kinds - {str}:
        raise ValueError("expected a text, a list of texts, or lists of words")
    encodable("".join(flat))
    return texts


Texts = Annotated[list[str | list[str]], PlainValidator(_texts), WithJsonSchema(TEXTS_SCHEMA)]


class EmbeddingsRequest(Body):
    """The request of OpenAI's embeddings API. Pre-tokenised texts are lists of words, not of token ids."""

    model_config = example({"input": ["We sat on the bank of the river.", "Stocks fell."], "model": "english"})
    input: Texts
    model: Text | None = Field(None, description="the name of this server's model; any other is refused")
    encoding_format: Literal["float", "base64"] = "float"
    dimensions: Count | None = Field(None, description="if given, it must be the width of the model")
    user: Text | None = Field(None, description="ignored")


class Embedding(Body):
    object: Literal["embedding"] = "embedding"
    index: int
    embedding: list[float] | str = Field(description="numbers, or little-endian float32 in base64")


class Usage(Body):
    prompt_tokens: int
    total_tokens: int


class EmbeddingsAnswer(Body):
    model_config = example(
        {
            "object": "list",
            "data": [{"object": "embedding", "index": 0, "embedding": [0.6, -0.8]}],
            "model": "english",
            "usage": {"prompt_tokens": 3, "total_tokens": 3},
        }
    )
    object: Literal["list"] = "list"
    data: list[Embedding]
    model: str
    usage: Usage


class TextsRequest(Body):
    """The request of text-embeddings-inference's /embed."""

    model_config = example({"inputs": ["We sat on the bank of the river.", "Stocks fell."]})
    inputs: Texts
    normalize: bool = Field(True, description="scale each vector to length 1")
    truncate: bool = Field(False, description="cut sentences that are too long instead of refusing them")
    truncation_direction: Literal["left", "right", "Left", "Right"] = "right"
    prompt_name: None = None
    dimensions: Count | None = Field(None, description="if given, it must be the width of the model")


@router.post("/v1/embeddings", response_model=EmbeddingsAnswer)
async def embeddings(here: Here, body: EmbeddingsRequest) -> Response:
    """OpenAI's embeddings API: texts → vectors of length 1."""
    if body.model not in (None, here.name):
        raise HTTPException(404, f"model {body.model!r:.60} is not served here; expected {here.name!r}")
    _check_width(here, body.dimensions)
    vectors_ND, tokens = await _vectors(here, body.input)

    def answer() -> Response:
        found: list[list[float]] | list[str]
        if body.encoding_format == "base64":
            found = [base64.b64encode(vector_D.astype("<f4").tobytes()).decode() for vector_D in units_ND]
        else:
            found = units_ND.astype(float).tolist()
        data = [Embedding(index=index, embedding=vector) for index, vector in enumerate(found)]
        usage = Usage(prompt_tokens=tokens, total_tokens=tokens)
        made = EmbeddingsAnswer(data=data, model=here.name, usage=usage)
        return Response(made.model_dump_json(), media_type=answers.JSON)

    units_ND = mixing.units(vectors_ND)
    return await here.in_thread(answer)


@router.post(
    "/embed",
    response_model=list[list[float]],
    responses={200: {"content": {answers.JSON: {"example": [[0.6, -0.8]]}}}},
)
async def embed(here: Here, body: TextsRequest) -> Response:
    """The /embed of text-embeddings-inference: texts → vectors."""
    _check_width(here, body.dimensions)
    cut = body.truncation_direction.lower() if body.truncate else None
    vectors_ND, _ = await _vectors(here, body.inputs, cut)
    found_ND = mixing.units(vectors_ND) if body.normalize else vectors_ND
    return Response(await here.in_thread(answers.numbers, found_ND), media_type=answers.JSON)


def _check_width(here: Context, dimensions: int | None) -> None:
    width = here.model.config.width
    if dimensions not in (None, width):
        raise DataError(f"dimensions: {dimensions}; the vectors of this model have {width}")


async def _vectors(here: Context, texts: Sequence[str | list[str]], cut: str | None = None) -> tuple[Array, int]:
    """(N, D), a vector per text, and the number of tokens in all of them.

    `cut` is the end at which too long sentences are cut, left or right; None refuses them.
    """
    within("texts", len(texts), here.settings.sentences)
    tokenised = iter(await here.tokenize([text for text in texts if isinstance(text, str)], here.settings.tokens))
    sentences: list[list[str]] = []
    ends = []
    most = here.settings.sentence_tokens
    kept = {None: slice(None), "right": slice(most), "left": slice(-most, None)}[cut]
    for number, text in enumerate(texts):
        found = next(tokenised) if isinstance(text, str) else [text]
        if not any(found):
            raise DataError(f"text {number} has no tokens; expected at least one word")
        sentences += [tokens[kept] for tokens in found]
        ends.append(len(sentences))
    layers = await here.layers(sentences)
    mix = mixing.of_layer("mean", here.depth)
    vectors = [mixed(layers_LTD, mix) for layers_LTD in layers]
    means = [np.concatenate(vectors[start:end]).mean(0) for start, end in zip([0, *ends[:-1]], ends, strict=True)]
    return np.stack(means), sum(map(len, sentences))
