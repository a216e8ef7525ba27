"""A wall clock that is set ahead or back changes no lease, no cost, no block and no deadline."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from engine_world import LEASE_SECONDS as QUICK_LEASE
from engine_world import MARKET, EngineWorld
from manual_clock import ManualClock
from provisioning_samples import TWO_DOLLARS, candidate, launch_row

from nbprov.model.blocks import block_after
from nbprov.model.clock import Instant
from nbprov.model.clusters import ClusterState, RunState
from nbprov.model.failures import Cause, Failure
from nbprov.provisioning.ledger import LEASE_SECONDS, Ledger
from nbprov.provisioning.ledger import ledger as ledger_module
from nbprov.runtime.clocks import SystemClock

HOUR = 3600.0
STEPS = (-2 * HOUR, 2 * HOUR, -365 * 24 * HOUR, 365 * 24 * HOUR)


class SetClock(ManualClock):
    """A clock that somebody sets."""

    def __init__(self, step: float = 0.0) -> None:
        super().__init__()
        self.step = step

    def now(self) -> Instant:
        return super().now() + self.step


class SetSystemClock(SystemClock):
    """This computer's clock, which somebody has set."""

    def __init__(self, step: float) -> None:
        self.step = step

    def now(self) -> Instant:
        return super().now() + self.step


@pytest.fixture
def clock() -> SetClock:
    """The computer's clock, of all kernels of the test."""
    return SetClock()


def _opened(ledger: Ledger) -> None:
    ledger.runs.open(
        "run-1", "dev", "name: dev", folder="", race=1, consent=5, state=RunState.LAUNCHING
    )
    ledger.launches.intend(launch_row("t1", candidate(), now=ledger.clock.now()))


@pytest.mark.parametrize("step", STEPS)
def test_a_lease_lapses_when_it_is_not_renewed(
    ledger: Ledger, clock: SetClock, step: float
) -> None:
    _opened(ledger)
    clock.step = step
    other = Ledger(ledger.store.path, clock, "kernel-2")
    assert not other.leases.take("run-1"), "its kernel is well"
    assert other.leases.left("run-1") <= LEASE_SECONDS
    clock.advance(LEASE_SECONDS - 1)
    assert ledger.leases.renew(["run-1"]) == set()
    clock.advance(LEASE_SECONDS - 1)
    assert not other.leases.take("run-1"), "it was renewed"
    clock.advance(1)
    assert other.leases.take("run-1"), "it was not"
    assert ledger.leases.renew(["run-1"]) == {"run-1"}


@pytest.mark.parametrize("step", STEPS)
def test_a_lease_of_another_start_or_computer_is_watched(
    ledger: Ledger, step: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    _opened(ledger)
    monkeypatch.setattr(ledger_module, "boot_id", lambda: "another start")
    clock = SetClock(step)  # which began at 0 then
    other = Ledger(ledger.store.path, clock, "kernel-2")
    for _ in range(4):
        assert not other.leases.take("run-1")
        clock.advance(LEASE_SECONDS - 1)
        ledger.leases.renew(["run-1"])
        ledger.clock._clock.advance(1)  # type: ignore[attr-defined]
    assert not other.leases.take("run-1")
    clock.advance(LEASE_SECONDS)
    assert other.leases.take("run-1"), "it was silent for as long as a lease lasts"


@pytest.mark.parametrize("step", STEPS)
def test_a_step_changes_no_cost(ledger: Ledger, clock: SetClock, step: float) -> None:
    _opened(ledger)
    ledger.launches.accepted("t1", ("i-1",))
    clock.advance(HOUR / 2)
    clock.step = step
    other = Ledger(ledger.store.path, clock, "kernel-2")
    clock.advance(HOUR / 2)
    for kernel in (ledger, other):
        assert kernel.prices.cost("run-1") == TWO_DOLLARS
        assert kernel.prices.by_launch("run-1") == {"t1": TWO_DOLLARS}
    ledger.clusters.hand_over("run-1", "dev", "run-1", "t1", candidate())
    other.clusters.move("run-1", ClusterState.ENDED, "you ended it")
    clock.advance(HOUR)
    assert ledger.prices.cost("run-1") == TWO_DOLLARS


@pytest.mark.parametrize("step", STEPS)
def test_a_step_ends_no_block_and_makes_none_last(
    ledger: Ledger, clock: SetClock, step: float
) -> None:
    block = block_after(candidate(), Failure(Cause.CAPACITY, "none left"), now=ledger.clock.now())
    assert block is not None
    ledger.blocks.remember(block)
    clock.step = step
    other = Ledger(ledger.store.path, clock, "kernel-2")
    assert other.blocks.standing() == [block]
    clock.advance(block.expires - block.since + 1)
    assert other.blocks.standing() == ledger.blocks.standing() == []


def test_the_wall_clock_is_read_again_once_nothing_is_on_the_bill(
    ledger: Ledger, clock: SetClock
) -> None:
    _opened(ledger)
    before, clock.step = clock.now(), 2 * HOUR
    assert Ledger(ledger.store.path, clock, "kernel-2").clock.now() == before
    ledger.runs.move("run-1", RunState.FAILED)
    assert Ledger(ledger.store.path, clock, "kernel-3").clock.now() == before + 2 * HOUR
    assert ledger.clock.now() == before, "a kernel that is there counts on"


@pytest.mark.machine
@pytest.mark.parametrize("step", [-2 * HOUR, 2 * HOUR])
def test_the_launch_of_a_dead_kernel_is_taken_up(nbprov_home: Path, step: float) -> None:
    world = EngineWorld(nbprov_home)
    try:
        world.market(base=MARKET.replace("boot = 0.02", "boot = 1.0"))
        first = world.engine()
        world.launch(first, world.prepare(first))
        world.until(world.alive, "its machine is there")
        second = world.engine(clock=SetSystemClock(step))
        assert "another notebook is at work" in world.take_up(second), "its kernel is well"
        first.thread.stop()
        first.ledger.close()
        world.engines.remove(first)
        began = time.monotonic()
        assert "adopted, it runs" in world.take_up(second)
        assert time.monotonic() - began < 20 * QUICK_LEASE
        assert second.ledger.prices.cost(second.cluster("dev").run_id) < TWO_DOLLARS
    finally:
        world.close()
