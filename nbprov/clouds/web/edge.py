"""Refusals of the network in front of a provider, which the provider has not heard of."""

from __future__ import annotations

import re

from nbprov.model.clock import Seconds
from nbprov.model.failures import Cause, Failure

_TOO_MANY = re.compile(r"error code: 1015\b|rate[ -]?limit|banned you temporarily", re.IGNORECASE)
"""Cloudflare's words to a client that asked too often, with a status that says something else."""


def edge_failure(message: str, status: int, pause: Seconds | None = None) -> Failure:
    """Return the failure that a page or a line in place of a provider's own answer means.

    Examples
    --------
    >>> edge_failure("error code: 1015", 403).cause.value
    'rate_limit'
    >>> edge_failure("error code: 1020", 403).cause.value
    'transient'
    """
    cause = Cause.RATE_LIMIT if _TOO_MANY.search(message) else Cause.TRANSIENT
    return Failure(cause, message, str(status), retry_after=pause)
