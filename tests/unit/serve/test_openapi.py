"""Whatever the OpenAPI allows, and much that it does not, is answered as it says: never with a 5xx."""

import hypothesis
import pytest
import schemathesis
import tiny
from schemathesis import checks
from schemathesis.specs.openapi import checks as specs
from unit.serve import houses

from stelmo.explore import index as indices
from stelmo.serve.app import app

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
    index = indices.build(MODEL, [houses.BANK, houses.LOAN, ["über", "日本", "bank"]], folder)
    made = app(MODEL, index=index)
    with houses.served(made) as (address, _):
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
    assert len(requests) == 6
    assert all(body.get("examples") for body in requests.values())
    with houses.asked(MODEL) as client:
        for route in ("tokenize", "embed", "similarity", "guess"):
            for example in requests[f"{route.capitalize()}Request"]["examples"]:
                assert client.post(f"/v1/{route}", json=example).status_code == 200


def test_no_page_of_the_service_loads_from_elsewhere():
    with houses.asked(MODEL) as client:
        assert [client.get(path).status_code for path in ("/docs", "/redoc")] == [404, 404]
