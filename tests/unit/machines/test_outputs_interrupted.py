"""Pulls of outputs that are interrupted: by silence, other notebooks, or the end of the kernel."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from life_world import other_kernel
from outputs_world import Up, listed, make, said, state
from tunnel_world import SPEC, WAIT_SECONDS, TunnelWorld, until

from nbprov import api
from nbprov.api.services import outputs as taking
from nbprov.machines.files.outputs import OutputsNotPulled
from nbprov.model.clusters import ClusterState, DesiredState

pytestmark = [pytest.mark.machine, pytest.mark.usefixtures("bare_names")]


def test_a_machine_that_does_not_answer_is_ended_without(
    world: TunnelWorld, up: Up, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = up("[results]")
    make(cluster, "mkdir results; touch results/a")
    monkeypatch.setattr(taking, "REACH_SECONDS", 0.5)

    async def never(name: str) -> Any:
        import asyncio

        await asyncio.sleep(3600)

    monkeypatch.setattr(world.session.engine, "attach", never)
    cluster.down().wait(WAIT_SECONDS)
    assert state(world, cluster) is ClusterState.ENDED
    assert said(cluster, world)[-1].endswith("its end goes on without them")


def test_a_line_that_is_away_for_a_moment_loses_nothing(
    world: TunnelWorld, notebook: Path, up: Up, monkeypatch: pytest.MonkeyPatch
) -> None:
    from nbprov.model.failures import Cause, CloudError, Failure

    cluster = up("[results]")
    make(cluster, "mkdir results; touch results/a")
    monkeypatch.setattr(taking, "REACH_PAUSE", 0.05)
    attach, refused = world.session.engine.attach, []

    async def away(name: str) -> Any:
        if len(refused) < 3:
            refused.append(name)
            raise CloudError(
                Failure(Cause.TRANSIENT, "the name of the cloud could not be resolved")
            )
        return await attach(name)

    monkeypatch.setattr(world.session.engine, "attach", away)
    cluster.down().wait(WAIT_SECONDS)
    assert (state(world, cluster), listed(notebook / "dev-outputs")) == (
        ClusterState.ENDED,
        ["results/a"],
    )


def test_a_name_that_is_given_meanwhile_is_followed(
    world: TunnelWorld, notebook: Path, up: Up
) -> None:
    cluster = up("[results]")
    make(cluster, "mkdir results; touch results/a")
    engine = world.session.engine
    row = engine.ledger.clusters.named("dev")
    assert row is not None
    cluster.rename("train")
    engine.thread.call(world.session.services.outputs.take(row)).result(WAIT_SECONDS)
    assert listed(notebook / "dev-outputs") == ["results/a"]


def test_what_somebody_else_ends_meanwhile_is_not_called_kept(
    world: TunnelWorld, up: Up, monkeypatch: pytest.MonkeyPatch
) -> None:
    import nbprov.machines.files.outputs as outputs

    cluster = up("[results]")
    engine = world.session.engine
    row = engine.ledger.clusters.named("dev")
    assert row is not None

    async def ended(*given: Any, **more: Any) -> Any:
        await engine.lifecycle.down(row, "another notebook ended it")
        raise OSError("the machine is gone")

    monkeypatch.setattr(outputs, "pull", ended)
    cluster.down().wait(WAIT_SECONDS)
    assert state(world, cluster) is ClusterState.ENDED


def test_a_kernel_that_ends_in_the_middle_leaves_the_end_to_the_next(
    world: TunnelWorld, notebook: Path, up: Up, monkeypatch: pytest.MonkeyPatch
) -> None:
    import asyncio

    import nbprov.machines.files.outputs as outputs

    cluster = up("[results]")
    make(cluster, "mkdir results; touch results/a")
    begun: list[object] = []

    async def hangs(*given: Any, **more: Any) -> Any:
        begun.append(given)
        await asyncio.sleep(3600)

    with monkeypatch.context() as patch:
        patch.setattr(outputs, "pull", hangs)
        cluster.down()
        until(lambda: begun, "the pull began")
        world.session.close()
        assert listed(notebook / "dev-outputs") == []
    with other_kernel(world) as other:
        ledger = other.engine.ledger
        row = ledger.clusters.named("dev")
        assert row is not None
        assert (row.state, row.desired_state, row.reason) == (
            ClusterState.RUNNING,
            DesiredState.ENDED,
            "you ended it",
        )
        assert other.cluster("dev").view().reason == "to be ended: you ended it"
        other.engine.thread.soon(other.engine.lifecycle.watch)
        ended = until(
            lambda: (
                row
                if (row := ledger.clusters.by_id(cluster.cluster_id))
                and row.state is ClusterState.ENDED
                else None
            ),
            "the end",
        )
        assert ended.reason == "you ended it"
    assert listed(notebook / "dev-outputs") == ["results/a"]


def test_what_is_used_again_is_not_ended(world: TunnelWorld, notebook: Path, up: Up) -> None:
    cluster = up("[results]")
    ledger = world.session.engine.ledger
    # As if the kernel died during the pull; nobody continues it yet.
    world.session.engine.lifecycle.asked.add(cluster.cluster_id)
    assert ledger.clusters.move(
        cluster.cluster_id, ClusterState.RUNNING, "you ended it", desired=DesiredState.ENDED
    )
    again = world.session.provision(SPEC % "" + "\noutputs: [results]", "dev", folder=str(notebook))
    assert isinstance(again, api.Cluster)
    row = ledger.clusters.named("dev")
    assert row is not None
    assert row.pending is None


def test_no_outputs_breaks_a_pull_off(
    world: TunnelWorld, up: Up, monkeypatch: pytest.MonkeyPatch
) -> None:
    import asyncio

    import nbprov.machines.files.outputs as outputs

    cluster = up("[results]")
    make(cluster, "mkdir results; touch results/a")
    begun: list[object] = []

    async def hangs(*given: Any, **more: Any) -> Any:
        begun.append(given)
        await asyncio.sleep(3600)

    monkeypatch.setattr(outputs, "pull", hangs)
    first = cluster.down()
    until(lambda: begun, "the pull began")
    assert not first.done
    cluster.down(outputs=False).wait(WAIT_SECONDS)
    first.wait(WAIT_SECONDS)
    assert state(world, cluster) is ClusterState.ENDED


def test_a_pull_that_brings_nothing_is_given_up(
    world: TunnelWorld, up: Up, monkeypatch: pytest.MonkeyPatch
) -> None:
    import asyncio

    import nbprov.machines.files.outputs as outputs

    cluster = up("[results]")

    async def hangs(*given: Any, **more: Any) -> Any:
        await asyncio.sleep(3600)

    monkeypatch.setattr(outputs, "pull", hangs)
    monkeypatch.setattr(outputs, "STALL_SECONDS", 0.3)
    monkeypatch.setattr(outputs, "LOOK_SECONDS", 0.1)
    with pytest.raises(OutputsNotPulled, match="hardly a byte"):
        cluster.down().wait(WAIT_SECONDS)


def test_a_pull_that_comes_to_no_end_is_given_up(
    world: TunnelWorld, up: Up, monkeypatch: pytest.MonkeyPatch
) -> None:
    import nbprov.machines.files.outputs as outputs

    (cluster := up("[results]")).bash(
        "mkdir -p results; head -c 30000000 /dev/zero > results/new", timeout=WAIT_SECONDS
    )
    monkeypatch.setattr(outputs, "MOST_SECONDS", 0.0)
    monkeypatch.setattr(outputs, "LOOK_SECONDS", 0.001)
    with pytest.raises(OutputsNotPulled, match="not all had come after 0 seconds"):
        cluster.down().wait(WAIT_SECONDS)
