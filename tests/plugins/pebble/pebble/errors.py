"""The table from Pebble's codes to causes.

A code that it does not know is `unknown`, which blocks the narrowest place only.
"""

from __future__ import annotations

import json

from nbprov.clouds.web.json_api import cause_of_status
from nbprov.model.clock import Seconds
from nbprov.model.failures import Cause, Failure, Scope

CAUSES: dict[str, Cause] = {
    "sold_out": Cause.CAPACITY,
    "limit": Cause.QUOTA,
    "no_such_type": Cause.NOT_OFFERED,
    "gone": Cause.NOT_OFFERED,
    "bad_key": Cause.CREDENTIALS,
    "no_funds": Cause.BALANCE,
    "forbidden": Cause.PERMISSION,
    "invalid": Cause.BAD_REQUEST,
    "slow_down": Cause.RATE_LIMIT,
    "maintenance": Cause.TRANSIENT,
}
"""The cloud's own code to its cause. Go by codes where there are any: words change."""

SCOPES: dict[Cause, Scope] = {}
"""How far a block reaches, where this cloud differs from the cause's own rule.

An example is a quota of the whole account.
"""


def failure_of(
    status: int, body: str, pause: Seconds | None = None, *, path: str = "", creates: bool = False
) -> Failure:
    """Return the failure that an answer means.

    With `creates` the request was a create, whose outcome is unknown after a gateway's error page.
    """
    code, words = said(body)
    cause = CAUSES.get(code) or cause_of_status(status, creates=creates)
    words = words or f"Pebble answered {status}"
    return Failure(cause, words, code or str(status), SCOPES.get(cause), pause)


def said(body: str) -> tuple[str, str]:
    """Return the code and the words in the body of a refusal.

    Both are empty if there are none, as in a gateway's error page.
    """
    try:
        document = json.loads(body)
    except ValueError:
        return "", ""
    told = document.get("error") if isinstance(document, dict) else None
    if not isinstance(told, dict):
        return "", ""
    return str(told.get("code") or ""), str(told.get("message") or "")
