"""End the machines of an attempt, and confirm by the cloud's list that they are gone."""

from __future__ import annotations

import asyncio

from nbprov.model.clock import Seconds, short_duration
from nbprov.model.failures import CloudError
from nbprov.model.launches import Accepted, Instance, InstanceState, Pending
from nbprov.provisioning.async_cloud import AsyncCloud, is_passing
from nbprov.provisioning.run import events
from nbprov.provisioning.run.attempt import WATCH_SECONDS
from nbprov.provisioning.run.context import RunContext

from .launch_requests import END, MOST_PAUSE, LaunchRequests


class Termination:
    """Ends the attempts of a run. On the engine thread."""

    def __init__(self, context: RunContext, requests: LaunchRequests) -> None:
        self._context, self._requests = context, requests

    async def end(self, token: str) -> None:
        """Terminate the machines and confirm it.

        This never gives up: a machine that cannot be confirmed gone stays on the panel and in
        the ledger.
        """
        context, cloud = self._context, self._context.cloud_of(token)
        rows, settle = context.progress.rows, cloud.capabilities.settle
        live = context.progress.clusters.pop(token, None)
        if live is not None:
            await live.close()
        made, seen = set(context.attempt(token).ids), set[str]()
        sure_after = rows[token].deadline + settle
        pause = cloud.capabilities.poll_every
        while True:
            asked, count = context.clock.now(), rows[token].candidate.count
            if len(made) < count and await self._may_yet_make(token, cloud, made):
                sure_after = max(sure_after, context.clock.now() + settle)
            ours = await self._requests.machines(token, cloud)
            seen |= {i.id for i in ours}
            rest = [i for i in ours if i.state is not InstanceState.GONE]
            all_seen = len(made) >= count and made <= seen
            if not rest and (all_seen or asked > sure_after):
                context.post(events.Gone(token))
                return
            pause = await self._terminate(token, cloud, rest, pause)
            await asyncio.sleep(pause)

    async def _terminate(
        self, token: str, cloud: AsyncCloud, rest: list[Instance], pause: Seconds
    ) -> Seconds:
        """Ask for the end of the machines that live; return the pause before the next look."""
        context = self._context
        alive = [i.id for i in rest if i.state is not InstanceState.ENDING]
        if not alive:
            return pause
        try:
            await cloud.terminate(alive)
        except CloudError as error:
            said = error.failure.sentence()
            context.runlog.line(f"terminate: {said}; tried again in {short_duration(pause)}")
            if not is_passing(error.failure):
                context.trouble(token, END, error.failure)
            return min(MOST_PAUSE, pause * 2)
        context.trouble(token, END, None)
        return pause

    async def _may_yet_make(self, token: str, cloud: AsyncCloud, made: set[str]) -> bool:
        """Whether a create is undecided, or was until now; the ids it made are added to `made`."""
        row = self._context.progress.rows[token]
        if row.operation is None or self._context.clock.now() > row.deadline + WATCH_SECONDS:
            return False
        result, before = await self._requests.poll(cloud, row.operation), len(made)
        if isinstance(result, Accepted):
            made.update(result.ids)
        # A create that was accepted with too few machines is decided: only new ids must settle.
        return isinstance(result, Pending) or len(made) > before
