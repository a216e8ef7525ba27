"""A cloud and a clock in memory on which lost machines of a cluster are replaced, and kernels that
die at any point.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import provisioning_samples as samples
from manual_clock import ManualClock

from nbprov.clouds.base import Capabilities
from nbprov.model.clusters import ClusterState, RunState
from nbprov.model.failures import Cause, CloudError, Failure
from nbprov.model.launches import (
    Accepted,
    CreateOperation,
    Instance,
    InstanceState,
    Launch,
    Pending,
    PollResult,
)
from nbprov.model.places import Place
from nbprov.provisioning.engine_hooks import EngineHooks
from nbprov.provisioning.ledger import LEASE_SECONDS, ClusterRow, Ledger
from nbprov.provisioning.live_cluster import LiveCluster, Node
from nbprov.provisioning.supervision.cluster_controller import ClusterController
from nbprov.provisioning.supervision.context import SupervisionContext
from nbprov.provisioning.supervision.lifecycle import ClusterLifecycle

NODES, TOKEN, RUN = 3, f"{1:032x}", "run-1"
SETTLE, SENDING = 20.0, 30.0


class Killed(BaseException):
    """The process is gone: nothing that it does after this counts, and its ledger is closed."""


class World:
    """A cloud, its clock and the points at which kernels die."""

    def __init__(
        self,
        folder: Path,
        outcomes: Sequence[str],
        kills: Sequence[int],
        broken: int,
        replayable: bool,
    ) -> None:
        self.clock, self.folder, self.outcomes, self.kills = (
            ManualClock(),
            folder,
            list(outcomes),
            {*kills},
        )
        self.machines: dict[str, Instance] = {
            f"i-{n}": self._machine(f"i-{n}", n) for n in range(NODES)
        }
        self.late: list[tuple[float, Launch]] = []
        self.made: dict[str, str] = {}
        self.hidden: dict[str, float] = {}
        self.points, self.most, self.broken, self.kernels, self.sent = 0, NODES, broken, 0, 0
        self.name, self.leaves_side_objects = "aws", False
        self.capabilities = Capabilities(
            replaces_nodes=True,
            replayable=replayable,
            settle=SETTLE,
            submit_seconds=SENDING,
            poll_every=1.0,
            boot_deadline=60.0,
        )
        self.owner = ""
        self.start_kernel()

    def _machine(self, id: str, node: int) -> Instance:
        place = Place("aws", "east", "east-a")
        return Instance(
            "aws",
            id,
            TOKEN,
            "",
            place,
            "gpu-1",
            InstanceState.RUNNING,
            "10.0.0.1",
            22,
            node=node,
            launched_at=self.clock.now(),
        )

    # ------------------------------------------------------------ kernels

    def start_kernel(self) -> None:
        """Another kernel's ledger and watcher, once the leases of the one before have lapsed."""
        self.kernels += 1
        self.clock.advance(LEASE_SECONDS + 1)
        self.ledger = Ledger(self.folder / "ledger.sqlite3", self.clock, f"kernel-{self.kernels}")
        self.ledger.store._connection.execute(
            "PRAGMA synchronous = OFF"
        )  # a killed process loses nothing by it
        self.owner = self.ledger.owner
        self.context = SupervisionContext(
            ledger=self.ledger,
            clock=self.clock,
            keys_folder=self.folder,
            clouds=cast("Any", lambda name: self),
            hooks=EngineHooks(),
            connections=SimpleNamespace(live={}, attach=self._attach, forget=self._forget),
            side_objects=cast(
                "Any", SimpleNamespace(soon=lambda name: None, told=lambda name, over: None)
            ),
            drivers={},
            changed=lambda: None,
        )
        self.lifecycle = ClusterLifecycle(self.context, lambda: None)

    @property
    def controller(self) -> ClusterController:
        """What supervises the cluster in the kernel of now."""
        return self.lifecycle.controller(self.row())

    async def _attach(self, name: str) -> LiveCluster:
        row = self.row()
        nodes = [Node(i) for i in self.ledger.instances.members(TOKEN)]
        return LiveCluster(RUN, name, row.candidate, cast("Any", None), nodes)

    async def _forget(self, run_id: str) -> None:
        pass

    def row(self) -> ClusterRow:
        found = self.ledger.clusters.of_run(RUN)
        assert found is not None
        return found

    def point(self) -> None:
        """A kernel may die here."""
        self.points += 1
        if self.points in self.kills:
            self.ledger.close()
            raise Killed

    async def sleep(self, seconds: float) -> None:
        self.clock.advance(max(0.5, seconds))
        self.point()
        await asyncio.sleep(0)

    # ------------------------------------------------------------ the cloud

    def _create(self, launch: Launch) -> None:
        self.made[launch.key] = id = f"i-{len(self.machines)}"
        self.machines[id] = self._machine(id, launch.numbers[0])
        self.hidden[id] = self.clock.now() + (SETTLE / 2 if len(self.machines) % 2 else 0.0)
        self.most = max(self.most, len(self.billed()))

    def billed(self) -> list[str]:
        return [i.id for i in self.machines.values() if i.state.is_billed]

    def tick(self) -> None:
        for at, launch in list(self.late):
            if self.clock.now() >= at:
                self.late.remove((at, launch))
                self._create(launch)

    async def submit(self, launch: Launch) -> CreateOperation:
        self.point()
        self.tick()
        if self.clock.now() > launch.answer_by:
            raise CloudError(Failure(Cause.TIMEOUT, "too late"))
        self.sent += 1
        outcome = (
            "ok"
            if launch.key in self.made
            else "late"
            if launch in [x for _, x in self.late]
            else self._next()
        )
        if outcome == "refused":
            raise CloudError(Failure(Cause.CAPACITY, "none left"))
        if outcome == "late":
            if launch not in [x for _, x in self.late]:
                self.late.append((min(self.clock.now() + 12.0, launch.answer_by), launch))
        elif outcome in ("ok", "lost") and launch.key not in self.made:
            self._create(launch)
        self.point()
        if outcome in ("lost", "void", "late"):
            raise CloudError(Failure(Cause.UNKNOWN_OUTCOME, "no answer"))
        return CreateOperation("aws", TOKEN, "op", {"key": launch.key})

    def _next(self) -> str:
        return self.outcomes.pop(0) if self.outcomes else "ok"

    async def poll(self, operation: CreateOperation) -> PollResult:
        self.point()
        self.tick()
        made = self.made.get(operation.data["key"])
        return Accepted((made,)) if made else Pending()

    async def list(self, owner: str) -> list[Instance]:
        self.point()
        self.tick()
        shown = [
            replace(i, owner=owner)
            for i in self.machines.values()
            if self.clock.now() >= self.hidden.get(i.id, 0.0)
        ]
        for i in [i for i in self.machines.values() if i.state is InstanceState.ENDING]:
            self.machines[i.id] = replace(i, state=InstanceState.GONE)
        return shown

    async def terminate(self, ids: Sequence[str]) -> None:
        self.point()
        for id in ids:
            if self.machines[id].state.is_billed:
                self.machines[id] = replace(self.machines[id], state=InstanceState.ENDING)
        self.point()

    async def quote(self, candidate: object) -> None:
        return None

    async def is_of(self, account: str) -> bool:
        return True

    # ------------------------------------------------------------ a round of the watcher

    async def round(self) -> None:
        """What the watcher does in one, and what it begins to its end."""
        self.clock.advance(1.0)
        self.point()
        await self.lifecycle.observe(cast("Any", self))
        row = self.row()
        if row.state is ClusterState.ENDING:
            await self.lifecycle.down(row)
        elif row.state is not ClusterState.ENDED:
            self.controller.replace_nodes(row)
        while tasks := set(self.controller.work.tasks):
            done, _ = await asyncio.wait(tasks)
            for task in done:
                if not task.cancelled() and isinstance(task.exception(), Killed):
                    raise cast("BaseException", task.exception())


def launched(world: World) -> None:
    """A cluster as a hand-over leaves it."""
    ledger, wanted = world.ledger, samples.candidate(count=NODES)
    ledger.runs.open(
        RUN,
        "dev",
        "resources: {cloud: aws}\nnum_nodes: 3\nengine: dask",
        folder="",
        race=1,
        consent=wanted.hourly,
        state=RunState.LAUNCHING,
    )
    ledger.launches.intend(samples.launch_row(TOKEN, wanted))
    ledger.launches.accepted(TOKEN, list(world.machines))
    ledger.clusters.hand_over(RUN, "dev", RUN, TOKEN, wanted)
    ledger.instances.seen(replace(i, owner=world.owner) for i in world.machines.values())
    ledger.leases.release(RUN)
