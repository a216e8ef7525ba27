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
from nbprov.remote.ssh.connection import Connection
from nbprov.remote.ssh.login import is_loopback
from nbprov.remote.ssh.port_forward import Forward, MachineEnd, PortRefused

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
        self._tunnels: list[PersistentTunnel] = []
        self._connections: dict[tuple[str, int], asyncio.Task[Connection]] = {}
        self._unsubscribe: Callable[[], None] = lambda: None
        self._watcher: asyncio.Task[None] | None = None
        self._changed = asyncio.Event()
        self._opening = asyncio.Lock()

    def all(self) -> list[PersistentTunnel]:
        """Return all tunnels in the order of their opening. Any thread."""
        return list(self._tunnels)

    def views(self) -> list[TunnelView]:
        """Return snapshots of all tunnels in the order of their opening. Any thread."""
        return [tunnel.view() for tunnel in list(self._tunnels)]

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
        row = self._engine.ledger.clusters.of_run(live.run_id) or self._engine.cluster(live.name)
        wanted = (row.cluster_id, node, port, service)
        async with self._opening:
            for tunnel in self._tunnels:
                if (
                    tunnel.row.cluster_id,
                    tunnel.node,
                    tunnel.port,
                    tunnel.service,
                ) == wanted and local in (None, tunnel.local):
                    return tunnel, False
            tunnel = PersistentTunnel(row, node, port, service)
            # This does not wait for a machine, so the lock delays nobody.
            await self._listen(tunnel, live.nodes[node], local)
            self._tunnels.append(tunnel)
        self._start_watching()
        self._engine.changed()
        return tunnel, True

    def close(self, tunnel: PersistentTunnel) -> None:
        """Close a tunnel and its connections; closing it again does nothing."""
        if tunnel.is_closed:
            return
        tunnel.is_closed = True
        _stop_listening(tunnel)
        if tunnel.resuming is not None:
            tunnel.resuming.cancel()
        if tunnel in self._tunnels:
            self._tunnels.remove(tunnel)
        if not self._tunnels:
            self._stop_watching()
        self._engine.changed()

    def close_all(self) -> None:
        """Close all tunnels."""
        for tunnel in list(self._tunnels):
            self.close(tunnel)
        for line in self._connections.values():
            line.cancel()

    async def _listen(self, tunnel: PersistentTunnel, node: Node, local: int | None) -> None:
        # A port of a machine on this very computer is also a port here: a tunnel on the same
        # number would lead to itself.
        tunnel.at = (
            (node.instance.private_host or LOOPBACK) if tunnel.service is not None else LOOPBACK
        )
        avoid = (
            {tunnel.port} if is_loopback(node.instance.host) and tunnel.at == LOOPBACK else set()
        )
        if local is not None and local in avoid:
            raise UsageError(
                f"port {local} of {tunnel.row.name} is port {local} of this computer:"
                " its machine runs here",
                hint="leave --local out",
            )
        listener = listen_near(tunnel.port, avoid=avoid) if local is None else listen_on(local)
        number = int(listener.getsockname()[1])

        async def reach(session: Callable[[asyncio.Event], MachineEnd]) -> None:
            await self._open_channel(tunnel, session)

        forward = Forward(listener, reach)
        await forward.open()
        if tunnel.is_closed:
            forward.close()
        else:
            tunnel.forward, tunnel.local, tunnel.paused = forward, number, ""

    async def _open_channel(
        self, tunnel: PersistentTunnel, session: Callable[[asyncio.Event], MachineEnd]
    ) -> None:
        loop = asyncio.get_running_loop()
        end, pause = loop.time() + WAIT_SECONDS, FIRST_PAUSE
        while True:
            try:
                async with asyncio.timeout_at(end):
                    connection = await self._connection(tunnel)
                    self._check_no_loop(tunnel, connection)
                    await connection.reach(tunnel.port, session, tunnel.at)
                return
            except NotFound as error:
                raise PortRefused(error.message) from error
            except PortRefused:
                raise
            except Exception as error:
                # A broken connection shows in many ways; those that do not heal run out of time.
                if not getattr(error, "may_pass", True) or loop.time() + pause >= end:
                    raise PortRefused(
                        f"{tunnel.row.name} could not be reached: {error or 'no answer in time'}"
                    ) from error
                log.info(
                    "a connection to port %d of %s waits: %s", tunnel.port, tunnel.row.name, error
                )
            await asyncio.sleep(pause)
            pause = min(pause * 2, LAST_PAUSE)

    async def _connection(self, tunnel: PersistentTunnel) -> Connection:
        """Return the present connection to a node; all who wait share one reconnection."""
        live = self._engine.live.get(tunnel.row.run_id)
        if live is not None:
            agent = live.nodes[tunnel.node].agent
            if agent is not None and agent.connection.is_open:
                return agent.connection
        key = (tunnel.row.run_id, tunnel.node)
        line = self._connections.get(key)
        if line is None or line.done():
            line = self._connections[key] = asyncio.create_task(self._reconnect(tunnel))
            line.add_done_callback(lambda done: done.cancelled() or done.exception())
        try:
            return await asyncio.shield(line)
        except asyncio.CancelledError:
            if line.cancelled():
                raise TunnelClosed(
                    f"the tunnel to port {tunnel.port} of {tunnel.row.name} is closed"
                ) from None
            raise

    async def _reconnect(self, tunnel: PersistentTunnel) -> Connection:
        row = self._engine.ledger.clusters.by_id(tunnel.row.cluster_id)
        if row is None or row.state not in _UP:
            raise TunnelClosed(f"{tunnel.row.name} is {'gone' if row is None else row.state.value}")
        agent = agent_of((await self._engine.attach(row.name)).nodes[tunnel.node])
        # Any request makes the agent's client reconnect, as it does for cells and jobs.
        await agent.status()
        return agent.connection

    def _check_no_loop(self, tunnel: PersistentTunnel, connection: Connection) -> None:
        if (
            is_loopback(connection.host)
            and tunnel.at == LOOPBACK
            and any(
                other.forward is not None and other.local == tunnel.port for other in self._tunnels
            )
        ):
            raise PortRefused(f"port {tunnel.port} of this computer is a tunnel itself")

    def _start_watching(self) -> None:
        if self._watcher is None or self._watcher.done():
            self._unsubscribe = self._engine.subscribe(self._changed.set)
            self._watcher = asyncio.create_task(self._watch())

    def _stop_watching(self) -> None:
        self._unsubscribe()
        if self._watcher is not None and self._watcher is not asyncio.current_task():
            self._watcher.cancel()
        self._watcher = None

    async def _watch(self) -> None:
        while self._tunnels and self._watcher is asyncio.current_task():
            self._changed.clear()
            try:
                self._apply_ledger()
            except Exception:
                log.exception("checking the tunnels failed; tried again")
            await asyncio.sleep(LEAST_PAUSE)
            try:
                async with asyncio.timeout(LOOK_EVERY):
                    await self._changed.wait()
            except TimeoutError:
                continue

    async def settle(self, cluster_id: str) -> None:
        """Apply the ledger's state to a cluster's tunnels now, and wait until it is done."""
        self._apply_ledger()
        resuming = [
            k.resuming
            for k in self._tunnels
            if k.row.cluster_id == cluster_id and k.resuming is not None
        ]
        if resuming:
            await asyncio.wait(resuming)

    def _apply_ledger(self) -> None:
        rows = {
            run_id: self._engine.ledger.clusters.of_run(run_id)
            for run_id in {k.row.run_id for k in self._tunnels}
        }
        for tunnel in list(self._tunnels):
            row = rows[tunnel.row.run_id]
            if row is not None:
                tunnel.row = row  # the cluster may have been renamed
            if row is None or row.state in _OVER:
                self.close(tunnel)
            elif row.state not in _UP:
                _stop_listening(tunnel)
                tunnel.paused = f"{row.name} is {row.state.value}"
            elif tunnel.forward is None and (tunnel.resuming is None or tunnel.resuming.done()):
                tunnel.resuming = asyncio.create_task(self._resume(tunnel))

    async def _resume(self, tunnel: PersistentTunnel) -> None:
        name, before = tunnel.row.name, tunnel.local
        try:
            live = await self._engine.attach(name)
            if live.run_id != tunnel.row.run_id:
                return
            try:
                await self._listen(tunnel, live.nodes[tunnel.node], before)
            except NbprovError:
                await self._listen(tunnel, live.nodes[tunnel.node], None)
                log.info(
                    "port %d of %s is %d here now: %d is taken",
                    tunnel.port,
                    name,
                    tunnel.local,
                    before,
                )
        except Exception as error:
            tunnel.paused = f"{name} cannot be reached"
            log.warning(
                "the tunnel to port %d of %s could not be reopened: %s; tried again",
                tunnel.port,
                name,
                error,
            )
        else:
            self._engine.changed()


def _stop_listening(tunnel: PersistentTunnel) -> None:
    if tunnel.forward is not None:
        tunnel.forward.close()
    tunnel.forward = None


def _check(live: LiveCluster, port: int, local: int | None, node: int) -> None:
    for number in (port, local):
        if number is not None and not 1 <= number <= LAST_PORT:
            raise UsageError(
                f"{number} is not a port", hint=f"ports are numbers from 1 to {LAST_PORT}"
            )
    one_node(live, node)
