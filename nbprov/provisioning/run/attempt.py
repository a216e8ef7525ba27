"""One attempt as the failover sees it, and how long each of its phases may take."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from nbprov.model.clock import Seconds
from nbprov.model.clusters import AttemptState
from nbprov.model.failures import Failure
from nbprov.model.offers import Candidate

if TYPE_CHECKING:
    from nbprov.provisioning.ledger import LaunchRow

PHASES = (AttemptState.BOOTING, AttemptState.SSH, AttemptState.AGENT, AttemptState.HEALTH)
"""The phases of the machines of an accepted attempt, in order; `health` only if it is checked."""

MADE = (AttemptState.ACCEPTED, *PHASES)
"""States in which machines of an attempt exist and are wanted."""

AGENT_SECONDS: Seconds = 60.0
"""How long the agent may take to start and answer.

It is copied (60 kB) and Python starts, on a machine that is still busy booting.
"""

WATCH_SECONDS: Seconds = 900.0
"""A create that stays undecided is polled for this long; after that it counts as never made."""


@dataclass(frozen=True, slots=True)
class Deadlines:
    """How long each phase of an attempt may take, by its cloud's capabilities and the spec.

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

    def of_phase(self, phase: AttemptState) -> Seconds | None:
        """How long a phase may take; None where an attempt skips it."""
        return {
            AttemptState.BOOTING: self.booting,
            AttemptState.SSH: self.ssh,
            AttemptState.AGENT: self.agent,
            AttemptState.HEALTH: self.health,
        }[phase]


@dataclass(slots=True)
class Attempt:
    """What the failover knows of one attempt. Only the failover changes it.

    Attributes
    ----------
    slot
        The place in the race that the attempt holds until nothing of it can be on the bill.
    tries
        How often its create was sent.
    retry_at
        When its create is sent again, on the clock that counts suspend; None where it is not.
    begun
        When it began, on the same clock.
    """

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


def attempt_of(row: LaunchRow) -> Attempt:
    """An attempt as the ledger has it."""
    return Attempt(
        row.token,
        row.candidate,
        row.number,
        row.slot,
        state=row.state,
        failure=row.failure,
        ids=row.ids,
    )
