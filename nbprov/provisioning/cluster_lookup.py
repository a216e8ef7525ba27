"""Finds a live cluster by its name, or says what became of the name."""

from __future__ import annotations

from nbprov.model.clusters import ClusterState, RunState
from nbprov.model.errors import NotFound

from .ledger import ClusterRow, Ledger

UNDER_WAY = (RunState.LAUNCHING, RunState.WAITING, RunState.CANCELLING)


def find_cluster(ledger: Ledger, name: str) -> ClusterRow:
    """The live cluster of this name, from the ledger.

    Raises
    ------
    NotFound
        If there is none, naming those there are.
    """
    row = ledger.clusters.named(name)
    if row is not None and row.state is not ClusterState.ENDED:
        return row
    _check_launches(ledger, name)
    if called := ledger.clusters.now_called(name):
        raise NotFound(
            f"{name} was renamed: it is called {called} now",
            hint=f"%%on {called}",
            code="cluster.renamed",
        )
    live = [cluster.name for cluster in ledger.clusters.latest(live_only=True)]
    launched = [
        f"{run.name} (no cluster yet)" for run in ledger.runs.unfinished() if run.state in UNDER_WAY
    ]
    names = ", ".join([*live, *launched])
    ended = f" (it ended: {row.reason})" if row is not None and row.reason else ""
    raise NotFound(
        f"no live cluster is called {name!r}{ended}",
        hint=f"live clusters: {names or 'none; a %%provision cell makes one'}",
        code="cluster.not-found",
    )


def _check_launches(ledger: Ledger, name: str) -> None:
    """Raise `NotFound` where a launch of this name is under way."""
    run = next(
        (r for r in ledger.runs.unfinished() if r.name == name and r.state in UNDER_WAY), None
    )
    if run is None:
        return
    words = "waits for stock" if run.state is RunState.WAITING else f"is {run.state.value}"
    raise NotFound(
        f"{name} {words} and is no cluster yet",
        hint=f"%nbprov down {name} ends it",
        code="cluster.not-found",
    )
