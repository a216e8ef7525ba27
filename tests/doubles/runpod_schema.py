"""The part of RunPod's REST API v2 that nbprov speaks, as JSON schemas in words of our own.

Transcribed in part, 2026-11, from `api-reference-v2/openapi.json` 2.0.0 of github.com/runpod/docs
(which has no licence, so the document itself is not here), in its form of 2026-09 with paged lists,
`entrypoint`/`cmd` and secrets. Two departures, both seen in recorded answers of 2026-08: a GPU
pod's `vcpuCount` and `memory` may be missing, and a pod that was started without its GPU has a
`count` of 0.
"""

from __future__ import annotations

import re
from typing import Any

from schema_library import Draft202012Validator

ARRAY_OF_WORDS: dict[str, Any] = {"type": "array", "items": {"type": "string"}}
OR_NULL = ["string", "null"]
STATUSES = ["PROVISIONING", "STARTING", "RUNNING", "EXITED", "ERROR", "TERMINATED"]
ACTIONS = ["start", "stop", "restart", "terminate"]
LEVEL = {"enum": ["NONE", "LOW", "MEDIUM", "HIGH"]}


def an_object(
    properties: dict[str, Any], *, required: str = "", closed: bool = False
) -> dict[str, Any]:
    made: dict[str, Any] = {
        "type": "object",
        "properties": properties,
        "required": required.split(),
    }
    return {**made, "additionalProperties": False} if closed else made


def paged(name: str, item: dict[str, Any]) -> dict[str, Any]:
    page = an_object(
        {"nextCursor": {"type": OR_NULL}, "hasNextPage": {"type": "boolean"}},
        required="nextCursor hasNextPage",
    )
    return an_object(
        {name: {"type": "array", "items": item}, "pagination": page}, required=f"{name} pagination"
    )


