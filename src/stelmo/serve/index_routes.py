"""Routes about the index of word uses: words, neighbours, maps and their jobs. Knows no file.   L layers, D width."""

from collections.abc import Iterable, Sequence
from functools import partial
from itertools import islice
from typing import Annotated

from fastapi import APIRouter, Path, Query, Response
from starlette.exceptions import HTTPException

from stelmo.errors import DataError
from stelmo.explore import contexts, search
from stelmo.explore.contexts import Contexts
from stelmo.explore.index import Index
from stelmo.explore.maps import word_map
from stelmo.explore.mixing import Mix
from stelmo.serve import answers, bodies
from stelmo.serve.context import Array, Context, Here, check_position, mixed
from stelmo.serve.queues import Advance, error_of

router = APIRouter(prefix="/v1", responses=answers.PROBLEMS)
JobName = Annotated[str, Path(examples=["3q2-7w"])]
SIMILAR = 5  # words that a misspelled one may stand for
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


@router.get("/words/suggested")
async def suggested(here: Here) -> bodies.WordsAnswer:
    """Words whose uses separate well in this index, the best first."""
    index = here.uses()
    return _counted(index, await here.in_thread(lambda: here.suggested))


@router.get("/words/known")
async def known(
    here: Here, word: Annotated[list[str], Query(max_length=200, examples=[["bank", "zzz"]])]
) -> bodies.WordsAnswer:
    """Those of the given words that the index has."""
    index = here.uses()
    return _counted(index, dict.fromkeys(one.lower() for one in word))


@router.get("/words/similar")
async def similar(
    here: Here, word: Annotated[str, Query(min_length=1, max_length=500, examples=["bnak"])]
) -> bodies.WordsAnswer:
    """Words of the index that are spelled like the given one, the most similar first."""
    index = here.uses()
    return _counted(index, await here.in_thread(search.spelled_like, index, word, SIMILAR))


def _counted(index: Index, found: Iterable[str]) -> bodies.WordsAnswer:
    listed = [bodies.WordUses(word=word, uses=index.words[word]) for word in found if word in index.words]
    return bodies.WordsAnswer(words=listed)


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
    """Every use of a word as a point, by PCA, with the groups of the uses.

    `own` is a word in a sentence of your own: its place on the maps, and the uses nearest to it.
    """
    if body.method != "pca":
        raise DataError(f"method {body.method} takes long; POST the same body to /v1/map/jobs, or use pca")
    work = await _map(here, body)

    def answer() -> Response:
        return Response(work(lambda share: None).model_dump_json(), media_type=answers.JSON)

    return await here.in_thread(answer)


@router.post("/substitutes")
async def substitutes(here: Here, body: bodies.SubstitutesRequest) -> bodies.SubstitutesAnswer:
    """Groups of uses → the words that the language model would put in the place of one group and not of the others.

    The lists are empty for a single group, and for a model without a softmax.
    """
    index, k = here.uses(), here.count(body.k)
    asked = sum(map(len, body.groups))
    if asked > here.settings.uses:
        raise DataError(f"groups: {asked:,} uses; this server accepts at most {here.settings.uses:,}")
    groups = [[index.use(id) for id in ids] for ids in body.groups]
    tokens = min(contexts.ASKED_TOKENS, sum(len(use.tokens) for uses in groups for use in uses))
    found = await here.alone(lambda: contexts.substitutes(here.model, groups, k), tokens)
    return bodies.SubstitutesAnswer(groups=found)


@router.post("/map/jobs", status_code=202)
async def start_map(here: Here, body: bodies.MapRequest) -> bodies.JobAnswer:
    """The same by a method that takes long; the answer names a job to poll."""
    return bodies.JobAnswer(job=here.jobs.start(await _map(here, body)))


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


async def _map(here: Context, body: bodies.MapRequest) -> "partial[bodies.MapAnswer]":
    """The work of a map, after everything that can be refused has been checked."""
    index = here.uses()
    if not index.words.get(body.word.lower()):
        raise HTTPException(404, f"the index has no use of {body.word!r:.60}")
    mixes = [here.mix(asked) for asked in body.mixes]
    own_LD = None
    if body.own is not None:
        check_position(body.own.tokens, body.own.position)
        (layers_LTD,) = await here.layers([body.own.tokens])
        own_LD = layers_LTD[:, body.own.position]
    return partial(compute_map, index, body, mixes, min(body.limit, here.settings.uses), here.contexts, own_LD)


def compute_map(
    index: Index,
    asked: bodies.MapRequest,
    mixes: Sequence[Mix],
    limit: int,
    around: Contexts | None,
    own_LD: Array | None,
    advance: Advance,
) -> bodies.MapAnswer:
    """`advance` is called with the fraction done."""
    found = word_map(
        index,
        asked.word,
        mixes,
        contexts=around,
        method=asked.method,
        groups=asked.clusters,
        limit=limit,
        seed=asked.seed,
        near=asked.near,
        own_LD=own_LD,
        advance=advance,
    )
    groups = found.groups_N.tolist()
    return bodies.MapAnswer(
        word=asked.word,
        total=found.total,
        uses=[
            bodies.MapUse(
                id=use.id,
                tokens=list(use.tokens),
                position=use.position,
                cluster=group,
                columns={name: values[place] for name, values in found.columns.items()},
            )
            for place, (use, group) in enumerate(zip(found.uses, groups, strict=True))
        ],
        maps=[
            bodies.FlatMap(
                mix=mix,
                points=flat.points_N2.round(6).tolist(),
                trustworthiness=flat.trustworthiness,
                near=flat.near,
                own=flat.own and bodies.Placed(point=flat.own.point, near=flat.own.near),
            )
            for mix, flat in zip(asked.mixes, found.maps, strict=True)
        ],
        clusters=[
            bodies.Cluster(size=groups.count(group), words=words, examples=examples)
            for group, (words, examples) in enumerate(zip(found.labels, found.examples, strict=True))
        ],
        method=asked.method,
    )
