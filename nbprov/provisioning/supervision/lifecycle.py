"""What happens to a cluster after it is up: stop, start and down."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Coroutine
from typing import Any

from nbprov.model.clock import Seconds
from nbprov.model.clusters import ClusterState
from nbprov.model.errors import NbprovError, NotFound
from nbprov.model.failures import Cause, CloudError, Failure
from nbprov.model.launches import Instance, InstanceState
from nbprov.model.money import format_usd
from nbprov.model.spec import Spec
from nbprov.provisioning.async_cloud import AsyncCloud, is_passing
from nbprov.provisioning.ledger import ClusterRow
from nbprov.provisioning.run.failover import MOST_HEEDED

from .cloud_watcher import CONFIRM_SECONDS, GOING, MOST_WATCH, reason_of
from .cluster_rename import Naming
from .desired_state import REPLACED
from .leases import ClusterBusy
from .start_terms import start_terms

__all__ = ["CONFIRM_SECONDS", "MOST_WATCH", "CannotStop", "ClusterBusy", "Lifecycle"]

log = logging.getLogger("nbprov.lifecycle")

ASK_AGAIN: Seconds = 300.0
"""A machine that its cloud has called ending for so long is asked to end once more: an end can be lost, and what is not ending is billed."""

_OVER = (ClusterState.ENDING, ClusterState.ENDED)


FORGOTTEN = "forgotten by you, not seen to end"


class CannotStop(NbprovError):
    """The cluster's cloud or market has no stopped state, or something else has become of the cluster meanwhile."""

    code = "cluster.cannot-stop"


class CannotForget(NbprovError):
    """The cluster is not being ended, or its cloud lists its machines still."""

    code = "cluster.cannot-forget"


