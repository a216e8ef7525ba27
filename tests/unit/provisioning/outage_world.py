"""A cluster whose machines or cloud cannot be reached, and a clock that the test moves."""

from __future__ import annotations

import builtins
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from engine_world import EngineWorld

from nbprov.clouds.local.provisioner import LocalCloud
from nbprov.model.clusters import ClusterState, RunState
from nbprov.model.events import EventKind
from nbprov.model.failures import CloudError, Failure
from nbprov.model.launches import CheckResult, Instance
from nbprov.provisioning.run.driver import RunDriver
from nbprov.provisioning.supervision.condition_notes import condition_notes
from nbprov.provisioning.supervision.guard_config import NOTHING
from nbprov.provisioning.supervision.guard_enforcement import GuardEnforcer
from nbprov.provisioning.supervision.outages import MachineOutage
from nbprov.remote.agent.config import GuardConfig
from nbprov.runtime.waiting import wait_for

BILLED = {"poweroff_ends_bill": False, "own_timer": False, "poll_every": 0.005}
STEP = 600.0
"""By this much a test moves the hands at once: less than the gap that begins a silence anew."""

GUARD = (EventKind.MACHINES_UNREACHABLE, EventKind.MACHINES_REACHED, EventKind.GUARD_ENFORCED)
SILENCE = (
    EventKind.CLOUD_UNREACHABLE,
    EventKind.CLOUD_REACHED,
    EventKind.ACCOUNT_DIFFERS,
    EventKind.ACCOUNT_MATCHES,
)


class SilentCloud(LocalCloud):
    """A cloud that refuses to list, or lists with other credentials, while the test wants."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.failure: Failure | None = None
        self.is_other = False

    def check(self) -> CheckResult:
        told = super().check()
        return replace(told, account="other") if self.is_other else told

    def list(self, owner: str) -> builtins.list[Instance]:
        if self.failure is not None:
            raise CloudError(self.failure)
        return [] if self.is_other else super().list(owner)


class Silence:
    """A cluster, the way to whose agents the test breaks, and a clock whose hands it moves."""

    def __init__(self, world: EngineWorld, monkeypatch: pytest.MonkeyPatch, **planned: Any) -> None:
        self.world, self.monkeypatch = world, monkeypatch
        self.engine = world.engine(SilentCloud, **BILLED)
        cloud = self.engine.cloud("local").adapter
        assert isinstance(cloud, SilentCloud)
        self.cloud = cloud
        self.ahead = 0.0
        self.attempts = 0
        self.rounds = 0
        self.driver: RunDriver = world.launch(self.engine, world.prepare(self.engine, **planned))
        assert world.finish(self.driver) is RunState.READY
        # From here on the clock stands still: no real minute may count as an hour of the test.
        now, elapsed = math.ceil(self.engine.clock.now()), math.ceil(self.engine.clock.elapsed())
        monkeypatch.setattr(self.engine.clock, "now", lambda: now + self.ahead)
        monkeypatch.setattr(self.engine.clock, "elapsed", lambda: elapsed + self.ahead)
        self._count()

    @property
    def enforcer(self) -> GuardEnforcer:
        """What carries the cluster's guards out."""
        return self.engine.lifecycle.controller(self.row).guard_enforcer

    @property
    def outage(self) -> MachineOutage | None:
        """Since when nobody reaches the agents, as far as anybody asked them."""
        return self.enforcer.outage

    def _count(self) -> None:
        watcher = self.engine.lifecycle.watcher
        real = watcher.round

        async def counted(clouds: set[str]) -> float:
            pause = await real(clouds)
            self.rounds += 1
            return pause

        self.monkeypatch.setattr(watcher, "round", counted)

    def told(self, **changes: Any) -> None:
        """Change what the ledger and the agent know of the guards."""
        known = self.engine.ledger.guards.get(self.driver.run_id)
        assert known is not None
        config = GuardConfig(NOTHING, **changes)
        self.engine.ledger.guards.set(self.driver.run_id, 0, config.to_json(), {})

        async def tell() -> None:
            for node in wait_for(self.driver.ready, 60).nodes:
                assert node.agent is not None
                await node.agent.set_guards(config)

        self.world.do(self.engine, tell())

    def was_idle(self, seconds: float, **changes: Any) -> None:
        """The agent says that nothing is at work."""
        self.told(idle_seconds=seconds, wait_for="none", **changes)

        def answer() -> Any:
            found = self.outage
            return found is not None and found.was_idle and 0 < (found.answer.left or 0) <= seconds

        self.world.until(answer, "the agent answers")

    def break_off(self, error: Exception | None = None) -> None:
        """From now on nobody reaches the agents."""

        async def unreachable(name: str) -> Any:
            self.attempts += 1
            raise error or OSError("no route to host")

        self._real = self.engine.connections.attach
        self.monkeypatch.setattr(self.engine.connections, "attach", unreachable)
        self.attempt()

    def mend(self) -> None:
        self.monkeypatch.setattr(self.engine.connections, "attach", self._real)

    def attempt(self) -> None:
        """Wait until an attempt that began after now has failed.

        One that is under way may have read the clock before.
        """
        goal = self.attempts + 3
        self.world.until(
            lambda: self.attempts >= goal or self.state is not ClusterState.RUNNING,
            "it is tried again",
        )

    def round(self) -> None:
        """Wait for a round that began after now."""
        goal = self.rounds + 2
        self.world.until(lambda: self.rounds >= goal, "the clouds are looked at again")

    def wait(self, seconds: float, then: Callable[[], None] | None = None) -> None:
        """Move the hands, in steps, with an attempt after each."""
        while seconds > 0:
            self.ahead += min(STEP, seconds)
            seconds -= STEP
            (then or self.attempt)()

    @property
    def row(self) -> Any:
        row = self.engine.ledger.clusters.named("dev")
        assert row is not None
        return row

    @property
    def state(self) -> ClusterState:
        state: ClusterState = self.row.state
        return state

    def said(self, *kinds: EventKind) -> list[str]:
        return [
            event.text
            for event in self.engine.ledger.events.of_run(self.driver.run_id)
            if event.kind in kinds
        ]

    @property
    def shown(self) -> tuple[str, ...]:
        return condition_notes(self.engine.ledger, self.row)
