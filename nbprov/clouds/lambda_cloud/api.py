"""The way to Lambda's API: one request a call, never repeated here, bounded in time, its key kept out of every word.

Facts: OpenAPI document 1.10.0 of cloud.lambda.ai, as of 2026-11.
"""

from __future__ import annotations

import hashlib
import json
import os
import threading
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any
from urllib.parse import urlsplit

from nbprov.clouds.web_answers import Answer, Ask, Broken, Stopped
from nbprov.clouds.web_words import NOBODY, blotted, host_of, retry_after
from nbprov.model.causes import Cause, CloudError, Failure
from nbprov.model.clock import Seconds

from . import errors
from .prices import API, KEY_FILE
from .prices import _key_in as key_in

KEY_VARIABLE = "LAMBDA_API_KEY"
BASE_VARIABLE = "LAMBDA_API_BASE_URL"
NO_KEY = "no Lambda API key found: set LAMBDA_API_KEY, or put `api_key = …` into ~/.lambda_cloud/lambda_keys (cloud.lambda.ai, API keys)"
MOST_BODY = 16 << 20
"""Bytes of an answer: a thousand machines are listed in about one megabyte."""
LEAST_SECRET = 6
"""Characters: what is shorter tells nothing, and blotting it out would make a message unreadable."""
LOOPBACK = ("127.0.0.1", "localhost", "::1")


@dataclass(frozen=True, slots=True)
class Access:
    """Where the service is, and with whose key.

    Attributes
    ----------
    base
        Address up to `/api/v1`, without a slash at its end.
    key
        The secret. Not in the representation.
    source
        Where the key was found, in words a person knows.
    """

    base: str
    key: str = field(repr=False)
    source: str

    @property
    def account(self) -> str:
        """A stable name for the account: Lambda's API tells none, so the key's fingerprint stands for it."""
        return f"key-{hashlib.sha256(self.key.encode()).hexdigest()[:8]}"

    @property
    def masked(self) -> str:
        """The source and the key's last four characters."""
        return f"{self.source} (…{self.key[-4:]})" if len(self.key) >= 16 else self.source


def find_access(environ: Mapping[str, str] | None = None) -> Access:
    """The key and the address that hold now; a file read at most, no network.

    Raises
    ------
    CloudError
        `credentials` where there is no key, `bad_request` where the address would send the key in the clear.
    """
    env = os.environ if environ is None else environ
    base = (env.get(BASE_VARIABLE) or API).rstrip("/")
    parts = urlsplit(base)
    if parts.scheme != "https" and parts.hostname not in LOOPBACK:
        raise CloudError(Failure(Cause.BAD_REQUEST, f"{BASE_VARIABLE} must begin with https://: the API key travels with every request"))
    if key := env.get(KEY_VARIABLE, "").strip():
        return Access(base, key, KEY_VARIABLE)
    try:
        key = key_in(KEY_FILE.expanduser().read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, RuntimeError):
        key = ""
    if not key:
        raise CloudError(Failure(Cause.CREDENTIALS, NO_KEY, "no-key"))
    return Access(base, key, str(KEY_FILE))


class _Deadline(threading.Event):
    """Is set from an instant on: what an answer's reader and waiter look at."""

    def __init__(self, seconds: Seconds) -> None:
        super().__init__()
        self._end = time.monotonic() + seconds

    def is_set(self) -> bool:
        return super().is_set() or time.monotonic() >= self._end


def call(
    access: Access, method: str, path: str, body: Any = None, *, seconds: Seconds, creates: bool = False, secrets: Iterable[str] = ()
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
    ask = Ask(method, f"{access.base}{path}", {"Authorization": f"Bearer {access.key}", "Accept": "application/json"}, body=body)
    lost = Cause.UNKNOWN_OUTCOME if creates else Cause.TRANSIENT
    try:
        status, pause, raw = _exchange(ask, seconds)
    except Broken as broke:
        failure = broke.error.failure
        unsent = failure.code in NOBODY
        raise CloudError(Failure(Cause.TRANSIENT if unsent else lost, failure.message, failure.code)) from None
    except Stopped:
        raise CloudError(Failure(lost, f"{host_of(ask.url)} did not answer within {seconds:g} s", "no-answer")) from None
    document = _document(raw)
    if status >= HTTPStatus.BAD_REQUEST:
        text = blotted(raw.decode("utf-8", "replace"), (access.key, *_lines(secrets)))
        raise CloudError(errors.failure_of(status, text, pause, path=path, creates=creates))
    if not isinstance(document, dict) or "data" not in document:
        raise CloudError(Failure(lost, f"{host_of(ask.url)} answered something that is not as documented", "odd-answer"))
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
                    raise Broken(CloudError(Failure(Cause.TRANSIENT, f"the answer of {host_of(ask.url)} is too large", "too-large")))
            return answer.status, retry_after(answer.header("Retry-After")), bytes(body)


def _lines(secrets: Iterable[str]) -> list[str]:
    """Line by line: in an answer's JSON the breaks between them are written otherwise."""
    return [line for secret in secrets for line in secret.splitlines() if len(line) >= LEAST_SECRET]


def _document(raw: bytes) -> Any:
    try:
        return json.loads(raw)
    except (ValueError, RecursionError):
        return None
