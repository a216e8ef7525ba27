"""JSON schemas of Lambda's API as far as nbprov uses it, for every request and answer of the
double.

Transcribed by hand, 2026-11-22, from the OpenAPI document 1.10.0 that cloud.lambda.ai publishes
(Instances, SSH keys, Firewalls), in the copy of github.com/api-evangelist/lambda-labs, `openapi/`.
Requests of the document allow unknown fields; here they are refused, so that misspelt ones are
found.

    python tests/doubles/lambda_schema.py    # with internet: differences from the published one
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

from schema_library import Draft202012Validator

TEXT: dict[str, Any] = {"type": "string"}
WHOLE: dict[str, Any] = {"type": "integer"}


def record(required: dict[str, Any], optional: dict[str, Any] | None = None) -> dict[str, Any]:
    """An object with these properties and no others."""
    properties = {**required, **(optional or {})}
    return {
        "type": "object",
        "required": [*required],
        "properties": properties,
        "additionalProperties": False,
    }


def listed(items: dict[str, Any], **more: Any) -> dict[str, Any]:
    """An array of these."""
    return {"type": "array", "items": items, **more}


REGION = record({"name": TEXT, "description": TEXT})
SPECS = record({"vcpus": WHOLE, "memory_gib": WHOLE, "storage_gib": WHOLE, "gpus": WHOLE})
INSTANCE_TYPE = record(
    {
        "name": TEXT,
        "description": TEXT,
        "gpu_description": TEXT,
        "price_cents_per_hour": WHOLE,
        "specs": SPECS,
    }
)
ACTION = record(
    {"available": {"type": "boolean"}}, {"reason_code": TEXT, "reason_description": TEXT}
)
ACTIONS = record(
    dict.fromkeys(("migrate", "rebuild", "restart", "cold_reboot", "terminate"), ACTION)
)
TAG = record({"key": TEXT, "value": TEXT})
INSTANCE = record(
    {
        "id": TEXT,
        "status": {
            "enum": ["booting", "active", "unhealthy", "terminated", "terminating", "preempted"]
        },
        "ssh_key_names": listed(TEXT),
        "file_system_names": listed(TEXT),
        "region": REGION,
        "instance_type": INSTANCE_TYPE,
        "actions": ACTIONS,
    },
    {
        "name": {"type": "string", "maxLength": 64},
        "ip": TEXT,
        "private_ip": TEXT,
        "hostname": TEXT,
        "jupyter_token": TEXT,
        "jupyter_url": TEXT,
        "is_reserved": {"type": "boolean"},
        "tags": listed(TAG),
        "firewall_rulesets": listed(record({"id": TEXT})),
    },
)
SSH_KEY = record(
    {
        "id": TEXT,
        "name": {"type": "string", "minLength": 1, "maxLength": 64},
        "public_key": {"type": "string", "minLength": 1},
    }
)
PORT = {"type": "integer", "minimum": 1, "maximum": 65535}
RULE = record(
    {
        "protocol": {"enum": ["tcp", "udp", "icmp", "all"]},
        "source_network": TEXT,
        "description": {"type": "string", "maxLength": 128},
    },
    {"port_range": listed(PORT, minItems=2, maxItems=2)},
)
ERROR = record({"error": record({"code": TEXT, "message": TEXT}, {"suggestion": TEXT})})

LAUNCH = record(
    {
        "region_name": TEXT,
        "instance_type_name": TEXT,
        "ssh_key_names": listed(TEXT, minItems=1, maxItems=1),
    },
    {
        "name": {"type": "string", "maxLength": 64},
        "hostname": {"type": "string", "pattern": "^[a-z0-9][0-9a-z-]{0,62}$"},
        "image": {"anyOf": [record({"id": TEXT}), record({"family": TEXT})]},
        "user_data": {"type": "string", "maxLength": 1 << 20},
        "tags": listed(
            record(
                {
                    "key": {"type": "string", "maxLength": 55, "pattern": "^[a-z][a-z0-9-:]+$"},
                    "value": {"type": "string", "maxLength": 128},
                }
            )
        ),
        "file_system_names": listed(TEXT),
        "firewall_rulesets": listed(record({"id": TEXT})),
    },
)

REQUESTS: dict[str, dict[str, Any]] = {
    "launch": LAUNCH,
    "terminate": record({"instance_ids": listed(TEXT)}),
    "add_key": record(
        {"name": {"type": "string", "minLength": 1, "maxLength": 64}},
        {"public_key": {"type": "string", "maxLength": 4096}},
    ),
}
"""The body of each call that has one."""

ANSWERS: dict[str, dict[str, Any]] = {
    "types": {
        "type": "object",
        "additionalProperties": record(
            {"instance_type": INSTANCE_TYPE, "regions_with_capacity_available": listed(REGION)}
        ),
    },
    "list": listed(INSTANCE),
    "launch": record({"instance_ids": listed(TEXT)}),
    "terminate": record({"terminated_instances": listed(INSTANCE)}),
    "keys": listed(SSH_KEY),
    "add_key": SSH_KEY,
    "delete_key": {"type": "object"},
    "firewall": listed(RULE),
}
"""The `data` of each call's good answer."""

