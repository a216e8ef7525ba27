"""From RunPod's statuses and prose to causes.

RunPod says which status means what (openapi.json 2.0.0, createPod, read in 2026-11): 422 a request that breaks the contract, 400 one that
breaks a rule **or cannot be placed**, 402 no balance, 403 no access to this pool, 429 with `Retry-After`, 5xx passing. A 400 has no code of
its own for "no capacity", only prose: the table below tells the two apart. What it does not know is `unknown` in the narrowest place,
so that the next candidate is tried; RunPod's own advice is to take a 400 for a fault of the request only if every candidate gives one.

Prose: REST v2 answers and GraphQL errors as found in public issue threads and tests (tests/contract/corpus/runpod.jsonl names each source).
"""

from __future__ import annotations

import json
import re
from typing import Any

from nbprov.clouds.web.error_text import is_page, words_of
from nbprov.model.clock import Seconds
from nbprov.model.failures import Cause, Failure, Scope

MOST_WORDS = 600
MOST_PAUSE: Seconds = 300.0
"""The longest pause that is heeded: RunPod's shortest window is a minute, and an end that waits for hours is paid for."""
CREATE_PATH = "/v2/pods"

_PROSE: tuple[tuple[str, Cause], ...] = (
    # Money first: "not enough funds to start this pod" is not a matter of stock.
    (r"spend(ing)? ?limit|hourly limit", Cause.QUOTA),
    (r"insufficient (funds|balance|credits?)|(balance|funds|credits?) (is|are) (too low|not enough|insufficient)", Cause.BALANCE),
    (r"not (have )?enough (funds|balance|credits?|money)|positive balance|add (more )?(funds|credits?)|out of (credits?|funds)", Cause.BALANCE),
    (r"at least (one|1) hour.{0,40}(credit|fund|balance|runtime)|payment (method|required)", Cause.BALANCE),
    (r"(maximum|max) number of (pods|gpus)|(pod|gpu) (limit|quota)|quota (exceeded|reached)|exceed(s|ed)? (your|the) (pod|gpu|account) (limit|quota)", Cause.QUOTA),
    # Places and kinds that do not go together, before "available", which both use.
    (r"container disk must be less than or equal|(disk|volume) (size )?(exceeds|is larger than|too large)", Cause.NOT_OFFERED),
    (r"gpu ?type.{0,60}(not found|does not exist|unknown|invalid|not supported)|(invalid|unknown|unsupported) gpu", Cause.NOT_OFFERED),
    (r"(cpu )?flavou?r.{0,60}(not found|does not exist|unknown|invalid|not supported)|(not valid for|invalid for) the selected cpu", Cause.NOT_OFFERED),
    (r"data ?cent(er|re).{0,60}(not found|does not exist|unknown|invalid|not supported|does not (have|offer|support))", Cause.NOT_OFFERED),
    (r"(gpu ?count|number of gpus).{0,60}(exceed|maximum|too (large|many|high)|greater than)", Cause.NOT_OFFERED),
    (r"(not|no) access to (the |this )?(requested )?(pool|gpu|data ?cent)|cannot access the requested pool|pool.{0,40}not (accessible|available to)", Cause.NOT_OFFERED),
    (r"invalid when cpu is set", Cause.NOT_OFFERED),
    # Stock.
    (r"no longer any instances? available|no instances? (are )?(currently )?available|no (gpus?|machines?|hosts?) (are )?(currently )?available", Cause.CAPACITY),
    (r"does not have the resources|try a different machine|not enough free gpus|no free gpus|zero gpus?", Cause.CAPACITY),
    (r"supply.constraint|(insufficient|out of|no|lack of) (gpu )?(capacity|stock)|out of stock|sold out|no resources available", Cause.CAPACITY),
    # Rules that a request breaks: the same for every candidate.
    (r"exactly one of|mutually exclusive|only one of|both .{0,30} and .{0,30} (are|were) (set|sent|given)", Cause.BAD_REQUEST),
    (r"mounts?\b.{0,80}(invalid|not (allowed|supported)|cannot|must)|persistent.{0,40}(invalid|not allowed)", Cause.BAD_REQUEST),
    (r"(image|registry|template).{0,80}(not found|invalid|required|does not exist|unauthorized)|is not defined by type", Cause.BAD_REQUEST),
    (r"(invalid|malformed) (port|env|name|body|json|request)|ports?.{0,40}(invalid|must be)|additional properties|graphql validation", Cause.BAD_REQUEST),
    (r"request (body )?(too large|exceeds)|larger than \d+ bytes", Cause.BAD_REQUEST),
    # The service itself.
    (r"rate limit|too many requests", Cause.RATE_LIMIT),
    (r"something went wrong|internal (server )?error|try again later|temporar(y|ily)|timed? ?out|upstream", Cause.TRANSIENT),
    (r"unauthori[sz]ed|invalid api.?key|missing bearer token|authentication failed|api key.{0,30}(invalid|expired|revoked|disabled)", Cause.CREDENTIALS),
    (r"access denied|forbidden|permission|not allowed to|insufficient (access|scope)", Cause.PERMISSION),
)  # fmt: skip
PROSE = tuple((re.compile(pattern, re.IGNORECASE | re.DOTALL), cause) for pattern, cause in _PROSE)
"""What words mean; the first that is found counts."""

