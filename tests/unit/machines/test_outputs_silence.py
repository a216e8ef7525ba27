"""Machines that fall silent with outputs on them, and stopped ones that are ended after a while.

Nothing goes on costing money, and nothing is lost without a word.
"""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from life_world import FULL, market
from outputs_world import listed, make, said, state
from tunnel_world import SPEC, WAIT_SECONDS, TunnelWorld, until

from nbprov import api
from nbprov.api.services import outputs as taking
from nbprov.model.clusters import ClusterState, DesiredState
from nbprov.model.events import EventKind
from nbprov.provisioning.supervision import cloud_watcher

pytestmark = [pytest.mark.machine, pytest.mark.usefixtures("bare_names")]

LEFT = (EventKind.OUTPUTS_ON_STOPPED_DISK, EventKind.OUTPUTS_START_FAILED)
SECOND = ", autostop: {idle_minutes: 60, down: false, down_after: 1h}"
in_proc = pytest.mark.skipif(
    not Path("/proc/self/stat").exists(), reason="finds a machine's processes in /proc"
)


@pytest.fixture
def up(
    world: TunnelWorld, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., api.Cluster]:
    """Starts a cluster that has results."""
    monkeypatch.setattr(cloud_watcher, "LEAST_WATCH", 0.1)

    def begin(name: str = "dev", rest: str = "") -> api.Cluster:
        run = world.session.provision(
            SPEC % rest + "\noutputs: [results]", name, folder=str(tmp_path / "nb")
        )
        assert isinstance(run, api.Run)
        cluster = run.launch().wait(WAIT_SECONDS)
        make(cluster, f"mkdir results; echo 1 >results/{name}")
        return cluster

    (tmp_path / "nb").mkdir()
    return begin


def _family(folder: str) -> list[int]:
    """Return the processes of all machines of a `local` cloud."""
    parents, found = {}, set()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError, IndexError):
                parents[int(entry.name)] = int(
                    (entry / "stat").read_text().rpartition(")")[2].split()[1]
                )
                if folder in (entry / "cmdline").read_text():
                    found.add(int(entry.name))
    while more := {pid for pid, parent in parents.items() if parent in found} - found:
        found |= more
    return sorted(found)


@contextlib.contextmanager
def frozen(world: TunnelWorld) -> Iterator[None]:
    """Make all machines hang: their connections stay open, and nothing answers."""
    pids = _family(str(world.home / "local" / "i"))
    assert pids
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)


@in_proc
def test_a_machine_that_falls_silent_under_the_pull_is_ended_also_where_an_end_is_resumed(
    world: TunnelWorld, up: Callable[..., api.Cluster], monkeypatch: pytest.MonkeyPatch
) -> None:
    import nbprov.machines.files.outputs as outputs

    dev, other = up(), up("other")
    monkeypatch.setattr(taking, "REACH_SECONDS", 4.0)
    engine, real = world.session.engine, outputs.pull
    hanging = contextlib.ExitStack()

    async def begun(*given: Any, **more: Any) -> Any:
        hanging.enter_context(frozen(world))
        return await real(*given, **more)

    monkeypatch.setattr(outputs, "pull", begun)
    with hanging:
        ended = dev.down()
        ended.wait(WAIT_SECONDS)
        assert state(world, dev) is ClusterState.ENDED
        assert "fell silent under the pull of its outputs" in said(dev, world)[-1]
        assert said(dev, world)[-1].endswith("its end goes on without them")
        # As if the kernel died during the pull.
        row = engine.ledger.clusters.named("other")
        assert row is not None
        assert engine.ledger.clusters.move(
            row.cluster_id, ClusterState.RUNNING, "you ended it", desired=DesiredState.ENDED
        )
        engine.thread.soon(engine.lifecycle.watch)
        until(lambda: state(world, other) is ClusterState.ENDED, "it is ended as by a first down")


