"""Brings a new machine of a cluster up: boot, connection, agent, health and the user's setup."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace

from nbprov.model.clock import Seconds, short_duration
from nbprov.model.errors import NbprovError
from nbprov.model.events import EventKind
from nbprov.model.failures import Cause, CloudError, Failure
from nbprov.model.launches import Instance, InstanceState
from nbprov.model.spec import Spec
from nbprov.provisioning.async_cloud import AsyncCloud
from nbprov.provisioning.ledger import ClusterRow, ReplacementRow
from nbprov.provisioning.live_cluster import LiveCluster, Node
from nbprov.provisioning.run.attempt import AGENT_SECONDS
from nbprov.provisioning.run.health_check import check_health, health_seconds
from nbprov.provisioning.run.pricing.price_check import agreed_for
from nbprov.provisioning.run.pricing.requote import listed_beyond, listed_prices
from nbprov.provisioning.ssh_ingress import SshIngress
from nbprov.provisioning.supervision.absence_tracker import AbsenceTracker
from nbprov.provisioning.supervision.context import SupervisionContext
from nbprov.provisioning.supervision.listing.cluster_state import GOING
from nbprov.remote.agent.config import GuardConfig

from .cluster_machines import ClusterMachines, Unwanted
from .policy import NotNow, Obstacle

log = logging.getLogger("nbprov.lifecycle")

SETUP_SECONDS: Seconds = 6 * 3600.0
"""How long files, Python, setup and engine of one machine may take.

