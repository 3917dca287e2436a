"""The OpenAPI document keeps its word: generated requests get only what it declares, never a 500."""

import pytest
from hypothesis import HealthCheck, given, settings

from .conftest import LOCAL, encoded_image

schemathesis = pytest.importorskip("schemathesis", reason="schemathesis is absent")


@pytest.fixture(scope="module")
def api(desk):
    from starlette.testclient import TestClient

    from lookalike.serve.app import create_app
    from lookalike.serve.settings import ServeSettings
    from lookalike.serve.store import Store

    store = Store.open(desk / "index", "cpu")
    with TestClient(create_app(store, ServeSettings()), base_url=LOCAL) as client:
        yield schemathesis.openapi.from_dict(client.get("/openapi.json").json()), client
    store.close()


OPERATIONS = [
    ("/api/search", "post"),
    ("/api/search", "get"),
    ("/api/items", "get"),
    ("/api/items/{id}", "get"),
    ("/api/items/{id}/image", "get"),
    ("/api/health", "get"),
    ("/api/model", "get"),
]


def test_every_operation_is_tried(api):
    document, _ = api
    known = [(path, method) for path, methods in document.raw_schema["paths"].items() for method in methods]
    assert sorted(known) == sorted(OPERATIONS)


@pytest.mark.parametrize(("path", "method"), OPERATIONS)
@pytest.mark.filterwarnings("ignore")
def test_generated_requests_get_declared_answers(api, path, method):
    document, client = api
    operation = document[path][method.upper()]
    declared = document.raw_schema["paths"][path][method]["responses"]
    valid = encoded_image(3)

    @settings(
        max_examples=25,
        deadline=None,
        database=None,
        derandomize=True,
        suppress_health_check=list(HealthCheck),
    )
    @given(case=operation.as_strategy())
    def check(case):
        arguments = case.as_transport_kwargs(base_url=LOCAL)
        for content in (None, valid, valid[:100] + b"\xff" + valid[101:]) if method == "post" else (None,):
            if content is not None:
                arguments = {k: v for k, v in arguments.items() if k not in ("data", "files", "json")} | {
                    "content": content
                }
                arguments["headers"] = {"content-type": "image/png"}
            arguments.pop("cookies", None)
            if arguments.get("files"):  # generated files may be numbers, which the client cannot send
                arguments["files"] = [("file", str(arguments["files"]).encode())]
            response = client.request(**arguments)
            assert str(response.status_code) in declared, (response.status_code, arguments, response.text)
            kind = response.headers["content-type"]
            expected = declared[str(response.status_code)]["content"]
            assert kind.split(";")[0] in expected, kind

    check()
