"""Tunnels from this computer's loopback to ports of machines."""

from __future__ import annotations

import logging
from collections.abc import Coroutine
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from nbprov.api.context import Context, EngineBound
from nbprov.api.errors import readable_error, with_readable_errors
from nbprov.api.steps import Steps, result, run_sync
from nbprov.model.clock import Seconds
from nbprov.model.clusters import ClusterView
from nbprov.model.errors import Interrupted
from nbprov.model.spec import ExposedPorts
from nbprov.runtime.engine_thread import on_engine_thread

if TYPE_CHECKING:
    from nbprov.machines.tunnels.tunnel import PersistentTunnel, TunnelView
    from nbprov.machines.tunnels.tunnels import Tunnels
    from nbprov.provisioning.engine import Engine
    from nbprov.provisioning.ledger import ClusterRow
    from nbprov.provisioning.live_cluster import LiveCluster

log = logging.getLogger("nbprov.api")

PORTS_SECONDS: Seconds = 10.0
"""How long a cell that finds its cluster running waits for the tunnels of its ports. They come up
later where its machine is slow to answer."""


class Tunnel:
    """A port of a machine on this computer's loopback: `cluster.tunnel(8080)`.

    It survives dropped connections and stops of its cluster. It ends with the cluster, with
    `close()`, or with the kernel.

    Examples
    --------
    >>> with nbprov.cluster("dev").tunnel(6006) as board:  # doctest: +SKIP
    ...     print(board.url)
    http://127.0.0.1:6006
    """

    def __init__(self, service: TunnelService, kept: PersistentTunnel, *, is_new: bool) -> None:
        self._service, self._kept, self._is_new = service, kept, is_new

    @property
    def local(self) -> int:
        """The port of 127.0.0.1 on the computer where the kernel runs.

        It may change when a stopped cluster is started again.
        """
        return self._kept.local

    @property
    def port(self) -> int:
        """The port of the machine's own 127.0.0.1."""
        return self._kept.port

    @property
    def node(self) -> int:
        """The node; 0 is the head."""
        return self._kept.node

    @property
    def cluster(self) -> str:
        """Name of the cluster."""
        return self._kept.row.name

    @property
    def url(self) -> str:
        """`http://127.0.0.1:8080`, for a browser on this computer."""
        return self.view().url

    @property
    def closed(self) -> bool:
        """Whether it has ended."""
        return self._kept.is_closed

    def view(self) -> TunnelView:
        """Where it leads, and how much it carried so far."""
        return self._kept.view()

    def close(self) -> None:
        """Close it; open connections break. A second call does nothing."""
        self._service.close_tunnels([self])

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        # A tunnel that was open before the block is somebody else's too.
        if self._is_new:
            self.close()

    def __repr__(self) -> str:
        node = f" node {self.node}" if self.node else ""
        state = "closed" if self.closed else self.view().paused
        told = f", {state}" if state else ""
        return f"<Tunnel {self.url}: port {self.port} of {self.cluster}{node}{told}>"


