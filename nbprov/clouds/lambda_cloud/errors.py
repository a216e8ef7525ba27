"""The table from Lambda's codes and messages to causes of failure.

Lambda asks its clients to go by `error.code` and not by the message, which may change. If one code
has several meanings (`global/object-does-not-exist` for a type, an image or a key), the message
decides, and the narrowest cause is the fallback.

Sources: the error schemas of the OpenAPI document 1.10.0 of cloud.lambda.ai, 2026-11; further codes
from public clients.
"""

from __future__ import annotations

import json
import re
from dataclasses import replace
from http import HTTPStatus
from typing import Any

from nbprov.clouds.refusal_words import MOST_CODE, MOST_READ, meaning_of
from nbprov.clouds.web.edge import edge_failure
from nbprov.clouds.web.error_text import words_of
from nbprov.clouds.word_patterns import word_pattern
from nbprov.model.clock import Seconds
from nbprov.model.failures import Cause, CloudError, Failure, Scope

CAUSES: dict[str, Cause] = {
    "instance-operations/launch/insufficient-capacity": Cause.CAPACITY,
    "global/quota-exceeded": Cause.QUOTA,
    "global/invalid-api-key": Cause.CREDENTIALS,
    "global/account-inactive": Cause.BALANCE,
    "global/invalid-address": Cause.BALANCE,
    "global/forbidden": Cause.PERMISSION,
    "global/invalid-parameters": Cause.BAD_REQUEST,
    "global/object-does-not-exist": Cause.NOT_OFFERED,
    "global/not-found": Cause.NOT_OFFERED,
    "global/conflict": Cause.TRANSIENT,
    "global/duplicate": Cause.BAD_REQUEST,
    "global/internal-error": Cause.TRANSIENT,  # of a create: see `failure_of`
    "global/rate-limited": Cause.RATE_LIMIT,
    "global/too-many-requests": Cause.RATE_LIMIT,
    "global/unauthorized": Cause.CREDENTIALS,
    "global/payment-required": Cause.BALANCE,
    "instance-operations/terminate/reserved-instance": Cause.PERMISSION,
    "ssh-keys/key-in-use": Cause.TRANSIENT,
}
"""The cause of each code, unless the message says more. `global/unknown` is left to the status."""

_MISSING = r"(not(?! enough| sufficient)|n't|invalid|unknown|unsupported|should be)"
_WORDS: tuple[tuple[str, re.Pattern[str], Cause, Scope | None], ...] = tuple(
    (code, word_pattern(words), cause, scope)
    for code, words, cause, scope in (
        (
            r"object-does-not-exist|invalid-parameters",
            r"ssh[ _-]?key\w*\b.*\bexist",
            Cause.TRANSIENT,
            None,
        ),
        (
            r"object-does-not-exist|invalid-parameters|unsupported-image",
            r"image.*(compatible|architecture|support|instance[ _-]?type)|requires? .*image",
            Cause.BAD_REQUEST,
            Scope.OFFER,
        ),
        (r"object-does-not-exist|invalid-parameters", r"image", Cause.BAD_REQUEST, Scope.REGION),
        (
            r"object-does-not-exist|invalid-parameters",
            r"file ?systems?\b",
            Cause.BAD_REQUEST,
            Scope.REGION,
        ),
        (r"launch/file-system", r"", Cause.BAD_REQUEST, Scope.REGION),
        (r"object-does-not-exist", r"ruleset", Cause.BAD_REQUEST, Scope.REGION),
        (
            r"invalid-parameters",
            rf"(instance[ _-]?type|region)(s|_name)?\b[^.;]*{_MISSING}|"
            rf"\b{_MISSING}\b[^.;:]*(instance[ _-]?type|region)\b",
            Cause.NOT_OFFERED,
            None,
        ),
    )
)
"""Part of a code, message, cause and scope: what a code with several meanings is about. A missing
key was removed from the account by hand; the next attempt adds it again."""

SCOPES = {Cause.QUOTA: Scope.ACCOUNT}
"""Lambda's quota counts the account's machines in all regions (docs.lambda.ai, creating and
managing instances)."""

