"""The server keeps to its own OpenAPI document, whatever it is asked."""

import re

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, settings
from schemathesis import checks
from starlette.testclient import TestClient

from accord.serving.access_log import Log
from accord.serving.app import create_app
from accord.serving.metrics_text import Meter
from accord.serving.settings import ServeSettings
from serving_fakes import Lines, opened

APP = create_app(opened(), ServeSettings(batch_delay=0), log=Log(Meter(), Lines()))


async def started(scope, receive, send):
    """The application; it is started once below, not for every request."""
    if scope["type"] == "http":
        await APP(scope, receive, send)
        return
    for event in ("startup", "shutdown"):
        await receive()
        await send({"type": f"lifespan.{event}.complete"})


@pytest.fixture(scope="module", autouse=True)
def _start():
    with TestClient(APP):
        yield


schema = schemathesis.openapi.from_asgi("/openapi.json", started)


@schema.parametrize()
@settings(
    max_examples=15,
    derandomize=True,
    deadline=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)
def test_answers_are_as_documented(case):
    case.call_and_validate(
        checks=[
            checks.not_a_server_error,
            checks.status_code_conformance,
            checks.content_type_conformance,
            checks.response_schema_conformance,
        ]
    )


def test_the_document_names_every_field_and_every_refusal():
    document = APP.openapi()
    translate = document["paths"]["/translate"]["post"]
    body = translate["requestBody"]["content"]
    forms = {"application/x-www-form-urlencoded", "multipart/form-data"}
    assert set(body) == {"application/json"} | forms
    fields = body["application/json"]["schema"]["properties"]
    assert {"q", "source", "target", "alternatives", "via", "beam", "details"} <= set(fields)
    assert fields["target"]["enum"] == ["en", "de", "fr", "es"]
    assert all(field.get("description") for field in fields.values())
    statuses = {"200", "400", "403", "408", "413", "429", "500", "503", "504"}
    assert set(translate["responses"]) == statuses
    for status in statuses - {"200"}:
        content = translate["responses"][status]["content"]["application/json"]
        assert content["schema"]["$ref"].endswith("/Problem")
    assert not any(
        "422" in way["responses"] for x in document["paths"].values() for way in x.values()
    )


def test_no_page_that_loads_scripts_from_elsewhere():
    assert "/redoc" not in {route.path for route in APP.routes}
    page = TestClient(APP).get("/docs")
    assert page.status_code == 200
    assert re.findall(r'(?:src|href)="([^"]*)"', page.text) == [
        "/favicon.svg",
        "/reference.css",
        "/openapi.json",
        "/",
    ]
    assert "<script" not in page.text
    document = APP.openapi()
    for path in document["paths"]:
        assert f" {path}</code>" in page.text
    assert TestClient(APP).get("/spec").json() == document
