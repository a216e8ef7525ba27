"""A running cell gives notice when a guard is about to end its machine."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from nbprov.machines.cells import notices
from nbprov.machines.cells.notices import CellWatch
from nbprov.model.money import usd
from nbprov.provisioning.live_cluster import Node
from nbprov.remote.agent.config import GuardConfig
from nbprov.remote.agent.messages import GuardState
from nbprov.remote.errors import SshCode, SshError

LOOKS = 3


class Agent:
    """A machine's agent as a cell's watch sees it; its connection breaks at the first question."""

    is_linked = True

    def __init__(self, *guards: GuardState) -> None:
        self.guards, self.asked = guards, 0
        self.is_asked = asyncio.Event()

    async def status(self) -> Any:
        self.asked += 1
        if self.asked == 1:
            raise SshError(SshCode.LOST, "the line is down")
        if self.asked == LOOKS:
            self.is_asked.set()
        return SimpleNamespace(guards=self.guards)


async def watched(
    config: GuardConfig | None, *guards: GuardState, monkeypatch: pytest.MonkeyPatch
) -> list[str]:
    """Return the notices about these guards over several checks.

    Only guards that end a machine at work are asked about.
    """
    monkeypatch.setattr(notices, "LOOK_SECONDS", 0.001)
    monkeypatch.setattr(notices, "GUARDS_SECONDS", 0.001)
    agent, notes = Agent(*guards), list[str]()
    live = SimpleNamespace(name="dev", nodes=[None], run_id="r")
    node = Node(cast("Any", SimpleNamespace(node=0)), told=config)
    watch = CellWatch(
        cast("Any", live),
        node,
        cast("Any", agent),
        "id",
        cast("Any", None),
        cast("Any", SimpleNamespace(note=notes.append)),
    )
    looking = asyncio.create_task(watch.look())
    if watch._cuts_off:
        async with asyncio.timeout(60):
            await agent.is_asked.wait()
    looking.cancel()
    await asyncio.wait({looking})
    return notes


def test_a_lifetime_and_a_budget_that_come_near_are_told_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    config = GuardConfig(
        "true", idle_seconds=60.0, max_lifetime_seconds=3600.0, limit=usd(5), hourly=usd(1)
    )
    guards = (
        GuardState("budget", 540.0, "stop", "budget: $4 of $5 spent"),
        GuardState("lifetime", 3000.0, "terminate", "lifetime"),
        GuardState("idle", 30.0, "terminate", "idle"),
    )
    said = asyncio.run(watched(config, *guards, monkeypatch=monkeypatch))
    assert said == [
        "dev is to be stopped in 9 min (budget), and a cell that still runs then is cut off"
    ]


def test_an_idle_guard_is_told_of_where_it_does_not_wait_for_cells(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    near = GuardState("idle", 120.0, "terminate", "idle")
    config = GuardConfig("true", idle_seconds=600.0, wait_for="none")
    assert asyncio.run(watched(config, near, monkeypatch=monkeypatch)) == [
        "dev is to be ended in 2 min (idle), and a cell that still runs then is cut off"
    ]
    for other in (GuardConfig("true", idle_seconds=600.0), None):
        assert asyncio.run(watched(other, near, monkeypatch=monkeypatch)) == []
