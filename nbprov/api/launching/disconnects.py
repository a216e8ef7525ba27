"""Why work on a cluster was cut off: somebody, perhaps in another notebook, stopped or ended it meanwhile."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nbprov.model.clusters import ClusterState
from nbprov.model.errors import NbprovError

if TYPE_CHECKING:
    from nbprov.provisioning.engine import Engine

CLOSED = "agent.closed"
_LINES = (CLOSED, "agent.lost", "agent.timeout", "agent.start-timeout")
_WORDS = {
    ClusterState.STOPPING: "is being stopped",
    ClusterState.STOPPED: "was stopped",
    ClusterState.ENDING: "is being ended",
    ClusterState.ENDED: "has ended",
}


class ClusterLeft(NbprovError):
    """The cluster was stopped or ended while something was done on it."""

    code = "cluster.left"


def cut_off(engine: Engine, run_id: str, error: BaseException) -> BaseException:
    """The error as a person should see it: what became of the cluster, where that is why its line is gone."""
    from nbprov.remote.errors import SshError

    if not isinstance(error, SshError) and getattr(error, "code", "") not in _LINES:
        return error
    row = engine.ledger.clusters.of_run(run_id)
    if row is None:
        return error
    words = _WORDS.get(row.state)
    if words is not None:
        why = f" ({row.reason})" if row.reason else ""
        hint = (
            f"%nbprov start {row.name} brings it back"
            if row.state in (ClusterState.STOPPING, ClusterState.STOPPED)
            else "%clusters --all"
        )
        return ClusterLeft(
            f"{row.name} {words} while this ran{why}; a kernel's variables do not survive that",
            hint=hint,
        )
    if getattr(error, "code", "") == CLOSED:
        return ClusterLeft(
            f"{row.name} was stopped and started while this ran, here or in another notebook",
            hint="run the cell again; its variables are gone",
        )
    return error
