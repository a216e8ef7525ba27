"""Agents are told of guards until they know them: of a budget that counts another price, and those whose line was down at the time."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace
from typing import TYPE_CHECKING

from nbprov.model.clock import Seconds
from nbprov.model.clusters import ClusterState
from nbprov.model.errors import NbprovError
from nbprov.model.failures import CloudError
from nbprov.model.money import Micros, format_usd
from nbprov.provisioning.ledger import ClusterRow, Ledger
from nbprov.provisioning.live_cluster import Node
from nbprov.remote.agent.messages import GuardConfig

from .guard_config import BUDGET, of_node
from .guard_enforcement import Enforcing

if TYPE_CHECKING:
    from nbprov.provisioning.engine import Engine

log = logging.getLogger("nbprov.lifecycle")

TELL_SECONDS: Seconds = 30.0
"""How long an agent may take to heed its guards, a line that is made anew included; then it is told again in a later round."""


def price_whole(ledger: Ledger, row: ClusterRow) -> Micros:
    """What all machines of a cluster together cost an hour once none lacks, each at its own price.

    A machine that is on its way in the place of a lost one is paid for already.
    """
    prices, coming = ledger.prices.last(row.token), ledger.replacements.open_one(row.token)
    ids = [
        *ledger.launches.ids_of(row.token),
        *([coming.instance_id] if coming is not None and coming.instance_id else []),
    ]
    each = row.candidate.offer.hourly
    return sum(prices.get(one, each) for one in ids) + each * max(0, row.candidate.count - len(ids))


def count_price(ledger: Ledger, row: ClusterRow) -> bool:
    """Write down that the budget of a cluster counts the prices of its machines as they are now. Whether they had changed."""
    known = ledger.guards.get(row.run_id)
    if known is None or not (budget := known[0].get("budget")):
        return False
    hourly, before = price_whole(ledger, row), budget["hourly_micros"]
    if hourly == before:
        return False
    # What was spent until now was spent at the old price.
    config = {
        **known[0],
        "budget": {
            **budget,
            "hourly_micros": hourly,
            "spent_micros": ledger.prices.cost(row.run_id),
        },
    }
    with ledger.together():
        ledger.guards.set_all(row.run_id, row.candidate.count, config)
        words = f"budget: its machines cost {format_usd(hourly)}/h together from now on, {format_usd(before)}/h before"
        ledger.events.add(row.run_id, BUDGET, words, row.token)
    return True


class TellingGuards(Enforcing):
    """What the watcher does so that every agent has the guards that the ledger knows. On the engine thread."""

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine)
        self._telling: set[int] = set()

    def _tell_guards(self, row: ClusterRow) -> None:
        """Tell agents that this kernel has a line to, and that know other guards: in each round of the watcher."""
        live, ledger = self._engine.live.get(row.run_id), self._engine.ledger
        if row.state is not ClusterState.RUNNING or self._busy[row.cluster_id]:
            return
        if count_price(ledger, row):
            self._engine.changed()
        known = ledger.guards.get(row.run_id)
        if live is None or known is None or "poweroff" not in known[0]:
            return
        config = GuardConfig.from_json(known[0])
        for node in live.present:
            wanted = of_node(config, ledger, row.run_id, row.token, node.instance.node)
            # What no guard uses is not kept in the ledger, and is no difference.
            is_told = node.told is not None and node.told.to_json() == wanted.to_json()
            if node.agent is not None and not is_told and id(node) not in self._telling:
                self._telling.add(id(node))
                self._begin(self._tell(row, node, wanted))

    async def _tell(self, row: ClusterRow, node: Node, wanted: GuardConfig) -> None:
        # The agent takes the higher of this and its own count: who is told late has counted the old price for too long.
        spent = (
            max(wanted.spent, self._engine.ledger.prices.cost(row.run_id))
            if wanted.limit is not None
            else wanted.spent
        )
        try:
            async with asyncio.timeout(TELL_SECONDS):
                assert node.agent is not None, "only nodes with an agent are told"
                await node.agent.set_guards(replace(wanted, spent=spent))
            node.told = wanted
        except (CloudError, NbprovError, TimeoutError, OSError) as error:
            log.info(
                "%s: node %d was not told its guards: %s; told again",
                row.name,
                node.instance.node,
                error,
            )
        finally:
            self._telling.discard(id(node))
