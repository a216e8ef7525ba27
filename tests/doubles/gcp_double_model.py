"""Google's official model of the Compute API: its routes, and validation against its schemas.

It is the Discovery document in google-api-python-client's wheel.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import unquote

FREE = {
    "alt",
    "$alt",
    "prettyPrint",
    "fields",
    "key",
    "quotaUser",
    "userIp",
    "access_token",
    "oauth_token",
    "callback",
    "uploadType",
    "$.xgafv",
}
"""Parameters that every method takes (the document's own `parameters`)."""
LABEL_KEY = re.compile(r"[a-z][a-z0-9_-]{0,62}", re.ASCII)
LABEL_VALUE = re.compile(r"[a-z0-9_-]{0,63}", re.ASCII)


@dataclass(frozen=True)
class Method:
    """One method of the API: `instances.insert`."""

    name: str
    verb: str
    path: re.Pattern[str]
    parameters: Mapping[str, Any]
    request: str
    response: str
    depth: int


class Model:
    """The document, read once."""

    def __init__(self) -> None:
        spec = find_spec("googleapiclient")
        assert spec is not None, "google-api-python-client is not installed"
        assert spec.submodule_search_locations is not None
        file = (
            Path(spec.submodule_search_locations[0])
            / "discovery_cache"
            / "documents"
            / "compute.v1.json"
        )
        document = json.loads(file.read_text())
        self.revision = str(document["revision"])
        self.schemas: dict[str, Any] = document["schemas"]
        self.prefix = "/" + document["servicePath"].rstrip("/")
        found = [_method(raw) for raw in _methods(document)]
        # `…/instances/bulkInsert` also matches `…/instances/{instance}`; the path with fewer
        # parameters counts.
        self.methods = sorted(found, key=lambda m: m.depth)

    def match(self, verb: str, path: str) -> tuple[Method, dict[str, str]] | None:
        """The method that a request means, with what stands in its path."""
        below = path.removeprefix(self.prefix).lstrip("/")
        for method in self.methods:
            if method.verb == verb and (found := method.path.fullmatch(below)):
                return method, {k: unquote(v) for k, v in found.groupdict().items()}
        return None

    def faults(self, schema: str, value: Any, where: str, method: str = "") -> list[str]:
        """Return what is wrong with a value.

        Unknown names, types, enums, and missing fields in a request of `method`.
        """
        return [*self._faults({"$ref": schema}, value, where, method)]

    def _faults(
        self, schema: Mapping[str, Any], value: Any, where: str, method: str
    ) -> Iterator[str]:
        if "$ref" in schema:
            schema = self.schemas[schema["$ref"]]
        kind = schema.get("type", "object")
        if kind == "object":
            if not isinstance(value, dict):
                yield f"{where}: {_short(value)} is no object"
                return
            yield from self._object_faults(schema, value, where, method)
        elif kind == "array":
            if not isinstance(value, list):
                yield f"{where}: {_short(value)} is no list"
                return
            for number, item in enumerate(value):
                yield from self._faults(schema["items"], item, f"{where}[{number}]", method)
        elif kind == "any":
            return
        else:
            yield from _scalar_faults(schema, value, where)

    def _object_faults(
        self, schema: Mapping[str, Any], value: Mapping[str, Any], where: str, method: str
    ) -> Iterator[str]:
        properties = schema.get("properties", {})
        more = schema.get("additionalProperties")
        for name, item in value.items():
            if name in properties:
                yield from self._faults(properties[name], item, f"{where}.{name}", method)
            elif more is not None:
                yield from self._faults(more, item, f"{where}.{name}", method)
            else:
                yield f"{where}: there is no {name!r}"
        for name, prop in properties.items():
            if (
                method
                and f"compute.{method}" in (prop.get("annotations") or {}).get("required", ())
                and name not in value
            ):
                yield f"{where}: {name} is required"


def _scalar_faults(schema: Mapping[str, Any], value: Any, where: str) -> Iterator[str]:
    kind, form = schema.get("type"), schema.get("format", "")
    fits = {
        "string": isinstance(value, str),
        "integer": isinstance(value, int) and not isinstance(value, bool),
        "number": isinstance(value, (int, float)) and not isinstance(value, bool),
        "boolean": isinstance(value, bool),
    }.get(str(kind), True)
    if not fits:
        yield f"{where}: {_short(value)} is no {kind}"
    elif kind == "string" and form in ("int64", "uint64") and not re.fullmatch(r"-?\d+", value):
        yield f"{where}: {_short(value)} is no {form}"
    elif "enum" in schema and value not in schema["enum"]:
        yield f"{where}: {_short(value)} is none of {schema['enum']}"


def label_faults(labels: Mapping[str, str], where: str) -> list[str]:
    """Return what Google refuses in labels, beyond the schema."""
    found = [
        f"{where}: {key!r} is no name of a label" for key in labels if not LABEL_KEY.fullmatch(key)
    ]
    found += [
        f"{where}: {value!r} is no value of a label"
        for value in labels.values()
        if not LABEL_VALUE.fullmatch(value)
    ]
    return found + ([f"{where}: more than 64 labels"] if len(labels) > 64 else [])


def _short(value: Any) -> str:
    """Return a value for a message; long ones are cut because they may be secret."""
    text = repr(value)
    return text if len(text) < 60 else f"{type(value).__name__} of {len(text)} characters"


def _methods(node: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    yield from node.get("methods", {}).values()
    for inner in node.get("resources", {}).values():
        yield from _methods(inner)


def _method(raw: Mapping[str, Any]) -> Method:
    pattern = re.sub(r"\\\{\\?\+?(\w+)\\\}", r"(?P<\1>[^/]+)", re.escape(raw["path"]))
    return Method(
        name=str(raw["id"]).removeprefix("compute."),
        verb=raw["httpMethod"],
        path=re.compile(pattern),
        parameters=raw.get("parameters", {}),
        request=raw.get("request", {}).get("$ref", ""),
        response=raw.get("response", {}).get("$ref", ""),
        depth=raw["path"].count("{"),
    )


@cache
def model() -> Model:
    """The one model of this process."""
    return Model()
