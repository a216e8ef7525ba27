"""Replaces lost machines of a cluster, one at a time, each time the watcher looks at it."""

from __future__ import annotations

import asyncio
import logging

from nbprov.model.clock import Seconds
from nbprov.model.clusters import ClusterState
from nbprov.model.events import EventKind
from nbprov.model.failures import CloudError
from nbprov.model.launches import Accepted, Pending
from nbprov.provisioning.async_cloud import AsyncCloud
from nbprov.provisioning.ledger import ClusterRow, LeaseLost
from nbprov.provisioning.ledger.json_codec import to_plain
from nbprov.provisioning.run.attempt import WATCH_SECONDS
from nbprov.provisioning.supervision.cluster_work import ClusterWork
from nbprov.provisioning.supervision.context import SupervisionContext
from nbprov.provisioning.supervision.listing.cluster_state import SETTLED, is_leaving
from nbprov.runtime.fault_log import log_fault

from .node_events import note_once
from .node_loss import NodeLoss
from .policy import MOST_BROKEN, NotNow, due_at
from .replace_node import Replacement

log = logging.getLogger("nbprov.lifecycle")

NOT_NOW_PAUSE: Seconds = 30.0
"""After something spoke against asking for a machine, before that is looked at again."""


class NodeReplacer:
    """Begins, continues and ends the replacements of one cluster. On the engine thread."""

    def __init__(self, context: SupervisionContext, work: ClusterWork, losses: NodeLoss) -> None:
        self._context, self._work, self._losses = context, work, losses
        self._not_before: Seconds = 0.0
        self._made: set[str] = set()

    def lost(self) -> None:
        """Note that a machine was lost: the next round asks for another one."""
        self._not_before = 0.0

    def reconcile(self, row: ClusterRow) -> None:
        """Continue with the replacement that is open, or ask for a machine that is due."""
        work, ledger = self._work, self._context.ledger
        if not self._losses.is_replaceable(row) or work.is_replacing:
            return
        if work.is_busy or row.state not in SETTLED:
            return
        is_open = ledger.replacements.open_one(row.token) is not None
        if not is_open and not self._is_wanted(row):
            return
        if self._context.clock.elapsed() >= self._not_before and work.try_lease():
            work.replacement = work.begin(self._replace(row))

    def _is_wanted(self, row: ClusterRow) -> bool:
        """Whether a machine is to be asked for.

        A cluster that is to be ended or stopped, once its outputs are here, needs no more.
        """
        is_incomplete = len(self._context.ledger.launches.ids_of(row.token)) < row.candidate.count
        return (
            is_incomplete
            and not is_leaving(row)
            and row.state is ClusterState.RUNNING
            and self._is_due(row)
        )

    def _is_due(self, row: ClusterRow) -> bool:
        rows = self._context.ledger.replacements.of_launch(row.token)
        due = due_at(rows)
        if due is not None:
            return self._context.clock.now() >= due
        failure = rows[-1].failure if rows else None
        why = failure.sentence() if failure is not None else "they did not come up"
        text = (
            f"{MOST_BROKEN} machines in the place of a lost one did not come up ({why});"
            " no more are asked for"
        )
        kind = EventKind.NODE_REPLACEMENTS_EXHAUSTED
        if note_once(self._context.ledger, row, kind, text, failure=to_plain(failure)):
            self._context.changed()
        return False

    async def _replace(self, row: ClusterRow) -> None:
        replacement = self._replacement(self._context.cloud_of(row), row)
        try:
            async with self._work.lease_renewed():
                if row.state is ClusterState.STOPPED or is_leaving(row):
                    await replacement.undo()
                else:
                    await replacement.run()
        except NotNow as obstacle:
            self._defer(row, obstacle)
        except LeaseLost as error:
            log.info("%s: %s", row.name, error)
        except Exception as error:
            self._not_before = self._context.clock.elapsed() + NOT_NOW_PAUSE
            log_fault(log, error, "%s: the replacement of a machine; tried again", row.name)
        finally:
            self._work.replacement = None
            if not self._work.is_busy:
                self._work.release()

    def _defer(self, row: ClusterRow, obstacle: NotNow) -> None:
        self._not_before = self._context.clock.elapsed() + NOT_NOW_PAUSE
        text = f"no machine is asked for in the place of a lost one now: {obstacle}"
        if note_once(
            self._context.ledger,
            row,
            EventKind.NODE_REPLACEMENT_DEFERRED,
            text,
            obstacle=obstacle.obstacle.value,
            **obstacle.data,
        ):
            self._context.changed()

    def _replacement(self, cloud: AsyncCloud, row: ClusterRow) -> Replacement:
        return Replacement(self._context, cloud, row, self._losses.spec)

    # ------------------------------------------------------------ before a stop or an end

    async def undo(self, cloud: AsyncCloud, row: ClusterRow) -> None:
        """End what is under way, confirmed, before a stop. The caller has the lease."""
        await self.leave()
        await self._replacement(cloud, row).undo()

    async def leave(self) -> None:
        """Cancel what is under way here; its row in the ledger says how far it came."""
        task = self._work.replacement
        if task is not None and task is not asyncio.current_task():
            task.cancel()
            await asyncio.wait({task})

    async def may_come(self, cloud: AsyncCloud, row: ClusterRow) -> bool:
        """Whether a create for a replacement may still make a machine of an ending cluster.

        Ask this before the listing that is to be believed.
        """
        found = self._context.ledger.replacements.open_one(row.token)
        if found is None or found.instance_id:
            return False
        now = self._context.clock.now()
        if found.operation is not None and now <= found.deadline + WATCH_SECONDS:
            try:
                # Of a refusal nothing is said here.
                result = await cloud.poll(found.operation, ())
            except CloudError:
                return True
            if isinstance(result, Pending):
                return True
            if isinstance(result, Accepted):
                self._made = set(result.ids)
        return now <= found.deadline + cloud.capabilities.settle

    def half_made(self, row: ClusterRow) -> set[str]:
        """The replacing machine that is not the cluster's yet.

        A listing without it does not mean that it is gone.
        """
        found = self._context.ledger.replacements.open_one(row.token)
        if found is None:
            return set()
        return {found.instance_id} - {""} or self._made
