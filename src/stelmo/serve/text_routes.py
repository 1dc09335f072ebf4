"""Routes about text and the model alone: tokenize, embed, similarity, guess, models, tasks. Knows no index."""

from typing import Any

import numpy as np
import torch
from fastapi import APIRouter, Request
from starlette.responses import Response

from stelmo import __version__
from stelmo.embed.model import all_layers, picking
from stelmo.explore import maps
from stelmo.lm import probabilities as lm
from stelmo.serve import answers, bodies
from stelmo.serve.context import Here, check_position, cosines, mixed

router = APIRouter(prefix="/v1", responses=answers.PROBLEMS)
BINARY: dict[int | str, dict[str, Any]] = {
    200: {
        "model": bodies.EmbedAnswer,
        "description": "vectors in the order of the sentences; binary: the tokens of all sentences in one array",
        "headers": {answers.LENGTHS: {"description": "tokens of each sentence", "schema": {"type": "string"}}},
        "content": {kind: {"schema": {"type": "string", "format": "binary"}} for kind in (answers.NPY, answers.ARROW)},
    },
    406: answers.described("none of the types in Accept is available"),
}


@router.post("/tokenize", response_model=bodies.TokenizeAnswer)
async def tokenize(here: Here, body: bodies.TokenizeRequest) -> Response:
    """Raw text → sentences of tokens."""
    (found,) = await here.tokenize([body.text])
    made = await here.in_thread(answers.rows, found)
    return Response(f'{{"sentences":{made}}}', media_type=answers.JSON)


@router.post("/embed", responses=BINARY, response_class=Response)
async def embed(here: Here, request: Request, body: bodies.EmbedRequest) -> Response:
    """Sentences → vectors of one layer, of the mean of the layers, or of all. `Accept`: JSON, npy or Arrow."""
    kind = answers.choose_type(request.headers.get("accept", ""))
    layer = here.layer(body.layer, "all")
    reduce = all_layers if body.layer == "all" else picking(layer, here.depth)
    if body.sentences is None:
        (sentences,) = await here.tokenize([body.text or ""], here.settings.tokens)
    else:
        sentences = body.sentences
    layers = await here.layers(sentences)

    def answer() -> Response:
        vectors = [reduce(torch.from_numpy(layers_LTD)).numpy() for layers_LTD in layers]
        width = here.model.config.width
        empty = np.zeros((here.depth, 0, width) if body.layer == "all" else (0, width), np.float32)
        return answers.vectors_answer(sentences, vectors, empty, kind)

    return await here.in_thread(answer)


@router.post("/similarity", response_model=bodies.SimilarityAnswer)
async def similarity(here: Here, body: bodies.SimilarityRequest) -> Response:
    """Two sentences → the cosine of every word pair, in one mix of the layers or in each layer."""
    mix = here.mix(body.mix or body.layer)
    first_LTD, second_LSD = await here.layers([body.first, body.second])

    def answer() -> Response:
        words = f'"first":{answers.rows(body.first)},"second":{answers.rows(body.second)}'
        if body.layers == "each":
            each = (answers.rows(cosines(*pair)) for pair in zip(first_LTD, second_LSD, strict=True))
            found = f'"similarity":null,"layers":[{",".join(each)}]'
        else:
            found = f'"similarity":{answers.rows(cosines(mixed(first_LTD, mix), mixed(second_LSD, mix)))},"layers":null'
        return Response(f"{{{words},{found}}}", media_type=answers.JSON)

    return await here.in_thread(answer)


@router.post("/guess")
async def guess(here: Here, body: bodies.GuessRequest) -> bodies.GuessAnswer:
    """The most likely words at a position, whatever word is there: by each direction and by both."""
    here.check([body.tokens])
    k = here.count(body.k)
    check_position(body.tokens, body.position)

    def guesses() -> lm.Guesses:
        return lm.guesses(here.model, here.model.softmax, body.tokens, body.position, k)

    found = await here.alone(guesses, len(body.tokens))
    lists = {
        name: [bodies.Guess(word=one.word, probability=one.probability) for one in best]
        for name, best in found._asdict().items()
    }
    return bodies.GuessAnswer(**lists)


@router.get("/models")
async def models(here: Here) -> list[bodies.ModelAnswer]:
    """The model of this server."""
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
            map_methods=list(maps.methods()),
            version=__version__,
            credit=here.credit,
            language=here.rules.language,
            contractions=here.rules.contractions,
        )
    ]


@router.get("/tasks")
async def tasks(here: Here) -> list[bodies.TaskAnswer]:
    """The layer weights and γ that task models learned, for each place where ELMo enters."""
    return [
        bodies.TaskAnswer(
            name=name, task=found.task, outputs=[bodies.TaskOutput(**output.model_dump()) for output in found.outputs]
        )
        for name, found in here.tasks.items()
    ]
