"""What happens to a cluster after it is up: stop, start, down, and keeping the ledger true to the cloud's own list."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from nbprov.model.causes import Cause, CloudError, Failure
from nbprov.model.clock import Seconds
from nbprov.model.clusters import ClusterState
from nbprov.model.errors import LedgerError, NbprovError
from nbprov.model.launches import Instance, InstanceState

from .async_cloud import AsyncCloud, is_passing
from .ledger import ClusterRow

if TYPE_CHECKING:
    from .engine import Engine

log = logging.getLogger("nbprov.lifecycle")

LEAST_WATCH: Seconds = 1.0
MOST_WATCH: Seconds = 30.0
POLLS_A_WATCH = 20
"""Clusters are looked at every 20 poll intervals of their cloud: often enough to show a preemption soon, seldom enough for any rate limit."""

CONFIRM_SECONDS: Seconds = 600.0
"""How long a person waits for an end or a stop to be confirmed before being told; confirming goes on in the background."""


class CannotStop(NbprovError):
    """The cluster's cloud or market has no stopped state."""

    code = "cluster.cannot-stop"


class Lifecycle:
    """Stop, start, end and observe clusters. Coroutines run on the engine thread."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._watcher: asyncio.Task[None] | None = None

    # ------------------------------------------------------------ verbs

    async def down(self, row: ClusterRow, reason: str = "you ended it") -> None:
        """End a cluster and confirm it by listing. Returns when no machine of it is left.

        Never gives up: where the cloud does not answer, the cluster stays `ending` and the next kernel goes on.
        """
        engine = self._engine
        engine.ledger.set_cluster(row.cluster_id, ClusterState.ENDING, reason)
        engine.changed()
        await engine.forget(row.run_id)
        cloud = engine.cloud(row.candidate.offer.cloud)
        pause = cloud.capabilities.poll_every
        while True:
            rest = [i for i in await self._machines(cloud, row) if i.state is not InstanceState.GONE]
            if not rest:
                break
            alive = [i.id for i in rest if i.state is not InstanceState.ENDING]
            if alive:
                pause = await self._ask(cloud.terminate, alive, pause)
            await asyncio.sleep(pause)
        engine.ledger.set_cluster(row.cluster_id, ClusterState.ENDED, reason)
        engine.ledger.note(row.run_id, "cluster", f"ended: {reason}", row.token)
        engine.ledger.free_quota(row.candidate)
        engine.changed()

    async def stop(self, row: ClusterRow, reason: str = "you stopped it") -> None:
        """Stop a cluster and keep its disks.

        Raises
        ------
        CannotStop
            If its cloud has no stopped state, or it is spot.
        """
        engine = self._engine
        cloud = engine.cloud(row.candidate.offer.cloud)
        if not cloud.capabilities.stop:
            raise CannotStop(f"{cloud.name} cannot stop a machine", hint=f"end it instead: %nbprov down {row.name}")
        if row.candidate.offer.market.value == "spot":
            raise CannotStop(f"{row.name} is spot, and a stopped spot machine may never come back", hint=f"end it: %nbprov down {row.name}")
        engine.ledger.set_cluster(row.cluster_id, ClusterState.STOPPING, reason)
        engine.changed()
        await engine.forget(row.run_id)
        await self._reach(cloud, row, InstanceState.STOPPED, cloud.stop)
        engine.ledger.set_cluster(row.cluster_id, ClusterState.STOPPED, reason)
        engine.ledger.note(row.run_id, "cluster", f"stopped: {reason}", row.token)
        engine.changed()

    async def start(self, row: ClusterRow) -> None:
        """Start a stopped cluster; its address may have changed.

        Raises
        ------
        CloudError
            With the cause, where the cloud refuses, or where its agent cannot be started; then it is stopped again.
        """
        engine = self._engine
        cloud = engine.cloud(row.candidate.offer.cloud)
        engine.ledger.set_cluster(row.cluster_id, ClusterState.STARTING, "you started it")
        engine.ledger.resume_prices(row.cluster_id)
        engine.changed()
        try:
            await self._reach(cloud, row, InstanceState.RUNNING, cloud.start)
        except CloudError:
            engine.ledger.set_cluster(row.cluster_id, ClusterState.STOPPED, "the start was refused")
            engine.changed()
            raise
        await self._guard_again(row)
        engine.ledger.set_cluster(row.cluster_id, ClusterState.RUNNING, "started")
        engine.ledger.note(row.run_id, "cluster", "started", row.token)
        self.watch()
        engine.changed()

    async def _guard_again(self, row: ClusterRow) -> None:
        # The agent does not survive a stop, and a machine without one has no guards: no started cluster may stay so.
        try:
            await self._engine.attach(row.name)
        except (CloudError, NbprovError):
            await self.stop(row, "started, but its agent could not be, so it would have run unguarded")
            raise

    async def _reach(self, cloud: AsyncCloud, row: ClusterRow, goal: InstanceState, verb: Callable[..., object]) -> None:
        pause = cloud.capabilities.poll_every
        end = self._engine.clock.elapsed() + CONFIRM_SECONDS
        while True:
            machines = await self._machines(cloud, row)
            if machines and all(i.state is goal and (goal is InstanceState.STOPPED or i.host) for i in machines):
                return
            if not machines or any(i.state in (InstanceState.GONE, InstanceState.ENDING) for i in machines):
                raise CloudError(Failure(Cause.NOT_OFFERED, f"a machine of {row.name} is gone: {machines[0].reason if machines else ''}"))
            if self._engine.clock.elapsed() > end:
                raise CloudError(Failure(Cause.TIMEOUT, f"{row.name} is not {goal.value} after {CONFIRM_SECONDS:g} s"))
            origin = InstanceState.RUNNING if goal is InstanceState.STOPPED else InstanceState.STOPPED
            ready = [i.id for i in machines if i.state is origin]
            if ready:
                if goal is InstanceState.RUNNING:
                    await cloud.start(ready)
                else:
                    pause = await self._ask(cloud.stop, ready, pause)
            await asyncio.sleep(pause)

    @staticmethod
    async def _ask(verb: Callable[..., object], ids: list[str], pause: Seconds) -> Seconds:
        try:
            await verb(ids)  # type: ignore[misc]
        except CloudError as error:
            log.warning("%s; tried again", error.failure.sentence())
            return min(MOST_WATCH, pause * 2)
        return pause

    async def _machines(self, cloud: AsyncCloud, row: ClusterRow) -> list[Instance]:
        pause = cloud.capabilities.poll_every
        while True:
            try:
                listed = await cloud.list(self._engine.ledger.owner)
            except CloudError as error:
                if not is_passing(error.failure):
                    log.warning("%s: %s", row.name, error.failure.sentence())
                await asyncio.sleep(error.failure.retry_after or pause)
                pause = min(MOST_WATCH, pause * 2)
            else:
                ours = [i for i in listed if i.token == row.token]
                self._engine.ledger.seen(ours)
                return ours

    # ------------------------------------------------------------ watching

    def watch(self) -> None:
        """Look at live clusters regularly from now on, as long as there are any. On the engine thread."""
        if self._watcher is None or self._watcher.done():
            self._watcher = asyncio.create_task(self._watch())

    async def _watch(self) -> None:
        engine = self._engine
        while rows := engine.ledger.clusters(live_only=True):
            clouds = {row.candidate.offer.cloud for row in rows}
            pauses = []
            for cloud in (engine.cloud(name) for name in sorted(clouds)):
                pauses.append(min(MOST_WATCH, max(LEAST_WATCH, cloud.capabilities.poll_every * POLLS_A_WATCH)))
                try:
                    await self.observe(cloud)
                except (CloudError, LedgerError) as error:
                    log.info("%s cannot be observed now: %s", cloud.name, error)
            await asyncio.sleep(min(pauses))

    async def observe(self, cloud: AsyncCloud) -> None:
        """Bring the ledger up to date with one listing of a cloud.

        Raises
        ------
        CloudError
            If the cloud cannot be listed; then nothing is concluded.
        """
        engine = self._engine
        before = {row.cluster_id: row for row in engine.ledger.clusters(live_only=True)}
        listed = await cloud.list(engine.ledger.owner)
        known_tokens = engine.ledger.tokens()
        engine.ledger.seen(i for i in listed if i.token in known_tokens)
        changed = False
        for row in engine.ledger.clusters(live_only=True):
            known = before.get(row.cluster_id)
            if row.candidate.offer.cloud == cloud.name and known is not None and known.state is row.state:
                changed |= await self._compare(row, [i for i in listed if i.token == row.token])
        if changed:
            engine.changed()

    async def _compare(self, row: ClusterRow, machines: list[Instance]) -> bool:
        state = state_of(machines)
        if state is None or state is row.state or not self._is_news(row, state):
            return False
        reason = next((i.reason for i in machines if i.reason), "its machines are gone from the cloud's list")
        engine = self._engine
        if state is ClusterState.ENDED:
            engine.ledger.free_quota(row.candidate)
        if state is ClusterState.RUNNING:
            engine.ledger.resume_prices(row.cluster_id)
        engine.ledger.set_cluster(row.cluster_id, state, reason)
        engine.ledger.note(row.run_id, "cluster", f"{state.value}: {reason}", row.token)
        await engine.forget(row.run_id)
        return True

    def _is_news(self, row: ClusterRow, state: ClusterState) -> bool:
        """Whether a listing overrules the ledger. Where somebody is at work on a cluster, only its goal, its end, or a long silence does."""
        if row.state in (ClusterState.RUNNING, ClusterState.STOPPED, ClusterState.UNKNOWN):
            return True
        # A start has reached its goal when the agent runs, which no listing tells.
        goal = {ClusterState.STOPPING: ClusterState.STOPPED, ClusterState.STARTING: ClusterState.ENDED}.get(row.state)
        silent = self._engine.clock.now() - (row.confirmed or row.started) > CONFIRM_SECONDS
        return goal is not None and (state in (goal, ClusterState.ENDED) or silent)


def state_of(machines: Iterable[Instance]) -> ClusterState | None:
    """The state of a cluster from its machines' states; None while they are on their way from one to another.

    A gang is all or nothing: where its machines disagree for good, nothing is known but that something is wrong.
    """
    states = {i.state for i in machines}
    if states <= {InstanceState.GONE}:
        return ClusterState.ENDED
    if states & {InstanceState.ENDING, InstanceState.STOPPING}:
        return None
    if states == {InstanceState.STOPPED}:
        return ClusterState.STOPPED
    return ClusterState.RUNNING if states <= {InstanceState.RUNNING, InstanceState.PENDING} else ClusterState.UNKNOWN
