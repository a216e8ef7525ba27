"""Tunnels from this computer's loopback to ports of machines, over the open ssh connections."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from nbprov.machines.node_selection import one_node
from nbprov.model.clock import Seconds
from nbprov.model.clusters import ClusterState
from nbprov.model.errors import NbprovError, NotFound, UsageError
from nbprov.provisioning.live_cluster import LiveCluster, Node, agent_of
from nbprov.remote.ssh.connection import Connection, is_here
from nbprov.remote.ssh.port_forward import Far, Forward, PortRefused

from .loopback_ports import LAST_PORT, LOOPBACK, listen_near, listen_on
from .tunnel import PersistentTunnel, PrivateService, TunnelView

if TYPE_CHECKING:
    from nbprov.provisioning.engine import Engine

log = logging.getLogger("nbprov.machines")

WAIT_SECONDS: Seconds = 60.0
"""How long a client waits while its tunnel's ssh connection is down.

A connection that looks open but carries nothing is detected within 40 s, and browsers wait
little longer than a minute.
"""
FIRST_PAUSE: Seconds = 0.1
LAST_PAUSE: Seconds = 5.0
"""First and last pause between attempts to reconnect; each is twice the one before."""
LOOK_EVERY: Seconds = 5.0
"""Interval of the ledger checks while there are tunnels.

Nothing else tells what another kernel does to a cluster.
"""
LEAST_PAUSE: Seconds = 0.2
"""Least pause between checks caused by changes, which come in bursts during a setup."""

_OVER = (ClusterState.ENDING, ClusterState.ENDED)
_UP = (ClusterState.RUNNING, ClusterState.UNKNOWN)


class TunnelClosed(NotFound):
    """The tunnel was closed, or its cluster has ended."""

    code = "tunnel.closed"


class Tunnels:
    """The tunnels of one engine, on the engine's thread unless a method says otherwise.

    A tunnel ends with its cluster, pauses while the cluster is stopped, and reopens once it was
    started. Each client's connection goes through the present ssh connection; while that is
    down, it waits up to `WAIT_SECONDS` for a new one.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._kept: list[PersistentTunnel] = []
        self._lines: dict[tuple[str, int], asyncio.Task[Connection]] = {}
        self._ignore: Callable[[], None] = lambda: None
        self._watcher: asyncio.Task[None] | None = None
        self._news = asyncio.Event()
        self._opening = asyncio.Lock()

    def all(self) -> list[PersistentTunnel]:
        """Return all tunnels in the order of their opening. Any thread."""
        return list(self._kept)

    def views(self) -> list[TunnelView]:
        """Return snapshots of all tunnels in the order of their opening. Any thread."""
        return [kept.view() for kept in list(self._kept)]

    async def open(
        self,
        live: LiveCluster,
        port: int,
        local: int | None = None,
        node: int = 0,
        service: PrivateService | None = None,
    ) -> tuple[PersistentTunnel, bool]:
        """Open a tunnel to a port of a node, or return the one that leads there already.

        Parameters
        ----------
        local
            The port on this computer; by default the same number, or the next free one.
        service
            The service at the node's private address to lead to; by default the tunnel leads to
            the node's loopback. An existing tunnel must match `local` and `service`.

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
        row = self._engine.ledger.cluster_of_run(live.run_id) or self._engine.cluster(live.name)
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
            kept = PersistentTunnel(row, node, port, service)
            # This does not wait for a machine, so the lock delays nobody.
            await self._listen(kept, live.nodes[node], local)
            self._kept.append(kept)
        self._begin_to_look()
        self._engine.changed()
        return kept, True

    def close(self, kept: PersistentTunnel) -> None:
        """Close a tunnel and its connections; closing it again does nothing."""
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
        """Close all tunnels."""
        for kept in list(self._kept):
            self.close(kept)
        for line in self._lines.values():
            line.cancel()

    async def _listen(self, kept: PersistentTunnel, node: Node, local: int | None) -> None:
        # A port of a machine on this very computer is also a port here: a tunnel on the same
        # number would lead to itself.
        kept.at = (node.instance.private_host or LOOPBACK) if kept.service is not None else LOOPBACK
        avoid = {kept.port} if is_here(node.instance.host) and kept.at == LOOPBACK else set()
        if local is not None and local in avoid:
            raise UsageError(
                f"port {local} of {kept.row.name} is port {local} of this computer:"
                " its machine runs here",
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

    async def _reach(self, kept: PersistentTunnel, session: Callable[[], Far]) -> None:
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
                # A broken connection shows in many ways; those that do not heal run out of time.
                if not getattr(error, "may_pass", True) or loop.time() + pause >= end:
                    raise PortRefused(
                        f"{kept.row.name} could not be reached: {error or 'no answer in time'}"
                    ) from error
                log.info("a connection to port %d of %s waits: %s", kept.port, kept.row.name, error)
            await asyncio.sleep(pause)
            pause = min(pause * 2, LAST_PAUSE)

    async def _line(self, kept: PersistentTunnel) -> Connection:
        """Return the present connection to a node; all who wait share one reconnection."""
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

    async def _line_anew(self, kept: PersistentTunnel) -> Connection:
        row = self._engine.ledger.cluster_by_id(kept.row.cluster_id)
        if row is None or row.state not in _UP:
            raise TunnelClosed(f"{kept.row.name} is {'gone' if row is None else row.state.value}")
        agent = agent_of((await self._engine.attach(row.name)).nodes[kept.node])
        # Any request makes the agent's client reconnect, as it does for cells and jobs.
        await agent.status()
        return agent.connection

    def _refuse_loops(self, kept: PersistentTunnel, connection: Connection) -> None:
        if (
            is_here(connection.host)
            and kept.at == LOOPBACK
            and any(other.forward is not None and other.local == kept.port for other in self._kept)
        ):
            raise PortRefused(f"port {kept.port} of this computer is a tunnel itself")

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
                log.exception("checking the tunnels failed; tried again")
            await asyncio.sleep(LEAST_PAUSE)
            try:
                async with asyncio.timeout(LOOK_EVERY):
                    await self._news.wait()
            except TimeoutError:
                continue

    async def settle(self, cluster_id: str) -> None:
        """Apply the ledger's state to a cluster's tunnels now, and wait until it is done."""
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
            run_id: self._engine.ledger.cluster_of_run(run_id)
            for run_id in {k.row.run_id for k in self._kept}
        }
        for kept in list(self._kept):
            row = rows[kept.row.run_id]
            if row is not None:
                kept.row = row  # the cluster may have been renamed
            if row is None or row.state in _OVER:
                self.close(kept)
            elif row.state not in _UP:
                _silence(kept)
                kept.paused = f"{row.name} is {row.state.value}"
            elif kept.forward is None and (kept.resuming is None or kept.resuming.done()):
                kept.resuming = asyncio.create_task(self._resume(kept))

    async def _resume(self, kept: PersistentTunnel) -> None:
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
                "the tunnel to port %d of %s could not be reopened: %s; tried again",
                kept.port,
                name,
                error,
            )
        else:
            self._engine.changed()


def _silence(kept: PersistentTunnel) -> None:
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
