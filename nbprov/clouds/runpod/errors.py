"""The table from RunPod's statuses and messages to causes of failure.

RunPod documents its statuses (openapi.json 2.0.0, createPod, read in 2026-11): 422 for a request
that breaks the contract, 400 for one that breaks a rule **or cannot be placed**, 402 for no
balance, 403 for no access to this pool, 429 with `Retry-After`, 5xx for temporary faults. A 400 has
no code of its own for "no capacity", only a message; the table below tells the two apart. An
unknown message becomes `unknown` with the narrowest scope, so that the next candidate is tried;
RunPod's own advice is to blame the request only if every candidate gives a 400.

Messages: REST v2 answers and GraphQL errors found in public issue threads and tests
(tests/contract/corpus/runpod.jsonl names each source).
"""

from __future__ import annotations

import json
import re
from http import HTTPStatus
from typing import Any

from nbprov.clouds.refusal_words import is_fault, meaning_of
from nbprov.clouds.web.edge import edge_failure
from nbprov.clouds.web.error_text import is_page, words_of
from nbprov.clouds.word_patterns import word_pattern
from nbprov.model.clock import Seconds
from nbprov.model.failures import Cause, Failure, Scope

MOST_WORDS = 600
MOST_PAUSE: Seconds = 300.0
"""The longest pause that is obeyed: RunPod's shortest window is a minute, and a machine that waits
hours to be ended costs money."""
CREATE_PATH = "/v2/pods"

_PROSE: tuple[tuple[str, Cause], ...] = (
    (
        (
            r"(maximum|max) number of (pods|gpus)|(pod|gpu) (limit|quota)|quota "
            r"(exceeded|reached)|exceed(s|ed)? (your|the) (pod|gpu|account) (limit|quota)"
        ),
        Cause.QUOTA,
    ),
    (r"outbid|bid (price )?(is )?(too low|below)|interruptible.{0,40}(not available)", Cause.SPOT),
    # Places and types that do not go together come before "available", which both use.
    (
        (
            r"container disk must be less than or equal|(disk|volume) (size )?(exceeds|is larger "
            r"than|too large)"
        ),
        Cause.BAD_REQUEST,
    ),
    (
        (
            r"gpu ?type.{0,60}(not found|does not exist|unknown|invalid|not "
            r"supported)|(invalid|unknown|unsupported) gpu"
        ),
        Cause.NOT_OFFERED,
    ),
    (
        (
            r"(cpu )?flavou?r.{0,60}(not found|does not exist|unknown|invalid|"
            r"not (supported|available))|(not "
            r"valid for|invalid for) the selected cpu"
        ),
        Cause.NOT_OFFERED,
    ),
    (
        (
            r"data ?cent(er|re).{0,60}(not found|does not exist|unknown|invalid|not supported|does "
            r"not (have|offer|support))"
        ),
        Cause.NOT_OFFERED,
    ),
    (
        (
            r"(gpu ?count|number of gpus).{0,60}(exceed|maximum|too (large|many|high)|greater "
            r"than)"
        ),
        Cause.NOT_OFFERED,
    ),
    (
        (
            r"(not|no)( have)? access to (the |this )?(requested )?(pool|gpu|data ?cent)|"
            r"cannot access the requested pool|pool.{0,40}not (accessible|available to)"
        ),
        Cause.NOT_OFFERED,
    ),
    (r"invalid when cpu is set", Cause.NOT_OFFERED),
    (
        r"cannot access the requested|(community|secure) cloud.{0,40}(disabled|not (available|"
        r"enabled|allowed))|gpus?\b.{0,60}(not|in)[ -]?compatible|at most \d+ for this gpu",
        Cause.NOT_OFFERED,
    ),
    (
        r"network ?volume.{0,60}(not found|not in|does not exist|different|another|must)",
        Cause.BAD_REQUEST,
    ),
    # Stock.
    (
        (
            r"no longer any instances? available|no instances? (are )?(currently )?available|no "
            r"(gpus?|machines?|hosts?) (are )?(currently )?available"
        ),
        Cause.CAPACITY,
    ),
    (
        (
            r"no gpus? of .{0,60}(free|available)|insufficient resources|"
            r"does not have the resources|try a different machine|not enough free gpus|no free "
            r"gpus|zero gpus?"
        ),
        Cause.CAPACITY,
    ),
    (
        (
            r"supply[ _-]?constraint|(insufficient|out of|no|lack of) (gpu )?(capacity|stock)|"
            r"out of "
            r"stock|sold out|no resources available"
        ),
        Cause.CAPACITY,
    ),
    # Rules that a request breaks, for every candidate alike.
    (
        (
            r"exactly one of|mutually exclusive|only one of|both .{0,30} and .{0,30} (are|were) "
            r"(set|sent|given)"
        ),
        Cause.BAD_REQUEST,
    ),
    (
        (
            r"mounts?\b.{0,80}(invalid|not "
            r"(allowed|supported)|cannot|must)|persistent.{0,40}(invalid|not allowed)"
        ),
        Cause.BAD_REQUEST,
    ),
    (
        (
            r"(invalid|unknown|unsupported) (image|template|registry)|"
            r"(image|registry|template).{0,80}(not found|invalid|required|does not "
            r"exist|unauthorized)|is not defined by type"
        ),
        Cause.BAD_REQUEST,
    ),
    (
        (
            r"(invalid|malformed) (port|env|name|body|json|request)|ports?.{0,40}(invalid|must "
            r"be|not (a )?(supported|allowed|valid))|additional properties|graphql validation"
        ),
        Cause.BAD_REQUEST,
    ),
    (r"request (body )?(too large|exceeds)|larger than \d+ bytes", Cause.BAD_REQUEST),
    (r"cannot (resume|start|stop|restart) (a|an|this|the) ", Cause.BAD_REQUEST),
)
PROSE = tuple((word_pattern(pattern), cause) for pattern, cause in _PROSE)
"""The cause of each message of RunPod's own; the first match counts.

What is said in any cloud (money, limits, rates, logins) stands in `refusal_words`.
"""

