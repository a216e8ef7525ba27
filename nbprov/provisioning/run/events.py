"""The events that the failover takes, and the actions that it asks for. Values only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from nbprov.model.blocks import Block
from nbprov.model.clock import Instant, Seconds
from nbprov.model.clusters import AttemptState, RunState
from nbprov.model.failures import Failure
from nbprov.model.launches import PollResult
from nbprov.model.offers import Candidate

# Without slots, which would double what these classes cost at the first table of a kernel.

# ---------------------------------------------------------------- events


@dataclass(frozen=True)
class RunStarted:
    """The run begins (Launch was pressed)."""


@dataclass(frozen=True)
class Submitted:
    """The cloud took the create, and it can be polled."""

    token: str


@dataclass(frozen=True)
class SubmitFailed:
    """The create was refused at once, or its answer was lost (`unknown_outcome`)."""

    token: str
    failure: Failure


@dataclass(frozen=True)
class Withdrawn:
    """The create was never sent, for instance since its price is now above the agreed one."""

    token: str
    failure: Failure


@dataclass(frozen=True)
class Polled:
    """A poll of the create answered."""

    token: str
    result: PollResult


@dataclass(frozen=True)
class Partial:
    """Fewer machines were made than asked for, and the rest did not come while they were held."""

    token: str
    ids: tuple[str, ...]
    failure: Failure


@dataclass(frozen=True)
class Resolved:
    """The cloud's list says which ids a create with an unknown outcome made, if any."""

    token: str
    ids: tuple[str, ...]


@dataclass(frozen=True)
class PhaseDone:
    """The machines are through a phase: booting, ssh, agent or health."""

    token: str
    phase: AttemptState


@dataclass(frozen=True)
class PhaseFailed:
    """A machine that exists did not become usable."""

    token: str
    failure: Failure


@dataclass(frozen=True)
class Gone:
    """The cloud's list confirms that nothing of this attempt is left."""

    token: str


@dataclass(frozen=True)
class Cancel:
    """The user cancelled the run."""


@dataclass(frozen=True)
class Tick:
    """Time has passed."""


@dataclass(frozen=True)
class Woke:
    """Nobody looked for a while, such as while the computer slept."""


@dataclass(frozen=True)
class BlocksRead:
    """The blocks that hold now, those of other kernels included."""

    blocks: tuple[Block, ...]


@dataclass(frozen=True)
class Restocked:
    """A cloud has stock again of what this run wants."""


@dataclass(frozen=True)
class Prolonged:
    """The user lets the run wait for stock until a later time."""

    until: Instant


@dataclass(frozen=True)
class Replanned:
    """A new plan was made; `candidates` is None where none could be, and the old plan goes on."""

    candidates: Sequence[Candidate] | None


Event = (
    RunStarted
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
    | Woke
    | BlocksRead
    | Restocked
    | Prolonged
    | Replanned
)

# ---------------------------------------------------------------- actions


@dataclass(frozen=True)
class Submit:
    """Ask the price again, commit the intent, and send the create.

    `again` repeats the same launch with the same token.
    """

    token: str
    candidate: Candidate
    number: int
    slot: int
    again: bool = False


@dataclass(frozen=True)
class Follow:
    """Poll the create until it is decided."""

    token: str


@dataclass(frozen=True)
class Prepare:
    """Bring the machines of an attempt through a phase: booting, ssh, agent or health."""

    token: str
    phase: AttemptState


@dataclass(frozen=True)
class Resolve:
    """Find out whether a create with an unknown outcome made machines."""

    token: str


@dataclass(frozen=True)
class End:
    """Terminate the attempt's machines, and confirm by the cloud's list that none is left."""

    token: str


@dataclass(frozen=True)
class Abandon:
    """Cancel the tasks of this attempt: its deadline has passed, or it lost the race."""

    token: str


@dataclass(frozen=True)
class StoreBlock:
    """Store a block."""

    block: Block


@dataclass(frozen=True)
class Replan:
    """Plan again under the blocks that hold now."""


@dataclass(frozen=True)
class Pause:
    """Try nothing until this instant: all places were tried, and none had stock."""

    next_pass: Instant


@dataclass(frozen=True)
class BeginPass:
    """Try the places again."""

    number: int


@dataclass(frozen=True)
class HandOver:
    """Make this attempt the cluster."""

    token: str


@dataclass(frozen=True)
class Finish:
    """End the run: nothing of it is pending. `failure` is set where a single failure ended it."""

    state: RunState
    failure: Failure | None = None


@dataclass(frozen=True)
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
    | StoreBlock
    | Replan
    | Pause
    | BeginPass
    | HandOver
    | Finish
    | Wake
)