MOUNTS = an_object(
    {
        "persistent": an_object(
            {"size": {"type": "integer", "minimum": 10}, "path": {"type": "string"}},
            required="size path",
            closed=True,
        ),
        "network": {
            "type": "array",
            "maxItems": 1,
            "items": an_object(
                {"volumeId": {"type": "string"}, "path": {"type": "string"}},
                required="volumeId path",
                closed=True,
            ),
        },
    },
    closed=True,
)
CONTAINER: dict[str, Any] = {
    "args": {"type": "string"},
    "cmd": ARRAY_OF_WORDS,
    "entrypoint": ARRAY_OF_WORDS,
    "disk": {"type": "integer", "minimum": 1},
    "env": {"type": "object", "additionalProperties": {"type": "string"}},
    "image": {"type": "string"},
    "ports": ARRAY_OF_WORDS,
    "registry": {"type": OR_NULL},
}
CUDA = {"type": "string", "pattern": r"^\d+\.\d+$"}
CREATE_POD = an_object(
    {
        **CONTAINER,
        "name": {"type": "string", "minLength": 1},
        "cloud": {"enum": ["SECURE", "COMMUNITY"]},
        "cpu": an_object(
            {
                "id": {"type": "string", "minLength": 1},
                "vcpuCount": {"type": "integer", "minimum": 2},
            },
            required="id vcpuCount",
            closed=True,
        ),
        "dataCenterIds": ARRAY_OF_WORDS,
        "globalNetworking": {"type": "boolean"},
        "gpu": an_object(
            {
                "id": {"type": "string"},
                "count": {"type": "integer", "minimum": 1},
                "allowedCudaVersions": {"type": "array", "items": CUDA},
                "minCudaVersion": CUDA,
                "minRamPerGpu": {"type": "integer", "minimum": 1},
                "minVcpuCountPerGpu": {"type": "integer", "minimum": 1},
            },
            required="id",
            closed=True,
        ),
        "mounts": MOUNTS,
        "startJupyter": {"type": "boolean"},
        "startSsh": {"type": "boolean"},
        "templateId": {"type": "string", "minLength": 1},
    },
    required="name image",
    closed=True,
)
SSH_END = {
    "anyOf": [
        {"type": "null"},
        an_object(
            {
                "host": {"type": "string"},
                "port": {"type": "integer"},
                "username": {"type": "string"},
                "command": {"type": "string"},
            },
            required="host port username command",
        ),
    ]
}
RUNTIME_PORT = an_object(
    {
        "private": {"type": "integer"},
        "public": {"type": ["integer", "null"]},
        "type": {"type": "string"},
        "ip": {"type": OR_NULL},
    }
)
POD = an_object(
    {
        **CONTAINER,
        "id": {"type": "string"},
        "name": {"type": "string"},
        "status": {"enum": STATUSES},
        "actions": {"type": "array", "items": {"enum": ACTIONS}},
        "mounts": MOUNTS,
        "gpu": an_object(
            {"id": {"type": "string"}, "count": {"type": "integer", "minimum": 0}},
            required="id count",
        ),
        "cpu": an_object(
            {
                "id": {"type": "string"},
                "vcpuCount": {"type": "integer"},
                "memory": {"type": "integer"},
            },
            required="id vcpuCount memory",
        ),
        "cloud": {"enum": ["SECURE", "COMMUNITY"]},
        "dataCenterId": {"type": OR_NULL},
        "cudaVersion": {"type": OR_NULL},
        "ssh": an_object({"proxy": SSH_END, "direct": SSH_END}, required="proxy direct"),
        "template": {"type": OR_NULL},
        "cost": {"type": "number"},
        "locked": {"type": "boolean"},
        "globalNetworking": an_object({"enabled": {"type": "boolean"}}, required="enabled"),
        "runtime": {
            "anyOf": [
                {"type": "null"},
                an_object(
                    {
                        "uptime": {"type": "integer"},
                        "ports": {"type": "array", "items": RUNTIME_PORT},
                    }
                ),
            ]
        },
        "createdAt": {"type": "string"},
        "startedAt": {"type": OR_NULL},
    },
    required="id name status actions image args disk mounts ports env registry cloud "
    "dataCenterId cudaVersion ssh template cost locked runtime"
    " createdAt startedAt globalNetworking",
)
AVAILABLE = an_object(
    {"id": {"type": "string"}, "name": {"type": "string"}, "availability": LEVEL},
    required="id name availability",
)
PER_CLOUD = {"type": "object", "required": ["secure", "community"]}
GPU_TYPE = an_object(
    {
        "id": {"type": "string"},
        "name": {"type": "string"},
        "pool": {"type": OR_NULL},
        "manufacturer": {"enum": ["NVIDIA", "AMD", "UNKNOWN"]},
        "memory": {"type": "integer"},
        "secure": {"type": "boolean"},
        "community": {"type": "boolean"},
        "price": {**PER_CLOUD, "additionalProperties": {"type": "number"}},
        "maxCount": {**PER_CLOUD, "additionalProperties": {"type": "integer"}},
        "availability": LEVEL,
        "dataCenters": {"type": "array", "items": AVAILABLE},
    },
    required="id name pool manufacturer memory secure community price maxCount",
)
CPU_TYPE = an_object(
    {
        "id": {"type": "string"},
        "name": {"type": "string"},
        "group": {"type": "string"},
        "vcpu": an_object(
            {"min": {"type": "integer"}, "max": {"type": "integer"}}, required="min max"
        ),
        "ramGbPerVcpu": {"type": "number"},
        "price": an_object(
            {"securePerVcpu": {"type": "number"}, "serverlessPerVcpu": {"type": "number"}},
            required="securePerVcpu serverlessPerVcpu",
        ),
        "availability": LEVEL,
        "dataCenters": {"type": "array", "items": AVAILABLE},
    },
    required="id name group vcpu ramGbPerVcpu price",
)
CENTRE = an_object(
    {
        "id": {"type": "string"},
        "name": {"type": "string"},
        "region": {"type": "string"},
        "networkVolumeTypes": ARRAY_OF_WORDS,
        "compliance": ARRAY_OF_WORDS,
        "globalNetwork": {"type": "boolean"},
        "gpuAvailability": {"type": "array", "items": AVAILABLE},
        "cpuAvailability": {"type": "array", "items": AVAILABLE},
    },
    required="id name region networkVolumeTypes compliance globalNetwork",
)
SECRET = an_object(
    {
        "id": {"type": "string"},
        "name": {"type": "string"},
        "description": {"type": OR_NULL},
        "createdAt": {"type": "string"},
    },
    required="id name createdAt",
    closed=True,
)
CREATE_SECRET = an_object(
    {
        "name": {
            "type": "string",
            "minLength": 1,
            "maxLength": 191,
            "pattern": r"^[a-zA-Z_][a-zA-Z0-9_.\-/]*$",
        },
        "value": {"type": "string", "minLength": 1, "maxLength": 16777216},
        "description": {"type": "string", "maxLength": 65535},
    },
    required="name value",
    closed=True,
)
PROBLEM = an_object(
    {
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string"},
        "errors": ARRAY_OF_WORDS,
    },
    required="title status detail",
)

