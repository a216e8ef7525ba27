"""One attempt as the failover sees it, and how long each of its phases may take."""

from __future__ import annotations

from dataclasses import dataclass

from nbprov.model.clock import Seconds
from nbprov.model.clusters import AttemptState
from nbprov.model.failures import Failure
from nbprov.model.offers import Candidate

PHASES = (AttemptState.BOOTING, AttemptState.SSH, AttemptState.AGENT, AttemptState.HEALTH)
"""What the machines of an accepted attempt are brought through, in this order; `health` only where something is checked."""

MADE = (AttemptState.ACCEPTED, *PHASES)
"""States in which machines of an attempt exist and are wanted."""


@dataclass(frozen=True, slots=True)
class Deadlines:
    """How long each phase of an attempt may take; the capabilities of its cloud and the spec say.

    Attributes
    ----------
    health
        None where the machines are not checked.
    """

    accepted: Seconds
    booting: Seconds
    ssh: Seconds
    agent: Seconds
    health: Seconds | None = None


@dataclass(slots=True)
class Attempt:
    """What the machine knows of one attempt. Changed only by `Failover`."""

    token: str
    candidate: Candidate
    number: int
    slot: int
    state: AttemptState = AttemptState.INTENT
    deadline: Seconds = float("inf")
    failure: Failure | None = None
    ids: tuple[str, ...] = ()
    tries: int = 1
    retry_at: Seconds | None = None
    begun: Seconds = float("-inf")

    @property
    def is_over(self) -> bool:
        """Whether its slot is free again."""
        return self.state.is_final


def limit(limits: Deadlines, phase: AttemptState) -> Seconds | None:
    """How long a phase may take; None where an attempt does not go through it."""
    return {
        AttemptState.BOOTING: limits.booting,
        AttemptState.SSH: limits.ssh,
        AttemptState.AGENT: limits.agent,
        AttemptState.HEALTH: limits.health,
    }[phase]
