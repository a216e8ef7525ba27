"""The table from Google's reasons, operation codes and messages to causes of failure.

Google refuses in two ways: by an HTTP answer with `error.errors[].reason` (and sometimes an
`ErrorInfo` reason), or by an operation that was accepted with 200 and failed later, with
`error.errors[].code`. The HTTP status of a failed operation says nothing: an exhausted zone is 503,
like an outage. So codes are read first, then the message, then the status. Sources: Google's
troubleshooting pages, SkyPilot's and dstack's handlers, and issue threads; the corpus in
tests/contract/corpus/gcp.jsonl names one for each message.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from http import HTTPStatus
from typing import Any

from nbprov.clouds.gcp.error_codes import CODES, EXISTS, MEANT_FIRST, SENTENCES
from nbprov.clouds.refusal_words import MOST_READ, meaning_of
from nbprov.clouds.web.error_text import is_before_request, retry_after, words_of
from nbprov.clouds.web.proxies import unusable_proxy, without_proxy_logins
from nbprov.model.clock import Seconds
from nbprov.model.failures import Cause, Failure, Scope

_STATUS = {
    401: Cause.CREDENTIALS,
    402: Cause.BALANCE,
    403: Cause.PERMISSION,
    429: Cause.RATE_LIMIT,
    404: Cause.BAD_REQUEST,
}
_ITSELF = re.compile(r"/(instances|disks)/[\w-]+'? (was|is) not found", re.IGNORECASE)
_IMAGE = re.compile(r"/(images|snapshots|family)/|image resource", re.IGNORECASE)
_GLOBAL_QUOTAS = ("GPUS_ALL_REGIONS", "CPUS_ALL_REGIONS")
UNREAD = "UNSUPPORTED_OPERATION"
"""The code of whatever does not go: only its words say what."""
_BY_THE_MINUTE = frozenset({"rateLimitExceeded", "userRateLimitExceeded", "RATE_LIMIT_EXCEEDED"})
_MINUTE: Seconds = 60.0
"""Request rates are counted by the minute and start again with the next (page "API rate limits").
"""


@dataclass(frozen=True, slots=True)
class GoogleRefusal:
    """One refusal of Google's: its codes and its message.

    Attributes
    ----------
    status
        The HTTP status; 0 for an operation's error.
    codes
        All `reason`s and `code`s, the most specific first.
    hint
        Zones that the message names as having stock: a hint, not a promise.
    """

    status: int = 0
    codes: tuple[str, ...] = ()
    message: str = ""
    retry_after: Seconds | None = None
    limit: float | None = None
    hint: str = ""
    is_json: bool = True


def failure_of(said: GoogleRefusal, *, call: str = "", spot: bool = False) -> Failure:
    """Return the failure that an answer or an operation's error means.

    Parameters
    ----------
    call
        `insert`, `bulkInsert` or `start`: calls that make a machine run, whose answer a broken
        gateway may have lost.
    spot
        The request was for the spot market, so a lack of capacity is one of spot capacity.

    Examples
    --------
    >>> said = GoogleRefusal(codes=("ZONE_RESOURCE_POOL_EXHAUSTED",), message="no resources")
    >>> failure_of(said).cause.value
    'capacity'
    """
    said = replace(said, message=said.message[:MOST_READ])
    cause, code, scope = _meaning(said)
    creates = call in ("insert", "bulkInsert")
    if creates and EXISTS & set(said.codes):
        # The name is derived from the token, so an earlier create of ours succeeded after all.
        cause = Cause.UNKNOWN_OUTCOME
    elif creates and cause is Cause.TRANSIENT and _is_lost(said):
        cause, scope = Cause.UNKNOWN_OUTCOME, None
    elif creates and _ITSELF.search(said.message):
        # Google began the machine, found no room for it and removed it.
        cause, scope = Cause.CAPACITY, None
    elif cause is Cause.BAD_REQUEST and _IMAGE.search(said.message):
        scope = None  # images are global, so that no other region has it for this alternative
    elif not said.is_json and said.status in (403, 404):
        # A page in place of an answer: something on the way, which Google has not heard of.
        cause, scope = Cause.TRANSIENT, Scope.ACCOUNT if creates else None
    if cause is Cause.UNKNOWN and spot and code == UNREAD:
        cause = Cause.SPOT  # seen when a spot machine is preempted while it is created
    if cause is Cause.CAPACITY and spot:
        cause = Cause.SPOT
    elif cause is Cause.SPOT and not spot:
        cause = Cause.CAPACITY
    if cause is Cause.QUOTA and _is_global(said.message):
        scope = Scope.ACCOUNT
    zero = cause is Cause.QUOTA and (
        said.limit == 0
        or re.search(r"limit: 0(\.0+)?\b(?!\.)", said.message, re.IGNORECASE) is not None
    )
    message = said.message or (f"HTTP {said.status}" if said.status else "no reason was given")
    if said.hint and cause in (Cause.CAPACITY, Cause.SPOT):
        message += f" (according to Google there is capacity in {said.hint})"
    pause = said.retry_after
    if cause is Cause.RATE_LIMIT and pause is None and code in _BY_THE_MINUTE:
        pause = _MINUTE - time.time() % _MINUTE
    return Failure(cause, message, code, scope, pause, zero)


def _meaning(said: GoogleRefusal) -> tuple[Cause, str, Scope | None]:
    """Return the cause by code, sentence and status, unless the words mean something else."""
    cause, code, scope = _by_code(said)
    if (more := meaning_of(said.message, cause)) is not None:
        if more.cause is not cause:
            return more.cause, code, more.scope
        return cause, code, scope or more.scope
    return cause, code, scope


def _by_code(said: GoogleRefusal) -> tuple[Cause, str, Scope | None]:
    read = next(
        ((cause, scope) for pattern, cause, scope in SENTENCES if pattern.search(said.message)),
        None,
    )
    first = said.codes[0] if said.codes else (str(said.status) if said.status else "")
    for code in said.codes:
        if code in MEANT_FIRST and read is not None:
            return read[0], code, read[1]
        if code == "required" and said.status == 400:
            return Cause.BAD_REQUEST, code, None  # a field, not a login
        if code in CODES:
            scope = Scope.REGION if code.startswith(("IP_SPACE", "REGION_")) else None
            return CODES[code], code, read[1] if read and read[0] is CODES[code] else scope
        if code == UNREAD:
            return Cause.UNKNOWN, code, None
    if read is not None:
        return read[0], first, read[1]
    if said.status == 412 or said.status >= 500:
        return Cause.TRANSIENT, first, None
    if said.status == HTTPStatus.GONE:
        return Cause.BAD_REQUEST, first, Scope.ACCOUNT
    if 400 <= said.status < 500:
        return _STATUS.get(said.status, Cause.BAD_REQUEST), first, None
    return Cause.UNKNOWN, first, None


def _is_lost(said: GoogleRefusal) -> bool:
    """Whether a create may have succeeded: a gateway's page, no reason, or time that ran out."""
    return (
        said.status == 504
        or (said.status >= 500 and not (said.is_json and said.codes))
        or any("TIMEOUT" in code or "DEADLINE" in code for code in said.codes)
    )


