"""Lost machines of clusters with an engine: noticed, taken out of the cluster, and replaced. What one replacement does is in `replacement_steps.py`."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING

from nbprov.model.clock import Instant, Seconds
from nbprov.model.clusters import AttemptState, ClusterState
from nbprov.model.errors import NbprovError, NotFound
from nbprov.model.failures import Cause, CloudError
from nbprov.model.launches import Accepted, Instance, InstanceState, Pending
from nbprov.model.spec import Spec
from nbprov.provisioning.async_cloud import AsyncCloud
from nbprov.provisioning.gang_setup import tie
from nbprov.provisioning.ledger import ClusterRow, LeaseLost, ReplacementRow
from nbprov.provisioning.live_cluster import LiveCluster, Node
from nbprov.provisioning.run.attempt_actions import AGENT_SECONDS, WATCH_SECONDS
from nbprov.provisioning.supervision.desired_state import is_leaving
from nbprov.provisioning.supervision.guard_config import NODE
from nbprov.provisioning.supervision.guard_enforcement import BILLED, Enforcing

from .policy import NotNow
from .replace_node import GOING, Replacement, say

if TYPE_CHECKING:
    from nbprov.provisioning.engine import Engine

log = logging.getLogger("nbprov.lifecycle")

FIRST_PAUSE: Seconds = 30.0
"""After a place refused a machine, before it is asked again; doubled with each refusal."""
LAST_PAUSE: Seconds = 600.0
"""At most: spot capacity comes back within minutes or within hours, and a request a while costs nothing."""
SELDOM: Seconds = 1800.0
"""Between two requests where a person has to do something first."""
PERSONAL = frozenset(
    {Cause.CREDENTIALS, Cause.BALANCE, Cause.PERMISSION, Cause.BAD_REQUEST, Cause.NOT_OFFERED}
)
"""Refusals that do not pass by themselves. Quota is none: a machine that was just lost counts against it for a while."""
NOT_NOW_PAUSE: Seconds = 30.0
"""After something spoke against asking (a price, a guard, a machine that does not answer), before that is looked at again."""
MOST_BROKEN = 3
"""So many machines in a row that were made and did not come up: something is wrong that another one will not mend, and each is paid for."""
ASK_AGAIN: Seconds = 300.0
"""A lost machine that is still not gone is asked to end once more after this."""


def due_at(rows: Sequence[ReplacementRow]) -> Instant | None:
    """When the next machine may be asked for, by what became of those before; None where no more are."""
    since = next((n for n in range(len(rows), 0, -1) if rows[n - 1].state is AttemptState.READY), 0)
    tried = [r for r in rows[since:] if r.failure is None or r.failure.cause is not Cause.CANCELLED]
    if not tried:
        return 0.0
    if sum(r.state is AttemptState.GONE for r in tried) >= MOST_BROKEN:
        return None
    last = tried[-1]
    cause = last.failure.cause if last.failure is not None else None
    pause = (
        SELDOM if cause in PERSONAL else min(LAST_PAUSE, FIRST_PAUSE * 2 ** min(len(tried) - 1, 16))
    )
    return (last.ended or last.created) + pause


class Replacing(Enforcing):
    """What the watcher does about lost machines. On the engine thread."""

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine)
        self._replace_at: dict[str, Seconds] = {}
        self._asked_to_end: dict[str, Seconds] = {}
        self._renewing: set[str] = set()
        self._came: dict[str, set[str]] = {}
        self._specs: dict[str, Spec] = {}

    # ------------------------------------------------------------ noticing

    def _spec(self, run_id: str) -> Spec:
        if run_id not in self._specs:
            # Reading specs takes as long to load as all the rest of a price table, and nothing was lost yet.
            from nbprov.spec import parse

            run = self._engine.ledger.runs.get(run_id)
            try:
                self._specs[run_id] = parse(run.spec) if run is not None else Spec()
            except NbprovError:
                self._specs[run_id] = Spec()  # of another release: then its machines end together
        return self._specs[run_id]

    def _is_mended(self, row: ClusterRow) -> bool:
        """Whether a lost machine of a cluster is replaced: it has an engine, and its cloud can do so."""
        try:
            can = self._engine.cloud(row.candidate.offer.cloud).capabilities.replaces_nodes
        except NotFound:
            return False
        return can and row.candidate.count > 1 and self._spec(row.run_id).engine is not None

    def _of_cluster(self, row: ClusterRow, machines: list[Instance]) -> list[Instance]:
        """Of the machines listed under a cluster's token those that it counts. Read after the listing: what joined since is one."""
        ids = self._engine.ledger.launches.ids_of(row.token) if self._is_mended(row) else ()
        return [i for i in machines if i.id in ids] if ids else machines

    def _may_lose(self, row: ClusterRow, machines: list[Instance], gone: set[str]) -> bool:
        """Whether what is lost may be: the head is there, and nobody on the machines wanted their end.

        Parameters
        ----------
        machines, gone
            Those of the cluster that are listed, and ids that are surely missing.
        """
        if row.state not in BILLED or not self._is_mended(row):
            return False
        known = self._engine.ledger.instances.members(row.token)
        lost = {i.id for i in machines if i.state in GOING} | gone
        if not known or known[0].node != 0 or known[0].id in lost:
            return False
        return not any(i.by_itself for i in (*machines, *known) if i.id in lost)

    def _lose(
        self, cloud: AsyncCloud, row: ClusterRow, machines: list[Instance], gone: set[str]
    ) -> bool:
        """Take machines out of their cluster that are gone; those on their way are asked to go. Whether anything changed."""
        ledger, now = self._engine.ledger, self._engine.clock.elapsed()
        going = [i.id for i in machines if i.state is InstanceState.ENDING]
        late = [i for i in going if now - self._asked_to_end.get(i, -ASK_AGAIN) >= ASK_AGAIN]
        if late:
            self._asked_to_end |= dict.fromkeys(late, now)
            self._begin(self._ask_to_end(cloud, late))
        listed = {i.id: i for i in machines if i.state is InstanceState.GONE}
        lost = [
            listed.get(i.id, i)
            for i in ledger.instances.members(row.token)
            if i.id in listed or i.id in gone
        ]
        if not lost:
            return False
        with ledger.together():
            if not ledger.replacements.lose_machines(row.token, lost):
                return False
            ledger.blocks.free_quota(row.candidate)
            there = len(ledger.launches.ids_of(row.token))
            names = ", ".join(str(i.node) for i in lost)
            why = (
                next((i.reason for i in lost if i.reason), "")
                or "it is not in its cloud's list any more"
            )
            ledger.events.add(
                *(row.run_id, NODE),
                f"node{'s' if len(lost) > 1 else ''} {names} {'were' if len(lost) > 1 else 'was'} lost ({why}):"
                f" {there} of {row.candidate.count} machines work, and another is asked for",
                row.token,
            )
        for instance in lost:
            self._absences.found(row.cluster_id, instance.id)
        self._replace_at.pop(row.cluster_id, None)
        return True

    async def _ask_to_end(self, cloud: AsyncCloud, ids: list[str]) -> None:
        with contextlib.suppress(CloudError):
            await cloud.terminate(ids)

    # ------------------------------------------------------------ replacing

    def _mend(self, row: ClusterRow) -> None:
        """Go on with what a cluster lacks: in each round of the watcher."""
        if not self._is_mended(row):
            return
        self._renew(row)
        ledger, key = self._engine.ledger, row.cluster_id
        if (
            key in self._replacing
            or self._busy[key]
            or row.state not in (*BILLED, ClusterState.STOPPED)
        ):
            return
        is_open, lacks = (
            ledger.replacements.open_one(row.token) is not None,
            len(ledger.launches.ids_of(row.token)) < row.candidate.count,
        )
        # What is to be ended or stopped, once its outputs are here, needs no more machines.
        if not is_open and not (
            lacks
            and not is_leaving(row)
            and row.state is ClusterState.RUNNING
            and self._is_due(row)
        ):
            return
        if self._engine.clock.elapsed() >= self._replace_at.get(key, 0.0) and self._try_lease(
            row.run_id
        ):
            self._replacing[key] = self._begin(self._replace(row))

    def _is_due(self, row: ClusterRow) -> bool:
        rows = self._engine.ledger.replacements.of_launch(row.token)
        due = due_at(rows)
        if due is None:
            why = (
                rows[-1].failure.sentence()
                if rows and rows[-1].failure is not None
                else "they did not come up"
            )
            if say(
                self._engine.ledger,
                row,
                f"{MOST_BROKEN} machines in the place of a lost one did not come up ({why}); no more are asked for",
            ):
                self._engine.changed()
        return due is not None and self._engine.clock.now() >= due

    async def _replace(self, row: ClusterRow) -> None:
        keeper = asyncio.create_task(self._keep_lease(row.run_id))
        cloud = self._engine.cloud(row.candidate.offer.cloud)
        work = Replacement(self._engine, cloud, row, self._spec(row.run_id))
        try:
            await (
                work.undo() if row.state is ClusterState.STOPPED or is_leaving(row) else work.go()
            )
        except NotNow as why:
            self._replace_at[row.cluster_id] = self._engine.clock.elapsed() + NOT_NOW_PAUSE
            if say(
                self._engine.ledger,
                row,
                f"no machine is asked for in the place of a lost one now: {why}",
            ):
                self._engine.changed()
        except LeaseLost as error:
            log.info("%s: %s", row.name, error)
        except Exception:
            self._replace_at[row.cluster_id] = self._engine.clock.elapsed() + NOT_NOW_PAUSE
            log.exception("%s: the replacement of a machine; tried again", row.name)
        finally:
            keeper.cancel()
            self._replacing.pop(row.cluster_id, None)
            if not self._busy[row.cluster_id]:
                self._release(row.run_id)

    def _end_surplus(self, cloud: AsyncCloud, row: ClusterRow, machines: list[Instance]) -> None:
        """End what is listed under a cluster's token and is none of its machines: a create that came late. Looked at again in each round."""
        ledger = self._engine.ledger
        if (
            row.state not in (*BILLED, ClusterState.STOPPED)
            or row.cluster_id in self._replacing
            or self._busy[row.cluster_id]
        ):
            return
        # In this order: what is being replaced now may have become the cluster's since it was listed.
        is_open, ids = (
            ledger.replacements.open_one(row.token) is not None,
            ledger.launches.ids_of(row.token),
        )
        surplus = [i.id for i in machines if i.id not in ids and i.state not in GOING]
        if is_open or not ids or not surplus or not self._try_lease(row.run_id):
            return
        if say(
            ledger,
            row,
            f"{', '.join(surplus)} was made too late, is none of its machines, and is ended",
        ):
            self._engine.changed()
        self._begin(self._ask_to_end(cloud, surplus))
        self._release(row.run_id)

    # ------------------------------------------------------------ stopping and ending

    async def _undo_replacement(self, cloud: AsyncCloud, row: ClusterRow) -> None:
        """Before a stop: end what is under way, confirmed. The caller has the lease."""
        await self._leave_replacement(row)
        await Replacement(self._engine, cloud, row, self._spec(row.run_id)).undo()

    async def _leave_replacement(self, row: ClusterRow) -> None:
        """Let go of what is under way here; its row says how far it came."""
        task = self._replacing.get(row.cluster_id)
        if task is not None and task is not asyncio.current_task():
            task.cancel()
            await asyncio.wait({task})

    async def _may_come(self, cloud: AsyncCloud, row: ClusterRow) -> bool:
        """Whether a create that was to replace a machine of a cluster that ends may make one yet. Ask before the listing that is to be believed."""
        found = self._engine.ledger.replacements.open_one(row.token)
        if found is None or found.instance_id:
            return False
        now = self._engine.clock.now()
        if found.operation is not None and now <= found.deadline + WATCH_SECONDS:
            try:
                result = await cloud.poll(found.operation)
            except CloudError:
                return True
            if isinstance(result, Pending):
                return True
            if isinstance(result, Accepted):
                self._came[row.cluster_id] = set(result.ids)
        return now <= found.deadline + cloud.capabilities.settle

    def _half_made(self, row: ClusterRow) -> set[str]:
        """The machine that is to replace one and is not the cluster's yet: a listing without it does not mean that it is gone."""
        found = self._engine.ledger.replacements.open_one(row.token)
        if found is None:
            return set()
        return {found.instance_id} - {""} or self._came.get(row.cluster_id, set())

    # ------------------------------------------------------------ connections

    def _renew(self, row: ClusterRow) -> None:
        """Bring the connections of this kernel in line with the cluster's machines, whichever kernel replaced one."""
        live = self._engine.live.get(row.run_id)
        if live is None or row.state not in BILLED or row.cluster_id in self._renewing:
            return
        members, fresh = {i.node: i for i in self._engine.ledger.instances.members(row.token)}, []
        for rank, node in enumerate(live.nodes):
            now = members.get(rank)
            if now is None and not node.missing and members:
                node.missing = True
                live.unheard.discard(rank)
                self._begin(node.close())
                self._engine.changed()
            elif now is not None and now.id != node.instance.id:
                fresh.append(now)
        if fresh:
            self._renewing.add(row.cluster_id)
            self._begin(self._join(row, live, fresh))

    async def _join(self, row: ClusterRow, live: LiveCluster, fresh: list[Instance]) -> None:
        """Connect to machines that another kernel put in the places of lost ones."""
        capabilities = self._engine.cloud(row.candidate.offer.cloud).capabilities
        try:
            for instance in fresh:
                node = Node(instance)
                if live.door is not None:
                    live.door.add(instance.id)
                try:
                    await live.connect_to(node, capabilities.ssh_deadline)
                    await live.start_agent(node, None, AGENT_SECONDS)
                except BaseException:
                    await asyncio.shield(node.close())
                    raise
                live.nodes[instance.node] = node
            await tie(live)
        except (CloudError, NbprovError, TimeoutError, OSError) as error:
            log.info("%s: its new machines are not reached yet: %s; tried again", row.name, error)
        finally:
            self._renewing.discard(row.cluster_id)
            self._engine.changed()