_IN_ONE_PLACE = re.compile(r"volume|data ?cent(er|re)", re.IGNORECASE)
"""Names of things that lie in one data centre. A template or an image is the alternative's."""

_OF_A_SIZE = re.compile(r"(disk|volume) (size |must be less|exceeds|is larger|too large)", re.I)
"""What one type of machine has no room for: the next may have."""

_PLAIN = {
    401: Cause.CREDENTIALS,
    402: Cause.BALANCE,
    403: Cause.PERMISSION,
    404: Cause.NOT_OFFERED,
    405: Cause.BAD_REQUEST,
    409: Cause.TRANSIENT,
    HTTPStatus.GONE: Cause.BAD_REQUEST,
    413: Cause.BAD_REQUEST,
    422: Cause.BAD_REQUEST,
    429: Cause.RATE_LIMIT,
    451: Cause.PERMISSION,
}
_EDGE = re.compile(r"\s*error code: \d+")
"""The one line of Cloudflare, which stands in front of RunPod, to a client that it refuses."""
_SURE = frozenset({401, 402, 405, HTTPStatus.GONE, 413, 429})
"""Statuses that mean the same whatever the message says."""
_WRONG_QUERY = re.compile(
    r"graphql_(validation|parse)_failed|^unknown (type|argument) \"|^cannot query field \"", re.I
)
"""What GraphQL says of a query that its schema no longer knows: every such query is refused."""
_UNTOLD = re.compile(r"\bcreation failed\W*\Z", re.I)
"""A failure without a reason: what was made until then is not told."""
_CHOICES = re.compile(
    r"\$\.(gpu|cpu|data ?cent|cloud)\w*\S* ?: ?value must be one of|"
    r"\bbody/(gpu|cpu|data ?cent|cloud)\S* must be one of",
    re.I,
)
"""A 422 whose list of allowed values lacks this type or place."""
_SCOPES = {Cause.QUOTA: Scope.ACCOUNT}
"""RunPod's limits (spend an hour, number of pods) are the account's, wherever the pods are."""
_REFUSALS = frozenset(
    {
        Cause.CAPACITY,
        Cause.NOT_OFFERED,
        Cause.QUOTA,
        Cause.BALANCE,
        Cause.BAD_REQUEST,
        Cause.RATE_LIMIT,
        Cause.SPOT,
    }
)
"""Causes that a 5xx may name: no pod was made then."""
_FORBIDDEN = _REFUSALS - {Cause.BAD_REQUEST} | {Cause.CREDENTIALS}
"""Causes that a 403 may name other than a missing permission."""


