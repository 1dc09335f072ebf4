"""A model, limits, an index, tasks → the ASGI application and its OpenAPI description. Knows no socket."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import cache
from pathlib import Path
from typing import Any

from fastapi import APIRouter, FastAPI
from fastapi.openapi.utils import get_openapi
from fastapi.routing import APIRoute
from starlette.middleware.cors import CORSMiddleware
from starlette.responses import FileResponse, PlainTextResponse
from starlette.staticfiles import StaticFiles

from stelmo import __version__
from stelmo.embed.model import Model
from stelmo.errors import ConfigError
from stelmo.explore.index import Index, Rules, refuse_other_model
from stelmo.serve import answers, bodies, gate, index_routes, openai_routes, text_routes
from stelmo.serve.answers import LENGTHS
from stelmo.serve.bodies import Problem
from stelmo.serve.context import Context, Here
from stelmo.serve.gate import METRICS_TYPE
from stelmo.settings import ServeSettings
from stelmo.store.runs import Mixes

SITE = Path(__file__).parent / "site"
router = APIRouter()
ROUTERS = (router, text_routes.router, index_routes.router, openai_routes.router)
Schema = dict[str, Any]


def app(
    model: Model,
    settings: ServeSettings | None = None,
    index: Index | None = None,
    tasks: Mapping[str, Mixes] | None = None,
    *,
    name: str = "english",
    credit: str = "",
    rules: Rules | None = None,
    token: str | None = None,
    origins: Sequence[str] = (),
    hosts: Sequence[str] | None = gate.LOOPBACK,
    access_log: gate.LogFormat | None = None,
) -> FastAPI:
    """`credit` says whose text the index contains; `rules` tokenise texts (default: those of the index, or English);
    `token` is required of every request that uses the model; `origins`
    are foreign pages that may send requests; `hosts` are the names of this server, None allows any; `access_log` is the
    format of the logger "stelmo.access"."""
    if model.settings.state == "carry":
        raise ConfigError("state 'carry': an answer would depend on earlier requests; load with warm or fresh")
    if index is not None:
        refuse_other_model(index, model)
    chosen = rules or (Rules() if index is None else index.rules)
    chosen.check()
    context = Context(model, settings or ServeSettings(), name, index, tasks or {}, credit, rules=chosen)
    made = FastAPI(
        title="stelmo",
        version=__version__,
        description="Text → contextual word vectors.",
        docs_url=None,  # FastAPI's own pages load scripts from another server
        redoc_url=None,
        lifespan=_lifespan,
    )
    made.state.context = context
    answers.attach(made, _methods)
    for routes in ROUTERS:
        made.include_router(routes)
    made.mount("/site", StaticFiles(directory=SITE))
    config, limits = model.config, context.settings
    made.openapi = cache(  # type: ignore[method-assign]
        lambda: description(made, limits, config.depth, config.width, secured=token is not None)
    )
    _guard(made, context, token, origins, hosts, access_log)
    return made


@asynccontextmanager
async def _lifespan(made: FastAPI) -> AsyncIterator[None]:
    context: Context = made.state.context
    if context.index is not None:
        context.batcher.call(context.prepare, 0)
    yield
    context.close()


def _guard(
    made: FastAPI,
    context: Context,
    token: str | None,
    origins: Sequence[str],
    hosts: Sequence[str] | None,
    access_log: gate.LogFormat | None,
) -> None:
    """Add the middleware; what is added last is the outermost."""
    made.add_middleware(gate.Limits, context.settings, lambda: context.batcher.wait_seconds)
    if token is not None:
        made.add_middleware(gate.Token, token)
    if origins:
        made.add_middleware(
            CORSMiddleware,
            allow_origins=origins,
            allow_methods=("GET", "POST", "DELETE"),
            allow_headers=("Authorization", "Content-Type"),
            expose_headers=(LENGTHS, "Retry-After"),
        )
    if hosts is not None:
        made.add_middleware(gate.Host, hosts)
    made.add_middleware(gate.Headers)
    made.add_middleware(gate.Head)
    made.add_middleware(gate.AccessLog, context.metrics, _route, access_log)


def _matching(path: str) -> list[APIRoute]:
    routes = [route for routes in ROUTERS for route in routes.routes if isinstance(route, APIRoute)]
    return [route for route in routes if route.path_regex.match(path)]


def _route(path: str) -> str:
    """The pattern of a path, also of a request that was refused before it reached its route."""
    return next((route.path for route in _matching(path)), "/site" if path.startswith("/site/") else "other")


def _methods(path: str) -> list[str]:
    found = {method for route in _matching(path) for method in route.methods or ()}
    return sorted(found | {"HEAD"} if "GET" in found else found) or ["GET", "HEAD"]


@router.get("/", include_in_schema=False)
async def page() -> FileResponse:
    return FileResponse(SITE / "index.html")


@router.get("/docs", include_in_schema=False)
async def docs() -> FileResponse:
    """An interactive description of the routes, from files of this package."""
    return FileResponse(SITE / "docs.html")


@router.get("/health")
async def health() -> bodies.Health:
    """Whether the server answers."""
    return bodies.Health(status="ok")


@router.get(
    "/metrics",
    response_class=PlainTextResponse,
    responses={200: {"content": {"text/plain": {"example": "stelmo_batches_total 3.0"}}}},
)
async def metrics(here: Here) -> PlainTextResponse:
    """Counts of requests and batches, for Prometheus."""
    _ = here.batcher  # the queue is among the figures
    return PlainTextResponse(here.metrics.text(), media_type=METRICS_TYPE)


def description(app: FastAPI, settings: ServeSettings, depth: int, width: int, secured: bool) -> Schema:
    """FastAPI's description with what depends on this server: limits, layers, and whether a token is required."""
    schema = get_openapi(title=app.title, version=app.version, description=app.description, routes=app.routes)
    parts = schema["components"]["schemas"]
    parts["Problem"] = Problem.model_json_schema()
    for unused in ("HTTPValidationError", "ValidationError"):
        parts.pop(unused, None)
    for name, part in parts.items():
        if name.endswith("Request") or name == "Mix":
            for field, property in part["properties"].items():
                _bound(name, field, property, settings, depth, width)
    for path, methods in schema["paths"].items():
        for operation in methods.values():
            for parameter in operation.get("parameters", ()):
                if parameter["name"] == "limit":
                    parameter["schema"]["maximum"] = settings.answers
            found = operation["responses"]
            # FastAPI adds its own 422 to routes that have none of ours.
            if found.get("422", {}).get("content", {}).get("application/json"):
                del found["422"]
            if secured and path not in gate.Token.OPEN:
                operation["security"] = [{"token": []}]
            elif not secured:
                found.pop("401", None)
    if secured:
        schema["components"]["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
    return schema


def _bound(body: str, field: str, property: Schema, settings: ServeSettings, depth: int, width: int) -> None:
    """Put the limits into one field of a request's body."""
    tokens = {"maxItems": settings.sentence_tokens}
    for part in _variants(property):
        if part.get("type") == "integer":
            if field in ("layer", "mixes"):
                part["maximum"] = depth - 1
            elif field == "k":
                part["maximum"] = settings.answers
            elif field == "position":
                part["maximum"] = settings.sentence_tokens - 1
            elif field == "dimensions":
                part["minimum"] = part["maximum"] = width
    if field in ("tokens", "first", "second"):
        property.update(tokens)
        property["items"]["maxLength"] = settings.token_characters
    elif field == "sentences":
        array = next(part for part in _variants(property) if part.get("type") == "array")
        array["maxItems"] = settings.sentences
        array["items"].update(tokens)
        array["items"]["items"]["maxLength"] = settings.token_characters
    elif field in ("input", "inputs"):
        for part in _variants(property):
            if part.get("type") == "array" and part is not property:
                part.setdefault("maxItems", settings.sentences)
    elif body == "Mix" and field == "weights":
        property["minItems"] = property["maxItems"] = depth


def _variants(property: Schema) -> list[Schema]:
    """The schema itself, its alternatives, and the items of an array."""
    found = [property]
    for part in (*property.get("anyOf", ()), *property.get("oneOf", ())):
        found += _variants(part)
    if isinstance(property.get("items"), dict):
        found += _variants(property["items"])
    return found
