"""Compares the transcribed schemas of RunPod's and Lambda's APIs with the published documents.

    python tests/doubles/verify_published.py       # `make verify-doubles`

It needs the internet, and no account. It exits with 0 if all agree, and with 1 if something
differs, one line each. A document that cannot be downloaded is reported; this counts as a failure
only with `CI=true`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

import lambda_schema
import runpod_schema

SECONDS = 30.0
RUNPOD = "https://api.runpod.io/v2/openapi.json"
Compare = Callable[[dict[str, Any]], list[str]]


def differences(document: dict[str, Any]) -> list[str]:
    """Return the differences between RunPod's OpenAPI document and runpod_schema.py, one line
    each.
    """
    found: list[str] = []
    for name, (method, path, params, body, answers) in runpod_schema.OPERATIONS.items():
        item = document.get("paths", {}).get(path, {})
        said = item.get(method.lower())
        if said is None:
            found.append(f"{name}: there is no {method} {path}")
            continue
        found += [
            f"{name}: {text}"
            for text in _of_parameters(
                document, params, [*item.get("parameters", []), *said.get("parameters", [])]
            )
        ]
        if body is not None:
            found += [
                f"{name}, request{text}"
                for text in _compared(
                    document, body, _json(document, said["requestBody"]), asks=True
                )
            ]
        for status, ours in answers.items():
            answer = _resolved(document, said["responses"].get(str(status), {}))
            if not answer:
                found.append(f"{name}: never answers {status}")
            elif ours is not None:
                found += [
                    f"{name}, answer{text}"
                    for text in _compared(document, ours, _json(document, answer), asks=False)
                ]
    return found


def _of_parameters(
    document: dict[str, Any], ours: frozenset[str], theirs: list[dict[str, Any]]
) -> Iterator[str]:
    published = {
        p["name"]: p for p in (_resolved(document, one) for one in theirs) if p.get("in") == "query"
    }
    yield from (f"?{name} is not there" for name in sorted(ours - published.keys()))
    yield from (
        f"?{name} is required"
        for name, one in sorted(published.items())
        if one.get("required") and name not in ours
    )


def _compared(
    document: dict[str, Any], ours: Mapping[str, Any], theirs: Mapping[str, Any], *, asks: bool
) -> Iterator[str]:
    """Compare a schema with ours.

    In a request, required fields must be sent and sent fields must be known; in an answer, fields
    that nbprov relies on must be promised, and possible ones must be known.
    """
    mine, published = _flat(document, ours), _flat(document, theirs)
    if (
        mine["enum"]
        and published["enum"]
        and (
            extra := (mine["enum"] - published["enum"])
            if asks
            else (published["enum"] - mine["enum"])
        )
    ):
        yield f": {', '.join(sorted(map(str, extra)))} {'is not there' if asks else 'is new'}"
    if (
        mine["type"]
        and published["type"]
        and (
            odd := (mine["type"] - published["type"])
            if asks
            else (published["type"] - mine["type"])
        )
    ):
        yield f": may {'not ' if asks else ''}be {', '.join(sorted(odd))}"
    yield from (
        f"/{name}: required {'there' if asks else 'here'} only"
        for name in sorted(
            published["required"] - mine["required"]
            if asks
            else mine["required"] - published["required"]
        )
    )
    for name in sorted(mine["properties"]):
        if name in published["properties"]:
            yield from (
                f"/{name}{text}"
                for text in _compared(
                    document, mine["properties"][name], published["properties"][name], asks=asks
                )
            )
        elif published["properties"]:
            yield f"/{name}: not there"
    for name in ("items", "additionalProperties"):
        if isinstance(mine[name], Mapping) and isinstance(published[name], Mapping):
            yield from (
                f"/*{text}" for text in _compared(document, mine[name], published[name], asks=asks)
            )


def _flat(document: dict[str, Any], schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the requirements of a schema, with references resolved and parts merged."""
    said = _resolved(document, dict(schema))
    types = said.get("type", [])
    flat: dict[str, Any] = {
        "type": {types} if isinstance(types, str) else set(types),
        "enum": set(said.get("enum", ())),
        "required": set(said.get("required", ())),
        "properties": dict(said.get("properties", {})),
        "items": said.get("items"),
        "additionalProperties": said.get("additionalProperties"),
    }
    # A schema of several forms is here always one form or null.
    for part in (*said.get("allOf", ()), *said.get("anyOf", ()), *said.get("oneOf", ())):
        one = _flat(document, part)
        for name in ("type", "enum", "required"):
            flat[name] |= one[name]
        flat["properties"] = {**one["properties"], **flat["properties"]}
        for name in ("items", "additionalProperties"):
            flat[name] = flat[name] if flat[name] is not None else one[name]
    # JSON Schema counts integers as numbers.
    flat["type"] |= {"integer"} if "number" in flat["type"] else set()
    return flat


def _json(document: dict[str, Any], holder: dict[str, Any]) -> dict[str, Any]:
    content = _resolved(document, holder).get("content", {})
    found: dict[str, Any] = content.get("application/json", {}).get("schema", {})
    return found


def _resolved(document: dict[str, Any], schema: dict[str, Any]) -> dict[str, Any]:
    while "$ref" in schema:
        found: Any = document
        for part in schema["$ref"].removeprefix("#/").split("/"):
            found = found[part.replace("~1", "/").replace("~0", "~")]
        schema = found
    return schema


SOURCES: tuple[tuple[str, str, Compare], ...] = (
    ("runpod", RUNPOD, differences),
    ("lambda", lambda_schema.PUBLISHED, lambda_schema.differences),
)


def main(sources: tuple[tuple[str, str, Compare], ...] = SOURCES) -> int:
    """Compare, report the result, and return the exit status."""
    import requests

    differ = unread = 0
    for cloud, address, compare in sources:
        try:
            answer = requests.get(address, timeout=SECONDS)
            answer.raise_for_status()
            document = answer.json()
        except (requests.RequestException, ValueError) as error:
            unread += 1
            print(f"{cloud}: not compared, {address} cannot be read here ({type(error).__name__})")
            continue
        try:
            told = compare(document)
        except (AttributeError, IndexError, KeyError, TypeError) as error:
            # The document has another structure than the transcribed one.
            told = [f"the document cannot be followed any more ({type(error).__name__}: {error})"]
        differ += bool(told)
        print("\n".join(f"{cloud}: {line}" for line in told or ["as published"]))
    return int(bool(differ or (unread and os.environ.get("CI") == "true")))


if __name__ == "__main__":
    sys.exit(main())
