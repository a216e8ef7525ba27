"""Client of Lambda's API: one bounded request for each call, without retries.

The key never appears in a message. Facts: OpenAPI document 1.10.0 of cloud.lambda.ai, as of
2026-11.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterable
from http import HTTPStatus
from typing import Any

from nbprov.clouds.api_keys import KeyAccess
from nbprov.clouds.web.error_text import NOBODY, blotted, host_of, retry_after
from nbprov.clouds.web.response import HttpRequest, HttpResponse, IncompleteResponse, Stopped
from nbprov.model.clock import Seconds
from nbprov.model.failures import Cause, CloudError, Failure

from . import errors

MOST_BODY = 16 << 20
"""The most bytes of an answer: a thousand machines are listed in about one megabyte."""
LEAST_SECRET = 6
"""Shorter secrets reveal nothing, and removing them would make a message unreadable."""


class _Deadline(threading.Event):
    """An event that is set from an instant on; an answer's reader and caller look at it."""

    def __init__(self, seconds: Seconds) -> None:
        super().__init__()
        self._end = time.monotonic() + seconds

    def is_set(self) -> bool:
        return super().is_set() or time.monotonic() >= self._end


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
    """Send one request and return the `data` of its answer.

    Parameters
    ----------
    seconds
        When the call gives up.
    creates
        A lost answer may have created a machine, so its cause is `unknown_outcome`, else
        `transient`.
    secrets
        Values that no message may repeat, besides the key.

    Raises
    ------
    CloudError
        With the cause that `errors.py` gives it.
    """
    ask = HttpRequest(
        method,
        f"{access.base}{path}",
        {"Authorization": f"Bearer {access.key}", "Accept": "application/json"},
        body=body,
    )
    lost = Cause.UNKNOWN_OUTCOME if creates else Cause.TRANSIENT
    try:
        status, pause, raw = _exchange(ask, seconds)
    except IncompleteResponse as broke:
        failure = broke.error.failure
        unsent = failure.code in NOBODY
        raise CloudError(
            Failure(Cause.TRANSIENT if unsent else lost, failure.message, failure.code)
        ) from None
    except Stopped:
        raise CloudError(
            Failure(lost, f"{host_of(ask.url)} did not answer within {seconds:g} s", "no-answer")
        ) from None
    document = _document(raw)
    if status >= HTTPStatus.BAD_REQUEST:
        text = blotted(raw.decode("utf-8", "replace"), (access.key, *_lines(secrets)))
        raise CloudError(errors.failure_of(status, text, pause, path=path, creates=creates))
    if not isinstance(document, dict) or "data" not in document:
        raise CloudError(
            Failure(
                lost,
                f"the answer of {host_of(ask.url)} is not as documented",
                "odd-answer",
            )
        )
    return document["data"]


def _exchange(ask: HttpRequest, seconds: Seconds) -> tuple[int, Seconds | None, bytes]:
    """Return the status, the requested pause and the body of one answer."""
    import requests

    # Each call opens its own connection. The service may have closed a kept one meanwhile, and a
    # create written into that would end as an unknown outcome.
    with requests.Session() as session:
        session.headers["User-Agent"] = "nbprov"
        with HttpResponse(_Deadline(seconds), ask, session) as answer:
            answer.head()
            body = bytearray()
            for chunk in answer.chunks():
                body += chunk
                if len(body) > MOST_BODY:
                    raise IncompleteResponse(
                        CloudError(
                            Failure(
                                Cause.TRANSIENT,
                                f"the answer of {host_of(ask.url)} is too large",
                                "too-large",
                            )
                        )
                    )
            return answer.status, retry_after(answer.header("Retry-After")), bytes(body)


def _lines(secrets: Iterable[str]) -> list[str]:
    """Split secrets into lines, because JSON writes the breaks between them differently."""
    return [line for secret in secrets for line in secret.splitlines() if len(line) >= LEAST_SECRET]


def _document(raw: bytes) -> Any:
    try:
        return json.loads(raw)
    except (ValueError, RecursionError):
        return None
