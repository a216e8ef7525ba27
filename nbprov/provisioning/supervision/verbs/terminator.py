"""Ends a cluster and confirms it by the cloud's listing."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable
from functools import partial
from typing import Any

from nbprov.model.clock import Seconds
from nbprov.model.clusters import ClusterState
from nbprov.model.errors import EndUnrecorded, LedgerError, NbprovError
from nbprov.model.events import EventKind
from nbprov.model.failures import CloudError
from nbprov.model.launches import InstanceState
from nbprov.model.money import format_usd
from nbprov.provisioning.async_cloud import AsyncCloud, try_request
from nbprov.provisioning.ledger import ClusterRow
from nbprov.provisioning.replacement.node_replacer import NodeReplacer
from nbprov.provisioning.supervision.cluster_work import ClusterWork
from nbprov.provisioning.supervision.context import SupervisionContext
from nbprov.provisioning.supervision.listing.cluster_listing import ClusterListing
from nbprov.provisioning.supervision.listing.intervals import MOST_WATCH
from nbprov.runtime.fault_log import log_fault

log = logging.getLogger("nbprov.lifecycle")

ASK_AGAIN: Seconds = 300.0
"""After this a machine that its cloud still calls ending is asked to end once more.

A request to end can be lost, and what is not ending is billed.
"""

UNWRITTEN_SECONDS: Seconds = 5.0
"""After this time whoever waits for an end hears that it cannot be written down.

