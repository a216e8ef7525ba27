"""The way to Lambda's API: one request a call, never repeated here, bounded in time, its key kept out of every word.

Facts: OpenAPI document 1.10.0 of cloud.lambda.ai, as of 2026-11.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterable
from http import HTTPStatus
from typing import Any

from nbprov.clouds.api_keys import Access
from nbprov.clouds.web.error_text import NOBODY, blotted, host_of, retry_after
from nbprov.clouds.web.response import Answer, Ask, Broken, Stopped
from nbprov.model.clock import Seconds
from nbprov.model.failures import Cause, CloudError, Failure

from . import errors

MOST_BODY = 16 << 20
"""Bytes of an answer: a thousand machines are listed in about one megabyte."""
LEAST_SECRET = 6
"""Characters: what is shorter tells nothing, and blotting it out would make a message unreadable."""


class _Deadline(threading.Event):
    """Is set from an instant on: what an answer's reader and waiter look at."""

    def __init__(self, seconds: Seconds) -> None:
        super().__init__()
        self._end = time.monotonic() + seconds

    def is_set(self) -> bool:
        return super().is_set() or time.monotonic() >= self._end


def call(
    access: Access,
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
        An answer that is lost may have made a machine: then the cause is `unknown_outcome`, else `transient`.
    secrets
        What no message may repeat, beside the key.

    Raises
    ------
    CloudError
        With the cause that `errors.py` gives it.
    """
    ask = Ask(
        method,
        f"{access.base}{path}",
        {"Authorization": f"Bearer {access.key}", "Accept": "application/json"},
        body=body,
    )
    lost = Cause.UNKNOWN_OUTCOME if creates else Cause.TRANSIENT
    try:
        status, pause, raw = _exchange(ask, seconds)
    except Broken as broke:
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
                f"{host_of(ask.url)} answered something that is not as documented",
                "odd-answer",
            )
        )
    return document["data"]


def _exchange(ask: Ask, seconds: Seconds) -> tuple[int, Seconds | None, bytes]:
    """Status, the pause asked for, and the body of one answer."""
    import requests

    # A connection of its own for each call: one kept open may have been closed by the service meanwhile, and a create
    # that is written into such a one ends as an unknown outcome.
    with requests.Session() as session:
        session.headers["User-Agent"] = "nbprov"
        with Answer(_Deadline(seconds), ask, session) as answer:
            answer.head()
            body = bytearray()
            for chunk in answer.chunks():
                body += chunk
                if len(body) > MOST_BODY:
                    raise Broken(
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
    """Line by line: in an answer's JSON the breaks between them are written otherwise."""
    return [line for secret in secrets for line in secret.splitlines() if len(line) >= LEAST_SECRET]


def _document(raw: bytes) -> Any:
    try:
        return json.loads(raw)
    except (ValueError, RecursionError):
        return None