_PLAIN = {
    401: Cause.CREDENTIALS,
    402: Cause.BALANCE,
    403: Cause.PERMISSION,
    404: Cause.NOT_OFFERED,
    405: Cause.BAD_REQUEST,
    409: Cause.TRANSIENT,
    413: Cause.BAD_REQUEST,
    422: Cause.BAD_REQUEST,
    429: Cause.RATE_LIMIT,
}
_SURE = frozenset({401, 402, 413, 422, 429})
"""Statuses that mean one thing whatever the words."""
_SCOPES = {Cause.QUOTA: Scope.ACCOUNT}
"""RunPod's limits (spend an hour, pods) are the account's, wherever the pods stand."""
_REFUSALS = frozenset(
    {Cause.CAPACITY, Cause.NOT_OFFERED, Cause.QUOTA, Cause.BALANCE, Cause.BAD_REQUEST}
)


def failure_of(
    status: int, body: str, pause: Seconds | None = None, *, path: str = "", creates: bool = False
) -> Failure:
    """The failure that an answer of RunPod's means.

    Parameters
    ----------
    status, body, pause
        Of the answer; `pause` is its `Retry-After` in seconds. A GraphQL error comes with status 200.
    path
        What was asked.
    creates
        The request was a create. A 5xx without a reason leaves its outcome open: RunPod was seen to make a pod and then to fail
        (a public report of 2026-06), and there is no token with which the create could be repeated.

    Examples
    --------
    >>> body = '{"title": "Bad Request", "status": 400, "detail": "There are no longer any instances available with enough disk space."}'
    >>> failure_of(400, body).cause
    <Cause.CAPACITY: 'capacity'>
    """
    message = words(body) or f"RunPod answered {status}"
    cause = cause_of(status, message, path)
    if creates and (status == 408 or (status >= 500 and cause not in _REFUSALS)):
        cause = Cause.UNKNOWN_OUTCOME
    pause = None if pause is None else min(pause, MOST_PAUSE)
    scope = Scope.OFFER if cause is Cause.UNKNOWN else _SCOPES.get(cause)
    return Failure(cause, message, str(status), scope, pause)


def cause_of(status: int, message: str, path: str = "") -> Cause:
    """The cause that a status and its words mean."""
    if status in _SURE:
        return _PLAIN[status]
    said = next((cause for pattern, cause in PROSE if pattern.search(message)), None)
    if status == 400 or status < 300:
        return said or Cause.UNKNOWN
    if status == 403:
        return Cause.NOT_OFFERED if said is Cause.NOT_OFFERED else Cause.PERMISSION
    if status == 404:
        # Of a create: the kind of GPU, mostly; a template or an image is the request's own fault.
        return said if said is Cause.BAD_REQUEST and path == CREATE_PATH else Cause.NOT_OFFERED
    if status == 409:
        return said if said is Cause.CAPACITY else Cause.TRANSIENT
    if status >= 500:
        return said if said in _REFUSALS else Cause.TRANSIENT
    return _PLAIN.get(status) or said or Cause.UNKNOWN


def words(body: str) -> str:
    """What an error document says: its detail and each violation it lists; GraphQL's messages; the title of a page; or plain text.

    Examples
    --------
    >>> words('{"title": "Unprocessable Entity", "status": 422, "detail": "Request validation failed.", "errors": ["$.name: too short"]}')
    'Request validation failed. $.name: too short'
    """
    try:
        document: Any = json.loads(body)
    except (ValueError, RecursionError):
        text = words_of(body)
        return f"a web page: {text}" if text and is_page(body[:200].encode()) else text
    if not isinstance(document, dict):
        return words_of(body)
    listed = document.get("errors")
    each = [_message(item) for item in listed[:5]] if isinstance(listed, list) else []
    said = [
        str(document.get(name) or "")
        for name in ("detail", "message", "error")
        if isinstance(document.get(name), str)
    ]
    line = " ".join(
        " ".join(part.split())
        for part in (*said[:1], "; ".join(filter(None, each)))
        if part.strip()
    )
    return (line or words_of(body))[:MOST_WORDS]


def _message(item: Any) -> str:
    """One violation (a string), or one GraphQL error with its code."""
    if isinstance(item, str):
        return item
    if not isinstance(item, dict):
        return ""
    inside = item.get("extensions")
    code = str(inside.get("code") or "") if isinstance(inside, dict) else ""
    message = str(item.get("message") or "")
    return (
        f"{message} ({code})"
        if code and code not in ("RUNPOD", "INTERNAL_SERVER_ERROR")
        else message
    )
