"""Replacements whatever a cloud answers and wherever kernels die, with a cloud in memory.

Never more machines are billed than a cluster has, and none is left behind.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from replacing_world import NODES, RUN, TOKEN, Killed, World, launched

from nbprov.model.clusters import ClusterState, DesiredState
from nbprov.model.errors import NotFound
from nbprov.model.failures import Cause, CloudError, Failure
from nbprov.model.launches import CreateOperation, InstanceState, Launch
from nbprov.provisioning.live_cluster import LiveCluster, Node
from nbprov.provisioning.replacement import (
    admission,
    cluster_machines,
    node_bring_up,
    replace_node,
    replacement_create,
)
from nbprov.provisioning.replacement.policy import NotNow
from nbprov.provisioning.supervision.listing import cluster_listing
from nbprov.provisioning.supervision.verbs import starter, terminator, transition
from nbprov.provisioning.supervision.verbs.transition import CannotStop


@pytest.fixture
def patched(monkeypatch: pytest.MonkeyPatch) -> dict[str, World]:
    """No machines, keys or time of this computer's: `now` holds the world of the example."""
    now: dict[str, World] = {}

    async def sleep(seconds: float) -> None:
        await now["world"].sleep(seconds)

    class Shim:
        """asyncio, whose sleeps move the world's clock."""

        def __getattr__(self, name: str) -> Any:
            return sleep if name == "sleep" else getattr(asyncio, name)

    async def nothing(*_: object) -> None:
        pass

    async def opened(self: Any, row: Any, live: LiveCluster, node: Node) -> LiveCluster:
        now["world"].point()
        if now["world"].broken > 0:
            now["world"].broken -= 1
            raise CloudError(Failure(Cause.UNHEALTHY, "no ssh"))
        return live

    for module in (
        *(cluster_machines, node_bring_up, replace_node, replacement_create),
        *(cluster_listing, starter, terminator, transition),
    ):
        monkeypatch.setattr(module, "asyncio", Shim())
    monkeypatch.setattr(admission.Admission, "check_agents", nothing)
    monkeypatch.setattr(node_bring_up.NodeBringUp, "connect", opened)
    monkeypatch.setattr("nbprov.remote.ssh.keys.ClusterKeys.load", lambda folder: None)
    monkeypatch.setattr("nbprov.remote.boot.user_data.template_values", lambda keys: {})
    return now


EVENTS = st.lists(
    st.sampled_from(["round", "lose 1", "lose 2", "lose new", "wait", "down", "ask", "keep"]),
    max_size=10,
)
OUTCOMES = st.lists(st.sampled_from(["ok", "refused", "lost", "void", "late"]), max_size=5)


async def tell(world: World, events: Sequence[str]) -> None:
    wanted_down, asked_at = False, -1
    for event in ["lose 1", *events, *["wait"] * 8]:
        try:
            match event.split():
                case ["ask"] if world.row().state is ClusterState.RUNNING:
                    given = {"desired": DesiredState.ENDED, "was": ClusterState.RUNNING}
                    if world.ledger.clusters.move(
                        RUN, ClusterState.RUNNING, "you ended it", **given
                    ):
                        asked_at = world.sent
                case ["keep"]:
                    world.lifecycle.take_back(world.row())
                    asked_at = -1
                case ["lose", which]:
                    alive = [
                        i
                        for i in world.machines.values()
                        if i.state.is_billed and i.node == (1 if which == "new" else int(which))
                    ]
                    for i in alive[-1:]:
                        world.machines[i.id] = replace(
                            i, state=InstanceState.ENDING if which == "2" else InstanceState.GONE
                        )
                case ["down"]:
                    wanted_down = True
                    await world.lifecycle.down(world.row())
                case ["wait"]:
                    world.clock.advance(700.0)
            await world.round()
        except Killed:
            world.start_kernel()
        assert world.most <= NODES, "more machines were billed than the cluster has"
        assert asked_at in (-1, world.sent), (
            "nothing is asked for on account of a cluster that is to be ended"
        )
    if asked_at >= 0 and world.row().state is ClusterState.RUNNING:
        assert (
            sorted(world.billed()) == sorted(world.ledger.launches.ids_of(TOKEN)) or world.kills
        ), "what was on its way is ended meanwhile"
    world.kills.clear()
    world.lifecycle.take_back(world.row())
    for _ in range(12):
        world.clock.advance(700.0)
        if wanted_down and world.row().state is not ClusterState.ENDED:
            await world.lifecycle.down(world.row())
        await world.round()


