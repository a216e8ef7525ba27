"""The start of a stopped cluster: waiting for room at its place, and what is there afterwards."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import TYPE_CHECKING

from nbprov.api.context import Context
from nbprov.api.errors import CloudTrouble, with_readable_errors
from nbprov.api.operation import Operation
from nbprov.api.services import Services
from nbprov.api.steps import Steps, result
from nbprov.model.clock import Seconds, short_duration
from nbprov.model.clusters import ClusterState
from nbprov.model.errors import Interrupted, NbprovError
from nbprov.model.failures import Cause, CloudError, Failure
from nbprov.model.spec import Spec

if TYPE_CHECKING:
    from nbprov.provisioning.engine import Engine
    from nbprov.provisioning.ledger import ClusterRow
    from nbprov.provisioning.live_cluster import LiveCluster

FIRST_PAUSE: Seconds = 30.0
LAST_PAUSE: Seconds = 300.0
"""The pause between two tries while its place has no room, doubled each time: stock comes and goes
within minutes, and a cloud counts requests."""

NO_ROOM = (Cause.CAPACITY, Cause.QUOTA)
"""Causes that may pass by themselves. Another place does not help: the disk cannot move."""


class NoRoom(CloudTrouble):
    """A stopped cluster could not be started: its zone has no room for it now.

    It stays stopped, and its disk is kept.
    """

    def __init__(self, row: ClusterRow, failure: Failure) -> None:
        super().__init__(failure)
        place = row.candidate.offer.place
        NbprovError.__init__(
            self,
            f"{row.name} stays stopped: its disk is in {place}, and there is no room for it now:"
            f" {failure.sentence()}",
            hint=f"%nbprov start {row.name} --wait 30m tries until there is; it starts nowhere"
            f" else, since a disk cannot move: %nbprov down {row.name} and its %%provision cell"
            " make a new machine elsewhere, without what is on the disk",
            code=self.code,
        )


async def start_cluster(
    engine: Engine,
    row: ClusterRow,
    *,
    spec: Spec | None,
    agreed: bool,
    wait: Seconds,
    say: Callable[[str], None],
    given_up: asyncio.Event,
) -> None:
    """Start a cluster where its disk is, and try again for `wait` seconds while there is no room.

    Raises
    ------
    NoRoom
        If there is none in time.
    """
    clock = engine.clock
    end, pause = clock.elapsed() + wait, FIRST_PAUSE
    while True:
        try:
            await engine.lifecycle.start(row, spec=spec, agreed=agreed)
            return
        except CloudError as error:
            if error.failure.cause not in NO_ROOM:
                raise
            left = end - clock.elapsed()
            if left > 0 and not given_up.is_set():
                again = short_duration(min(pause, left))
                place = row.candidate.offer.place
                say(f"{row.name}: no room in {place} now; tried again in {again}")
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(min(pause, left)):
                        await given_up.wait()
            if left <= 0 or given_up.is_set():
                raise NoRoom(row, error.failure) from error
        pause = min(LAST_PAUSE, pause * 2)
        row = engine.ledger.clusters.by_id(row.cluster_id) or row


class ClusterStart(Operation):
    """A start that is under way.

    An interrupt of its wait also ends the waiting for room; a try that the cloud has begun goes on.
    """

    def __init__(
        self,
        context: Context,
        services: Services,
        row: ClusterRow,
        *,
        spec: Spec | None,
        agreed: bool,
        wait: Seconds,
    ) -> None:
        self.on_say: Callable[[str], None] = lambda text: None
        self._engine = context.engine
        self._given_up = asyncio.Event()
        self._waits = wait > 0
        work = start_cluster(
            self._engine,
            row,
            spec=spec,
            agreed=agreed,
            wait=wait,
            say=lambda text: self.on_say(text),
            given_up=self._given_up,
        )

        async def started() -> None:
            await work
            await services.engines.start_again(row.cluster_id)

        whole = services.tunnels.settled_after(row.cluster_id, started())
        super().__init__(
            self._engine.thread.call(with_readable_errors(whole)), f"starting {row.name}"
        )

    def give_up(self) -> None:
        """Wait for room no more."""
        self._engine.thread.soon(self._given_up.set)

    def interrupted(self) -> Interrupted:
        """Do what a Ctrl-C during a wait does; the error to raise."""
        self.give_up()
        if not self._waits:
            return super().interrupted()
        return Interrupted(
            f"{self.what}: not tried again; a try that is under way goes on, %clusters shows it"
        )


def runs_now(engine: Engine, row: ClusterRow) -> Steps[bool]:
    """Whether a cluster runs by its cloud's own list, asked just now.

    Its guards may have stopped what the ledger still has as running.
    """
    if row.state is not ClusterState.RUNNING:
        return False
    observed = engine.lifecycle.observe(engine.cloud(row.candidate.offer.cloud))
    try:
        yield from result(engine.thread.call(with_readable_errors(observed)))
    except NbprovError:
        return False  # nobody knows; whoever starts it is told why
    now = engine.ledger.clusters.by_id(row.cluster_id)
    return now is not None and now.state is ClusterState.RUNNING


def restored_lines(services: Services, row: ClusterRow) -> Steps[list[str]]:
    """What a start brought back and what it did not, a line each.

    Waits for an answer of the machine. A machine that does not answer has a line that says so: the
    start itself is done.
    """
    view = services.views.view(row)
    where = ", ".join(f"{i.host} port {i.port}" for i in view.instances)
    tunnels = services.tunnels.words(row.cluster_id)
    lost = yield from _lost_jobs(services, row)
    return [
        f"there again: its disk, its host key, its guards{', its tunnels' if tunnels else ''};"
        f" its address may be new: {where}",
        *(f"  {line}" for line in tunnels),
        "gone: variables of its kernel and whatever ran"
        + (f" (lost: {lost})" if lost else "")
        + "; setup and run are not run again",
    ]


def _lost_jobs(services: Services, row: ClusterRow) -> Steps[str]:
    from nbprov.provisioning.live_cluster import agent_of

    async def lost(live: LiveCluster) -> list[str]:
        told = [(node.instance.node, agent_of(node).lost_jobs) for node in live.present]
        return [
            f"{job}{f' on node {number}' if number else ''}"
            for number, jobs in told
            for job in jobs
        ]

    try:
        return ", ".join((yield from services.remote.call(row.name, lost)))
    except NbprovError as error:
        return f"not known: {error.message}"
