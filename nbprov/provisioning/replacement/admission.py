"""Decides whether a machine may be asked for in the place of a lost one, and for how much.

The intent is in the ledger before anything is asked for.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from nbprov.model.clock import Seconds, short_duration
from nbprov.model.clusters import AttemptState
from nbprov.model.errors import NbprovError, UsageError
from nbprov.model.failures import CloudError
from nbprov.model.guards import Guards
from nbprov.model.launches import Instance, InstanceState
from nbprov.model.offers import Candidate
from nbprov.provisioning.async_cloud import AsyncCloud
from nbprov.provisioning.ledger import ClusterRow, ReplacementRow
from nbprov.provisioning.run.pricing.price_check import agreed_for
from nbprov.provisioning.run.pricing.requote import beyond_agreed, quoted
from nbprov.provisioning.supervision.context import SupervisionContext
from nbprov.provisioning.supervision.guard_config import (
    LEAST_BUDGET_SECONDS,
    check_budget,
    guards_known,
)

from .cluster_machines import ClusterMachines
from .policy import NotNow, Obstacle

if TYPE_CHECKING:
    from nbprov.remote.agent.client import AgentClient
    from nbprov.remote.agent.messages import AgentStatus

JOIN_GRACE: Seconds = 120.0
"""After a machine joined, its engine starts up for so long, which is nobody's work."""

STATUS_SECONDS: Seconds = 20.0
"""How long an agent may take to say whether it is about to end its machine.

It answers from memory.
"""


