"""Brings the machines of a cluster to a state and waits for it; what stop and start share."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from nbprov.model.clusters import ClusterState, DesiredState
from nbprov.model.errors import NbprovError, NotFound
from nbprov.model.failures import Cause, CloudError, Failure
from nbprov.model.launches import Instance, InstanceState
from nbprov.provisioning.async_cloud import AsyncCloud, try_request
from nbprov.provisioning.ledger import ClusterRow
from nbprov.provisioning.run.pricing.price_check import PriceCheck
from nbprov.provisioning.supervision.context import SupervisionContext
from nbprov.provisioning.supervision.listing.cluster_listing import ClusterListing
from nbprov.provisioning.supervision.listing.cluster_state import GOING, OVER, reason_of
from nbprov.provisioning.supervision.listing.intervals import CONFIRM_SECONDS, MOST_WATCH


class CannotStop(NbprovError):
    """The cluster's cloud or market has no stopped state, or the cluster is ended meanwhile."""

    code = "cluster.cannot-stop"


_ALLOWED = {
    InstanceState.STOPPED: (ClusterState.STOPPING, ClusterState.STOPPED),
    InstanceState.RUNNING: (ClusterState.STARTING, ClusterState.RUNNING),
}
"""The states of a cluster in which its machines may be brought to a goal."""


class Transition:
    """Brings one cluster's machines to `running` or `stopped`. On the engine thread.

    Parameters
    ----------
    watch
        Has clusters looked at regularly.
    """

    def __init__(
        self, context: SupervisionContext, listing: ClusterListing, watch: Callable[[], None]
    ) -> None:
        self._context, self._listing, self._watch = context, listing, watch

    async def reach(
        self,
        cloud: AsyncCloud,
        row: ClusterRow,
        goal: InstanceState,
        price: Callable[[], Awaitable[PriceCheck]] | None = None,
        unwritten: ClusterState | None = None,
    ) -> list[Instance]:
        """Stop or start the machines, and return them when all are listed so.

        Parameters
        ----------
        price
            Asks what they cost now; needed for a start, and asked again before each request.
        unwritten
            The state that the ledger has still, where this change could not be written down.

        Raises
        ------
        CloudError
            If a machine is gone, the cloud refuses a start, or the goal is not reached in time.
        TooDear
            If a start costs more than was agreed to.
        CannotStop, NotFound
            If the cluster is to reach another state meanwhile.
        """
        clock, pause = self._context.clock, cloud.capabilities.poll_every
        end = clock.elapsed() + CONFIRM_SECONDS
        is_start = goal is InstanceState.RUNNING
        assert is_start == (price is not None), "a start asks for its price, and nothing else does"
        origin = InstanceState.STOPPED if is_start else InstanceState.RUNNING
        while True:
            self.check_state(row, goal, unwritten)
            machines, gone, unsure = await self._listing.look(cloud, row, end)
            self.check_state(row, goal, unwritten)
            if gone or any(i.state in GOING for i in machines):
                text = f"a machine of {row.name} is gone: {reason_of(machines)}".rstrip(": ")
                raise CloudError(Failure(Cause.NOT_OFFERED, text))
            is_there = all(i.state is goal and (i.host or not is_start) for i in machines)
            if machines and not unsure and is_there:
                return machines
            if clock.elapsed() > end:
                text = f"{row.name} is not {goal.value} after {CONFIRM_SECONDS:g} s"
                raise CloudError(Failure(Cause.TIMEOUT, text))
            ready = [i.id for i in machines if i.state is origin]
            if ready and price is not None:
                await (await price()).start(ready)
            elif ready and not await try_request(cloud.stop, ready):
                pause = min(MOST_WATCH, pause * 2)
            await asyncio.sleep(pause)

    def check_state(
        self, row: ClusterRow, goal: InstanceState, unwritten: ClusterState | None = None
    ) -> None:
        """Raise where the cluster is to reach another state than this goal meanwhile."""
        current = self._context.ledger.clusters.of_run(row.run_id)
        if current is None or current.state not in (*_ALLOWED[goal], unwritten):
            raise self.overtaken(row, goal)

    def check_replaced(self, row: ClusterRow, goal: InstanceState) -> None:
        """Raise where another cluster took this one's place.

        Its end is due, and another reason in the ledger would hide that.
        """
        current = self._context.ledger.clusters.by_id(row.cluster_id)
        if current is not None and current.desired_state is DesiredState.REPLACED:
            self._watch()
            raise self.overtaken(current, goal)

    def overtaken(self, row: ClusterRow, goal: InstanceState) -> NbprovError:
        """The error of a stop or a start of a cluster that something else has become of."""
        current = self._context.ledger.clusters.of_run(row.run_id)
        if current is None:
            became = "gone"
        elif current.state not in OVER and current.desired_state is DesiredState.REPLACED:
            became = "to be ended"
        else:
            words = {ClusterState.ENDING: "being ended"}
            became = words.get(current.state, current.state.value)
        reason = f": {current.reason}" if current is not None and current.reason else ""
        text, hint = (
            f"{row.name} is {became} meanwhile{reason}",
            "%clusters shows what became of it",
        )
        if goal is InstanceState.STOPPED:
            return CannotStop(text, hint=hint)
        return NotFound(text, hint=hint, code="cluster.not-found")
