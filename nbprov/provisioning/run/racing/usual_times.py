"""How long a cloud usually takes, learnt from what the ledger has seen of it."""

from __future__ import annotations

from collections.abc import Sequence

from nbprov.model.clock import Seconds
from nbprov.provisioning.ledger import Ledger

USUAL_ACCEPT: Seconds = 30.0
"""How long a cloud takes to accept a create while nothing was seen of it yet."""
LEAST_ACCEPT: Seconds = 5.0
"""The least such time, however quick a cloud is: a moment is not worth a second machine."""
SAMPLES = 50
"""This many of the latest acceptances, or clusters, of a cloud count."""
LEAST_SAMPLES = 5
"""Fewer of them say nothing."""
QUARTILE = 0.75


def usual_accept(ledger: Ledger, cloud: str) -> Seconds:
    """The time within which a cloud accepted three of four creates."""
    usual = _upper_quartile(ledger.observations.accept_seconds(cloud, SAMPLES))
    return USUAL_ACCEPT if usual is None else max(LEAST_ACCEPT, usual)


def usual_ready(ledger: Ledger, cloud: str) -> Seconds | None:
    """The time from the request within which three of four clusters of a cloud were ready.

    None while too few were seen.
    """
    return _upper_quartile(ledger.clusters.ready_seconds(cloud, SAMPLES))


def _upper_quartile(seen: Sequence[Seconds]) -> Seconds | None:
    if len(seen) < LEAST_SAMPLES:
        return None
    return sorted(seen)[min(len(seen) - 1, int(len(seen) * QUARTILE))]