class Admission:
    """Looks for obstacles to one replacement, and writes its intent. On the engine thread."""

    def __init__(
        self,
        context: SupervisionContext,
        cloud: AsyncCloud,
        cluster: ClusterRow,
        machines: ClusterMachines,
    ) -> None:
        self._context, self._cloud, self._cluster = context, cloud, cluster
        self._ledger, self._clock, self._machines = context.ledger, context.clock, machines

    async def intend(self) -> ReplacementRow:
        """Write down the intent to ask for a machine.

        Raises
        ------
        NotNow
            If something speaks against asking now.
        """
        cluster, setup = self._cluster, self._context.hooks.node_setup
        if setup is not None and (obstacle := setup.why_not(cluster)):
            raise obstacle
        if not await self._cloud.is_of(cluster.candidate.account):
            raise NotNow(
                Obstacle.ACCOUNT_DIFFERS,
                f"the credentials in use are not those of {cluster.candidate.account},"
                " with which it was launched",
            )
        head = await self._head()
        await self.check_agents()
        row = self._intent(await self._candidate(head))
        if not self._ledger.replacements.intend(row):
            raise NotNow(
                Obstacle.NOT_RUNNING, "the cluster does not run, or another kernel sees to it"
            )
        if self._cloud.leaves_side_objects:
            self._context.side_objects.told(self._cloud.name, False)
        return row

    def _intent(self, candidate: Candidate) -> ReplacementRow:
        cluster, ledger, token = self._cluster, self._ledger, self._cluster.token
        stored = ledger.launches.by_token(token)
        assert stored is not None, "a cluster has the launch that made it"
        known, there = (
            ledger.replacements.of_launch(token),
            {i.node for i in ledger.instances.members(token)},
        )
        number = max((r.number for r in known), default=0) + 1
        node = min(n for n in range(stored.launch.count) if n not in there)
        now, after = self._clock.now(), stored.launch.terminate_after
        launch = replace(
            stored.launch,
            candidate=candidate,
            count=1,
            nodes=(node,),
            part=number,
            answer_by=now + self._cloud.capabilities.submit_seconds,
            terminate_after=None if after is None else max(1.0, after - (now - stored.created)),
        )
        return ReplacementRow(
            *(token, number, cluster.run_id, node, AttemptState.INTENT, launch, None, "", None),
            *(ledger.prices.cost(cluster.run_id), launch.answer_by, now, None),
        )

    async def _head(self) -> Instance:
        """The head, once it is listed as running, and no machine but the cluster's is left."""
        ours, ids = (
            await self._machines.listed(),
            set(self._ledger.launches.ids_of(self._cluster.token)),
        )
        left = [i.id for i in ours if i.id not in ids and i.state is not InstanceState.GONE]
        if left:
            raise NotNow(
                Obstacle.MACHINE_ENDING, f"{', '.join(left)} is not gone yet", instances=left
            )
        head = next((i for i in ours if i.id in ids and i.node == 0), None)
        if head is None or head.state is not InstanceState.RUNNING:
            raise NotNow(Obstacle.HEAD_NOT_RUNNING, "its head is not listed as running")
        return head

    async def check_agents(self) -> None:
        """Raise `NotNow` where an agent does not answer or is about to end its machine.

        The idle guards of a gang come due together, and a lost machine may be the first to end.
        """

        async def status_of(agent: AgentClient | None) -> AgentStatus | None:
            if agent is None:
                return None
            async with asyncio.timeout(STATUS_SECONDS):
                return await agent.status()

        try:
            live = await self._context.connections.attach(self._cluster.name)
            found = await asyncio.gather(*(status_of(node.agent) for node in live.present))
        except (CloudError, NbprovError, TimeoutError, OSError) as error:
            raise NotNow(
                Obstacle.MACHINES_SILENT, f"its machines do not answer ({error})"
            ) from error
        statuses = [status for status in found if status is not None]
        if len(statuses) < len(found) or any(s.ending is not None for s in statuses):
            raise NotNow(Obstacle.GUARD_DUE, "a guard is about to end its machines")
        self.check_used(statuses)

    def check_used(self, statuses: Sequence[AgentStatus]) -> None:
        """Raise `NotNow` where nothing was at work since the last replacement joined.

        Each one that joins restarts the idle guards, and the bill would have no end.
        """
        ledger, token = self._ledger, self._cluster.token
        guards = guards_known(ledger, self._cluster.run_id)
        ready = [r for r in ledger.replacements.of_launch(token) if r.state is AttemptState.READY]
        joined = max((r.ended or 0.0 for r in ready), default=None)
        if joined is None or guards is None or guards.autostop is None:
            return
        if any(status.active for status in statuses):
            return
        worked = self._clock.now() - min((status.idle for status in statuses), default=0.0)
        if worked <= joined + JOIN_GRACE and ledger.replacements.last_loss(token) > joined:
            raise NotNow(
                Obstacle.UNUSED,
                "nothing was at work since the last one was replaced;"
                " it is asked for once something is",
            )

    async def _candidate(self, head: Instance) -> Candidate:
        """What is asked for, at the price of now, where that may be paid and is worth it."""
        mine = self._cluster.candidate
        # In the zone of the others: the first create may have left the choice to the cloud.
        zone = mine.offer.zone or head.place.zone
        candidate = quoted(mine, await self._cloud.quote(mine))
        if beyond := beyond_agreed(candidate, agreed_for(self._ledger, self._cluster)):
            raise NotNow(Obstacle.PRICE, beyond, hourly=candidate.hourly)
        guards = guards_known(self._ledger, self._cluster.run_id)
        if guards is not None:
            self._check_guards(guards, candidate)
        return replace(candidate, offer=replace(candidate.offer, zone=zone))

    def _check_guards(self, guards: Guards, candidate: Candidate) -> None:
        """Raise `NotNow` where budget or lifetime leave too little for a new machine."""
        cluster, ledger = self._cluster, self._ledger
        try:
            check_budget(guards, candidate, spent=ledger.prices.cost(cluster.run_id))
        except UsageError as error:
            raise NotNow(Obstacle.BUDGET, error.message, hourly=candidate.hourly) from error
        if guards.max_lifetime is None:
            return
        launch = ledger.launches.by_token(cluster.token)
        assert launch is not None, "a cluster has the launch that made it"
        left = guards.max_lifetime - (self._clock.now() - launch.created)
        if left < LEAST_BUDGET_SECONDS:
            rest = short_duration(max(0.0, left))
            raise NotNow(Obstacle.LIFETIME, f"its lifetime is over in {rest}")
