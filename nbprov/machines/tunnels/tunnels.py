"""Tunnels: ports of machines on this computer's loopback, over the ssh connections that are open anyway."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from nbprov.machines.agents import agent_of
from nbprov.machines.node_selection import one_node
from nbprov.model.clock import Seconds
from nbprov.model.clusters import ClusterState
from nbprov.model.errors import NbprovError, NotFound, UsageError
from nbprov.provisioning.live_cluster import LiveCluster, Node
from nbprov.remote.ssh.connection import Connection, is_here
from nbprov.remote.ssh.port_forward import Far, Forward, PortRefused

from .loopback_ports import LAST_PORT, LOOPBACK, listen_near, listen_on

if TYPE_CHECKING:
    from nbprov.provisioning.engine import Engine
    from nbprov.provisioning.ledger import ClusterRow

log = logging.getLogger("nbprov.machines")

WAIT_SECONDS: Seconds = 60.0
"""How long a connection waits for a line that is down. A line that looks open and carries nothing is found out within 40 s (two of the agent's signs of
life); much longer no browser waits."""
FIRST_PAUSE: Seconds = 0.1
LAST_PAUSE: Seconds = 5.0
"""Between two tries to have the line back, growing."""
LOOK_EVERY: Seconds = 5.0
"""Between two looks at the ledger while there are tunnels: what another kernel does to a cluster is told by nothing else."""
LEAST_PAUSE: Seconds = 0.2
"""Between two looks on account of changes, which come in bursts while something is set up."""

_OVER = (ClusterState.ENDING, ClusterState.ENDED)
_UP = (ClusterState.RUNNING, ClusterState.UNKNOWN)


class TunnelClosed(NotFound):
    """The tunnel was closed, or its cluster has ended."""

    code = "tunnel.closed"


@dataclass(frozen=True, slots=True)
class TunnelView:
    """A tunnel as it is now.

    Attributes
    ----------
    cluster, node, port
        Where it leads: a port of that node's own 127.0.0.1.
    local
        The port of 127.0.0.1 here.
    open_now, carried
        Connections that are open, and that came in so far.
    sent, received
        Bytes to the machine, and from it.
    paused
        Why nobody listens here now (`dev is stopped`); empty while somebody does.
    trouble
        Why the last connection was not carried; empty where it was.
    what
        What listens there, where nbprov started it: `the Dask dashboard`.
    scheme
        Of the address; `http` unless it is known to be something else.
    """

    cluster: str
    cluster_id: str
    node: int
    port: int
    local: int
    open_now: int = 0
    carried: int = 0
    sent: int = 0
    received: int = 0
    paused: str = ""
    trouble: str = ""
    what: str = ""
    scheme: str = "http"

    @property
    def url(self) -> str:
        """For a browser on this computer, or for the program that it is meant for."""
        return f"{self.scheme}://127.0.0.1:{self.local}"


@dataclass(frozen=True, slots=True)
class Service:
    """What an engine has at the private address of a machine, and nowhere else: see `TunnelView`."""

    what: str
    scheme: str = "http"


class Kept:
    """One tunnel, from its opening to its end; it outlives connections, and stops of its cluster."""

    def __init__(
        self, row: ClusterRow, node: int, port: int, service: Service | None = None
    ) -> None:
        self.row, self.node, self.port, self.service = row, node, port, service
        self.at = LOOPBACK
        self.local = 0
        self.forward: Forward | None = None
        self.paused = ""
        self.is_closed = False
        self.resuming: asyncio.Task[None] | None = None

    def view(self) -> TunnelView:
        """A snapshot. Any thread."""
        view = TunnelView(
            self.row.name, self.row.cluster_id, self.node, self.port, self.local, paused=self.paused
        )
        if self.service is not None:
            view = replace(view, what=self.service.what, scheme=self.service.scheme)
        seen = self.forward
        if seen is None:
            return view
        return replace(
            view,
            open_now=seen.open_now,
            carried=seen.carried,
            sent=seen.sent,
            received=seen.received,
            trouble=seen.trouble,
        )


class Tunnels:
    """The tunnels of one engine. Coroutines and methods run on its thread, but for those that say otherwise.

    A tunnel ends with its cluster, pauses while that is stopped, and is there again once it was started. Each connection is carried by the
    ssh connection of now; where that is down, it waits `WAIT_SECONDS` at most for a new one.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._kept: list[Kept] = []
        self._lines: dict[tuple[str, int], asyncio.Task[Connection]] = {}
        self._ignore: Callable[[], None] = lambda: None
        self._watcher: asyncio.Task[None] | None = None
        self._news = asyncio.Event()
        self._opening = asyncio.Lock()

    # ------------------------------------------------------------ verbs

    def all(self) -> list[Kept]:
        """All, in the order of their opening. Any thread."""
        return list(self._kept)

    def views(self) -> list[TunnelView]:
        """All as they are now, in the order of their opening. Any thread."""
        return [kept.view() for kept in list(self._kept)]

    async def open(
        self,
        live: LiveCluster,
        port: int,
        local: int | None = None,
        node: int = 0,
        service: Service | None = None,
    ) -> tuple[Kept, bool]:
        """Open a tunnel to a port of a node; one that leads there already (from the local port that is asked for) is returned as it is.

        Parameters
        ----------
        local
            The port here; by default the same number where that is free, else the next free one.
        service
            It leads to the node's private address, where this listens; by default to its loopback.

        Returns
        -------
        tuple
            The tunnel, and whether it was opened by this call.

        Raises
        ------
        UsageError
            If there is no such node or port.
        PortTaken
            If `local` is in use.
        """
        _check(live, port, local, node)
        row = self._engine.ledger.clusters.of_run(live.run_id) or self._engine.cluster(live.name)
        wanted = (row.cluster_id, node, port, service)
        async with self._opening:
            for kept in self._kept:
                if (
                    kept.row.cluster_id,
                    kept.node,
                    kept.port,
                    kept.service,
                ) == wanted and local in (None, kept.local):
                    return kept, False
            kept = Kept(row, node, port, service)
            # No wait for a machine is in this, so it holds nobody up.
            await self._listen(kept, live.nodes[node], local)
            self._kept.append(kept)
        self._begin_to_look()
        self._engine.changed()
        return kept, True

    def close(self, kept: Kept) -> None:
        """Close a tunnel; what it carries breaks. A second time does nothing."""
        if kept.is_closed:
            return
        kept.is_closed = True
        _silence(kept)
        if kept.resuming is not None:
            kept.resuming.cancel()
        if kept in self._kept:
            self._kept.remove(kept)
        if not self._kept:
            self._stop_looking()
        self._engine.changed()

    def close_all(self) -> None:
        """Close all of them."""
        for kept in list(self._kept):
            self.close(kept)
        for line in self._lines.values():
            line.cancel()

    # ------------------------------------------------------------ carrying

    async def _listen(self, kept: Kept, node: Node, local: int | None) -> None:
        # What listens on a machine of this very computer, listens here: a tunnel on the same number would lead to itself.
        kept.at = (node.instance.private_host or LOOPBACK) if kept.service is not None else LOOPBACK
        avoid = {kept.port} if is_here(node.instance.host) and kept.at == LOOPBACK else set()
        if local is not None and local in avoid:
            raise UsageError(
                f"port {local} of {kept.row.name} is port {local} of this computer: its machine runs here",
                hint="leave --local out",
            )
        listener = listen_near(kept.port, avoid=avoid) if local is None else listen_on(local)
        number = int(listener.getsockname()[1])

        async def reach(session: Callable[[], Far]) -> None:
            await self._reach(kept, session)

        forward = Forward(listener, reach)
        await forward.open()
        if kept.is_closed:
            forward.close()
        else:
            kept.forward, kept.local, kept.paused = forward, number, ""

    async def _reach(self, kept: Kept, session: Callable[[], Far]) -> None:
        loop = asyncio.get_running_loop()
        end, pause = loop.time() + WAIT_SECONDS, FIRST_PAUSE
        while True:
            try:
                async with asyncio.timeout_at(end):
                    connection = await self._line(kept)
                    self._refuse_loops(kept, connection)
                    await connection.reach(kept.port, session, kept.at)
                return
            except NotFound as error:
                raise PortRefused(error.message) from error
            except PortRefused:
                raise
            except Exception as error:
                # A line that is down shows in many ways; what nobody can mend ends with the time.
                if not getattr(error, "may_pass", True) or loop.time() + pause >= end:
                    raise PortRefused(
                        f"{kept.row.name} could not be reached: {error or 'no answer in time'}"
                    ) from error
                log.info("a connection to port %d of %s waits: %s", kept.port, kept.row.name, error)
            await asyncio.sleep(pause)
            pause = min(pause * 2, LAST_PAUSE)

    async def _line(self, kept: Kept) -> Connection:
        """The connection of now to a node, made anew where it is gone: once for all who wait for it."""
        live = self._engine.live.get(kept.row.run_id)
        if live is not None:
            agent = live.nodes[kept.node].agent
            if agent is not None and agent.connection.is_open:
                return agent.connection
        key = (kept.row.run_id, kept.node)
        line = self._lines.get(key)
        if line is None or line.done():
            line = self._lines[key] = asyncio.create_task(self._line_anew(kept))
            line.add_done_callback(lambda done: done.cancelled() or done.exception())
        try:
            return await asyncio.shield(line)
        except asyncio.CancelledError:
            if line.cancelled():
                raise TunnelClosed(
                    f"the tunnel to port {kept.port} of {kept.row.name} is closed"
                ) from None
            raise

    async def _line_anew(self, kept: Kept) -> Connection:
        row = self._engine.ledger.clusters.by_id(kept.row.cluster_id)
        if row is None or row.state not in _UP:
            raise TunnelClosed(f"{kept.row.name} is {'gone' if row is None else row.state.value}")
        agent = agent_of((await self._engine.attach(row.name)).nodes[kept.node])
        # Any question makes the agent's client have a line again, as it does for cells and jobs.
        await agent.status()
        return agent.connection

    def _refuse_loops(self, kept: Kept, connection: Connection) -> None:
        if (
            is_here(connection.host)
            and kept.at == LOOPBACK
            and any(other.forward is not None and other.local == kept.port for other in self._kept)
        ):
            raise PortRefused(f"port {kept.port} of this computer is a tunnel itself")

    # ------------------------------------------------------------ what becomes of the clusters

    def _begin_to_look(self) -> None:
        if self._watcher is None or self._watcher.done():
            self._ignore = self._engine.subscribe(self._news.set)
            self._watcher = asyncio.create_task(self._watch())

    def _stop_looking(self) -> None:
        self._ignore()
        if self._watcher is not None and self._watcher is not asyncio.current_task():
            self._watcher.cancel()
        self._watcher = None

    async def _watch(self) -> None:
        while self._kept and self._watcher is asyncio.current_task():
            self._news.clear()
            try:
                self._look()
            except Exception:
                log.exception("tunnels could not be looked after; tried again")
            await asyncio.sleep(LEAST_PAUSE)
            try:
                async with asyncio.timeout(LOOK_EVERY):
                    await self._news.wait()
            except TimeoutError:
                continue

    async def settle(self, cluster_id: str) -> None:
        """Bring the tunnels of a cluster up to date with the ledger now; back when they are."""
        self._look()
        resuming = [
            k.resuming
            for k in self._kept
            if k.row.cluster_id == cluster_id and k.resuming is not None
        ]
        if resuming:
            await asyncio.wait(resuming)

    def _look(self) -> None:
        rows = {
            run_id: self._engine.ledger.clusters.of_run(run_id)
            for run_id in {k.row.run_id for k in self._kept}
        }
        for kept in list(self._kept):
            row = rows[kept.row.run_id]
            if row is not None:
                kept.row = row  # with the name that it has now
            if row is None or row.state in _OVER:
                self.close(kept)
            elif row.state not in _UP:
                _silence(kept)
                kept.paused = f"{row.name} is {row.state.value}"
            elif kept.forward is None and (kept.resuming is None or kept.resuming.done()):
                kept.resuming = asyncio.create_task(self._resume(kept))

    async def _resume(self, kept: Kept) -> None:
        name, before = kept.row.name, kept.local
        try:
            live = await self._engine.attach(name)
            if live.run_id != kept.row.run_id:
                return
            try:
                await self._listen(kept, live.nodes[kept.node], before)
            except NbprovError:
                await self._listen(kept, live.nodes[kept.node], None)
                log.info(
                    "port %d of %s is %d here now: %d is taken", kept.port, name, kept.local, before
                )
        except Exception as error:
            kept.paused = f"{name} cannot be reached"
            log.warning(
                "the tunnel to port %d of %s is not open again: %s; tried again",
                kept.port,
                name,
                error,
            )
        else:
            self._engine.changed()


def _silence(kept: Kept) -> None:
    if kept.forward is not None:
        kept.forward.close()
    kept.forward = None


def _check(live: LiveCluster, port: int, local: int | None, node: int) -> None:
    for number in (port, local):
        if number is not None and not 1 <= number <= LAST_PORT:
            raise UsageError(
                f"{number} is not a port", hint=f"ports are numbers from 1 to {LAST_PORT}"
            )
    one_node(live, node)


def in_words(views: Sequence[TunnelView]) -> list[str]:
    """A line a tunnel: `http://127.0.0.1:8081 is port 8080 of dev`.

    Examples
    --------
    >>> in_words([TunnelView("dev", "c1", 0, 8080, 8081)])
    ['http://127.0.0.1:8081 is port 8080 of dev']
    """
    return [
        f"{v.url} is {v.what or f'port {v.port}'} of {v.cluster}{f' node {v.node}' if v.node else ''}"
        + (f" ({v.paused})" if v.paused else "")
        for v in views
    ]
