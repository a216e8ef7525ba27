"""Refusals of the network in front of a provider, which the provider has not heard of."""

from __future__ import annotations

import re

from nbprov.model.clock import Seconds
from nbprov.model.failures import Cause, Failure, Scope

_TOO_MANY = re.compile(r"error (?:code: )?1015\b|rate[ -]limit|banned you temporarily", re.I)
"""Cloudflare's words to a client that asked too often, with a status that says something else."""
_BAN = re.compile(r"error (?:code:? ?)?(?:100[5-9]|1010|1020)\b", re.I)
"""Cloudflare's words to an address, a country or a client that is banned until somebody ends it."""
_MOST_READ = 8000
MOST_PAUSE: Seconds = 300.0


def edge_failure(
    message: str, body: str, status: int, pause: Seconds | None = None, *, creates: bool = False
) -> Failure:
    """Return the failure that a page or a line in place of a provider's own answer means.

    A standing ban stops creates at this cloud, and any other page makes this cloud's places come
    last. Other requests, such as one that ends a machine, are still repeated.

    Parameters
    ----------
    message
        What of the body a person is shown.
    creates
        The request was a create.

    Examples
    --------
    >>> edge_failure("blocked", "error code: 1015", 403).cause.value
    'rate_limit'
    >>> edge_failure("blocked", "error code: 1020", 403).cause.value
    'transient'
    >>> edge_failure("blocked", "error code: 1020", 403, creates=True).cause.value
    'permission'
    """
    if creates and _BAN.search(body[:_MOST_READ]):
        words = (
            f"the network in front of this cloud refuses this computer or its address: {message}"
        )
        return Failure(Cause.PERMISSION, words, str(status), Scope.ACCOUNT)
    cause = Cause.RATE_LIMIT if _TOO_MANY.search(body[:_MOST_READ]) else Cause.TRANSIENT
    scope = Scope.ACCOUNT if creates and cause is Cause.TRANSIENT else None
    pause = None if pause is None else min(pause, MOST_PAUSE)
    return Failure(cause, message, str(status), scope, pause)