def _is_global(message: str) -> bool:
    return any(name in message for name in _GLOBAL_QUOTAS) or "globally" in message


def said_of_answer(
    status: int, body: Any, *, retry_after: Seconds | None = None, text: str = ""
) -> GoogleRefusal:
    """Read the body of an HTTP refusal; `text` is for a body that is not JSON."""
    error = body.get("error") if isinstance(body, Mapping) else None
    if isinstance(error, str):  # the token service's format
        words = str(body.get("error_description") or error)
        return GoogleRefusal(
            status, ("authError",) if error == "invalid_grant" else (error,), words, retry_after
        )
    if not isinstance(error, Mapping):
        return GoogleRefusal(status, (), text[:300], retry_after, is_json=False)
    exact = [str(d["reason"]) for d in _maps(error.get("details")) if d.get("reason")]
    reasons = [str(e.get("reason")) for e in _maps(error.get("errors")) if e.get("reason")]
    return GoogleRefusal(status, (*exact, *reasons), str(error.get("message") or ""), retry_after)


def said_of_operation(operation: Mapping[str, Any]) -> list[GoogleRefusal]:
    """Read the errors of an operation (`error.errors[]`); empty if it did not fail."""
    found = []
    for error in _maps((operation.get("error") or {}).get("errors")):
        limit, hint, exact = None, "", []
        for detail in _maps(error.get("errorDetails")):
            info = detail.get("errorInfo") or {}
            exact += [str(info["reason"])] if info.get("reason") else []
            hint = hint or str((info.get("metadatas") or {}).get("zonesAvailable") or "")
            limit = (detail.get("quotaInfo") or {}).get("limit", limit)
        code = str(error.get("code") or "")
        found.append(
            GoogleRefusal(0, (code, *exact), str(error.get("message") or ""), None, limit, hint)
        )
    if not found and operation.get("httpErrorStatusCode"):
        found.append(
            GoogleRefusal(
                int(operation["httpErrorStatusCode"]),
                (),
                str(operation.get("httpErrorMessage") or ""),
            )
        )
    return found


def worst_of(said: Iterable[GoogleRefusal], *, call: str = "", spot: bool = False) -> Failure:
    """Return one failure for several errors of an operation: the most informative.

    `VM_MIN_COUNT_NOT_REACHED` only says that there was another error.
    """
    found = [(s, failure_of(s, call=call, spot=spot)) for s in said]
    telling = [f for s, f in found if "VM_MIN_COUNT_NOT_REACHED" not in s.codes] or [
        f for _, f in found
    ]
    known = [f for f in telling if f.cause is not Cause.UNKNOWN] or telling
    return known[0] if known else Failure(Cause.UNKNOWN, "the operation failed and gave no reason")


