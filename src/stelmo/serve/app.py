"""A model, limits, an index, tasks → the ASGI application. Knows no socket and no command line."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from fastapi import APIRouter, FastAPI
from starlette.middleware.cors import CORSMiddleware
from starlette.responses import FileResponse, PlainTextResponse
from starlette.staticfiles import StaticFiles

from stelmo import __version__
from stelmo.config import ServeSettings
from stelmo.embed.model import Model
from stelmo.errors import ConfigError
from stelmo.explore.index import Index, refuse_other_model
from stelmo.serve import bodies, gate, problems, text, uses
from stelmo.serve.arrays import LENGTHS
from stelmo.serve.context import Context, Here
from stelmo.serve.metrics import CONTENT_TYPE
from stelmo.store.runs import Mixes

SITE = Path(__file__).parent / "site"
router = APIRouter()


def app(
    model: Model,
    settings: ServeSettings | None = None,
    index: Index | None = None,
    tasks: Mapping[str, Mixes] | None = None,
    *,
    name: str = "english",
    token: str | None = None,
    origins: Sequence[str] = (),
    hosts: Sequence[str] | None = gate.LOOPBACK,
) -> FastAPI:
    """`token` is asked of every request that costs something; `origins` are foreign pages that may ask; `hosts` are
    the names this server goes by, None any."""
    if model.settings.state == "carry":
        raise ConfigError("state 'carry': there an answer depends on the requests before; load with warm or fresh")
    if index is not None:
        refuse_other_model(index, model)
    context = Context(model, settings or ServeSettings(), name, index, tasks or {})
    made = FastAPI(
        title="stelmo",
        version=__version__,
        description="Text → contextual word vectors.",
        docs_url=None,  # these pages load scripts from elsewhere
        redoc_url=None,
        lifespan=_lifespan,
    )
    made.state.context = context
    problems.attach(made)
    for routes in (router, text.router, uses.router):
        made.include_router(routes)
    made.mount("/site", StaticFiles(directory=SITE))
    _guard(made, context, token, origins, hosts)
    return made


@asynccontextmanager
async def _lifespan(made: FastAPI) -> AsyncIterator[None]:
    context: Context = made.state.context
    if context.index is not None:
        context.batcher.call(context.prepare, 0)
    yield
    context.close()


def _guard(
    made: FastAPI, context: Context, token: str | None, origins: Sequence[str], hosts: Sequence[str] | None
) -> None:
    """The last one added stands outermost."""
    most = context.settings
    made.add_middleware(gate.Limits, most.requests, most.body_bytes, most.seconds)
    if token is not None:
        made.add_middleware(gate.Token, token)
    if origins:
        headers = ("Authorization", "Content-Type")
        made.add_middleware(
            CORSMiddleware,
            allow_origins=origins,
            allow_methods=("GET", "POST", "DELETE"),
            allow_headers=headers,
            expose_headers=(LENGTHS, "Retry-After"),
        )
    if hosts is not None:
        made.add_middleware(gate.Host, hosts)
    made.add_middleware(gate.Headers)
    made.add_middleware(gate.Counted, context.metrics)


@router.get("/", include_in_schema=False)
async def page() -> FileResponse:
    return FileResponse(SITE / "index.html")


@router.get("/health")
async def health() -> bodies.Health:
    """Whether the server answers."""
    return bodies.Health(status="ok")


@router.get("/metrics", response_class=PlainTextResponse)
async def metrics(here: Here) -> PlainTextResponse:
    """What the server has done, as Prometheus reads it."""
    gauges = {"stelmo_waiting_tokens": ("Tokens waiting for the model.", lambda: float(here.batcher.waiting))}
    return PlainTextResponse(here.metrics.text(gauges), media_type=CONTENT_TYPE)
