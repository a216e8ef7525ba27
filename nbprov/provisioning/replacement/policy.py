"""Whether a machine may be asked for in the place of a lost one, for how much, and what is written down before it is."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from nbprov.model.clock import Seconds, short_duration
from nbprov.model.clusters import AttemptState
from nbprov.model.errors import NbprovError, UsageError
from nbprov.model.failures import CloudError
from nbprov.model.launches import Instance, InstanceState
from nbprov.model.offers import Candidate
from nbprov.model.spec import Spec
from nbprov.provisioning.async_cloud import AsyncCloud
from nbprov.provisioning.ledger import ClusterRow, ReplacementRow
from nbprov.provisioning.run.requote import beyond_agreed, quoted
from nbprov.provisioning.supervision.guard_config import (
    LEAST_BUDGET_SECONDS,
    check_budget,
    guards_known,
)

if TYPE_CHECKING:
    from nbprov.provisioning.engine import Engine
    from nbprov.remote.agent.messages import AgentStatus

JOIN_GRACE: Seconds = 120.0
"""After a machine joined: so long its engine starts up, which is nobody's work."""
STATUS_SECONDS: Seconds = 20.0
"""How long an agent may take to say whether it is about to end its machine: it answers from memory."""


class NotNow(Exception):
    """Nothing is asked for now; its words say why."""


class Asking:
    """What comes before the create: everything that speaks against it is looked at, and then the intent is in the ledger."""

    def __init__(self, engine: Engine, cloud: AsyncCloud, row: ClusterRow, spec: Spec) -> None:
        self._engine, self._cloud, self._cluster, self._spec = engine, cloud, row, spec
        self._ledger, self._clock = engine.ledger, engine.clock

    async def _intend(self) -> ReplacementRow:
        cluster, ledger, token = self._cluster, self._ledger, self._cluster.token
        if self._engine.bringing is not None and (why := self._engine.bringing.why_not(cluster)):
            raise NotNow(why)
        if not await self._cloud.is_of(cluster.candidate.account):
            raise NotNow(
                f"the credentials in use are not those of {cluster.candidate.account}, with which it was launched"
            )
        head = await self._look()
        await self._agents_stay()
        candidate = await self._candidate(head)
        stored = next(r for r in ledger.launches.of_run(cluster.run_id) if r.token == token)
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
        row = ReplacementRow(
            *(token, number, cluster.run_id, node, AttemptState.INTENT, launch, None, "", None),
            *(ledger.prices.cost(cluster.run_id), launch.answer_by, now, None),
        )
        if not ledger.replacements.intend(row):
            raise NotNow("the cluster does not run, or another kernel sees to it")
        if self._cloud.leaves_side_objects:
            self._engine.tidying.told(self._cloud.name, False)
        return row

    async def _look(self) -> Instance:
        """The head, once a listing shows it running, and no more machines than the cluster counts."""
        ours, ids = await self._listed(), set(self._ledger.launches.ids_of(self._cluster.token))
        left = [i for i in ours if i.id not in ids and i.state is not InstanceState.GONE]
        if left:
            raise NotNow(f"{', '.join(i.id for i in left)} is not gone yet")
        head = next((i for i in ours if i.id in ids and i.node == 0), None)
        if head is None or head.state is not InstanceState.RUNNING:
            raise NotNow("its head is not listed as running")
        return head

    async def _agents_stay(self) -> None:
        """See that no agent is about to end its machine: the idle clocks of a gang are due at one instant, and a lost machine may be the first."""
        from nbprov.remote.agent.client import AgentClient

        async def one(agent: AgentClient | None) -> AgentStatus | None:
            if agent is None:
                return None
            async with asyncio.timeout(STATUS_SECONDS):
                return await agent.status()

        try:
            live = await self._engine.attach(self._cluster.name)
            told = await asyncio.gather(*(one(node.agent) for node in live.present))
        except (CloudError, NbprovError, TimeoutError, OSError) as error:
            raise NotNow(f"its machines do not answer ({error})") from error
        if any(status is None or status.ending is not None for status in told):
            raise NotNow("a guard is about to end its machines")
        self._check_used([status for status in told if status is not None])

    def _check_used(self, told: Sequence[AgentStatus]) -> None:
        """Raise `NotNow` where nothing was at work since the last one joined: each one begins the idle clocks anew, and the bill would have no end."""
        ledger, token = self._ledger, self._cluster.token
        guards = guards_known(ledger, self._cluster.run_id)
        joined = max(
            (
                r.ended or 0.0
                for r in ledger.replacements.of_launch(token)
                if r.state is AttemptState.READY
            ),
            default=None,
        )
        if (
            joined is None
            or guards is None
            or guards.autostop is None
            or any(status.active for status in told)
        ):
            return
        worked = self._clock.now() - min((status.idle for status in told), default=0.0)
        if worked <= joined + JOIN_GRACE and ledger.replacements.last_loss(token) > joined:
            raise NotNow(
                "nothing was at work since the last one was replaced; it is asked for once something is"
            )

    async def _candidate(self, head: Instance) -> Candidate:
        """What is asked for, at the price of now, where that may be paid and is worth it."""
        cluster, ledger = self._cluster, self._ledger
        mine = cluster.candidate
        # In the zone of the others: the first create may have left the choice to the cloud.
        zone = mine.offer.zone or head.place.zone
        candidate = quoted(mine, await self._cloud.quote(mine))
        run, guards = ledger.runs.get(cluster.run_id), guards_known(ledger, cluster.run_id)
        if beyond := beyond_agreed(
            candidate, max(run.consent if run is not None else 0, mine.hourly)
        ):
            raise NotNow(beyond)
        if guards is not None:
            try:
                check_budget(guards, candidate, spent=ledger.prices.cost(cluster.run_id))
            except UsageError as error:
                raise NotNow(error.message) from error
            began = next(
                r for r in ledger.launches.of_run(cluster.run_id) if r.token == cluster.token
            ).created
            left = (
                None
                if guards.max_lifetime is None
                else guards.max_lifetime - (self._clock.now() - began)
            )
            if left is not None and left < LEAST_BUDGET_SECONDS:
                raise NotNow(f"its lifetime is over in {short_duration(max(0.0, left))}")
        return replace(candidate, offer=replace(candidate.offer, zone=zone))

    async def _listed(self) -> list[Instance]:
        raise NotImplementedError
