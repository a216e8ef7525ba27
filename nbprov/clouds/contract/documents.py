"""JSON documents in a cloud's answers: what is inside them, and answers with a part changed."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any

from .relay import Relay


def changed(relay: Relay, change: Callable[[Any], None]) -> AbstractContextManager[None]:
    """Change every JSON document that the cloud answers, before the adapter gets it."""

    def rewrite(_: int, body: bytes) -> bytes:
        try:
            document = json.loads(body)
        except ValueError:
            return body
        change(document)
        return json.dumps(document).encode()

    return relay.rewritten(rewrite)


def objects(document: Any) -> Iterator[dict[str, Any]]:
    """Yield all objects of a document, outer ones first."""
    if isinstance(document, dict):
        yield document
    inside = document.values() if isinstance(document, dict) else document
    for one in [*inside] if isinstance(document, dict | list) else ():
        yield from objects(one)


def strings(value: Any) -> Iterator[str]:
    """Yield all strings of a document, keys left out."""
    if isinstance(value, str):
        yield value
    inside = value.values() if isinstance(value, dict) else value
    for one in inside if isinstance(value, dict | list) else ():
        yield from strings(one)


def rows(document: Any, machine: str) -> Iterator[dict[str, Any]]:
    """Yield the objects that have the id of this machine as a value of their own."""
    for one in objects(document):
        # An adapter may write the place before the id: ids of two regions may be the same.
        if machine in one.values() or machine.rpartition("/")[2] in one.values():
            yield one
