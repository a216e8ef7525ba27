"""The comparison of the double's schema with a published OpenAPI document finds what changed."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from lambda_schema import (
    ANSWERS,
    CALLS,
    INSTANCE,
    REQUESTS,
    differences,
    wrong_answer,
    wrong_request,
)


@pytest.fixture
def document() -> dict[str, Any]:
    """Return an OpenAPI document that agrees with the schema, with a reference like the real
    one's.
    """
    paths: dict[str, Any] = {}
    for call, (path, method) in CALLS.items():
        data = (
            copy.deepcopy(ANSWERS[call])
            if call != "list"
            else {"type": "array", "items": {"$ref": "#/components/schemas/Instance"}}
        )
        answer = {"content": {"application/json": {"schema": {"properties": {"data": data}}}}}
        said: dict[str, Any] = {"responses": {"200": answer}}
        if call in REQUESTS:
            said["requestBody"] = {
                "content": {"application/json": {"schema": copy.deepcopy(REQUESTS[call])}}
            }
        paths.setdefault(path, {})[method] = said
    return {"paths": paths, "components": {"schemas": {"Instance": copy.deepcopy(INSTANCE)}}}


def body(document: dict[str, Any], call: str) -> dict[str, Any]:
    path, method = CALLS[call]
    found: dict[str, Any] = document["paths"][path][method]["requestBody"]["content"][
        "application/json"
    ]["schema"]
    return found


def test_same_is_the_same(document: dict[str, Any]) -> None:
    assert differences(document) == []


def test_a_new_demand_a_lost_field_and_another_limit_are_found(document: dict[str, Any]) -> None:
    launch = body(document, "launch")
    launch["required"].append("firewall_rulesets")
    del launch["properties"]["user_data"]
    launch["properties"]["name"]["maxLength"] = 32
    launch["properties"]["tags"]["items"]["properties"]["key"]["pattern"] = "^[a-z]+$"
    assert differences(document) == [
        "request launch/firewall_rulesets: required there only",
        "request launch/user_data: not there",
        "request launch/name: maxLength is 32, here 64",
        "request launch/tags/*/key: pattern is '^[a-z]+$', here '^[a-z][a-z0-9-:]+$'",
    ]


def test_new_fields_and_states_of_answers_are_found_behind_references(
    document: dict[str, Any],
) -> None:
    instance = document["components"]["schemas"]["Instance"]
    instance["properties"]["power"] = {"type": "string"}
    instance["properties"]["status"]["enum"].append("stopped")
    instance["required"].remove("region")
    found = differences(document)
    assert "answer list/*/region: required here only" in found
    assert "answer list/*/power: new" in found
    assert any(line.startswith("answer list/*/status: enum is") for line in found)


def test_a_call_that_is_gone_is_found(document: dict[str, Any]) -> None:
    del document["paths"]["/api/v1/firewall-rules"]
    assert differences(document) == ["firewall: there is no GET /api/v1/firewall-rules"]


def test_wrong_requests_and_answers_are_named_by_their_place_without_their_words() -> None:
    wrong = wrong_request(
        "launch",
        {
            "region_name": 7,
            "instance_type_name": "x",
            "ssh_key_names": [],
            "user_data": "secret",
            "quantity": 1,
        },
    )
    assert {line.partition(":")[0] for line in wrong} == {"(all)", "region_name", "ssh_key_names"}
    assert "secret" not in str(wrong)
    assert wrong_request("list", {"a": 1}) == ["list takes no body"]
    assert wrong_answer("launch", 200, {"data": {"instance_ids": [7]}}) == [
        "data/instance_ids/0: type is not kept"
    ]
    assert wrong_answer("launch", 400, {"error": {"code": "x"}}) == ["error: required is not kept"]
