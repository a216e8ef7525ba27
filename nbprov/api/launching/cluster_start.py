"""Starting a stopped cluster: what a cloud without room for it means, waiting for room, and what is there again afterwards."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import TYPE_CHECKING

from nbprov.api.cluster import Cluster, Done
from nbprov.api.errors import CloudTrouble, readably
from nbprov.model.clock import Seconds, short_duration
from nbprov.model.clusters import ClusterState
from nbprov.model.errors import Interrupted, NbprovError
from nbprov.model.failures import Cause, CloudError, Failure
from nbprov.model.spec import Spec
from nbprov.runtime.waiting import wait_for

if TYPE_CHECKING:
    from nbprov.api.session import Session
    from nbprov.provisioning.engine import Engine
    from nbprov.provisioning.ledger import ClusterRow
    from nbprov.provisioning.live_cluster import LiveCluster

FIRST_PAUSE: Seconds = 30.0
LAST_PAUSE: Seconds = 300.0
"""Between two tries to start where its place has no room, doubling: stock comes and goes within minutes, and a cloud counts requests."""

NO_ROOM = (Cause.CAPACITY, Cause.QUOTA)
"""What may pass by itself, and cannot be had elsewhere: the disk is where it is."""


class NoRoom(CloudTrouble):
    """A stopped cluster could not be started, since its zone has no room for it now. It stays stopped, its disk is kept."""

    def __init__(self, row: ClusterRow, failure: Failure) -> None:
        super().__init__(failure)
        place = row.candidate.offer.place
        NbprovError.__init__(
            self,
            f"{row.name} stays stopped: its disk is in {place}, and there is no room for it now: {failure.sentence()}",
            hint=f"%nbprov start {row.name} --wait 30m tries until there is; it starts nowhere else, since a disk cannot move: "
            f"%nbprov down {row.name} and its %%provision cell make a new machine elsewhere, without what is on the disk",
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
    """Start a cluster where its disk is, again and again for `wait` seconds while there is no room.

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
                say(
                    f"{row.name}: no room in {row.candidate.offer.place} now; tried again in {short_duration(min(pause, left))}"
                )
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(given_up.wait(), min(pause, left))
            if left <= 0 or given_up.is_set():
                raise NoRoom(row, error.failure) from error
        pause = min(LAST_PAUSE, pause * 2)
        row = engine.ledger.clusters.by_id(row.cluster_id) or row


class Starting(Done):
    """A start that is under way.

    An interrupt of its wait ends the waiting for room as well; a try that the cloud has begun goes on.
    """

    def __init__(
        self, session: Session, row: ClusterRow, spec: Spec | None, agreed: bool, wait: Seconds
    ) -> None:
        self.on_say: Callable[[str], None] = lambda text: None
        self._session = session
        self._given_up = asyncio.Event()
        self._waits = wait > 0
        work = start_cluster(
            session.engine,
            row,
            spec=spec,
            agreed=agreed,
            wait=wait,
            say=lambda text: self.on_say(text),
            given_up=self._given_up,
        )
        whole = session.with_tunnels(
            row.cluster_id,
            session.with_engine(Cluster(session, row.name, cluster_id=row.cluster_id), work),
        )
        super().__init__(session.engine.thread.call(readably(whole)), f"starting {row.name}")

    def give_up(self) -> None:
        """Wait for room no more."""
        self._session.engine.thread.soon(self._given_up.set)

    def wait(self, timeout: Seconds | None = None) -> None:
        """As `Done.wait`."""
        try:
            super().wait(timeout)
        except Interrupted:
            self.give_up()
            if self._waits:
                raise Interrupted(
                    f"{self.what}: not tried again; a try that is under way goes on, %clusters shows it"
                ) from None
            raise


def runs_now(cluster: Cluster) -> bool:
    """Whether it runs by its cloud's own list, asked just now: its guards may have stopped what the ledger still has as running."""
    engine = cluster._session.engine
    if cluster.state is not ClusterState.RUNNING:
        return False
    cloud = engine.cloud(cluster.view().candidate.offer.cloud)
    try:
        wait_for(engine.thread.call(readably(engine.lifecycle.observe(cloud))))
    except NbprovError:
        return False  # nobody knows; whoever starts it is told why
    return cluster.state is ClusterState.RUNNING


def restored_lines(cluster: Cluster) -> list[str]:
    """What a start brought back and what it did not, a line each. Blocks for an answer of the machine.

    A machine that does not answer just then has a line that says so: the start itself is done.
    """
    session = cluster._session
    view = cluster.view()
    where = ", ".join(f"{i.host} port {i.port}" for i in view.instances)
    tunnels = session.tunnel_words(cluster.cluster_id)
    lines = [
        f"there again: its disk, its host key, its guards{', its tunnels' if tunnels else ''}; its address may be new: {where}",
        *(f"  {line}" for line in tunnels),
    ]
    lost = _lost_jobs(cluster)
    lines.append(
        "gone: variables of its kernel and whatever ran"
        + (f" (lost: {lost})" if lost else "")
        + "; setup and run are not run again"
    )
    return lines


def _lost_jobs(cluster: Cluster) -> str:
    from nbprov.machines.agents import agent_of

    async def lost(live: LiveCluster) -> list[str]:
        told = [(node.instance.node, agent_of(node).lost_jobs) for node in live.present]
        return [
            f"{job}{f' on node {number}' if number else ''}"
            for number, jobs in told
            for job in jobs
        ]

    try:
        return ", ".join(cluster._call(lost))
    except NbprovError as error:
        return f"not known: {error.message}"
