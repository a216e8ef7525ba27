"""What the failover is told (events) and what it asks for (actions). Values only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from nbprov.model.clock import Instant, Seconds
from nbprov.model.clusters import AttemptState, RunState
from nbprov.model.failures import Failure
from nbprov.model.launches import PollResult
from nbprov.model.offers import Block, Candidate

# ---------------------------------------------------------------- events


@dataclass(frozen=True, slots=True)
class Started:
    """The run begins (Launch was pressed)."""


@dataclass(frozen=True, slots=True)
class Submitted:
    """The create was taken note of and can be polled."""

    token: str


@dataclass(frozen=True, slots=True)
class SubmitFailed:
    """The create was refused at once, or its answer was lost (`unknown_outcome`)."""

    token: str
    failure: Failure


@dataclass(frozen=True, slots=True)
class Withdrawn:
    """The create was never sent: its price is now beyond what was agreed."""

    token: str
    failure: Failure


@dataclass(frozen=True, slots=True)
class Polled:
    """A poll of the create answered."""

    token: str
    result: PollResult


@dataclass(frozen=True, slots=True)
class Partial:
    """Fewer machines were made than asked for, they were held, and the rest did not come."""

    token: str
    ids: tuple[str, ...]
    failure: Failure


@dataclass(frozen=True, slots=True)
class Resolved:
    """The cloud's own list says what became of an unknown outcome: the ids it made, or none."""

    token: str
    ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PhaseDone:
    """Booting, ssh, agent or health is done."""

    token: str
    phase: AttemptState


@dataclass(frozen=True, slots=True)
class PhaseFailed:
    """A machine that exists did not become usable."""

    token: str
    failure: Failure


@dataclass(frozen=True, slots=True)
class Gone:
    """A cloud listing says that nothing of this attempt is left."""

    token: str


@dataclass(frozen=True, slots=True)
class Cancel:
    """The person gave the run up."""


@dataclass(frozen=True, slots=True)
class Tick:
    """Time has passed."""


@dataclass(frozen=True, slots=True)
class Looked:
    """The blocks that hold now, others' included."""

    blocks: tuple[Block, ...]


@dataclass(frozen=True, slots=True)
class Restocked:
    """A cloud says that there is stock again of what this run wants."""


@dataclass(frozen=True, slots=True)
class Replanned:
    """The places that are left, in their order; None where no plan could be made and the old one goes on."""

    candidates: Sequence[Candidate] | None


Event = (
    Started
    | Submitted
    | SubmitFailed
    | Withdrawn
    | Polled
    | Partial
    | Resolved
    | PhaseDone
    | PhaseFailed
    | Gone
    | Cancel
    | Tick
    | Looked
    | Restocked
    | Replanned
)

# ---------------------------------------------------------------- actions


@dataclass(frozen=True, slots=True)
class Submit:
    """Commit the intent, ask the price again, send the create. `again` repeats the same launch with the same token."""

    token: str
    candidate: Candidate
    number: int
    slot: int
    again: bool = False


@dataclass(frozen=True, slots=True)
class Follow:
    """Poll the create until it is decided."""

    token: str


@dataclass(frozen=True, slots=True)
class Prepare:
    """Bring the machines of an attempt through a phase: booting, ssh, agent or health."""

    token: str
    phase: AttemptState


@dataclass(frozen=True, slots=True)
class Resolve:
    """Find out from the cloud's list whether an unknown outcome made machines."""

    token: str


@dataclass(frozen=True, slots=True)
class End:
    """Terminate the attempt's machines and confirm by listing that nothing is left."""

    token: str


@dataclass(frozen=True, slots=True)
class Abandon:
    """Stop whatever is being done for this attempt: its deadline has passed or it lost the race."""

    token: str


@dataclass(frozen=True, slots=True)
class Remember:
    """Store a block."""

    block: Block


@dataclass(frozen=True, slots=True)
class Replan:
    """Plan again with the blocks that hold now."""


@dataclass(frozen=True, slots=True)
class Rest:
    """All places were tried and none had stock: nothing is tried until this instant."""

    next_pass: Instant


@dataclass(frozen=True, slots=True)
class BeginPass:
    """The places are tried again."""

    number: int


@dataclass(frozen=True, slots=True)
class HandOver:
    """This attempt is the cluster."""

    token: str


@dataclass(frozen=True, slots=True)
class Finish:
    """The run is over and nothing of it is pending. `failure` is what ended it where one thing did."""

    state: RunState
    failure: Failure | None = None


@dataclass(frozen=True, slots=True)
class Wake:
    """Send a `Tick` at this instant of `elapsed` time."""

    at: Seconds


Action = (
    Submit
    | Follow
    | Prepare
    | Resolve
    | End
    | Abandon
    | Remember
    | Replan
    | Rest
    | BeginPass
    | HandOver
    | Finish
    | Wake
)