class TunnelService:
    """Opens, lists and closes tunnels."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._open = EngineBound(context, _tunnels_of)

    @property
    def open_tunnels(self) -> Tunnels:
        """The tunnels, for code on the engine thread."""
        return self._open.get()

    def made_tunnels(self) -> Tunnels | None:
        """The tunnels of the engine of now; opens no engine."""
        return self._open.made()

    def tunnels(self) -> list[Tunnel]:
        """The tunnels of this kernel, in the order in which they were opened."""
        return [Tunnel(self, kept, is_new=False) for kept in self.open_tunnels.all()]

    def tunnel(
        self, row: ClusterRow, /, port: int, local: int | None = None, node: int = 0
    ) -> Steps[Tunnel]:
        """Open a tunnel to a port of a machine.

        It listens on this computer's loopback alone and uses the ssh connection that is open
        anyway.

        Parameters
        ----------
        port
            A port of the node's own 127.0.0.1. Nothing need listen there yet.
        local
            The port here; by default the same number where that is free, else the next free one.
        node
            The number of the machine; 0 is the head.

        Returns
        -------
        Tunnel
            If one leads there already, that one.

        Raises
        ------
        PortTaken
            If `local` is in use.
        UsageError
            If there is no such port or node.
        NotFound
            If the cluster does not run.
        CloudTrouble
            If the machine cannot be reached.

        Examples
        --------
        >>> board = nbprov.cluster("dev").tunnel(6006)  # doctest: +SKIP
        >>> board.url  # doctest: +SKIP
        'http://127.0.0.1:6006'
        """
        engine, tunnels = self._context.engine, self.open_tunnels

        async def opened() -> tuple[PersistentTunnel, bool]:
            return await tunnels.open(await engine.attach(row.name), port, local, node)

        # It does not wait for the end of the setup, which may be worth a look.
        future = engine.thread.call(with_readable_errors(opened()))
        try:
            kept, is_new = yield from result(future)
        except KeyboardInterrupt:
            raise Interrupted(
                f"interrupted before the tunnel to port {port} of {row.name} was open"
            ) from None
        finally:
            future.cancel()
        return Tunnel(self, kept, is_new=is_new)

    def close_tunnels(self, tunnels: list[Tunnel]) -> None:
        """Close these. Those that have ended are left alone, even after the session ended."""
        kept = [tunnel._kept for tunnel in tunnels if not tunnel.closed]
        if not kept:
            return
        opened = self.open_tunnels

        async def close() -> None:
            for one in kept:
                opened.close(one)

        if on_engine_thread():
            for one in kept:
                opened.close(one)
        else:
            run_sync(result(self._context.engine.thread.call(close())))

    # ------------------------------------------------------------ ports of a spec

    async def open_ports(self, live: LiveCluster, expose: ExposedPorts) -> list[str]:
        """Open the tunnels that a spec's `ports` ask for. Never raises.

        Returns
        -------
        list of str
            What was not opened, a line each.
        """
        from nbprov.machines.tunnels.spec_ports import open_ports

        return await open_ports(self.open_tunnels, live, expose)

    def ports_opened(self, row: ClusterRow, expose: ExposedPorts) -> Steps[tuple[str, ...]]:
        """Open the tunnels of a spec's ports on a cluster that was found running.

        Returns
        -------
        tuple of str
            Its tunnels and what was not opened, a line each.
        """
        engine = self._context.engine

        async def opened() -> list[str]:
            return await self.open_ports(await engine.attach(row.name), expose)

        try:
            remarks = yield from result(engine.thread.call(opened()), PORTS_SECONDS)
        except Exception as error:
            why = getattr(readable_error(error), "message", None) or error
            remarks = [f"its ports have no tunnels yet: {why}"]
        return (*self.words(row.cluster_id), *remarks)

    def words(self, cluster_id: str) -> list[str]:
        """The tunnels of a cluster, a line each. Any thread."""
        from nbprov.machines.tunnels.tunnel import in_words

        views = self.open_tunnels.views()
        return in_words([view for view in views if view.cluster_id == cluster_id])

    def all_words(self) -> list[str]:
        """The tunnels of this kernel, a line each. Any thread."""
        from nbprov.machines.tunnels.tunnel import in_words

        return in_words(self.open_tunnels.views())

    @staticmethod
    def public_words(cluster: ClusterView, expose: ExposedPorts) -> list[str]:
        """Where ports are reached that a spec opens to the internet, a line each. Any thread."""
        from nbprov.machines.tunnels.spec_ports import public_words

        return public_words(cluster, expose)

    async def settled_after(self, cluster_id: str, work: Coroutine[Any, Any, None]) -> None:
        """Stop, start or end a cluster, then pause, reopen or close its tunnels."""
        tunnels = self.open_tunnels
        try:
            await work
        finally:
            try:
                await tunnels.settle(cluster_id)
            except Exception:  # what became of the machine is what counts
                log.exception("the tunnels of cluster %s", cluster_id)


def _tunnels_of(engine: Engine) -> Tunnels:
    # Imported late: its libraries take time to load, and a table of prices needs none of them.
    from nbprov.machines.tunnels.tunnels import Tunnels

    return Tunnels(engine)
