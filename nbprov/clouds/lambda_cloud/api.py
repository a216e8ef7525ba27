"""Client of Lambda's API: one bounded request for each call, without retries.

The key never appears in a message. Facts: OpenAPI document 1.10.0 of cloud.lambda.ai, as of
2026-11.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from nbprov.clouds.api_keys import KeyAccess
from nbprov.clouds.web.json_api import JsonApi
from nbprov.model.clock import Seconds

from . import errors


def call(
    access: KeyAccess,
    method: str,
    path: str,
    body: Any = None,
    *,
    seconds: Seconds,
    creates: bool = False,
    secrets: Iterable[str] = (),
) -> Any:
    """Send one request and return the `data` of its answer; see `JsonApi.call`."""
    api = JsonApi(access.base, access.key, errors.failure_of)
    document = api.call(method, path, body, seconds=seconds, creates=creates, secrets=secrets)
    if not isinstance(document, dict) or "data" not in document:
        raise api.odd("something that is not as documented", creates=creates)
    return document["data"]