_REQUESTS = {call: Draft202012Validator(schema) for call, schema in REQUESTS.items()}
_ANSWERS = {
    call: Draft202012Validator(record({"data": schema})) for call, schema in ANSWERS.items()
}
_ERROR = Draft202012Validator(ERROR)


def wrong_request(call: str, body: Any) -> list[str]:
    """What in a request is not as documented."""
    if call not in _REQUESTS:
        return [] if body is None else [f"{call} takes no body"]
    return _told(_REQUESTS[call], body)


def wrong_answer(call: str, status: int, document: Any) -> list[str]:
    """What in an answer is not as documented."""
    return _told(_ERROR if status >= 400 else _ANSWERS[call], document)


def _told(validator: Draft202012Validator, value: Any) -> list[str]:
    # Without the value, because a start script holds a key.
    return [
        f"{'/'.join(map(str, error.absolute_path)) or '(all)'}: {error.validator} is not kept"
        for error in validator.iter_errors(value)
    ]


# ---------------------------------------------------------------- compared with what is published

PUBLISHED = "https://cloud.lambda.ai/api/v1/openapi.json"
CALLS = {
    "types": ("/api/v1/instance-types", "get"),
    "list": ("/api/v1/instances", "get"),
    "launch": ("/api/v1/instance-operations/launch", "post"),
    "terminate": ("/api/v1/instance-operations/terminate", "post"),
    "keys": ("/api/v1/ssh-keys", "get"),
    "add_key": ("/api/v1/ssh-keys", "post"),
    "delete_key": ("/api/v1/ssh-keys/{id}", "delete"),
    "firewall": ("/api/v1/firewall-rules", "get"),
}
LIMITS = ("type", "enum", "pattern", "maxLength")


def differences(document: dict[str, Any]) -> list[str]:
    """Return the differences between Lambda's OpenAPI document and these schemas, one line each."""
    found: list[str] = []
    for call, (path, method) in CALLS.items():
        said = document.get("paths", {}).get(path, {}).get(method)
        if said is None:
            found.append(f"{call}: there is no {method.upper()} {path}")
            continue
        if call in REQUESTS:
            theirs = said["requestBody"]["content"]["application/json"]["schema"]
            found += [
                f"request {call}{text}"
                for text in _compared(document, REQUESTS[call], theirs, asks=True)
            ]
        answer = said["responses"]["200"]["content"]["application/json"]["schema"]["properties"][
            "data"
        ]
        found += [
            f"answer {call}{text}"
            for text in _compared(document, ANSWERS[call], answer, asks=False)
        ]
    return found


def _compared(
    document: dict[str, Any], ours: dict[str, Any], theirs: dict[str, Any], *, asks: bool
) -> Iterator[str]:
    """Compare a schema with ours.

    In a request, required fields must be sent and sent fields must be known; in an answer, promised
    fields must be known.
    """
    theirs = _resolved(document, theirs)
    for name in LIMITS:
        if (
            name in ours
            and name in theirs
            and ours[name] != theirs[name]
            and not (name == "enum" and {*theirs[name]} <= {*ours[name]})
        ):
            yield f": {name} is {theirs[name]!r}, here {ours[name]!r}"
    mine, published = ours.get("properties", {}), theirs.get("properties", {})
    demanded, promised = {*theirs.get("required", [])}, {*ours.get("required", [])}
    missing = demanded - promised if asks else promised - demanded
    yield from (f"/{name}: required {'there' if asks else 'here'} only" for name in sorted(missing))
    if mine and published:
        unknown = mine.keys() - published.keys() if asks else published.keys() - mine.keys()
        yield from (
            f"/{name}: {'not there' if asks else 'new'}"
            for name in sorted(unknown)
            if name not in UNUSED
        )
    for name in sorted(mine.keys() & published.keys()):
        yield from (
            f"/{name}{text}" for text in _compared(document, mine[name], published[name], asks=asks)
        )
    for name in ("items", "additionalProperties"):
        if isinstance(ours.get(name), dict) and isinstance(theirs.get(name), dict):
            yield from (
                f"/*{text}" for text in _compared(document, ours[name], theirs[name], asks=asks)
            )


UNUSED = frozenset({"file_system_mounts", "private_key"})
"""Left out on purpose: nbprov mounts no file system and does not let Lambda make a key pair."""


def _resolved(document: dict[str, Any], schema: dict[str, Any]) -> dict[str, Any]:
    while "$ref" in schema:
        found: Any = document
        for part in schema["$ref"].removeprefix("#/").split("/"):
            found = found[part]
        schema = found
    # Of the two forms of a key, generated and stored, the last is the stored one.
    return (
        _resolved(document, schema["anyOf"][-1])
        if "anyOf" in schema and "$ref" in schema["anyOf"][-1]
        else schema
    )


if __name__ == "__main__":
    import requests

    answer = requests.get(PUBLISHED, timeout=30)
    answer.raise_for_status()
    told = differences(answer.json())
    print("\n".join(told) or "as published")
    sys.exit(bool(told))