class Lifecycle(Naming):
    """Stop, start, end and observe clusters. Coroutines run on the engine thread.

    A verb that was begun goes on to its end even where nobody waits for it any more.
    """

    async def down(self, row: ClusterRow, reason: str = "you ended it") -> None:
        """End a cluster and confirm it by listing. Returns when no machine of it is left.

        Never gives up: where the cloud does not answer or the ledger cannot be written, it is tried again; where this kernel
        stops, the cluster stays `ending` and the next one goes on.

        Raises
        ------
        NotFound
            If its cloud has no adapter here.
        """
        cloud = self._engine.cloud(row.candidate.offer.cloud)
        task = self._downs.get(row.cluster_id)
        if task is None or task.done():
            task = self._begin(self._down(cloud, row, reason))
            self._downs[row.cluster_id] = task
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError:
            if not task.cancelled() or not self._has_ended(row):
                raise  # it is this wait that was given up

    async def forget(self, row: ClusterRow) -> str:
        """Take a cluster that is being ended for ended, though its cloud never confirmed it: its account is out of reach for good.

        Returns
        -------
        str
            What a person has to look for at the provider.

        Raises
        ------
        CannotForget
            If it is not being ended, or its cloud lists machines of it.
        """
        engine, cloud = self._engine, self._engine.cloud(row.candidate.offer.cloud)
        current = engine.ledger.clusters.of_run(row.run_id)
        if current is None or current.state is not ClusterState.ENDING:
            raise CannotForget(
                f"only a cluster that is being ended can be forgotten, and {row.name} is not",
                hint=f"%nbprov down {row.name}",
            )
        with contextlib.suppress(CloudError):  # no list: then there is nothing against it
            if [
                i
                for i in await cloud.list(engine.ledger.owner)
                if i.token == row.token and i.state is not InstanceState.GONE
            ]:
                raise CannotForget(
                    f"{cloud.name} lists {row.name} still",
                    hint="its end goes on, and needs no forgetting: %clusters shows it",
                )
        ids = ", ".join(engine.ledger.launches.ids_of(row.token)) or f"made with token {row.token}"
        of_account = f" of account {row.candidate.account}" if row.candidate.account else ""
        words = f"{ids} on {cloud.name}{of_account}: if it is there, it costs {format_usd(row.candidate.hourly)} an hour until you end it"
        with engine.ledger.together():
            engine.ledger.clusters.move(row.cluster_id, ClusterState.ENDED, FORGOTTEN)
            engine.ledger.events.add(row.run_id, "cluster", f"{FORGOTTEN}; {words}", row.token)
            engine.ledger.blocks.free_quota(row.candidate)
        if (task := self._downs.get(row.cluster_id)) is not None:
            task.cancel()
        self._absences.forget(row.cluster_id)
        engine.changed()
        return words

    def _has_ended(self, row: ClusterRow) -> bool:
        current = self._engine.ledger.clusters.of_run(row.run_id)
        return current is None or current.state is ClusterState.ENDED

    async def _down(self, cloud: AsyncCloud, row: ClusterRow, reason: str) -> None:
        pause = cloud.capabilities.poll_every
        async with self._at_work(row):
            while True:
                try:
                    await self._end(cloud, row, reason)
                except Exception:
                    log.exception("%s: being ended; tried again in %g s", row.name, pause)
                    await asyncio.sleep(pause)
                    pause = min(MOST_WATCH, pause * 2)
                else:
                    self._absences.forget(row.cluster_id)
                    return

    async def _end(self, cloud: AsyncCloud, row: ClusterRow, reason: str) -> None:
        engine = self._engine
        if not engine.ledger.clusters.move(row.cluster_id, ClusterState.ENDING, reason):
            return  # it has ended
        engine.changed()
        await engine.forget(row.run_id)
        pause = cloud.capabilities.poll_every
        told: set[str] = set()
        asked = engine.clock.elapsed()
        await self._leave_replacement(row)
        while True:
            may_come = await self._may_come(cloud, row)
            machines, _, unsure = await self._look(cloud, row)
            if self._has_ended(row):
                return  # it was forgotten, here or in another kernel
            rest = [i for i in machines if i.state is not InstanceState.GONE]
            if not rest and not unsure - told and not may_come:
                break
            told |= {i.id for i in rest if i.state is InstanceState.ENDING}
            is_late = engine.clock.elapsed() - asked > ASK_AGAIN
            alive = [i.id for i in rest if is_late or i.state is not InstanceState.ENDING]
            if alive:
                asked = engine.clock.elapsed()
                if await self._ask(cloud.terminate, alive):
                    told |= set(alive)
                else:
                    pause = min(MOST_WATCH, pause * 2)
            await asyncio.sleep(pause)
        with engine.ledger.together():
            if engine.ledger.clusters.move(row.cluster_id, ClusterState.ENDED, reason):
                engine.ledger.events.add(row.run_id, "cluster", f"ended: {reason}", row.token)
                engine.ledger.blocks.free_quota(row.candidate)
        engine.tidying.soon(cloud.name)
        engine.changed()

    async def stop(self, row: ClusterRow, reason: str = "you stopped it") -> None:
        """Stop a cluster and keep its disks.

        Raises
        ------
        CannotStop
            If its cloud has no stopped state, it is spot, or it is being ended.
        ClusterBusy
            If another kernel is at work on it.
        CloudError
            Where it cannot be confirmed that it stopped.
        """
        self.check_stop(row)
        await asyncio.shield(
            self._begin(self._stop(self._engine.cloud(row.candidate.offer.cloud), row, reason))
        )

    def check_stop(self, row: ClusterRow) -> None:
        """Raise `CannotStop` where a cluster has no stopped state to be in."""
        cloud = self._engine.cloud(row.candidate.offer.cloud)
        if not cloud.capabilities.stop:
            raise CannotStop(
                f"{cloud.name} cannot stop a machine",
                hint=f"end it instead: %nbprov down {row.name}",
            )
        if row.candidate.offer.market.value == "spot":
            raise CannotStop(
                f"{row.name} is spot, and a stopped spot machine may never come back",
                hint=f"end it: %nbprov down {row.name}",
            )

    def can_stop(self, row: ClusterRow) -> bool:
        """Whether it has a stopped state, as far as that can be told here. Any thread."""
        try:
            self.check_stop(row)
        except NbprovError:
            return False
        return True

    async def _stop(self, cloud: AsyncCloud, row: ClusterRow, reason: str) -> None:
        async with self._at_work(row, alone=True):
            self._check_place(row, InstanceState.STOPPED)
            await self._undo_replacement(cloud, row)
            await self._halt(cloud, row, reason)

    async def _halt(self, cloud: AsyncCloud, row: ClusterRow, reason: str) -> None:
        engine = self._engine
        self._check_place(row, InstanceState.STOPPED)
        if not engine.ledger.clusters.move(row.cluster_id, ClusterState.STOPPING, reason):
            raise self._overtaken(row, InstanceState.STOPPED)
        engine.changed()
        await engine.forget(row.run_id)
        await self._reach(cloud, row, InstanceState.STOPPED)
        with engine.ledger.together():
            if engine.ledger.clusters.move(
                row.cluster_id, ClusterState.STOPPED, reason, was=ClusterState.STOPPING
            ):
                engine.ledger.events.add(row.run_id, "cluster", f"stopped: {reason}", row.token)
        engine.changed()

    async def start(
        self, row: ClusterRow, *, spec: Spec | None = None, agreed: bool = False
    ) -> None:
        """Start a stopped cluster; its address may have changed.

        Parameters
        ----------
        spec, agreed
            See `start_terms`.

        Raises
        ------
        UsageError
            If it costs more now than may be paid.
        CloudError
            With the cause, where the cloud refuses, or where its agent cannot be started; then it is stopped again.
        NotFound
            If it is being ended.
        ClusterBusy
            If another kernel is at work on it.
        """
        cloud = self._engine.cloud(row.candidate.offer.cloud)
        await asyncio.shield(self._begin(self._start(cloud, row, spec, agreed)))

    async def _start(
        self, cloud: AsyncCloud, row: ClusterRow, spec: Spec | None, agreed: bool
    ) -> None:
        engine = self._engine
        async with self._at_work(row, alone=True):
            self._check_place(row, InstanceState.RUNNING)
            if await self._runs(cloud, row):
                await engine.attach(row.name)
                return
            candidate = row.candidate
            if (
                row.state is not ClusterState.STARTING
            ):  # one that a kernel left half-way was agreed to, and may run
                candidate = await start_terms(engine.ledger, cloud, row, spec=spec, agreed=agreed)
            if not engine.ledger.clusters.move(
                row.cluster_id, ClusterState.STARTING, "you started it"
            ):
                raise self._overtaken(row, InstanceState.RUNNING)
            try:
                with engine.ledger.together():
                    engine.ledger.clusters.reprice(row.cluster_id, candidate)
                    engine.ledger.clusters.resume_prices(row.cluster_id)
                engine.changed()
                await self._reach(cloud, row, InstanceState.RUNNING)
                # The agent does not survive a stop, and a machine without one has no guards: no started cluster may stay so.
                await engine.forget(row.run_id)
                await engine.attach(row.name)
                if not engine.ledger.clusters.move(
                    row.cluster_id, ClusterState.RUNNING, "started", was=ClusterState.STARTING
                ):
                    self._still(row, InstanceState.RUNNING)
            except Exception as error:
                await self._undo_start(
                    cloud, row, f"its start failed, and it was stopped again: {error}"
                )
                raise
            engine.ledger.events.add(row.run_id, "cluster", "started", row.token)
        self._unguarded.discard(row.cluster_id)
        self.watch()
        engine.changed()

    async def _runs(self, cloud: AsyncCloud, row: ClusterRow) -> bool:
        current = self._engine.ledger.clusters.of_run(row.run_id)
        if current is None or current.state is not ClusterState.RUNNING:
            return False
        await self.observe(cloud)
        current = self._engine.ledger.clusters.of_run(row.run_id)
        return current is not None and current.state is ClusterState.RUNNING

    async def _undo_start(self, cloud: AsyncCloud, row: ClusterRow, reason: str) -> None:
        # Whatever went wrong, machines may run without a guard now. They count as stopped only once a list says so.
        end = self._engine.clock.elapsed() + CONFIRM_SECONDS
        pause = cloud.capabilities.poll_every
        while True:
            try:
                current = self._engine.ledger.clusters.of_run(row.run_id)
                if current is not None and current.state not in (*_OVER, ClusterState.STOPPED):
                    await self._halt(cloud, row, reason)
            except CannotStop as error:
                log.info("%s", error)
            except Exception as error:
                log.exception("%s: its start failed, and it could not be stopped again", row.name)
                gone = isinstance(error, CloudError) and error.failure.cause is Cause.NOT_OFFERED
                if not gone and self._engine.clock.elapsed() < end:
                    await asyncio.sleep(pause)
                    pause = min(MOST_WATCH, pause * 2)
                    continue
            self.watch()  # what is left to be found out, its rounds tell
            return

    async def _reach(self, cloud: AsyncCloud, row: ClusterRow, goal: InstanceState) -> None:
        end = self._engine.clock.elapsed() + CONFIRM_SECONDS
        pause = cloud.capabilities.poll_every
        origin = InstanceState.RUNNING if goal is InstanceState.STOPPED else InstanceState.STOPPED
        while True:
            self._still(row, goal)
            machines, gone, unsure = await self._look(cloud, row, end)
            self._still(row, goal)
            if gone or any(i.state in GOING for i in machines):
                raise CloudError(
                    Failure(
                        Cause.NOT_OFFERED,
                        f"a machine of {row.name} is gone: {reason_of(machines)}".rstrip(": "),
                    )
                )
            if (
                machines
                and not unsure
                and all(
                    i.state is goal and (goal is InstanceState.STOPPED or i.host) for i in machines
                )
            ):
                return
            if self._engine.clock.elapsed() > end:
                raise CloudError(
                    Failure(
                        Cause.TIMEOUT, f"{row.name} is not {goal.value} after {CONFIRM_SECONDS:g} s"
                    )
                )
            ready = [i.id for i in machines if i.state is origin]
            if ready and goal is InstanceState.RUNNING:
                await cloud.start(ready)
            elif ready and not await self._ask(cloud.stop, ready):
                pause = min(MOST_WATCH, pause * 2)
            await asyncio.sleep(pause)

    @staticmethod
    async def _ask(verb: Callable[[list[str]], Coroutine[Any, Any, None]], ids: list[str]) -> bool:
        try:
            await verb(ids)
        except CloudError as error:
            log.warning("%s; tried again", error.failure.sentence())
            return False
        return True

    async def _look(
        self, cloud: AsyncCloud, row: ClusterRow, end: Seconds | None = None
    ) -> tuple[list[Instance], set[str], set[str]]:
        """This cluster's machines as listed, and the ids that are missing: those surely gone, and those not yet told."""
        clock, pause = self._engine.clock, cloud.capabilities.poll_every
        while True:
            asked = clock.elapsed()
            try:
                listed = await cloud.list(self._engine.ledger.owner)
            except CloudError as error:
                if end is not None and clock.elapsed() > end:
                    raise
                if not is_passing(error.failure):
                    log.warning("%s: %s", row.name, error.failure.sentence())
                await asyncio.sleep(min(error.failure.retry_after or pause, MOST_HEEDED))
                pause = min(MOST_WATCH, pause * 2)
            else:
                ours = [i for i in listed if i.token == row.token]
                self._engine.ledger.instances.seen(ours)
                current = {
                    i.id for i in self._of_cluster(row, ours)
                }  # what was lost and is gone may be listed for an hour
                ours = [i for i in ours if i.id in current or i.state is not InstanceState.GONE]
                return ours, *await self._missing(cloud, row, ours, asked, self._half_made(row))

    def _still(self, row: ClusterRow, goal: InstanceState) -> None:
        allowed = {
            InstanceState.STOPPED: (ClusterState.STOPPING, ClusterState.STOPPED),
            InstanceState.RUNNING: (ClusterState.STARTING, ClusterState.RUNNING),
        }[goal]
        current = self._engine.ledger.clusters.of_run(row.run_id)
        if current is None or current.state not in allowed:
            raise self._overtaken(row, goal)

    def _check_place(self, row: ClusterRow, goal: InstanceState) -> None:
        """Raise where another cluster was put in the place of this one: its end is due, and another reason would hide that."""
        current = self._engine.ledger.clusters.by_id(row.cluster_id)
        if current is not None and current.reason.startswith(REPLACED):
            self.watch()
            raise self._overtaken(current, goal)

    def _overtaken(self, row: ClusterRow, goal: InstanceState) -> NbprovError:
        current = self._engine.ledger.clusters.of_run(row.run_id)
        words = {ClusterState.ENDING: "being ended", ClusterState.ENDED: "ended"}
        became = "gone" if current is None else words.get(current.state, current.state.value)
        if current is not None and current.reason.startswith(REPLACED):
            became = "to be ended"
        text = f"{row.name} is {became} meanwhile" + (
            f": {current.reason}" if current is not None and current.reason else ""
        )
        if goal is InstanceState.STOPPED:
            return CannotStop(text, hint="%clusters shows what became of it")
        return NotFound(text, hint="%clusters shows what became of it", code="cluster.not-found")
