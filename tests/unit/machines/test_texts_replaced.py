"""Nobody reads a text of the ledger.

Clusters live as they do with every reason and event text replaced by random words.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from life_world import BIG, FULL, LATER, alive, market, other_kernel
from outputs_world import listed, make, state
from replaced_texts import RANDOM
from test_outputs_silence import SECOND, due_now, stopped_by_its_guard
from tunnel_world import SPEC, WAIT_SECONDS, TunnelWorld, until

from nbprov import api
from nbprov.model.clusters import ClusterState, DesiredState
from nbprov.model.errors import NotFound
from nbprov.model.events import CLUSTER_EVENTS, EventKind
from nbprov.provisioning.ledger import ClusterRow
from nbprov.provisioning.supervision import cloud_watcher
from nbprov.provisioning.supervision.cluster_controller import ClusterController

pytestmark = [pytest.mark.machine, pytest.mark.usefixtures("texts", "bare_names")]

Up = Callable[..., api.Cluster]


@pytest.fixture
def up(world: TunnelWorld, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Up:
    """Brings a cluster up that has results."""
    monkeypatch.setattr(cloud_watcher, "LEAST_WATCH", 0.1)
    (tmp_path / "nb").mkdir()

    def begin(name: str = "dev", rest: str = "") -> api.Cluster:
        run = world.session.provision(
            SPEC % rest + "\noutputs: [results]", name, folder=str(tmp_path / "nb")
        )
        assert isinstance(run, api.Run)
        cluster = run.launch().wait(WAIT_SECONDS)
        make(cluster, f"mkdir results; echo 1 >results/{name}")
        return cluster

    return begin


def row_of(world: TunnelWorld, cluster: api.Cluster) -> ClusterRow:
    row = world.session.engine.ledger.clusters.by_id(cluster.cluster_id)
    assert row is not None
    return row


def changes(world: TunnelWorld, cluster: api.Cluster) -> list[EventKind]:
    """What became of a cluster, in order."""
    return [
        e.kind
        for e in world.session.engine.ledger.events.of_run(cluster.cluster_id)
        if e.kind in CLUSTER_EVENTS
    ]


def are_left(world: TunnelWorld, cluster: api.Cluster) -> bool:
    """Whether a stopped cluster has outputs that nobody brought."""
    return world.session.services.outputs.are_left(row_of(world, cluster))


def pulled_long_ago(world: TunnelWorld) -> None:
    """What was pulled until now is not all that there is."""
    with world.session.engine.ledger.together() as db:
        db.execute(
            "UPDATE events SET at = at - 28800 WHERE kind = ?",
            (EventKind.OUTPUTS_PULL_ENDED.value,),
        )


def test_a_stop_a_start_and_one_that_fails(world: TunnelWorld, up: Up) -> None:
    dev = up()
    dev.stop().wait(WAIT_SECONDS)
    assert (row_of(world, dev).desired_state, are_left(world, dev)) == (DesiredState.STOPPED, False)
    market(world, FULL)
    with pytest.raises(Exception, match="no room"):
        dev.start().wait(WAIT_SECONDS)
    assert (state(world, dev), are_left(world, dev)) == (ClusterState.STOPPED, False), (
        "nobody used it meanwhile"
    )
    assert changes(world, dev) == [
        EventKind.CLUSTER_STOPPED,
        EventKind.CLUSTER_START_FAILED,
        EventKind.CLUSTER_STOPPED,
    ]
    market(world)
    dev.start().wait(WAIT_SECONDS)
    assert (state(world, dev), row_of(world, dev).desired_state) == (
        ClusterState.RUNNING,
        DesiredState.RUNNING,
    )
    stopped_by_its_guard(world, dev)
    assert are_left(world, dev), "it ran, and nobody pulled since"
    dev.start().wait(WAIT_SECONDS)
    dev.down().wait(WAIT_SECONDS)
    assert changes(world, dev)[3:] == [
        *(EventKind.CLUSTER_STARTED, EventKind.CLUSTER_STOPPED, EventKind.CLUSTER_STARTED),
        EventKind.CLUSTER_ENDED,
    ]


@pytest.mark.parametrize(
    "desired", [DesiredState.ENDED, DesiredState.ENDED_WITHOUT_OUTPUTS, DesiredState.STOPPED]
)
def test_the_next_kernel_goes_on_with_what_a_dead_one_was_asked_for(
    world: TunnelWorld,
    tmp_path: Path,
    up: Up,
    monkeypatch: pytest.MonkeyPatch,
    desired: DesiredState,
) -> None:
    import nbprov.machines.files.outputs as outputs

    dev = up()
    begun: list[Any] = []

    async def hangs(*given: Any, **more: Any) -> Any:
        begun.append(given)
        raise AssertionError("this kernel dies before it pulls")

    with monkeypatch.context() as patch:
        patch.setattr(outputs, "pull", hangs)
        world.session.engine.lifecycle.asked.add(dev.cluster_id)
        assert world.session.engine.lifecycle.ask(row_of(world, dev), desired, "you asked for it")
        world.session.close()
    with other_kernel(world) as other:
        ledger = other.engine.ledger
        assert (row := ledger.clusters.named("dev")) is not None
        assert (row.state, row.desired_state, row.pending) == (
            ClusterState.RUNNING,
            desired,
            desired,
        )
        other.engine.thread.soon(other.engine.lifecycle.watch)
        goal = ClusterState.STOPPED if desired is DesiredState.STOPPED else ClusterState.ENDED
        until(
            lambda: (
                (row := ledger.clusters.by_id(dev.cluster_id)) is not None and row.state is goal
            ),
            "what was asked for",
        )
    assert listed(tmp_path / "nb" / "dev-outputs") == (
        [] if desired is DesiredState.ENDED_WITHOUT_OUTPUTS else ["results/dev"]
    )


def test_what_is_used_again_is_kept(world: TunnelWorld, tmp_path: Path, up: Up) -> None:
    dev = up()
    engine = world.session.engine
    engine.lifecycle.asked.add(dev.cluster_id)
    assert engine.lifecycle.ask(row_of(world, dev), DesiredState.ENDED, "you ended it")
    again = world.session.provision(
        SPEC % "" + "\noutputs: [results]", "dev", folder=str(tmp_path / "nb")
    )
    assert isinstance(again, api.Cluster)
    assert (row_of(world, dev).desired_state, row_of(world, dev).pending) == (
        DesiredState.KEPT,
        None,
    )
    engine.lifecycle.asked.discard(dev.cluster_id)
    make(dev, "sleep 1")  # some rounds of the watcher
    assert state(world, dev) is ClusterState.RUNNING


def test_one_that_was_replaced_or_renamed(
    world: TunnelWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    market(world, BIG)
    dev = world.up()
    made = world.session.provision(LATER, "dev-next")
    assert isinstance(made, api.Run)
    new = made.launch().wait(WAIT_SECONDS)
    with monkeypatch.context() as patch:
        patch.setattr(ClusterController, "resume", lambda self, row: None)
        world.session.engine.ledger.clusters.take_place(
            new.cluster_id, dev.cluster_id, "dev-old", "another cluster is called dev now"
        )
        assert row_of(world, dev).desired_state is DesiredState.REPLACED
        with pytest.raises(Exception, match="is to be ended meanwhile"):
            world.session.cluster("dev-old").stop().wait(WAIT_SECONDS)
    until(lambda: alive(world) == ["running"], "the end by the watcher")
    with pytest.raises(NotFound, match="it is called dev now"):
        world.session.engine.cluster("dev-next")


def test_the_second_clock_of_a_stopped_cluster(world: TunnelWorld, tmp_path: Path, up: Up) -> None:
    dev, other = up(rest=SECOND), up("other", rest=SECOND)
    for cluster in (dev, other):
        cluster.outputs()
        stopped_by_its_guard(world, cluster)
        assert not are_left(world, cluster)
    pulled_long_ago(world)
    assert are_left(world, dev)
    due_now(world, dev)
    until(
        lambda: state(world, dev) is ClusterState.ENDED, "it was started for its outputs, and ended"
    )
    assert changes(world, dev) == [
        EventKind.CLUSTER_STOPPED,
        EventKind.CLUSTER_STARTED,
        EventKind.CLUSTER_ENDED,
    ]
    assert state(world, other) is ClusterState.STOPPED
    market(world, FULL)
    due_now(world, other, 1.0)
    until(lambda: state(world, other) is ClusterState.ENDED, "it could not be started, and ended")
    tries = [
        e
        for e in world.session.engine.ledger.events.of_run(other.cluster_id)
        if e.kind is EventKind.OUTPUTS_START_FAILED
    ]
    assert len(tries) == 1


def test_the_words_are_replaced(world: TunnelWorld) -> None:
    dev = world.up()
    dev.down().wait(WAIT_SECONDS)
    assert RANDOM.fullmatch(row_of(world, dev).reason)