PAGE = frozenset({"cursor", "limit"})
AVAILABILITY = frozenset(
    {"include", "product", "count", "cloud", "countryCodes", "cudaVersions", "minCudaVersion"}
)

# operation: method, path, parameters, body, answers by status
OPERATIONS: dict[
    str, tuple[str, str, frozenset[str], dict[str, Any] | None, dict[int, dict[str, Any] | None]]
] = {
    "listSecrets": ("GET", "/v2/account/secrets", PAGE, None, {200: paged("secrets", SECRET)}),
    "createSecret": ("POST", "/v2/account/secrets", frozenset(), CREATE_SECRET, {201: SECRET}),
    "deleteSecret": ("DELETE", "/v2/account/secrets/{id}", frozenset(), None, {204: None}),
    "listPods": ("GET", "/v2/pods", PAGE | {"includeClusterPods"}, None, {200: paged("pods", POD)}),
    "createPod": ("POST", "/v2/pods", frozenset(), CREATE_POD, {201: POD}),
    "getPod": ("GET", "/v2/pods/{id}", frozenset(), None, {200: POD}),
    "deletePod": ("DELETE", "/v2/pods/{id}", frozenset(), None, {204: None}),
    "getPodLogs": (
        "GET",
        "/v2/pods/{id}/logs",
        frozenset({"source", "tail", "since"}),
        None,
        {200: None},
    ),
    "podAction": (
        "POST",
        "/v2/pods/{id}/action",
        frozenset(),
        an_object({"action": {"enum": ACTIONS}}, required="action", closed=True),
        {200: POD, 204: None},
    ),
    "listGpuTypes": (
        "GET",
        "/v2/catalog/gpus",
        PAGE | AVAILABILITY,
        None,
        {200: paged("gpus", GPU_TYPE)},
    ),
    "listCpuTypes": (
        "GET",
        "/v2/catalog/cpus",
        PAGE | {"include", "product", "vcpuCount"},
        None,
        {200: paged("cpus", CPU_TYPE)},
    ),
    "listDataCenters": (
        "GET",
        "/v2/catalog/datacenters",
        PAGE | {"include", "regions"},
        None,
        {200: paged("dataCenters", CENTRE)},
    ),
}
_PATHS = {
    name: re.compile(path.replace("{id}", "([^/]+)"))
    for name, (_, path, *_rest) in OPERATIONS.items()
}


def operation_of(method: str, path: str) -> tuple[str, str]:
    """Return the operation of a request, and the id in its path; empty if there is none."""
    for name, pattern in _PATHS.items():
        found = pattern.fullmatch(path)
        if found and OPERATIONS[name][0] == method:
            return name, found[1] if found.groups() else ""
    return "", ""


def faults_of(schema: dict[str, Any], document: Any) -> list[str]:
    """Return the violations of a schema in a document, one line each in RunPod's form."""
    found = sorted(
        Draft202012Validator(schema).iter_errors(document),
        key=lambda error: list(map(str, error.path)),
    )
    return [f"$.{'.'.join(map(str, error.path))}: {error.message}"[:300] for error in found]


def request_faults(operation: str, params: dict[str, str], body: Any) -> list[str]:
    """Return the violations in a request."""
    _, _, known, schema, _ = OPERATIONS[operation]
    found = [f"?{name}: unknown query parameter" for name in sorted(set(params) - known)]
    if {"product", "count", "vcpuCount"} & set(params) and params.get("include") != "AVAILABILITY":
        found.append("?product, ?count and ?vcpuCount are valid only with include=AVAILABILITY")
    if params.get("include") == "AVAILABILITY" and "product" not in params:
        found.append("?product is required with include=AVAILABILITY")
    return found + (faults_of(schema, body) if schema is not None else [])


def answer_faults(operation: str, status: int, body: Any) -> list[str]:
    """Return the violations in an answer."""
    if status >= 400:
        return faults_of(PROBLEM, body)
    answers = OPERATIONS[operation][4]
    if status not in answers:
        return [f"{operation} never answers {status}"]
    schema = answers[status]
    return [] if schema is None else faults_of(schema, body)
