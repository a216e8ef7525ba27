"""The load of running clusters, asked of real agents while somebody looks."""

from __future__ import annotations

import pytest
from life_world import other_kernel
from tunnel_world import TunnelWorld, until

from nbprov import api
from nbprov.api.services import machine_loads
from nbprov.model.clusters import MachineLoad

pytestmark = pytest.mark.machine


def loads(session: api.Session) -> tuple[MachineLoad, ...]:
    """The load of `dev` once somebody has looked."""

    def found() -> tuple[MachineLoad, ...]:
        session.services.loads.look()
        return session.cluster("dev").view().loads

    return until(lambda: found() and found()[0].samples and found(), "the load of dev")


def test_a_look_shows_what_each_machine_does_and_nobody_is_asked_before(
    world: TunnelWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine_loads, "LEAST_PAUSE", 0.05)
    dev = world.up(rest="\nnum_nodes: 2\n")
    assert dev.view().loads == ()
    first, second = loads(world.session)
    for load in (first, second):
        assert load.samples[-1].memory > 1_000_000
        assert 0 < load.disk_used < load.disk
        assert load.idle_ends is not None
        assert 0 < load.idle_ends - world.session.engine.clock.now() <= 3600.0
        assert not load.is_active
    idle = dev.guards()
    assert idle.active == (), "to look is no activity"
    dev.stop().wait(60)
    assert dev.view().loads == ()


def test_a_kernel_that_only_looks_connects_to_the_cluster_of_another(
    world: TunnelWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine_loads, "LEAST_PAUSE", 0.05)
    world.up()
    with other_kernel(world) as session:
        assert len(loads(session)) == 1


def test_a_load_that_nobody_asked_for_lately_is_not_shown(
    world: TunnelWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine_loads, "LEAST_PAUSE", 0.05)
    dev = world.up()
    assert loads(world.session)
    monkeypatch.setattr(machine_loads, "KEPT", 0.0)
    assert dev.view().loads == ()
