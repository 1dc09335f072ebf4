"""The OpenAPI description of one server: its limits as bounds, its security scheme. Knows no route's work."""

from typing import Any

from fastapi.openapi.utils import get_openapi

from stelmo.serve import gate
from stelmo.serve.bodies import Problem
from stelmo.settings import ServeSettings

Schema = dict[str, Any]


def describe(app: Any, settings: ServeSettings, depth: int, width: int, secured: bool) -> Schema:
    """FastAPI's description with what depends on this server: limits, layers, and whether a token is required."""
    schema = get_openapi(title=app.title, version=app.version, description=app.description, routes=app.routes)
    parts = schema["components"]["schemas"]
    problem = Problem.model_json_schema()
    parts["Problem"] = problem
    for unused in ("HTTPValidationError", "ValidationError"):
        parts.pop(unused, None)
    for name, part in parts.items():
        if name.endswith("Request") or name == "Mix":
            for field, property in part["properties"].items():
                _bound(name, field, property, settings, depth, width)
    for path, methods in schema["paths"].items():
        for operation in methods.values():
            _finish(path, operation, settings, secured)
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


def _finish(path: str, operation: Schema, settings: ServeSettings, secured: bool) -> None:
    for parameter in operation.get("parameters", ()):
        if parameter["name"] == "limit":
            parameter["schema"]["maximum"] = settings.answers
    answers = operation["responses"]
    if answers.get("422", {}).get("content", {}).get("application/json"):  # FastAPI's own, of routes without limits
        del answers["422"]
    if secured and path not in gate.Token.OPEN:
        operation["security"] = [{"token": []}]
    elif not secured:
        answers.pop("401", None)
