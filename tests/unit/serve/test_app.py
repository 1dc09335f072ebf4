"""Whatever the OpenAPI allows, and much that it does not, is answered as it says: never with a 5xx."""

import re

import hypothesis
import pytest
import schemathesis
import tiny
from schemathesis import checks
from schemathesis.specs.openapi import checks as specs
from unit.serve import servers

from stelmo.explore import index as indices
from stelmo.serve.app import app
from stelmo.settings import ServeSettings

EXAMPLES = 12  # of each route
MODEL = tiny.model()
ROUTES = [(path, method) for path, methods in app(MODEL).openapi()["paths"].items() for method in methods]
CHECKS = [
    checks.not_a_server_error,
    specs.status_code_conformance,
    specs.content_type_conformance,
    specs.response_schema_conformance,
]


@pytest.fixture(scope="module")
def schema(tmp_path_factory):
    folder = tmp_path_factory.mktemp("index") / "uses"
    index = indices.build(MODEL, [servers.BANK, servers.LOAN, ["über", "日本", "bank"]], folder)
    made = app(MODEL, index=index)
    with servers.served(made) as (address, _):
        yield schemathesis.openapi.from_url(f"{address}openapi.json")


@pytest.mark.parametrize(("path", "method"), ROUTES)
def test_every_answer_is_as_the_openapi_says(path, method, schema):
    @hypothesis.given(schema[path][method].as_strategy())
    @hypothesis.settings(max_examples=EXAMPLES, derandomize=True, database=None, deadline=None)
    def asked(case):
        case.call_and_validate(checks=CHECKS)

    asked()


def test_every_request_body_has_an_example_that_is_answered():
    made = app(MODEL)
    bodies = made.openapi()["components"]["schemas"]
    requests = {name: body for name, body in bodies.items() if name.endswith("Request")}
    assert len(requests) == 9
    assert all(body.get("examples") for body in requests.values())
    with servers.asked(MODEL) as client:
        for route in ("tokenize", "embed", "similarity", "guess"):
            for example in requests[f"{route.capitalize()}Request"]["examples"]:
                assert client.post(f"/v1/{route}", json=example).status_code == 200


def test_every_operation_has_an_example():
    schema = app(MODEL).openapi()
    for operation in (operation for methods in schema["paths"].values() for operation in methods.values()):
        status = next(iter(operation["responses"]))
        content = operation["responses"][status].get("content", {})
        assert status == "204" or any(_examples(part, schema) for part in content.values()), operation["operationId"]
        assert all(parameter["schema"].get("examples") for parameter in operation.get("parameters", ()))


def _examples(part, schema):
    """Of a media type: its own, or those of the schema that it names."""
    inner = part["schema"].get("items", part["schema"])
    named = schema["components"]["schemas"].get(inner.get("$ref", "").rpartition("/")[2], {})
    return part.get("example") or part.get("examples") or named.get("examples")


def test_bounds_are_those_of_the_server():
    schema = app(MODEL, ServeSettings(answers=7, sentences=3, sentence_tokens=20)).openapi()
    bodies = schema["components"]["schemas"]
    assert bodies["GuessRequest"]["properties"]["k"]["maximum"] == 7
    assert bodies["GuessRequest"]["properties"]["position"]["maximum"] == 19
    assert bodies["EmbedRequest"]["properties"]["layer"]["anyOf"][1]["maximum"] == 2
    assert bodies["EmbedRequest"]["properties"]["sentences"]["anyOf"][0]["maxItems"] == 3
    assert bodies["Mix"]["properties"]["weights"]["minItems"] == 3
    limit = schema["paths"]["/v1/words"]["get"]["parameters"][1]
    assert (limit["name"], limit["schema"]["maximum"]) == ("limit", 7)


def test_a_required_token_is_a_security_scheme():
    secured = app(MODEL, token="x" * 16).openapi()
    assert secured["components"]["securitySchemes"]["token"] == {"type": "http", "scheme": "bearer"}
    assert secured["paths"]["/v1/embed"]["post"]["security"] == [{"token": []}]
    assert "security" not in secured["paths"]["/health"]["get"]
    assert "securitySchemes" not in app(MODEL).openapi()["components"]


def test_the_description_is_served_as_a_page_of_local_files():
    with servers.asked(MODEL) as client:
        page = client.get("/docs")
        assert page.status_code == 200
        links = re.findall(r'(?:src|href|spec-url)="([^"]+)"', page.text)
        assert links
        assert all(client.get(f"/{link}").status_code == 200 for link in links)
        assert client.get("/redoc").status_code == 404
