"""`make verify-doubles` finds differences from a published document, and reports missing ones."""

from __future__ import annotations

import copy
import json
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "doubles"))

import runpod_schema
import verify_published


def published() -> dict[str, Any]:
    """Return a document that agrees with the transcription, in the forms of RunPod's own.

    These are references, parts, and null as another form.
    """
    pod = copy.deepcopy(runpod_schema.POD)
    container = {name: pod["properties"].pop(name) for name in runpod_schema.CONTAINER}
    runtime = pod["properties"].pop("runtime")
    schemas = {
        "Container": {"type": "object", "properties": container},
        "Runtime": runtime["anyOf"][1],
        "Pod": {"allOf": [{"$ref": "#/components/schemas/Container"}, pod]},
    }
    pod["properties"]["runtime"] = {
        "anyOf": [{"$ref": "#/components/schemas/Runtime"}, {"type": "null"}]
    }
    document: dict[str, Any] = {"components": {"schemas": schemas, "parameters": {}}, "paths": {}}
    for method, path, params, body, answers in runpod_schema.OPERATIONS.values():
        for name in params:
            document["components"]["parameters"][name] = {
                "name": name,
                "in": "query",
                "schema": {"type": "string"},
            }
        said: dict[str, Any] = {
            "parameters": [{"$ref": f"#/components/parameters/{name}"} for name in sorted(params)],
            "responses": {},
        }
        for status, schema in answers.items():
            shown = (
                {"$ref": "#/components/schemas/Pod"}
                if schema is runpod_schema.POD
                else copy.deepcopy(schema)
            )
            said["responses"][str(status)] = (
                {"content": {"application/json": {"schema": shown}}}
                if shown
                else {"description": "empty"}
            )
        if body is not None:
            said["requestBody"] = {"content": {"application/json": {"schema": copy.deepcopy(body)}}}
        document["paths"].setdefault(path, {})[method.lower()] = said
    return document


def answer_of(document: dict[str, Any], path: str, method: str, status: str) -> Any:
    return document["paths"][path][method]["responses"][status]["content"]["application/json"][
        "schema"
    ]


def test_the_same_is_the_same() -> None:
    assert verify_published.differences(published()) == []


def test_a_call_that_is_gone_is_named() -> None:
    document = published()
    del document["paths"]["/v2/pods/{id}/action"]
    assert verify_published.differences(document) == [
        "podAction: there is no POST /v2/pods/{id}/action"
    ]


def test_what_a_request_has_to_have_now_is_named() -> None:
    document = published()
    body = document["paths"]["/v2/pods"]["post"]["requestBody"]["content"]["application/json"][
        "schema"
    ]
    body["required"].append("billing")
    del body["properties"]["args"]
    body["properties"]["cloud"] = {"enum": ["SECURE"]}
    document["paths"]["/v2/catalog/gpus"]["get"]["parameters"] += [
        {"name": "region", "in": "query", "required": True}
    ]
    assert set(verify_published.differences(document)) == {
        "createPod, request/billing: required there only",
        "createPod, request/args: not there",
        "createPod, request/cloud: COMMUNITY is not there",
        "listGpuTypes: ?region is required",
    }


def test_what_an_answer_no_longer_promises_or_newly_says_is_named() -> None:
    document = published()
    pod = document["components"]["schemas"]["Pod"]["allOf"][1]
    pod["required"].remove("ssh")
    pod["properties"]["status"] = {"enum": [*runpod_schema.STATUSES, "FROZEN"]}
    document["components"]["schemas"]["Runtime"]["properties"]["uptime"] = {
        "type": ["integer", "null"]
    }
    del document["paths"]["/v2/pods"]["post"]["responses"]["201"]
    told = verify_published.differences(document)
    assert "createPod: never answers 201" in told
    for line in (
        "/ssh: required here only",
        "/status: FROZEN is new",
        "/runtime/uptime: may be null",
    ):
        assert {
            f"getPod, answer{line}",
            f"podAction, answer{line}",
            f"listPods, answer/pods/*{line}",
        } & set(told), line
        assert f"getPod, answer{line}" in told


@contextmanager
def served(*answers: tuple[int, bytes]) -> Iterator[list[str]]:
    """Yield addresses on loopback, one for each answer."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, content = answers[int(self.path.strip("/"))]
            self.send_response(status)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *arguments: Any) -> None:
            """Says nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield [f"http://127.0.0.1:{server.server_port}/{number}" for number in range(len(answers))]
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def run(*addresses: str) -> int:
    return verify_published.main(
        tuple(("runpod", address, verify_published.differences) for address in addresses)
    )


def test_the_status_tells_whether_anything_differs(capsys: pytest.CaptureFixture[str]) -> None:
    changed = published()
    del changed["paths"]["/v2/pods"]["get"]
    odd: dict[str, Any] = {"paths": {"/v2/pods": {"post": {}}}}
    with served(
        (200, json.dumps(published()).encode()),
        (200, json.dumps(changed).encode()),
        (200, json.dumps(odd).encode()),
    ) as addresses:
        assert run(addresses[0]) == 0
        assert capsys.readouterr().out == "runpod: as published\n"
        assert run(*addresses[:2]) == 1
        assert "runpod: listPods: there is no GET /v2/pods" in capsys.readouterr().out
        assert run(addresses[2]) == 1
        assert "cannot be followed" in capsys.readouterr().out


@pytest.mark.parametrize(("ci", "status"), [("", 0), ("true", 1)])
def test_a_document_that_cannot_be_had_is_said(
    ci: str, status: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CI", ci)
    with served((200, b"<html>a gateway</html>"), (503, b"{}")) as addresses:
        assert run(*addresses) == status
    # The server is gone: nobody listens there.
    assert run(addresses[0]) == status
    assert capsys.readouterr().out.count("not compared") == 3


def test_both_are_compared() -> None:
    assert [cloud for cloud, _, _ in verify_published.SOURCES] == ["runpod", "lambda"]
    assert all(address.startswith("https://") for _, address, _ in verify_published.SOURCES)
