"""Routes about the index of word uses: words, neighbours, maps and their jobs. Knows no file."""

from functools import partial
from typing import Annotated

from fastapi import APIRouter, Query, Response
from starlette.exceptions import HTTPException

from stelmo.errors import DataError
from stelmo.explore import search
from stelmo.explore.index import Index
from stelmo.serve import bodies, maps, problems
from stelmo.serve.context import Context, Here, in_thread, mixed
from stelmo.serve.jobs import Job, error_of
from stelmo.serve.text import check_position

router = APIRouter(prefix="/v1", responses=problems.ANSWERS)


@router.get("/words")
async def words(
    here: Here,
    prefix: Annotated[str, Query(max_length=500)] = "",
    limit: Annotated[int, Query(ge=1, le=2**31 - 1)] = 20,
) -> bodies.WordsAnswer:
    """Words of the index that begin so, the most frequent first."""
    found = await in_thread(_beginning_with, here.uses(), prefix.lower(), here.count(limit))
    return bodies.WordsAnswer(words=found)


def _beginning_with(index: Index, prefix: str, limit: int) -> list[bodies.WordUses]:
    found = (bodies.WordUses(word=word, uses=uses) for word, uses in index.words.items() if word.startswith(prefix))
    return [word for word, _ in zip(found, range(limit), strict=False)]


@router.post("/neighbours")
async def neighbours(here: Here, body: bodies.NeighboursRequest) -> bodies.NeighboursAnswer:
    """A word in its sentence → the uses most like it; and what one vector a word, without context, finds."""
    index, mix, k = here.uses(), here.mix(body.mix or body.layer), here.count(body.k)
    check_position(body.tokens, body.position)
    (layers_LTD,) = await here.layers([body.tokens])
    query_D = mixed(layers_LTD, mix)[body.position]
    hits = await in_thread(search.nearest, index, query_D, mix, k, word=body.word, exclude=body.tokens)
    contextual = [
        bodies.ContextualNeighbour(
            id=hit.use.id, tokens=list(hit.use.tokens), position=hit.use.position, similarity=hit.similarity
        )
        for hit in hits
    ]
    return bodies.NeighboursAnswer(contextual=contextual, static=await _static(here, body.tokens[body.position], k))


async def _static(here: Context, word: str, k: int) -> list[bodies.StaticNeighbour]:
    found = await here.alone(lambda: here.static.neighbours(word, k) if here.static else [], 1)
    return [bodies.StaticNeighbour(word=word, similarity=similarity) for word, similarity in found]


@router.post("/map")
async def map_(here: Here, body: bodies.MapRequest) -> bodies.MapAnswer:
    """Every use of a word as a point, by PCA, at once; the clusters are those of the first mix."""
    if body.method != "pca":
        raise DataError(f"method {body.method} takes long; POST the same to /v1/map/jobs, or ask for pca")
    return await in_thread(_map(here, body), lambda share: None)


@router.post("/map/jobs", status_code=202)
async def start_map(here: Here, body: bodies.MapRequest) -> bodies.JobAnswer:
    """The same by a method that takes long; the answer names the job to ask after."""
    return bodies.JobAnswer(job=here.jobs.start(_map(here, body)))


def _map(here: Context, body: bodies.MapRequest) -> "partial[bodies.MapAnswer]":
    """The work, once all that can be refused is refused."""
    index = here.uses()
    if not index.words.get(body.word.lower()):
        raise HTTPException(404, f"the index has no use of {body.word!r:.60}")
    mixes = [here.mix(asked) for asked in body.mixes]
    return partial(maps.compute, index, body, mixes, min(body.limit, here.settings.uses))


@router.get("/map/jobs/{job}")
async def look_at_map(here: Here, job: str) -> bodies.JobState:
    """How far a map is, and the map when it is done."""
    found = here.jobs.get(job)
    if found is None:
        raise HTTPException(404, "no such job; it was cancelled, or forgotten for later ones")
    return _state(found)


def _state(job: Job) -> bodies.JobState:
    if not job.result.done():
        return bodies.JobState(state="running", progress=job.progress)
    error = error_of(job)
    if error is not None:
        return bodies.JobState(state="failed", progress=job.progress, error=error)
    return bodies.JobState(state="done", progress=1.0, map=job.result.result())


@router.delete("/map/jobs/{job}", status_code=204)
async def cancel_map(here: Here, job: str) -> Response:
    """Stop a map, or forget one that is done."""
    if not here.jobs.cancel(job):
        raise HTTPException(404, "no such job; it was cancelled, or forgotten for later ones")
    return Response(status_code=204)
