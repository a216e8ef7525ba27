"""What was seen of a market: answers to attempts, and what a cloud says of its stock."""

from __future__ import annotations

from dataclasses import dataclass

from nbprov.model.clock import Instant, Seconds
from nbprov.model.failures import Cause
from nbprov.model.offers import Candidate
from nbprov.model.stock import Pool

ACCEPTED = "accepted"
"""The outcome of an attempt that was accepted; any other outcome is the value of a `Cause`."""

OUT_OF_STOCK = frozenset({Cause.CAPACITY.value, Cause.SPOT.value})
"""Outcomes that say something of stock. Quota, credentials and the like are the account's own affair, and blocks deal with them."""


@dataclass(frozen=True, slots=True)
class Observation:
    """One answer of a cloud.

    Attributes
    ----------
    count
        Machines that were asked for together.
    outcome
        `accepted`, or the cause of the refusal.
    seconds
        From the request to the answer; None where not known.
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
        """What an attempt at a candidate showed."""
        return Observation(at, Pool.of(candidate.offer), outcome, candidate.count, seconds)