@settings(
    max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    events=EVENTS,
    outcomes=OUTCOMES,
    kills=st.lists(st.integers(1, 60), max_size=3),
    broken=st.sampled_from([0, 0, 0, 1, 9]),
    replayable=st.booleans(),
)
def test_never_more_are_billed_than_there_should_be_and_none_is_left(
    patched: dict[str, World],
    events: list[str],
    outcomes: list[str],
    kills: list[int],
    broken: int,
    replayable: bool,
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        world = patched["world"] = World(Path(folder), outcomes, [], broken, replayable)
        launched(world)
        world.kills = {world.points + k for k in kills}
        asyncio.run(tell(world, events))
        row, billed = world.row(), sorted(world.billed())
        assert world.most <= NODES
        assert not world.late
        if row.state is ClusterState.ENDED:
            assert billed == []
            assert world.ledger.prices.hourly_now(TOKEN) == 0
        else:
            assert row.state is ClusterState.RUNNING
            assert billed == sorted(world.ledger.launches.ids_of(TOKEN)), (
                "what is billed is the cluster's"
            )
            assert broken or [
                world.machines[i].node for i in world.ledger.launches.ids_of(TOKEN)
            ] == [
                0,
                1,
                2,
            ], "and it is whole"
            assert world.ledger.prices.hourly_now(TOKEN) == len(billed) * row.candidate.offer.hourly
        assert world.ledger.replacements.open_one(TOKEN) is None
        world.ledger.close()


def test_an_idle_cluster_is_not_kept_on_the_bill_by_machines_that_are_lost_again_and_again(
    patched: dict[str, World], tmp_path: Path
) -> None:
    world = patched["world"] = World(tmp_path, [], [], 0, True)
    launched(world)
    world.ledger.leases.take(RUN)
    world.ledger.guards.set(
        RUN, 0, {"poweroff": ":", "idle_seconds": 3600.0, "mode": "terminate"}, {}
    )
    world.ledger.leases.release(RUN)

    def check(*, idle: float, active: tuple[str, ...] = ()) -> None:
        status = cast("Any", SimpleNamespace(idle=idle, active=active))
        cloud = cast("Any", world)
        machines = cluster_machines.ClusterMachines(world.ledger, cloud, world.row())
        work = admission.Admission(world.context, cloud, world.row(), machines)
        work.check_used([status, status])

    check(idle=3000.0)
    asyncio.run(tell(world, []))
    world.clock.advance(1500.0)
    check(idle=1500.0 + 12 * 701.0)  # two that were lost at once are both replaced
    (machine,) = [i for i in world.machines.values() if i.state.is_billed and i.node == 1]
    world.machines[machine.id] = replace(machine, state=InstanceState.GONE)
    asyncio.run(world.lifecycle.observe(cast("Any", world)))
    joined = max(r.ended or 0.0 for r in world.ledger.replacements.of_launch(TOKEN))
    since = world.clock.now() - joined
    with pytest.raises(NotNow, match="nothing was at work since"):
        check(idle=since)
    check(idle=since - 600.0)
    check(idle=since, active=("cell",))
    world.ledger.close()


def test_who_stops_or_starts_a_cluster_in_whose_place_another_was_put_does_not_keep_it_from_its_end(
    patched: dict[str, World], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = patched["world"] = World(tmp_path, [], [], 0, True)
    launched(world)
    world.capabilities = replace(world.capabilities, stop=True)
    before = world.row()
    world.ledger.clusters.move(
        RUN,
        ClusterState.RUNNING,
        "replaced: another cluster is called dev now",
        desired=DesiredState.REPLACED,
    )
    monkeypatch.setattr(world.lifecycle.watcher, "watch", lambda: None)

    async def all_at_once() -> None:
        lifecycle = cast("Any", world.lifecycle)
        with pytest.raises(
            CannotStop,
            match="dev is to be ended meanwhile: replaced: another cluster is called dev now",
        ):
            await lifecycle.stop(before)
        with pytest.raises(NotFound, match="is to be ended meanwhile"):
            await lifecycle.start(before)
        assert not lifecycle.ask(before, DesiredState.STOPPED, "you stopped it")
        assert world.row().desired_state is DesiredState.REPLACED
        world.machines["i-2"] = replace(world.machines["i-2"], state=InstanceState.GONE)
        await lifecycle.observe(world)
        world.controller.replace_nodes(world.row())
        assert len(world.ledger.launches.ids_of(TOKEN)) == NODES - 1, "one was lost"
        assert not world.controller.work.is_replacing, "and it gets no other"
        # As where the kernel that replaced it is gone: whoever looks ends it.
        world.controller.resume(world.row())
        await asyncio.wait(world.controller.work.tasks)

    asyncio.run(all_at_once())
    assert (world.row().state, world.billed()) == (ClusterState.ENDED, [])
    world.ledger.close()


@pytest.mark.parametrize("is_late", [False, True])
def test_a_down_that_comes_while_a_machine_is_being_asked_for_takes_it_along(
    patched: dict[str, World], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_late: bool
) -> None:
    world = patched["world"] = World(tmp_path, [], [], 0, True)
    launched(world)
    world.machines["i-1"] = replace(world.machines["i-1"], state=InstanceState.GONE)
    submit = world.submit

    async def all_at_once() -> None:
        reached = asyncio.Event()

        async def sent(launch: Launch) -> CreateOperation:
            reached.set()
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                # The request is on its way in a thread of its own, whoever waits for its answer.
                if is_late:
                    world.late.append((launch.answer_by - 1.0, launch))
                else:
                    await submit(launch)
                raise
            raise AssertionError("it was not given up")

        monkeypatch.setattr(world, "submit", sent)
        await world.lifecycle.observe(cast("Any", world))
        world.controller.replace_nodes(world.row())
        await reached.wait()
        await world.lifecycle.down(world.row())

    asyncio.run(all_at_once())
    assert len(world.machines) == NODES + 1, "it was made"
    assert (world.row().state, world.billed(), world.ledger.prices.hourly_now(TOKEN)) == (
        ClusterState.ENDED,
        [],
        0,
    )
    world.ledger.close()