A step holds off the idle guards of the other machines for as long.
"""

HEALTH_LEAST: Seconds = 60.0

BOOTING = (InstanceState.PENDING, InstanceState.RUNNING, InstanceState.UNKNOWN)


class NodeBringUp:
    """Makes a new machine a node of its cluster. On the engine thread."""

    def __init__(
        self,
        context: SupervisionContext,
        cloud: AsyncCloud,
        cluster: ClusterRow,
        spec: Spec,
        machines: ClusterMachines,
    ) -> None:
        self._context, self._cloud, self._cluster = context, cloud, cluster
        self._ledger, self._clock = context.ledger, context.clock
        self._spec, self._machines = spec, machines

    async def bring_up(self, row: ReplacementRow) -> None:
        """Bring the machine of a replacement up, and put it in the place of the lost one.

        Raises
        ------
        NotNow
            If the other machines cannot be reached from here.
        Unwanted
            If the cluster is to be ended or stopped.
        """
        instance = await self._boot(row)
        connections, setup = self._context.connections, self._context.hooks.node_setup
        try:
            live = await connections.attach(self._cluster.name)
        except (CloudError, NbprovError) as error:
            # That is no fault of the new machine; without an agent it powers itself off in time.
            raise NotNow(
                Obstacle.MACHINES_SILENT, f"the other machines do not answer ({error})"
            ) from error
        node = Node(instance)
        try:
            draft = await self.connect(row, live, node)
            self._machines.check_wanted()
            if setup is not None:
                async with asyncio.timeout(SETUP_SECONDS):
                    await setup.bring(draft, node)
            self._machines.check_wanted()
            self._write_ready(row, instance)
        except BaseException:
            await asyncio.shield(node.close())
            raise
        if connections.live.get(row.run_id) is live:
            live.nodes[row.node], live.unheard, live.notes = node, draft.unheard, draft.notes
            live.variables = draft.variables
        else:
            await node.close()  # whoever attaches anew finds the machine in the ledger
        self._context.changed()

    def _write_ready(self, row: ReplacementRow, instance: Instance) -> None:
        with self._ledger.together():
            if not self._ledger.replacements.ready(row):
                raise Unwanted
            count = len(self._ledger.launches.ids_of(row.token))
            self._ledger.events.add(
                row.run_id,
                EventKind.NODE_REPLACED,
                f"node {row.node} is there again, as {instance.id}:"
                f" {count} of {self._cluster.candidate.count} machines",
                row.token,
                node=row.node,
                instance=instance.id,
            )

    async def connect(self, row: ReplacementRow, live: LiveCluster, node: Node) -> LiveCluster:
        """Connect to a new machine, start its agent, check its health, and set the gang up.

        Returns the cluster as it will be with this node.
        """
        instance, seconds = node.instance, self._cloud.capabilities.ssh_deadline
        ingress = SshIngress(
            self._cloud,
            (instance.id,),
            self._clock,
            lambda: self._ledger.instances.of_launch(row.token),
        )
        alone = LiveCluster(live.run_id, live.name, live.candidate, live.keys, [node], ingress)
        boot_grace = seconds if self._cloud.capabilities.login else 0.0
        try:
            await alone.connect_to(node, seconds, boot_grace=boot_grace)
        finally:
            ingress.close()
        if live.ingress is not None:
            live.ingress.add(instance.id)
        await live.start_agent(node, self._guards(row), AGENT_SECONDS)
        health = self._spec.health
        async with asyncio.timeout(
            max(HEALTH_LEAST, health_seconds(health, live.candidate) or 0.0)
        ):
            await check_health(
                alone, health, lambda text: log.info("%s node %d: %s", live.name, row.node, text)
            )
        nodes = [node if rank == row.node else other for rank, other in enumerate(live.nodes)]
        draft = replace(live, nodes=nodes, unheard=set(), notes=[], variables=dict(live.variables))
        await draft.set_up_gang()
        return draft

    def _guards(self, row: ReplacementRow) -> GuardConfig | None:
        known = self._ledger.guards.get(row.run_id)
        if known is None or "poweroff" not in known[0]:
            return None
        launch = self._ledger.launches.by_token(row.token)
        assert launch is not None, "a replacement has the launch of its cluster"
        late = max(0.0, row.created - launch.created)
        return GuardConfig.from_json(known[0]).later(late, row.spent)

    async def _boot(self, row: ReplacementRow) -> Instance:
        """Wait until the machine runs and has an address.

        Raises
        ------
        CloudError
            If it ends first, or does not run in time.
        """
        capabilities, absences = self._cloud.capabilities, AbsenceTracker()
        end = self._clock.elapsed() + capabilities.boot_deadline
        while True:
            self._machines.check_wanted()
            asked = self._clock.elapsed()
            ours = await self._machines.listed()
            await self._end_others(row, ours)
            found = next((i for i in ours if i.id == row.instance_id), None)
            gone, _ = absences.look(
                row.token,
                {row.instance_id},
                [i.id for i in ours],
                asked=asked,
                answered=self._clock.elapsed(),
                settle=capabilities.settle,
            )
            if gone or (found is not None and found.state not in BOOTING):
                raise CloudError(_end_of(row, found))
            self._check_price(row, ours)
            if found is not None and found.state is InstanceState.RUNNING and found.host:
                return found
            if self._clock.elapsed() > end:
                limit = short_duration(capabilities.boot_deadline)
                text = f"machine {row.instance_id} does not run after {limit}"
                raise CloudError(Failure(Cause.TIMEOUT, text))
            await asyncio.sleep(capabilities.poll_every)

    def _check_price(self, row: ReplacementRow, ours: list[Instance]) -> None:
        """Raise `CloudError` where the new machine makes the cluster dearer than was agreed to."""
        members = {*self._ledger.launches.ids_of(row.token), row.instance_id}
        listed = listed_prices(i for i in ours if i.id in members)
        agreed = agreed_for(self._ledger, self._cluster)
        if row.instance_id in listed and (
            beyond := listed_beyond(row.launch.candidate, listed, agreed)
        ):
            raise CloudError(Failure(Cause.UNHEALTHY, beyond))

    async def _end_others(self, row: ReplacementRow, ours: list[Instance]) -> None:
        """End what bears the token beside the cluster's machines and this one.

        A create of an earlier replacement that came late made it.
        """
        known = {*self._ledger.launches.ids_of(row.token), row.instance_id}
        if surplus := [i.id for i in ours if i.id not in known and i.state not in GOING]:
            text = f"{', '.join(surplus)} came too late and is ended"
            self._ledger.events.add(
                row.run_id, EventKind.NODE_SURPLUS_ENDED, text, row.token, instances=surplus
            )
            await self._cloud.terminate(surplus)


def _end_of(row: ReplacementRow, found: Instance | None) -> Failure:
    """Why a machine ended before it was up."""
    text = f"machine {row.instance_id} ended before it was up"
    return (found.failure if found is not None else None) or Failure(Cause.UNHEALTHY, text)
