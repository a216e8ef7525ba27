"""From FluffyCloud's codes to causes: the one table.

What it does not know is `unknown`, which blocks the narrowest place only.
"""

from __future__ import annotations

import json

from nbprov.clouds.web.json_api import cause_of_status
from nbprov.model.clock import Seconds
from nbprov.model.failures import Cause, Failure, Scope

CAUSES = {
    "out-of-fluff": Cause.CAPACITY,
    "basket-full": Cause.QUOTA,
    "no-such-size": Cause.NOT_OFFERED,
    "gone": Cause.NOT_OFFERED,
    "who-are-you": Cause.CREDENTIALS,
    "no-carrots-left": Cause.BALANCE,
    "hands-off": Cause.PERMISSION,
    "nonsense": Cause.BAD_REQUEST,
    "other-words-same-token": Cause.BAD_REQUEST,
    "too-late": Cause.TIMEOUT,
    "too-eager": Cause.RATE_LIMIT,
    "napping": Cause.TRANSIENT,
}
SCOPES = {Cause.QUOTA: Scope.ACCOUNT}
"""FluffyCloud's basket is one an account, so no other burrow helps."""


def failure_of(
    status: int, body: str, pause: Seconds | None = None, *, path: str = "", creates: bool = False
) -> Failure:
    """The failure that an answer means.

    Examples
    --------
    >>> failure_of(409, '{"code": "out-of-fluff", "words": "no gpu left in meadow"}').cause
    <Cause.CAPACITY: 'capacity'>
    """
    try:
        said = json.loads(body)
        code, words = str(said.get("code") or ""), str(said.get("words") or "")
    except (ValueError, AttributeError):
        code, words = "", ""
    # A gateway's page in the place of an answer says nothing of what became of a create.
    cause = CAUSES.get(code) or cause_of_status(status, creates=creates)
    words = words or f"FluffyCloud answered {status}"
    return Failure(cause, words, code or str(status), SCOPES.get(cause), pause)
