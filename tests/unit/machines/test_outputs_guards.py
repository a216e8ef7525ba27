"""Guards of machines with outputs: a running kernel pulls them; a hanging pull delays no end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from outputs_world import listed, make, state
from tunnel_world import SPEC, WAIT_SECONDS, TunnelWorld, until

from nbprov import api
from nbprov.model.clusters import ClusterState
from nbprov.provisioning.live_cluster import agent_of
from nbprov.provisioning.supervision import cloud_watcher, guard_config, outputs_grace
from nbprov.provisioning.supervision.guard_config import NOTHING
from nbprov.remote.agent.config import GuardConfig

pytestmark = [pytest.mark.machine, pytest.mark.usefixtures("bare_names")]


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cloud_watcher, "LEAST_WATCH", 0.1)
    monkeypatch.setattr(outputs_grace, "HOLD_LOOK", 0.3)


@pytest.fixture
def up(world: TunnelWorld, tmp_path: Path) -> Callable[..., api.Cluster]:
    """Starts a cluster that has results."""

    def begin(rest: str = "") -> api.Cluster:
        run = world.session.provision(
            SPEC % "" + f"\noutputs: [results]{rest}", "dev", folder=str(tmp_path / "nb")
        )
        assert isinstance(run, api.Run)
        cluster = run.launch().wait(WAIT_SECONDS)
        make(cluster, "mkdir results; echo 1 >results/a")
        return cluster

    (tmp_path / "nb").mkdir()
    return begin


def trip(world: TunnelWorld, **changes: Any) -> None:
    """Give the agent and the ledger guards that are due at once."""
    engine = world.session.engine
    row = engine.cluster("dev")
    known = engine.ledger.guards.get(row.run_id)
    assert known is not None
    config = replace(GuardConfig.from_json(known[0]), **changes)
    engine.ledger.guards.set(row.run_id, 0, config.to_json(), {})
    live = engine.live[row.run_id]
    engine.thread.call(agent_of(live.head).set_guards(config)).result(WAIT_SECONDS)


def hanging(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make every pull hang."""
    import nbprov.machines.files.outputs as outputs

    async def hangs(*given: Any, **more: Any) -> Any:
        await asyncio.sleep(3600)

    monkeypatch.setattr(outputs, "pull", hangs)


def gone(world: TunnelWorld, cluster: api.Cluster) -> None:
    until(lambda: state(world, cluster) is ClusterState.ENDED, "it ended")


def test_an_idle_machine_is_relieved_of_its_outputs_and_ends(
    world: TunnelWorld, tmp_path: Path, up: Callable[..., api.Cluster]
) -> None:
    cluster = up()
    trip(world, idle_seconds=0.5, wait_for="none", hold_seconds=600.0)
    gone(world, cluster)  # long before the ten minutes are over
    assert listed(tmp_path / "nb" / "dev-outputs") == ["results/a"]


@pytest.mark.parametrize(
    "changes",
    [{"idle_seconds": 0.5, "wait_for": "none", "hold_seconds": 2.0}, {"max_lifetime_seconds": 4.0}],
)
def test_a_pull_that_hangs_puts_no_end_off(
    world: TunnelWorld,
    up: Callable[..., api.Cluster],
    monkeypatch: pytest.MonkeyPatch,
    changes: dict[str, Any],
) -> None:
    cluster = up()
    hanging(monkeypatch)
    trip(world, **changes)
    gone(world, cluster)


@pytest.mark.parametrize("hangs", [False, True])
def test_where_only_a_kernel_ends_it(
    world: TunnelWorld,
    tmp_path: Path,
    up: Callable[..., api.Cluster],
    monkeypatch: pytest.MonkeyPatch,
    hangs: bool,
) -> None:
    cloud = world.session.engine.cloud("local").adapter
    cloud.capabilities = replace(cloud.capabilities, poweroff_ends_bill=False, own_timer=False)
    cluster = up()
    if hangs:
        hanging(monkeypatch)
    trip(
        world,
        poweroff=NOTHING,
        idle_seconds=0.5,
        wait_for="none",
        hold_seconds=2.0 if hangs else 600.0,
    )
    gone(world, cluster)
    assert listed(tmp_path / "nb" / "dev-outputs") == ([] if hangs else ["results/a"])


def test_with_outputs_the_plan_says_who_takes_them(world: TunnelWorld) -> None:
    run = world.session.provision(SPEC % "" + "\noutputs: [results]", "dev")
    assert isinstance(run, api.Run)
    (note,) = [note for note in run.view().notes if note.startswith("outputs: ")]
    assert "while none runs the machine waits 10 min" in note
    assert guard_config.output_notes(run.spec) == [note]


ENDS = ["whole", "partly", "raises", "hangs", "refuses to be cancelled for a while", "is cancelled"]


@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.sampled_from(ENDS), st.floats(0.0, 0.1))
def test_whatever_a_pull_does_the_word_comes_in_time(shared: Any, how: str, seconds: float) -> None:
    engine = shared.world.session.engine

    async def take(row: Any, within: float) -> bool:
        if how == "raises":
            raise RuntimeError("a fault")
        if how == "is cancelled":
            raise asyncio.CancelledError
        if how == "hangs":
            await asyncio.sleep(3600)
        if how.startswith("refuses"):
            try:
                await asyncio.sleep(3600)
            except asyncio.CancelledError:
                await asyncio.sleep(0.05)
        return how == "whole"

    async def asked() -> tuple[bool, float]:
        loop = asyncio.get_running_loop()
        began = loop.time()
        said = await engine.lifecycle.controller(engine.cluster("dev")).outputs_grace.pull(
            engine.cluster("dev"), seconds
        )
        return said, loop.time() - began

    usual, engine.hooks.take_outputs = engine.hooks.take_outputs, take
    try:
        said, took = engine.thread.call(asked()).result(WAIT_SECONDS)
    finally:
        engine.hooks.take_outputs = usual
    assert took < seconds + 5.0
    assert how == "whole" or not said