_STATUS = {
    400: Cause.BAD_REQUEST,
    401: Cause.CREDENTIALS,
    402: Cause.BALANCE,
    403: Cause.PERMISSION,
    404: Cause.NOT_OFFERED,
    409: Cause.TRANSIENT,
    422: Cause.BAD_REQUEST,
    429: Cause.RATE_LIMIT,
    405: Cause.BAD_REQUEST,
    HTTPStatus.GONE: Cause.BAD_REQUEST,
}
_REFUSALS = frozenset(
    {Cause.CAPACITY, Cause.NOT_OFFERED, Cause.QUOTA, Cause.BALANCE, Cause.RATE_LIMIT}
)
"""Causes that a 5xx may name: no machine was made then."""
LAUNCH_PAUSE: Seconds = 12.0
"""The documented pause between two launches: one in 12 s, or five a minute."""
CALL_PAUSE: Seconds = 1.0
"""The documented pause between two other calls."""
MOST_PAUSE: Seconds = 300.0
"""The longest pause that is obeyed: a machine that waits hours to be ended costs money."""
LAUNCH_PATH = "/instance-operations/launch"
INTERNAL = "global/internal-error"
UNKNOWN = "global/unknown"
PROVIDER = "provider/"
"""Prefix of codes for failures at the provider of a data centre, behind Lambda's own service. They
do not say how far the request came."""


def failure_of(
    status: int, body: str, pause: Seconds | None = None, *, path: str = "", creates: bool = False
) -> Failure:
    """Return the failure that an answer of Lambda means.

    Parameters
    ----------
    status, body, pause
        The answer; `pause` is its `Retry-After` in seconds.
    creates
        The request was a create. A 5xx that gives no reason leaves its outcome open, because there
        is no token with which it could be repeated safely.

    Examples
    --------
    >>> body = '{"error": {"code": "global/quota-exceeded", "message": "Quota exceeded."}}'
    >>> failure_of(400, body).cause
    <Cause.QUOTA: 'quota'>
    """
    code, message, is_json = _said(body)
    if status in (403, 404) and not is_json:
        # A page in place of an answer is of something on the way: Lambda has not heard of it.
        found = edge_failure(
            message or f"Lambda answered {status}", body, status, pause, creates=creates
        )
        return replace(found, retry_after=found.retry_after or _pause_of(found.cause, path))
    cause, scope = _meaning(status, code, message)
    opens = status in (408, *range(500, 600)) or code == INTERNAL or code.startswith(PROVIDER)
    opens = opens or (status < 300 and not code)  # a success that tells nothing of what was done
    if creates and opens and cause not in _REFUSALS:
        cause, scope = Cause.UNKNOWN_OUTCOME, None
    pause = None if pause is None else min(pause, MOST_PAUSE)
    return Failure(
        cause,
        message or f"Lambda answered {status}",
        code or str(status),
        SCOPES.get(cause, scope),
        _pause_of(cause, path) if pause is None else pause,
    )


def _pause_of(cause: Cause, path: str) -> Seconds | None:
    """The documented pause after too many requests; None after any other refusal."""
    if cause is not Cause.RATE_LIMIT:
        return None
    return LAUNCH_PAUSE if path == LAUNCH_PATH else CALL_PAUSE


def _meaning(status: int, code: str, message: str) -> tuple[Cause, Scope | None]:
    """Return the cause of a refusal, and how far it reaches if it says so."""
    if status == 429:
        return Cause.RATE_LIMIT, None
    if status in (405, HTTPStatus.GONE) or (status == 404 and not code and message == "Not Found"):
        return Cause.BAD_REQUEST, Scope.ACCOUNT  # no such address, whatever is asked of it
    for named, words, cause, scope in _WORDS:
        if re.search(named, code) and words.search(message):
            return cause, scope
    coded = CAUSES.get(code)
    if coded is None and code == UNKNOWN and status < 500:
        coded = Cause.UNKNOWN
    if coded is None:
        coded = _STATUS.get(status, Cause.TRANSIENT if status >= 500 else Cause.UNKNOWN)
    if code.startswith(PROVIDER):
        coded = Cause.TRANSIENT
    text = message if code in CAUSES else f"{code.rpartition('/')[2]}: {message}"
    if (more := meaning_of(text, coded)) is not None:
        return more.cause, more.scope
    return coded, None


def failure_of_exception(error: BaseException) -> Failure | None:
    """Return the failure of one of the adapter's own exceptions; None for any other."""
    return error.failure if isinstance(error, CloudError) else None


def _said(body: str) -> tuple[str, str, bool]:
    """Return the code and the text of a refusal, and whether it is a document at all.

    The text is its message, the fields it names, and its suggestion.
    """
    try:
        document: Any = json.loads(body)
    except (ValueError, RecursionError):
        return "", words_of(body), False
    error = document.get("error") if isinstance(document, dict) else None
    if not isinstance(error, dict):
        return "", words_of(body), isinstance(document, dict)
    fields = document.get("field_errors")
    entries = fields.items() if isinstance(fields, dict) else ()
    named = [
        f"{name}: {entry.get('message')}" for name, entry in entries if isinstance(entry, dict)
    ]
    said = [str(error.get("message") or ""), *named, str(error.get("suggestion") or "")]
    text = " ".join(" ".join(part.split()) for part in said if part.strip())
    return str(error.get("code") or "")[:MOST_CODE], text[:MOST_READ], True
