"""What the listed machines of a cluster say of its state, and what is wanted of it then. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from nbprov.model.clusters import ClusterState, DesiredState
from nbprov.model.launches import Instance, InstanceState
from nbprov.provisioning.ledger import ClusterRow

BILLED = (ClusterState.RUNNING, ClusterState.UNKNOWN)
"""States in which a cluster's machines cost money by the hour."""

SETTLED = (*BILLED, ClusterState.STOPPED)
"""States in which no verb is at work on a cluster."""

OVER = (ClusterState.ENDING, ClusterState.ENDED)

GOING = (InstanceState.GONE, InstanceState.ENDING)


def state_of(machines: Iterable[InstanceState]) -> ClusterState | None:
    """The state of a cluster by its machines; None while they change from one to another.

    A gang is all or nothing: where its machines disagree for good, its state is unknown.
    """
    states = set(machines)
    if states <= {InstanceState.GONE}:
        return ClusterState.ENDED
    if states & {InstanceState.ENDING, InstanceState.STOPPING}:
        return None
    if states == {InstanceState.STOPPED}:
        return ClusterState.STOPPED
    if states <= {InstanceState.RUNNING, InstanceState.PENDING}:
        return ClusterState.RUNNING
    return ClusterState.UNKNOWN


def reason_of(machines: Sequence[Instance]) -> str:
    """The first reason that a listing gives for the state of one of these machines."""
    return next((i.reason for i in machines if i.reason), "")


def is_incomplete(machines: Sequence[Instance], gone: set[str]) -> bool:
    """Whether some machines of a gang are gone or ending while others stay."""
    staying = [i for i in machines if i.state not in GOING]
    return bool(staying) and (bool(gone) or len(staying) < len(machines))


def incomplete_words(reason: str) -> str:
    """Why a gang is ended that has lost one of its machines."""
    return f"one of its machines is gone ({reason}), and the machines of a cluster end together"


def is_leaving(row: ClusterRow) -> bool:
    """Whether a cluster is to be ended or stopped, or was replaced: it needs no more machines."""
    return row.pending is not None or row.desired_state is DesiredState.REPLACED


def wanted_then(row: ClusterRow, state: ClusterState, listed: str) -> tuple[DesiredState, str]:
    """What is wanted of a cluster, and why, once a listing shows it in another state.

    A request of a person outlives a listing; otherwise what the listing shows counts as wanted.
    """
    # A stop that did not happen leaves a cluster that costs as if nobody had wanted one.
    is_unstopped = row.state is ClusterState.STOPPING and state is ClusterState.RUNNING
    if row.state is ClusterState.ENDING or is_leaving(row) or is_unstopped:
        return row.desired_state, row.reason
    return DesiredState.of(state), listed
