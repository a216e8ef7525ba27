"""The way to FluffyCloud's API: one request a call, bounded in time, never repeated here."""

from __future__ import annotations

import json
import os
import threading
import time
from dataclasses import dataclass, field
from typing import Any

from nbprov.clouds.web.error_text import NOBODY, retry_after
from nbprov.clouds.web.response import HttpRequest, HttpResponse, IncompleteResponse, Stopped
from nbprov.model.clock import Seconds
from nbprov.model.failures import Cause, CloudError, Failure

from . import errors

NO_KEY = "no FluffyCloud key found: set FLUFFYCLOUD_KEY (and FLUFFYCLOUD_URL)"


@dataclass(frozen=True, slots=True)
class Access:
    """Where the service is, and with whose key; the key is not in the representation."""

    base: str
    key: str = field(repr=False)


def find_access() -> Access:
    """The key and the address that hold now, without a request.

    A person without an account must cost nothing.
    """
    key, base = os.environ.get("FLUFFYCLOUD_KEY", ""), os.environ.get("FLUFFYCLOUD_URL", "")
    if not (key and base):
        raise CloudError(Failure(Cause.CREDENTIALS, NO_KEY, "no-key"))
    return Access(base.rstrip("/"), key)


class _Deadline(threading.Event):
    """Is set from an instant on."""

    def __init__(self, seconds: Seconds) -> None:
        super().__init__()
        self._end = time.monotonic() + seconds

    def is_set(self) -> bool:
        return time.monotonic() >= self._end


def call(
    method: str, path: str, body: Any = None, *, seconds: Seconds, creates: bool = False
) -> Any:
    """Send one request and return its JSON. What goes wrong is a `CloudError` with its cause.

    Parameters
    ----------
    creates
        A lost answer may have made machines, so it is `unknown_outcome`; else it is `transient`.
    """
    import requests

    access = find_access()
    ask = HttpRequest(
        method, f"{access.base}/v1{path}", {"Authorization": f"Bearer {access.key}"}, body=body
    )
    lost = Cause.UNKNOWN_OUTCOME if creates else Cause.TRANSIENT
    try:
        with (
            requests.Session() as session,
            HttpResponse(_Deadline(seconds), ask, session) as answer,
        ):
            answer.head()
            raw = b"".join(answer.chunks())
            status, pause = answer.status, retry_after(answer.header("Retry-After"))
    except IncompleteResponse as broke:
        failure = broke.error.failure
        unsent = failure.code in NOBODY
        raise CloudError(
            Failure(Cause.TRANSIENT if unsent else lost, failure.message, failure.code)
        ) from None
    except Stopped:
        raise CloudError(
            Failure(lost, f"FluffyCloud did not answer within {seconds:g} s", "no-answer")
        ) from None
    text = raw.decode("utf-8", "replace").replace(access.key, "•••")
    if status >= 400:
        raise CloudError(errors.failure_of(status, text, pause, creates=creates))
    try:
        return json.loads(raw)
    except ValueError:
        raise CloudError(
            Failure(lost, "FluffyCloud answered something that is not JSON", "odd-answer")
        ) from None