def of_state(message: str, *, spot: bool = False) -> Failure | None:
    """Return why Google ended a machine, from its `statusMessage`; None if that names no cause.

    Examples
    --------
    >>> of_state("Instance terminated by guest OS shutdown.") is None
    True
    >>> of_state("Instance was preempted.", spot=True).cause.value
    'spot'
    """
    found = failure_of(GoogleRefusal(0, (), message), spot=spot)
    return found if found.cause in _ENDS else None


_ENDS = frozenset({Cause.CAPACITY, Cause.SPOT, Cause.QUOTA, Cause.BALANCE, Cause.PERMISSION})
"""Causes for which Google ends a machine that it had accepted."""


def exists(said: Iterable[GoogleRefusal]) -> bool:
    """Whether a create was refused because its name exists already."""
    return any(EXISTS & set(s.codes) for s in said)


def _maps(value: Any) -> list[Mapping[str, Any]]:
    return [v for v in value if isinstance(v, Mapping)] if isinstance(value, list) else []


def failure_of_exception(
    error: BaseException, *, call: str = "", spot: bool = False
) -> Failure | None:
    """Return the failure behind an exception of Google's packages or of `requests`, or None.

    The exceptions are recognised by their class names, so that no package is imported.
    """
    names = {f"{kind.__module__}.{kind.__name__}" for kind in type(error).__mro__}
    if (said := said_of_exception(error, names)) is not None:
        return failure_of(said, call=call, spot=spot)
    creates = call in ("insert", "bulkInsert")
    if (failure := unusable_proxy(error)) is not None:
        return failure
    first = _line(error)
    if "google.auth.exceptions.TransportError" in names:
        return Failure(
            Cause.TRANSIENT,
            f"Google's token service could not be reached: {first}",
            "TransportError",
        )
    if "google.auth.exceptions.GoogleAuthError" in names and getattr(error, "retryable", False):
        return Failure(Cause.TRANSIENT, f"Google's sign-in failed for now: {first}", "retryable")
    if "google.auth.exceptions.GoogleAuthError" in names:
        return Failure(
            Cause.CREDENTIALS, f"Google refused the credentials: {first}", type(error).__name__
        )
    if _is_unsent(error, names):
        return Failure(
            Cause.TRANSIENT, f"Google's Compute API could not be reached: {first}", "unreachable"
        )
    lost = (
        "requests.exceptions.RequestException",
        "google.protobuf.json_format.ParseError",
        "google.protobuf.json_format.Error",
    )
    if names & set(lost):
        words = f"the answer of Google's Compute API was lost: {first}"
        return Failure(
            Cause.UNKNOWN_OUTCOME if creates else Cause.TRANSIENT, words, type(error).__name__
        )
    if isinstance(error, ImportError):
        return Failure(
            Cause.CREDENTIALS,
            'using Google Cloud needs its packages: pip install "nbprov[gcp]"',
            "no-library",
        )
    return None


def _is_unsent(error: BaseException, names: set[str]) -> bool:
    """Whether a connection did not open.

    An error of TLS may come with the answer; only one of the handshake says that nothing was sent.
    """
    words = str(error)
    if "requests.exceptions.SSLError" in names:
        return is_before_request(words)
    if names & {"requests.exceptions.ConnectTimeout", "requests.exceptions.ProxyError"}:
        return True
    signs = ("NewConnectionError", "NameResolutionError", "refused")
    return "requests.exceptions.ConnectionError" in names and any(s in words for s in signs)


def said_of_exception(error: BaseException, names: set[str] | None = None) -> GoogleRefusal | None:
    """Read an exception of google-api-core; None for any other exception."""
    names = names or {f"{kind.__module__}.{kind.__name__}" for kind in type(error).__mro__}
    if "google.api_core.exceptions.GoogleAPICallError" not in names:
        return None
    response = getattr(error, "response", None)
    status = int(getattr(error, "code", 0) or 0)
    pause, body, text = None, None, str(getattr(error, "message", "") or "")
    if response is not None:
        pause = retry_after(response.headers.get("Retry-After"))
        try:
            body = response.json()
        except ValueError:
            text = words_of(response.text)
    return said_of_answer(status, body, retry_after=pause, text=text)


def _line(error: BaseException) -> str:
    """Return the first line of an exception; of addresses only the host is kept."""
    words = (str(error.args[0] if error.args else error).splitlines() or [""])[0]
    words = without_proxy_logins(words)
    return re.sub(r"(https?://[^/\s?]+)\S*", r"\1", words)[:200] or type(error).__name__
