"""One machine in the place of a lost one, from the intent until it is up or confirmed gone.

Another kernel may continue each step from the ledger.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from dataclasses import replace

from nbprov.model.blocks import block_after
from nbprov.model.clusters import AttemptState
from nbprov.model.errors import NbprovError
from nbprov.model.events import EventKind
from nbprov.model.failures import Cause, CloudError, Failure
from nbprov.model.launches import InstanceState
from nbprov.model.spec import Spec
from nbprov.provisioning.async_cloud import AsyncCloud
from nbprov.provisioning.ledger import ClusterRow, LeaseLost, ReplacementRow
from nbprov.provisioning.ledger.json_codec import to_plain
from nbprov.provisioning.supervision.absence_tracker import AbsenceTracker
from nbprov.provisioning.supervision.context import SupervisionContext
from nbprov.provisioning.supervision.guard_sync import count_price
from nbprov.remote.errors import RemoteError

from .admission import Admission
from .cluster_machines import MOST_PAUSE, ClusterMachines, Unwanted
from .node_bring_up import NodeBringUp
from .node_events import note_once
from .policy import NotNow, Obstacle
from .replacement_create import ReplacementCreate

log = logging.getLogger("nbprov.lifecycle")


class Replacement:
    """One replacement. On the engine thread, under the run's lease."""

    def __init__(
        self, context: SupervisionContext, cloud: AsyncCloud, cluster: ClusterRow, spec: Spec
    ) -> None:
        self._context, self._cloud, self._cluster = context, cloud, cluster
        self._ledger, self._clock = context.ledger, context.clock
        self._machines = ClusterMachines(context.ledger, cloud, cluster)
        self._admission = Admission(context, cloud, cluster, self._machines)
        self._create = ReplacementCreate(context, cloud, self._machines)
        self._bring_up = NodeBringUp(context, cloud, cluster, spec, self._machines)

    async def run(self) -> None:
        """Continue the replacement that is open, or ask for a machine and see it through.

        Raises
        ------
        NotNow
            If nothing may be asked for now.
        LeaseLost
            If another kernel has taken the run over.
        """
        row, is_mine = self._ledger.replacements.open_one(self._cluster.token), False
        if row is None:
            row, is_mine = await self._admission.intend(), True
        try:
            await self._see_through(row, is_mine=is_mine)
        except Unwanted:
            log.info("%s: the replacement of node %d is left", self._cluster.name, row.node)

    async def undo(self) -> None:
        """End what is under way and confirm it: nothing of it is there or can come."""
        row = self._ledger.replacements.open_one(self._cluster.token)
        if row is not None:
            failure = Failure(Cause.CANCELLED, "the cluster is to be stopped or ended")
            with contextlib.suppress(Unwanted):
                await self._end(row, failure)

    async def _see_through(self, row: ReplacementRow, *, is_mine: bool) -> None:
        if row.state in (AttemptState.INTENT, AttemptState.SENT, AttemptState.UNKNOWN):
            found = await self._create.decide(row, is_mine=is_mine)
            if not isinstance(found, str):
                state = AttemptState.ABSENT if found is None else AttemptState.REFUSED
                self._close(row, state, found)
                return
            if not self._ledger.replacements.made(row, found):
                raise Unwanted
            count_price(self._ledger, self._cluster)
            row = replace(row, state=AttemptState.ACCEPTED, instance_id=found)
        if row.state is AttemptState.ENDING:
            await self._end(row, row.failure)
            return
        try:
            await self._bring_up.bring_up(row)
        except (LeaseLost, Unwanted, NotNow):
            raise
        except Exception as error:
            if not isinstance(error, CloudError | NbprovError | TimeoutError | OSError):
                log.exception("%s: bringing node %d up", self._cluster.name, row.node)
            self._machines.check_wanted()
            await self._check_others(error)
            await self._end(row, _failure(error))

    async def _check_others(self, error: Exception) -> None:
        """Raise `NotNow` where another machine does not run: it may be why this one failed."""
        ids = self._ledger.launches.ids_of(self._cluster.token)
        listed = await self._machines.listed()
        there = {i.id for i in listed if i.state is InstanceState.RUNNING}
        if not set(ids) <= there:
            raise NotNow(
                Obstacle.MACHINE_LOST, "another of its machines is lost as well"
            ) from error

    async def _end(self, row: ReplacementRow, failure: Failure | None) -> None:
        """Terminate what the create made, or may still make, and confirm it.

        It is given up only where another kernel takes over or the cluster ends.
        """
        cloud, ledger, machines = self._cloud, self._ledger, self._machines
        if row.state is not AttemptState.ENDING:
            ledger.replacements.end(row, AttemptState.ENDING, failure)
        absences, pause = AbsenceTracker(), cloud.capabilities.poll_every
        known = {row.instance_id} - {""}
        while True:
            machines.check_not_ended()
            asked, now = self._clock.elapsed(), self._clock.now()
            decided = bool(known) or await self._create.is_decided(row, known)
            ids = ledger.launches.ids_of(row.token)
            ours = [i for i in await machines.listed(machines.check_not_ended) if i.id not in ids]
            rest = [i for i in ours if i.state is not InstanceState.GONE]
            _, unsure = absences.look(
                row.token,
                known,
                [i.id for i in ours],
                asked=asked,
                answered=self._clock.elapsed(),
                settle=cloud.capabilities.settle,
            )
            known |= {i.id for i in rest}
            is_late = now > row.deadline + cloud.capabilities.settle
            if not rest and not unsure and decided and (known or is_late):
                self._close(row, AttemptState.GONE if known else AttemptState.ABSENT, failure)
                return
            if alive := [i.id for i in rest if i.state is not InstanceState.ENDING]:
                try:
                    await cloud.terminate(alive)
                except CloudError as error:
                    log.warning("%s: %s; tried again", self._cluster.name, error.failure.sentence())
                    pause = min(MOST_PAUSE, pause * 2)
            await asyncio.sleep(pause)

    def _close(self, row: ReplacementRow, state: AttemptState, failure: Failure | None) -> None:
        words = failure.sentence() if failure is not None else "nothing was made"
        with self._ledger.together():
            if state is AttemptState.REFUSED and failure is not None:
                self._block(row, failure)
            self._ledger.replacements.end(row, state, failure)
            if state is AttemptState.GONE:
                self._ledger.blocks.free_quota(row.launch.candidate)
            if failure is None or failure.cause is not Cause.CANCELLED:
                text = f"node {row.node} is not replaced yet: {words}; it is asked for again"
                what = {"node": row.node, "failure": to_plain(failure)}
                note_once(self._ledger, self._cluster, EventKind.NODE_NOT_REPLACED, text, **what)
        self._context.side_objects.soon(self._cloud.name)
        self._context.changed()

    def _block(self, row: ReplacementRow, failure: Failure) -> None:
        """Block the place that refused one machine."""
        candidate, now = replace(row.launch.candidate, count=1), self._clock.now()
        block = block_after(candidate, failure, now)
        if block is not None:
            repeats = self._ledger.blocks.repeats(block)
            self._ledger.blocks.remember(
                block_after(candidate, failure, now, repeats=repeats) or block
            )


def _failure(error: Exception) -> Failure:
    if isinstance(error, CloudError):
        return error.failure
    if isinstance(error, RemoteError | NbprovError):
        return Failure(Cause.UNHEALTHY, error.message.splitlines()[0], error.code)
    text = f"it does not come up: {type(error).__name__}: {error}".rstrip(": ")
    return Failure(Cause.UNHEALTHY, text)