@in_proc
def test_a_line_that_breaks_under_the_pull_loses_nothing_and_an_offline_computer_ends_nothing(
    world: TunnelWorld,
    tmp_path: Path,
    up: Callable[..., api.Cluster],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import nbprov.machines.files.outputs as outputs
    from nbprov.model.failures import Cause, CloudError, Failure

    dev = up()
    monkeypatch.setattr(taking, "REACH_SECONDS", 1.0)
    engine, real, cuts, tries = world.session.engine, outputs.pull, [], []
    cloud = engine.cloud("local")
    listing, reach = cloud.list, taking.OutputService._reached_once

    async def away(owner: str) -> Any:
        raise CloudError(Failure(Cause.TRANSIENT, "no network"))

    async def noted(service: Any, row: Any) -> Any:
        tries.append(row.name)
        return await reach(service, row)

    async def breaks(connection: Any, *given: Any, **more: Any) -> Any:
        if len(cuts) < 2:
            cuts.append(1)
            connection.abort()
        return await real(connection, *given, **more)

    monkeypatch.setattr(outputs, "pull", breaks)
    monkeypatch.setattr(taking.OutputService, "_reached_once", noted)
    with frozen(world):
        monkeypatch.setattr(cloud, "list", away)
        ended = dev.down()
        until(lambda: len(tries) > 2, "it was silent for a while")
        assert state(world, dev) is ClusterState.RUNNING
        monkeypatch.setattr(taking, "REACH_SECONDS", WAIT_SECONDS)
        earlier = len(tries)
        until(lambda: len(tries) > earlier, "it is waited for anew, and for longer")
        monkeypatch.setattr(cloud, "list", listing)
    ended.wait(WAIT_SECONDS)
    assert (len(cuts), listed(tmp_path / "nb" / "dev-outputs")) == (2, ["results/dev"])


def events(world: TunnelWorld, cluster: api.Cluster) -> list[str]:
    return [
        e.text
        for e in world.session.engine.ledger.events.of_run(cluster.cluster_id)
        if e.kind in LEFT
    ]


def due_now(world: TunnelWorld, cluster: api.Cluster, seconds: float = 0.1) -> None:
    """Make the end of a stopped cluster due."""
    ledger = world.session.engine.ledger
    known = ledger.guards.get(cluster.cluster_id)
    assert known is not None
    ledger.guards.set(cluster.cluster_id, 0, known[0] | {"down_after": seconds}, {})
    world.session.engine.thread.soon(world.session.engine.lifecycle.watch)


def stopped_by_its_guard(world: TunnelWorld, cluster: api.Cluster) -> None:
    engine = world.session.engine
    row = engine.ledger.clusters.by_id(cluster.cluster_id)
    assert row is not None
    engine.thread.call(engine.lifecycle.stop(row, "idle: nothing was done for 60 min")).result(
        WAIT_SECONDS
    )


def test_down_after_says_that_outputs_go_brings_them_and_ends(
    world: TunnelWorld, tmp_path: Path, up: Callable[..., api.Cluster]
) -> None:
    dev = up(rest=SECOND)
    dev.outputs()
    make(dev, "echo 2 >results/later")
    ledger = world.session.engine.ledger
    stopped_by_its_guard(world, dev)
    assert not events(world, dev)
    with ledger.together() as db:  # what was pulled a working day ago is not all that there is
        db.execute(
            "UPDATE events SET at = at - 28800 WHERE kind = ?",
            (EventKind.OUTPUTS_PULL_ENDED.value,),
        )
    world.session.engine.thread.soon(world.session.engine.lifecycle.watch)
    (told,) = until(lambda: events(world, dev), "it is said beforehand")
    assert told.startswith("its outputs are on its disk alone: at ")
    assert f"outputs: {told}" in dev.view().notes
    due_now(world, dev)
    until(lambda: state(world, dev) is ClusterState.ENDED, "it ended")
    assert listed(tmp_path / "nb" / "dev-outputs") == ["results/dev", "results/later"]
    row = world.session.engine.ledger.clusters.by_id(dev.cluster_id)
    assert row is not None
    assert row.reason.endswith("(down_after)")


def test_down_after_without_room_to_start_gives_one_more_while_and_then_ends(
    world: TunnelWorld, tmp_path: Path, up: Callable[..., api.Cluster]
) -> None:
    dev = up(rest=SECOND)
    stopped_by_its_guard(world, dev)
    market(world, FULL)
    due_now(world, dev, 1.0)
    told = until(
        lambda: [
            text
            for text in events(world, dev)
            if text.startswith("not brought: it could not be started")
        ],
        "one try",
    )
    assert "out of stock" in told[0]
    assert state(world, dev) is ClusterState.STOPPED
    until(lambda: state(world, dev) is ClusterState.ENDED, "it ended")
    assert listed(tmp_path / "nb" / "dev-outputs") == []
    row = world.session.engine.ledger.clusters.by_id(dev.cluster_id)
    assert row is not None
    assert row.reason.endswith("its outputs, which were on its disk alone, went with it")
