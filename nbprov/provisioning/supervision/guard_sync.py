"""Keeps the guards of agents in line with those of the ledger.

An agent may count another price against its budget, or could not be reached when they changed.
"""

from __future__ import annotations

import asyncio
import logging

from nbprov.model.clock import Seconds, utc_text
from nbprov.model.clusters import ClusterState
from nbprov.model.errors import NbprovError
from nbprov.model.events import EventKind
from nbprov.model.failures import CloudError
from nbprov.model.money import Micros, format_usd
from nbprov.provisioning.ledger import ClusterRow, Ledger
from nbprov.provisioning.live_cluster import Node
from nbprov.remote.agent.config import GuardConfig

from .cluster_work import ClusterWork
from .condition_notes import UNGUARDED
from .context import SupervisionContext
from .guard_config import as_told, guards_known, of_node

log = logging.getLogger("nbprov.lifecycle")

TELL_SECONDS: Seconds = 30.0
"""How long an agent may take to accept its guards, a new connection included.

After that they are sent again in a later round.
"""

LOSS_AGAIN: Seconds = 60.0
"""Machines of a cluster that lose their guards within this are reported in one line."""


def price_whole(ledger: Ledger, row: ClusterRow) -> Micros:
    """What all machines of a complete cluster cost an hour, each at its own price.

    A machine that is on its way in the place of a lost one is paid for already.
    """
    prices, coming = ledger.prices.last(row.token), ledger.replacements.open_one(row.token)
    ids = [*ledger.launches.ids_of(row.token)]
    if coming is not None and coming.instance_id:
        ids.append(coming.instance_id)
    each = row.candidate.offer.hourly
    return sum(prices.get(one, each) for one in ids) + each * max(0, row.candidate.count - len(ids))


def count_price(ledger: Ledger, row: ClusterRow) -> bool:
    """Have a cluster's budget count the prices of its machines as they are now.

    Returns whether they had changed.
    """
    known = ledger.guards.get(row.run_id)
    if known is None or not (budget := known[0].get("budget")):
        return False
    hourly, before = price_whole(ledger, row), budget["hourly_micros"]
    if hourly == before:
        return False
    # What was spent until now was spent at the old price.
    counted = {**budget, "hourly_micros": hourly, "spent_micros": ledger.prices.cost(row.run_id)}
    with ledger.together():
        ledger.guards.set_all(row.run_id, row.candidate.count, {**known[0], "budget": counted})
        words = (
            f"budget: its machines cost {format_usd(hourly)}/h together from now on,"
            f" {format_usd(before)}/h before"
        )
        ledger.events.add(row.run_id, EventKind.BUDGET_REPRICED, words, row.token, hourly=hourly)
    return True


class GuardSync:
    """Sends guards to the agents of one cluster. On the engine thread.

    Attributes
    ----------
    is_attach_due
        Somebody else set the cluster running, so its agents, and with them its guards, may not
        run.
    """

    def __init__(self, context: SupervisionContext, work: ClusterWork) -> None:
        self._context, self._work = context, work
        self._sending: set[int] = set()
        self.is_attach_due = False

    def reconcile(self, row: ClusterRow) -> None:
        """Send guards to connected agents that have others: in each round of the watcher."""
        ledger = self._context.ledger
        if row.state is not ClusterState.RUNNING or self._work.is_busy:
            return
        if count_price(ledger, row):
            self._context.changed()
        live, known = self._context.connections.live.get(row.run_id), ledger.guards.get(row.run_id)
        if live is None or known is None or "poweroff" not in known[0]:
            return
        if live.has_lost_guards:
            live.has_lost_guards = False
            self._report_loss(row)
        config = GuardConfig.from_json(known[0])
        for node in live.present:
            wanted = of_node(config, ledger, row.run_id, row.token, node.instance.node)
            # The ledger does not keep what no guard uses: that is no difference.
            is_sent = node.told is not None and node.told.to_json() == wanted.to_json()
            if node.agent is None or id(node) in self._sending:
                continue
            if node.agent.lacks_guards or not is_sent:
                self._sending.add(id(node))
                self._work.begin(self._send(row, node, wanted))

    async def _send(self, row: ClusterRow, node: Node, wanted: GuardConfig) -> None:
        told = as_told(wanted, self._context.ledger, row.run_id)
        try:
            async with asyncio.timeout(TELL_SECONDS):
                assert node.agent is not None, "guards are sent to nodes with an agent"
                await node.agent.set_guards(told)
            node.told = wanted
            if node.agent.found_unset:
                self._report_loss(row)
        except (CloudError, NbprovError, TimeoutError, OSError) as error:
            log.info(
                "%s: node %d did not get its guards: %s; sent again",
                row.name,
                node.instance.node,
                error,
            )
        finally:
            self._sending.discard(id(node))

    def _report_loss(self, row: ClusterRow) -> None:
        """Report in one line that a machine had lost its guards; they are set again by now."""
        guards = guards_known(self._context.ledger, row.run_id)
        held = guards.words() if guards is not None else "none"
        words = f" (seen {utc_text(self._context.clock.now())}); they are set again: {held}"
        self._context.notes.say(row, UNGUARDED, words, again=LOSS_AGAIN)

    def attach(self, row: ClusterRow) -> None:
        """Connect to a cluster that somebody else set running, so that its guards run."""
        if row.state is not ClusterState.RUNNING:
            self.is_attach_due = False
        elif self.is_attach_due and not self._work.is_busy:
            self._work.begin(self._attach(row))

    async def _attach(self, row: ClusterRow) -> None:
        with self._work.counted():
            try:
                await self._context.connections.attach(row.name)
            except Exception as error:
                log.warning("%s runs without its guards: %s; tried again", row.name, error)
            else:
                self.is_attach_due = False
                text = "it runs again, and so do its guards"
                self._context.ledger.events.add(
                    row.run_id, EventKind.CLUSTER_STARTED, text, row.token
                )
