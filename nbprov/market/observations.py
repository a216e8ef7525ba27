"""Observations of a market: the answers of clouds to attempts."""

from __future__ import annotations

from dataclasses import dataclass

from nbprov.model.clock import Instant, Seconds
from nbprov.model.failures import Cause
from nbprov.model.offers import Candidate
from nbprov.model.stock import Pool

ACCEPTED = "accepted"
"""The outcome of an attempt that was accepted; any other outcome is the value of a `Cause`."""

OUT_OF_STOCK = frozenset({Cause.CAPACITY.value, Cause.SPOT.value})
"""Outcomes that say something about stock.

Quota, credentials and the like concern the account alone; blocks deal with them.
"""


@dataclass(frozen=True, slots=True)
class Observation:
    """One answer of a cloud to an attempt.

    Attributes
    ----------
    count
        Number of machines requested together.
    outcome
        `accepted`, or the cause of the refusal.
    seconds
        Time from the request to the answer; None if not known.
    """

    at: Instant
    pool: Pool
    outcome: str
    count: int = 1
    seconds: Seconds | None = None

    @staticmethod
    def of(
        candidate: Candidate, outcome: str, at: Instant, seconds: Seconds | None = None
    ) -> Observation:
        """The observation that an attempt at a candidate makes."""
        return Observation(at, candidate.offer.pool, outcome, candidate.count, seconds)
