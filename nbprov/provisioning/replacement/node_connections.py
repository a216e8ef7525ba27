"""Keeps the connections of this kernel in line with the machines of a cluster."""

from __future__ import annotations

import asyncio
import logging

from nbprov.model.errors import NbprovError
from nbprov.model.failures import CloudError
from nbprov.model.launches import Instance
from nbprov.provisioning.ledger import ClusterRow
from nbprov.provisioning.live_cluster import LiveCluster, Node
from nbprov.provisioning.run.attempt_actions import AGENT_SECONDS
from nbprov.provisioning.supervision.cluster_work import ClusterWork
from nbprov.provisioning.supervision.context import SupervisionContext
from nbprov.provisioning.supervision.listing.cluster_state import BILLED

log = logging.getLogger("nbprov.lifecycle")


class NodeConnections:
    """Closes connections to lost machines and connects to new ones, whichever kernel made them.

    On the engine thread.
    """

    def __init__(self, context: SupervisionContext, work: ClusterWork) -> None:
        self._context, self._work = context, work
        self._is_joining = False

    def reconcile(self, row: ClusterRow) -> None:
        """Compare the connections with the machines of the ledger."""
        live = self._context.connections.live.get(row.run_id)
        if live is None or row.state not in BILLED or self._is_joining:
            return
        members = {i.node: i for i in self._context.ledger.instances.members(row.token)}
        new = []
        for rank, node in enumerate(live.nodes):
            member = members.get(rank)
            if member is None and not node.missing and members:
                node.missing = True
                live.unheard.discard(rank)
                self._work.begin(node.close())
                self._context.changed()
            elif member is not None and member.id != node.instance.id:
                new.append(member)
        if new:
            self._is_joining = True
            self._work.begin(self._join(row, live, new))

    async def _join(self, row: ClusterRow, live: LiveCluster, new: list[Instance]) -> None:
        seconds = self._context.cloud_of(row).capabilities.ssh_deadline
        try:
            for instance in new:
                node = Node(instance)
                if live.ingress is not None:
                    live.ingress.add(instance.id)
                try:
                    await live.connect_to(node, seconds)
                    await live.start_agent(node, None, AGENT_SECONDS)
                except BaseException:
                    await asyncio.shield(node.close())
                    raise
                live.nodes[instance.node] = node
            await live.set_up_gang()
        except (CloudError, NbprovError, TimeoutError, OSError) as error:
            log.info("%s: its new machines are not reached yet: %s; tried again", row.name, error)
        finally:
            self._is_joining = False
            self._context.changed()
