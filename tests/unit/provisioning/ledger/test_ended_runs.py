"""Which launches ended since an instant, and what is told of them."""

from __future__ import annotations

from dataclasses import replace

from manual_clock import ManualClock
from provisioning_samples import candidate, launch_row

from nbprov.api.reports.history import ended_since
from nbprov.model.clusters import ClusterState, RunState
from nbprov.provisioning.ledger import Ledger


def launched(ledger: Ledger, name: str) -> None:
    """A launch with one machine."""
    ledger.runs.open(
        name, name, "name: dev", folder="", race=1, consent=5, state=RunState.LAUNCHING
    )
    ledger.launches.intend(
        replace(launch_row(name, candidate(), now=ledger.clock.now()), run_id=name)
    )


def test_clusters_and_launches_that_ended_are_told_latest_first(
    ledger: Ledger, clock: ManualClock
) -> None:
    for name in ("old", "cluster", "lives"):
        launched(ledger, name)
        ledger.launches.accepted(name, (f"i-{name}",))
        ledger.clusters.hand_over(f"c-{name}", name, name, name, candidate())
    ledger.clusters.move("c-old", ClusterState.ENDED)
    clock.advance(3600.0)
    since = clock.now()
    launched(ledger, "failed")
    launched(ledger, "goes-on")
    clock.advance(60.0)
    ledger.clusters.move("c-cluster", ClusterState.ENDED)
    clock.advance(60.0)
    ledger.runs.move("failed", RunState.FAILED, "no place has stock")
    found = ended_since(ledger, since, 6)
    assert [(one.name, one.state, one.ended) for one in found] == [
        ("failed", RunState.FAILED, since + 120.0),
        ("cluster", RunState.ENDED, since + 60.0),
    ]
    assert found[0].reason == "no place has stock"
    assert found[1].cost > 0
    few = ended_since(ledger, since, 1)
    assert ([one.name for one in few], few.total) == (["failed"], 2)
