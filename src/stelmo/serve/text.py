"""Routes about text and the model alone: tokenize, embed, similarity, guess, models, tasks. Knows no index."""

from collections.abc import Sequence
from typing import Any

import torch
from fastapi import APIRouter, Request
from starlette.responses import Response

from stelmo.embed.model import all_layers, picking
from stelmo.errors import DataError
from stelmo.lm import probabilities as lm
from stelmo.serve import arrays, bodies, problems
from stelmo.serve.context import Here, cosines, in_thread, mixed
from stelmo.text import sentences as text

router = APIRouter(prefix="/v1", responses=problems.ANSWERS)
BINARY: dict[int | str, dict[str, Any]] = {
    200: {
        "model": bodies.EmbedAnswer,
        "description": "vectors in the order of the sentences; binary: all tokens end to end",
        "headers": {arrays.LENGTHS: {"description": "tokens of each sentence", "schema": {"type": "string"}}},
        "content": {kind: {"schema": {"type": "string", "format": "binary"}} for kind in (arrays.NPY, arrays.ARROW)},
    },
    406: {"model": bodies.Problem, "description": "none of the kinds in Accept is there"},
}


@router.post("/tokenize")
async def tokenize(here: Here, body: bodies.TokenizeRequest) -> bodies.TokenizeAnswer:
    """Raw text → sentences of tokens."""
    return bodies.TokenizeAnswer(sentences=await in_thread(text.tokenize, body.text))


@router.post("/embed", responses=BINARY, response_class=Response)
async def embed(here: Here, request: Request, body: bodies.EmbedRequest) -> Response:
    """Sentences → vectors: of one layer, of their mean, or of all. `Accept` chooses JSON, npy or an Arrow stream."""
    kind = arrays.chosen(request.headers.get("accept", ""))
    reduce = all_layers if body.layer == "all" else picking(body.layer, here.depth)
    found = body.sentences if body.text is None else await in_thread(text.tokenize, body.text)
    assert found is not None
    layers = await here.layers(found)

    def answer() -> Response:
        vectors = [reduce(torch.from_numpy(layers_LTD)).numpy() for layers_LTD in layers]
        return arrays.answer(found, vectors, here.model.config.width, kind)

    return await in_thread(answer)


@router.post("/similarity")
async def similarity(here: Here, body: bodies.SimilarityRequest) -> bodies.SimilarityAnswer:
    """Two sentences → the cosine of every word pair, in one mix of the layers or in each layer."""
    mix = here.mix(body.mix or body.layer)
    first_LTD, second_LSD = await here.layers([body.first, body.second])
    words = {"first": body.first, "second": body.second}
    if body.layers == "each":
        each = [cosines(*pair).tolist() for pair in zip(first_LTD, second_LSD, strict=True)]
        return bodies.SimilarityAnswer(**words, layers=each)
    return bodies.SimilarityAnswer(**words, similarity=cosines(mixed(first_LTD, mix), mixed(second_LSD, mix)).tolist())


@router.post("/guess")
async def guess(here: Here, body: bodies.GuessRequest) -> bodies.GuessAnswer:
    """The words that fit best at a position, whatever stands there: by each direction and by both."""
    here.check([body.tokens])
    k = here.count(body.k)
    check_position(body.tokens, body.position)

    def guesses() -> lm.Guesses:
        return lm.guesses(here.model, here.model.softmax, body.tokens, body.position, k)

    found = await here.alone(guesses, len(body.tokens))
    return bodies.GuessAnswer(**{name: _words(best) for name, best in found._asdict().items()})


def _words(found: Sequence[lm.Guess | lm.Substitute]) -> list[bodies.Guess]:
    return [bodies.Guess(word=guess.word, probability=guess.probability) for guess in found]


def check_position(tokens: Sequence[str], position: int) -> None:
    if position >= len(tokens):
        raise DataError(f"position {position}: the sentence has {len(tokens)} tokens, numbered from 0")


@router.get("/models")
async def models(here: Here) -> list[bodies.ModelAnswer]:
    """The model behind this server."""
    saved = here.model.saved()
    return [
        bodies.ModelAnswer(
            name=here.name,
            parameters=sum(parameter.numel() for parameter in saved.bilm.parameters()),
            layers=here.depth,
            width=saved.config.width,
            vocabulary=None if saved.vocabulary is None else len(saved.vocabulary),
            fingerprint=here.fingerprint,
            has_softmax=saved.read_softmax is not None,
        )
    ]


@router.get("/tasks")
async def tasks(here: Here) -> list[bodies.TaskAnswer]:
    """What task models learned of the layers: the shares and γ of each place where ELMo enters."""
    return [
        bodies.TaskAnswer(
            name=name, task=found.task, outputs=[bodies.TaskOutput(**output.model_dump()) for output in found.outputs]
        )
        for name, found in here.tasks.items()
    ]