A ledger that another kernel locks is free again before.
"""

FIRST_PAUSE: Seconds = 0.2
"""Before a write that failed is tried again, doubled with each try."""

ALIVE = tuple(
    state for state in InstanceState if state not in (InstanceState.ENDING, InstanceState.GONE)
)
"""States of machines that nobody has asked to end, or that did not hear it."""

FORGOTTEN = "forgotten by you, not seen to end"


class CannotForget(NbprovError):
    """The cluster is not being ended, or its cloud lists its machines still."""

    code = "cluster.cannot-forget"


class Terminator:
    """Ends one cluster. On the engine thread.

    The cloud is asked whether or not the ledger can be written or read.
    """

    def __init__(
        self,
        context: SupervisionContext,
        work: ClusterWork,
        listing: ClusterListing,
        replacer: NodeReplacer,
    ) -> None:
        self._context, self._work = context, work
        self._listing, self._replacer = listing, replacer
        self._task: asyncio.Task[None] | None = None
        self._unrecorded: asyncio.Future[EndUnrecorded] | None = None

    @property
    def is_ending(self) -> bool:
        """Whether this kernel ends the cluster now."""
        return self._task is not None and not self._task.done()

    async def down(self, row: ClusterRow, reason: str) -> None:
        """End the cluster and confirm it by listing; see `ClusterLifecycle.down`."""
        cloud = self._context.cloud_of(row)
        if self._task is None or self._task.done() or self._unrecorded is None:
            self._unrecorded = asyncio.get_running_loop().create_future()
            self._task = self._work.begin(self._down(cloud, row, reason, self._unrecorded))
        task, unrecorded = self._task, self._unrecorded
        either: set[asyncio.Future[Any]] = {task, unrecorded}
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise unrecorded.result()
        if not task.cancelled() or not self._has_ended(row):
            task.result()

    async def _down(
        self,
        cloud: AsyncCloud,
        row: ClusterRow,
        reason: str,
        unrecorded: asyncio.Future[EndUnrecorded],
    ) -> None:
        pause, began = cloud.capabilities.poll_every, self._context.clock.elapsed()
        async with self._work.insistent():
            while True:
                try:
                    await self._end(cloud, row, reason, unrecorded)
                except Exception as error:
                    log_fault(log, error, "%s: being ended; tried again", row.name)
                    if isinstance(error, LedgerError):
                        became = await self._ask_all(cloud, row)
                        self._tell(unrecorded, became, error, began)
                    await asyncio.sleep(pause)
                    pause = min(MOST_WATCH, pause * 2)
                else:
                    self._listing.forget(row)
                    return

    async def _end(
        self,
        cloud: AsyncCloud,
        row: ClusterRow,
        reason: str,
        unrecorded: asyncio.Future[EndUnrecorded],
    ) -> None:
        context = self._context
        move = partial(context.ledger.clusters.move, row.cluster_id, ClusterState.ENDING, reason)
        if not context.ledger.record(move, True):
            return  # it has ended
        context.changed()
        await context.connections.forget(row.run_id)
        await self._replacer.leave()
        await self._until_gone(cloud, row, move)
        if self._has_ended(row):
            return  # it was forgotten, here or in another kernel
        await self._write_end(row, reason, unrecorded)
        context.side_objects.soon(cloud.name)
        context.changed()

    async def _write_end(
        self, row: ClusterRow, reason: str, unrecorded: asyncio.Future[EndUnrecorded]
    ) -> None:
        """Write the end down, for as long as it takes; after a while `unrecorded` has the error."""
        ledger, clock, pause = self._context.ledger, self._context.clock, FIRST_PAUSE
        gone_at, began = clock.now(), clock.elapsed()
        while True:
            try:
                with ledger.together():
                    if ledger.clusters.move(row.cluster_id, ClusterState.ENDED, reason, at=gone_at):
                        text = f"ended: {reason}"
                        ledger.events.add(row.run_id, EventKind.CLUSTER_ENDED, text, row.token)
                        ledger.blocks.free_quota(row.candidate)
            except LedgerError as error:
                became = f"{row.name} has ended, confirmed by its cloud's list"
                self._tell(unrecorded, became, error, began)
                await asyncio.sleep(pause)
                pause = min(UNWRITTEN_SECONDS, pause * 2)
            else:
                return

    def _tell(
        self,
        unrecorded: asyncio.Future[EndUnrecorded],
        became: str,
        error: LedgerError,
        began: Seconds,
    ) -> None:
        """Tell whoever waits what became of the cluster, where it was tried for long enough."""
        waited = self._context.clock.elapsed() - began
        if waited >= UNWRITTEN_SECONDS and not unrecorded.done():
            unrecorded.set_result(EndUnrecorded.of(became, error))

    async def _ask_all(self, cloud: AsyncCloud, row: ClusterRow) -> str:
        """Ask all machines to end that its cloud lists, where the ledger cannot be read.

        Returns what became of the cluster, in words.
        """
        try:
            listed = await cloud.list(self._context.ledger.owner)
            ours = [i for i in listed if i.token == row.token]
            alive = [i.id for i in ours if i.state in ALIVE]
            if alive:
                await cloud.terminate(alive)
        except CloudError as error:
            return f"{row.name} could not be ended yet ({error.failure.sentence()})"
        if any(i.state is not InstanceState.GONE for i in ours):
            return f"the machines of {row.name} were asked to end"
        return f"{row.name} has no machine any more in its cloud's list"

    async def _until_gone(
        self, cloud: AsyncCloud, row: ClusterRow, move: Callable[[], bool]
    ) -> None:
        """Ask the machines to end until none is listed, or the cluster counts as ended.

        Parameters
        ----------
        move
            Writes that it is being ended; called again where that could not be written yet.
        """
        context, pause = self._context, cloud.capabilities.poll_every
        clock = context.clock
        ending: set[str] = set()
        asked = clock.elapsed()
        while True:
            may_come = await self._replacer.may_come(cloud, row)
            machines, _, unsure = await self._listing.look(cloud, row)
            current = context.ledger.clusters.of_run(row.run_id)
            if current is None or current.state is ClusterState.ENDED:
                return
            if current.state is not ClusterState.ENDING:
                context.ledger.record(move, True)
            rest = [i for i in machines if i.state is not InstanceState.GONE]
            if not rest and not unsure - ending and not may_come:
                return
            ending |= {i.id for i in rest if i.state is InstanceState.ENDING}
            is_late = clock.elapsed() - asked > ASK_AGAIN
            alive = [i.id for i in rest if is_late or i.state is not InstanceState.ENDING]
            if alive:
                asked = clock.elapsed()
                if await try_request(cloud.terminate, alive):
                    ending |= set(alive)
                else:
                    pause = min(MOST_WATCH, pause * 2)
            await asyncio.sleep(pause)

    def _has_ended(self, row: ClusterRow) -> bool:
        current = self._context.ledger.clusters.of_run(row.run_id)
        return current is None or current.state is ClusterState.ENDED

    async def forget(self, row: ClusterRow) -> str:
        """Count the cluster as ended without a listing; see `ClusterLifecycle.forget`."""
        context, cloud = self._context, self._context.cloud_of(row)
        current = context.ledger.clusters.of_run(row.run_id)
        if current is None or current.state is not ClusterState.ENDING:
            raise CannotForget(
                f"only a cluster that is being ended can be forgotten, and {row.name} is not",
                hint=f"%nbprov down {row.name}",
            )
        with contextlib.suppress(CloudError):  # no listing speaks against it then
            listed = await cloud.list(context.ledger.owner)
            if any(i.token == row.token and i.state is not InstanceState.GONE for i in listed):
                raise CannotForget(
                    f"{cloud.name} lists {row.name} still",
                    hint="its end goes on, and needs no forgetting: %clusters shows it",
                )
        words = self._left_words(cloud, row)
        with context.ledger.together():
            context.ledger.clusters.move(row.cluster_id, ClusterState.ENDED, FORGOTTEN)
            text = f"{FORGOTTEN}; {words}"
            context.ledger.events.add(
                row.run_id, EventKind.CLUSTER_ENDED, text, row.token, is_confirmed=False
            )
            context.ledger.blocks.free_quota(row.candidate)
        if self._task is not None:
            self._task.cancel()
        self._listing.forget(row)
        context.changed()
        return words

    def _left_words(self, cloud: AsyncCloud, row: ClusterRow) -> str:
        """What a person has to look for at the provider."""
        ids = (
            ", ".join(self._context.ledger.launches.ids_of(row.token))
            or f"made with token {row.token}"
        )
        of_account = f" of account {row.candidate.account}" if row.candidate.account else ""
        price = format_usd(row.candidate.hourly)
        return (
            f"{ids} on {cloud.name}{of_account}:"
            f" if it is there, it costs {price} an hour until you end it"
        )