def failure_of(
    status: int, body: str, pause: Seconds | None = None, *, path: str = "", creates: bool = False
) -> Failure:
    """Return the failure that an answer of RunPod means.

    Parameters
    ----------
    status, body, pause
        The answer; `pause` is its `Retry-After` in seconds. A GraphQL error comes with status 200.
    path
        The path of the request.
    creates
        The request was a create. A 5xx without a reason leaves its outcome open: RunPod was seen to
        create a pod and then to fail (a public report of 2026-06), and there is no token with which
        the create could be repeated.

    Examples
    --------
    >>> detail = "There are no longer any instances available with enough disk space."
    >>> failure_of(400, '{"title": "Bad Request", "status": 400, "detail": "' + detail + '"}').cause
    <Cause.CAPACITY: 'capacity'>
    """
    message = words(body) or f"RunPod answered {status}"
    if status in (403, 404) and _is_edge(body):
        # The answer is of something on the way: RunPod has not heard of the request.
        return edge_failure(message, body, status, pause, creates=creates)
    cause, scope = _meaning(status, message, path)
    opens = status == 408 or status >= 500
    if status < 300:  # a GraphQL error, or a body that tells nothing of what was done
        untold = '"errors"' not in body or _UNTOLD.search(message) is not None
        opens = cause is Cause.TRANSIENT or (cause is Cause.UNKNOWN and untold)
    if creates and opens and cause not in _REFUSALS:
        cause, scope = Cause.UNKNOWN_OUTCOME, None
    pause = None if pause is None else min(pause, MOST_PAUSE)
    scope = Scope.OFFER if cause is Cause.UNKNOWN else _SCOPES.get(cause, scope)
    return Failure(cause, message, str(status), scope, pause)


def _is_edge(body: str) -> bool:
    """Whether an answer is a page or a line of the network in front of RunPod."""
    return is_page(body[:200].encode()) or _EDGE.match(body) is not None


def _meaning(status: int, message: str, path: str) -> tuple[Cause, Scope | None]:
    """Return the cause of a status and a message, and how far the refusal reaches."""
    cause = cause_of(status, message, path)
    if status in (405, HTTPStatus.GONE) or _WRONG_QUERY.search(message):
        return Cause.BAD_REQUEST, Scope.ACCOUNT
    if status in _SURE:
        return cause, None
    if cause is Cause.PERMISSION and (more := meaning_of(message, cause)) is not None:
        return cause, more.scope if more.cause is cause else None
    if cause is not Cause.BAD_REQUEST:
        return cause, None
    if _OF_A_SIZE.search(message):
        return cause, Scope.OFFER
    return cause, Scope.REGION if _IN_ONE_PLACE.search(message) else None


def cause_of(status: int, message: str, path: str = "") -> Cause:
    """Return the cause that a status and a message mean."""
    if status in _SURE:
        return _PLAIN[status]
    if status >= 500 and is_fault(message):
        return Cause.TRANSIENT
    more = meaning_of(message)
    said = next((cause for pattern, cause in PROSE if pattern.search(message)), None)
    # "Not enough funds to start this pod" is not about stock: money comes first.
    if more is not None and (said is None or more.cause is Cause.BALANCE):
        said = more.cause
    if status == 422 or _CHOICES.search(message):
        return Cause.NOT_OFFERED if _CHOICES.search(message) else Cause.BAD_REQUEST
    if status == 400 or status < 300:
        return said or Cause.UNKNOWN
    if status == 403:
        return said if said in _FORBIDDEN and said is not None else Cause.PERMISSION
    if status == 404:
        # A 404 to a create is usually about the type of GPU; a missing template or image is the
        # request's own fault.
        return said if said is Cause.BAD_REQUEST and path == CREATE_PATH else Cause.NOT_OFFERED
    if status == 409:
        return said if said in (Cause.CAPACITY, Cause.QUOTA, Cause.BALANCE) else Cause.TRANSIENT
    if status >= 500:
        return said if said in _REFUSALS and said is not None else Cause.TRANSIENT
    return _PLAIN.get(status) or said or Cause.UNKNOWN


def words(body: str) -> str:
    """Return the text of an error document.

    This is its detail and each violation it lists, GraphQL's messages, the title of a page, or
    plain text.

    Examples
    --------
    >>> words('{"detail": "Request validation failed.", "errors": ["$.name: too short"]}')
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
    """Return one violation (a string), or one GraphQL error with its code."""
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
