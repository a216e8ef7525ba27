"""Refusals of the network in front of a provider, which the provider has not heard of."""

from __future__ import annotations

import re

from nbprov.model.clock import Seconds
from nbprov.model.failures import Cause, Failure

_TOO_MANY = re.compile(r"error (?:code: )?1015\b|rate[ -]limit|banned you temporarily", re.I)
"""Cloudflare's words to a client that asked too often, with a status that says something else."""
_MOST_READ = 8000
MOST_PAUSE: Seconds = 300.0


def edge_failure(message: str, body: str, status: int, pause: Seconds | None = None) -> Failure:
    """Return the failure that a page or a line in place of a provider's own answer means.

    Parameters
    ----------
    message
        What of the body a person is shown.

    Examples
    --------
    >>> edge_failure("blocked", "error code: 1015", 403).cause.value
    'rate_limit'
    >>> edge_failure("blocked", "error code: 1020", 403).cause.value
    'transient'
    """
    cause = Cause.RATE_LIMIT if _TOO_MANY.search(body[:_MOST_READ]) else Cause.TRANSIENT
    pause = None if pause is None else min(pause, MOST_PAUSE)
    return Failure(cause, message, str(status), retry_after=pause)
