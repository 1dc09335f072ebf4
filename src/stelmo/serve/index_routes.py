"""Routes about the index of word uses: words, neighbours, maps and their jobs. Knows no file.   N uses, D width."""

from collections.abc import Sequence
from functools import partial
from itertools import islice
from typing import Annotated

import numpy as np
from fastapi import APIRouter, Path, Query, Response
from starlette.exceptions import HTTPException

from stelmo.errors import DataError
from stelmo.explore import clusters, maps, search
from stelmo.explore.contexts import Contexts
from stelmo.explore.index import Index, Use
from stelmo.explore.mixing import Mix
from stelmo.explore.mixing import mixed as mixed_uses
from stelmo.serve import arrays, bodies, problems
from stelmo.serve.context import Context, Here, check_position, mixed
from stelmo.serve.jobs import Advance, error_of

router = APIRouter(prefix="/v1", responses=problems.ANSWERS)
JobName = Annotated[str, Path(examples=["3q2-7w"])]
NO_JOB = "no such job; it was cancelled, or forgotten in favour of later ones"


@router.get("/words")
async def words(
    here: Here,
    prefix: Annotated[str, Query(max_length=500, examples=["ba"])] = "",
    limit: Annotated[int, Query(ge=1, le=2**31 - 1, examples=[20])] = 20,
) -> bodies.WordsAnswer:
    """Words of the index that start with the prefix, most frequent first."""
    index, count = here.uses(), here.count(limit)

    def found() -> list[bodies.WordUses]:
        matching = (item for item in index.words.items() if item[0].startswith(prefix.lower()))
        return [bodies.WordUses(word=word, uses=uses) for word, uses in islice(matching, count)]

    return bodies.WordsAnswer(words=await here.in_thread(found))


@router.post("/neighbours")
async def neighbours(here: Here, body: bodies.NeighboursRequest) -> bodies.NeighboursAnswer:
    """A word in its sentence → the most similar uses; and the most similar words by static vectors."""
    index, mix, k = here.uses(), here.mix(body.mix or body.layer), here.count(body.k)
    check_position(body.tokens, body.position)
    (layers_LTD,) = await here.layers([body.tokens])
    query_D = mixed(layers_LTD, mix)[body.position]
    hits = await here.in_thread(search.nearest, index, query_D, mix, k, word=body.word, exclude=body.tokens)
    contextual = [
        bodies.ContextualNeighbour(
            id=hit.use.id, tokens=list(hit.use.tokens), position=hit.use.position, similarity=hit.similarity
        )
        for hit in hits
    ]
    word = body.tokens[body.position]
    similar = await here.alone(lambda: here.static.neighbours(word, k) if here.static else [], 1)
    static = [bodies.StaticNeighbour(word=word, similarity=similarity) for word, similarity in similar]
    return bodies.NeighboursAnswer(contextual=contextual, static=static)


@router.post("/map", response_model=bodies.MapAnswer)
async def map_(here: Here, body: bodies.MapRequest) -> Response:
    """Every use of a word as a point, by PCA, with the clusters of the uses."""
    if body.method != "pca":
        raise DataError(f"method {body.method} takes long; POST the same body to /v1/map/jobs, or use pca")
    work = _map(here, body)

    def answer() -> Response:
        return Response(work(lambda share: None).model_dump_json(), media_type=arrays.JSON)

    return await here.in_thread(answer)


@router.post("/map/jobs", status_code=202)
async def start_map(here: Here, body: bodies.MapRequest) -> bodies.JobAnswer:
    """The same by a method that takes long; the answer names a job to poll."""
    return bodies.JobAnswer(job=here.jobs.start(_map(here, body)))


@router.get("/map/jobs/{job}")
async def look_at_map(here: Here, job: JobName) -> bodies.JobState:
    """The progress of a map, and the map when it is done."""
    found = here.jobs.get(job)
    if found is None:
        raise HTTPException(404, NO_JOB)
    if not found.result.done():
        return bodies.JobState(state="running", progress=found.progress)
    error = error_of(found)
    if error is not None:
        return bodies.JobState(state="failed", progress=found.progress, error=error)
    return bodies.JobState(state="done", progress=1.0, map=found.result.result())


@router.delete("/map/jobs/{job}", status_code=204)
async def cancel_map(here: Here, job: JobName) -> Response:
    """Cancel a map, or forget a finished one."""
    if not here.jobs.cancel(job):
        raise HTTPException(404, NO_JOB)
    return Response(status_code=204)


def _map(here: Context, body: bodies.MapRequest) -> "partial[bodies.MapAnswer]":
    """The work of a map, after everything that can be refused has been checked."""
    index = here.uses()
    if not index.words.get(body.word.lower()):
        raise HTTPException(404, f"the index has no use of {body.word!r:.60}")
    mixes = [here.mix(asked) for asked in body.mixes]
    return partial(compute_map, index, body, mixes, min(body.limit, here.settings.uses), here.contexts)


def compute_map(
    index: Index,
    asked: bodies.MapRequest,
    mixes: Sequence[Mix],
    limit: int,
    contexts: Contexts | None,
    advance: Advance,
) -> bodies.MapAnswer:
    """A map for each mix. The clusters are those of the uses' contexts, without them those of the first mix.

    `advance` is called with the fraction done.
    """
    ids = index.ids_of(asked.word)
    uses = [index.use(int(id)) for id in _sample(ids.tolist(), limit)]
    layers_NLD = index.layers([use.id for use in uses])
    vectors = [mixed_uses(layers_NLD, mix) for mix in mixes]
    grouped_ND = contexts.vectors(uses) if contexts else vectors[0]
    groups = clusters.clusters(grouped_ND, asked.clusters, asked.seed)
    flat: list[bodies.FlatMap] = []
    for number, (vectors_ND, mix) in enumerate(zip(vectors, asked.mixes, strict=True)):

        def share(done: float, number: int = number) -> None:
            advance((number + done) / len(mixes))

        points_N2 = maps.flatten(vectors_ND, asked.method, asked.seed, share)
        trust = maps.trustworthiness(vectors_ND, points_N2)
        flat.append(bodies.FlatMap(mix=mix, points=points_N2.round(6).tolist(), trustworthiness=trust))
    return bodies.MapAnswer(
        word=asked.word,
        total=len(ids),
        uses=[_use(use, int(group)) for use, group in zip(uses, groups, strict=True)],
        maps=flat,
        clusters=[
            bodies.Cluster(size=int(size), words=found)
            for size, found in zip(np.bincount(groups), clusters.labels(uses, groups), strict=True)
        ],
        method=asked.method,
    )


def _sample(ids: Sequence[int], limit: int) -> list[int]:
    """At most `limit` of them, evenly spread; always the same ones."""
    if len(ids) <= limit:
        return list(ids)
    return [ids[place] for place in np.linspace(0, len(ids) - 1, limit).astype(int)]


def _use(use: Use, group: int) -> bodies.MapUse:
    return bodies.MapUse(id=use.id, tokens=list(use.tokens), position=use.position, cluster=group)
