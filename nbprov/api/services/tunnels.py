"""The ways to a machine besides cells: tunnels to its ports, and ssh for other programs."""

from __future__ import annotations

import logging
import threading
from collections.abc import Coroutine
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, cast

from nbprov.api.before_leaving import BeforeLeaving
from nbprov.api.errors import readable, readably
from nbprov.api.launching.node_setup import Bringer
from nbprov.api.planner import Planner
from nbprov.model.clock import Seconds
from nbprov.model.clusters import ClusterState, ClusterView
from nbprov.model.errors import Interrupted
from nbprov.model.spec import ExposedPorts
from nbprov.runtime.engine_thread import on_engine_thread
from nbprov.runtime.waiting import wait_for

from .outputs import Takings

if TYPE_CHECKING:
    from nbprov.api.cluster import Cluster
    from nbprov.api.run import Run
    from nbprov.api.session import Session
    from nbprov.machines.ssh_config import SshConfig
    from nbprov.machines.tunnels.tunnels import Kept, Tunnels, TunnelView
    from nbprov.provisioning.engine import Engine
    from nbprov.provisioning.live_cluster import LiveCluster

log = logging.getLogger("nbprov.api")

PORTS_SECONDS: Seconds = 10.0
"""How long a cell that finds its cluster running waits for the tunnels of its ports; they come up behind it where its machine is slow to answer."""
CLOSE_SECONDS: Seconds = 1.0
"""How long the end of a session waits for its tunnels: closing them is a matter of milliseconds, and a kernel is killed after about 2.5 s."""


class Tunnel:
    """A port of a machine on this computer's loopback: `cluster.tunnel(8080)`.

    It survives dropped connections, and stops of its cluster; it ends with the cluster, by `close()`, or with the kernel.

    Examples
    --------
    >>> with nbprov.cluster("dev").tunnel(6006) as board:  # doctest: +SKIP
    ...     print(board.url)
    http://127.0.0.1:6006
    """

    def __init__(self, session: Reaching, kept: Kept, *, is_new: bool) -> None:
        self._session, self._kept, self._is_new = session, kept, is_new

    @property
    def local(self) -> int:
        """The port of 127.0.0.1 on this computer, where the kernel runs. It may change when a stopped cluster is started again."""
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
        """Where it leads, and what it carried so far."""
        return self._kept.view()

    def close(self) -> None:
        """Close it; connections that are open break. A second time does nothing."""
        self._session.close_tunnels([self])

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        # One that was open before the block is somebody else's too.
        if self._is_new:
            self.close()

    def __repr__(self) -> str:
        state = "closed" if self.closed else self.view().paused
        return f"<Tunnel {self.url}: port {self.port} of {self.cluster}{f' node {self.node}' if self.node else ''}{f', {state}' if state else ''}>"


class Reaching(Planner):
    """What a session has of tunnels and ssh."""

    def __init__(self, home: Path | None, *, demo: bool) -> None:
        self._reaching = threading.Lock()
        self._reached: tuple[Engine, SshConfig] | None = None
        self._tunnels: Tunnels | None = None
        self._takings: Takings | None = None
        super().__init__(home, demo=demo)

    @property
    def engine(self) -> Engine:
        """The engine; its thread and ledger are opened on first use."""
        engine = super().engine
        self._reach(engine)
        return engine

    def _reach(self, engine: Engine) -> SshConfig:
        with self._reaching:
            if self._reached is None or self._reached[0] is not engine:
                from nbprov.machines.ssh_config import SshConfig

                self._reached, self._tunnels = (engine, SshConfig(engine)), None
                self._takings = Takings(cast("Session", self), engine)
                engine.take_outputs = self._takings.for_guard
                engine.leaving = BeforeLeaving(cast("Session", self))
                engine.bringing = Bringer(cast("Session", self))
                engine.thread.soon(self._reached[1].follow)
            return self._reached[1]

    @property
    def takings(self) -> Takings:
        """The pulls of outputs."""
        self._reach(self.engine)
        assert self._takings is not None
        return self._takings

    @property
    def tunnelling(self) -> Tunnels:
        """The tunnels, for what runs on the engine's thread."""
        engine = self.engine
        with self._reaching:
            if self._tunnels is None:
                # What carries them takes its time to load, and a table of prices needs none of it.
                from nbprov.machines.tunnels.tunnels import Tunnels

                self._tunnels = Tunnels(engine)
            return self._tunnels

    @property
    def ssh_file(self) -> SshConfig:
        """The ssh config file of our own."""
        return self._reach(self.engine)

    def tunnels(self) -> list[Tunnel]:
        """The tunnels of this kernel, in the order of their opening."""
        return [Tunnel(self, kept, is_new=False) for kept in self.tunnelling.all()]

    def close_tunnels(self, tunnels: list[Tunnel]) -> None:
        """Close these. Those that have ended are left alone, whatever became of the session."""
        kept = [t._kept for t in tunnels if not t.closed]
        if not kept:
            return
        book = self.tunnelling

        async def close() -> None:
            for one in kept:
                book.close(one)

        if on_engine_thread():
            for one in kept:
                book.close(one)
        else:
            wait_for(self.engine.thread.call(close()))

    def write_ssh_config(self) -> Path:
        """Write the ssh config file of our own, one host a machine of a running cluster, and keep it up from now on.

        Nothing of the user's own is changed: `Include` it at the top of `~/.ssh/config`, or use it with `ssh -F`.

        Raises
        ------
        CannotSay
            If the path of the file cannot stand in an ssh config.
        """
        file = self.ssh_file
        assert file.include
        file.write()
        return file.path

    async def open_ports(self, live: LiveCluster, expose: ExposedPorts) -> list[str]:
        """Open the tunnels that a spec's `ports` ask for; what was not opened, a line each. Never raises."""
        from nbprov.machines.tunnels.spec_ports import open_ports

        return await open_ports(self.tunnelling, live, expose)

    def tunnel_words(self, cluster_id: str) -> list[str]:
        """The tunnels of a cluster, a line each. Any thread."""
        from nbprov.machines.tunnels.tunnels import in_words

        return in_words([view for view in self.tunnelling.views() if view.cluster_id == cluster_id])

    def public_words(self, cluster: ClusterView, expose: ExposedPorts) -> list[str]:
        """Where the ports are reached that a spec opens to the internet, a line each. Any thread."""
        from nbprov.machines.tunnels.spec_ports import public_words

        return public_words(cluster, expose)

    def with_ports(self, found: Run | Cluster, expose: ExposedPorts) -> Run | Cluster:
        """A cluster that was found running has the tunnels of its ports opened too; its remarks tell of these and of the public ones."""
        from nbprov.api.cluster import Cluster

        if (
            not isinstance(found, Cluster)
            or found.state is not ClusterState.RUNNING
            or not found.view().candidate.request.ports
        ):
            return found
        engine = self.engine

        async def opened() -> list[str]:
            return await self.open_ports(await engine.attach(found.name), expose)

        try:
            remarks = wait_for(engine.thread.call(opened()), PORTS_SECONDS)
        except Exception as error:
            remarks = [
                f"its ports have no tunnels yet: {getattr(readable(error), 'message', None) or error}"
            ]
        found.remarks = (
            *found.remarks,
            *self.public_words(found.view(), expose),
            *self.tunnel_words(found.cluster_id),
            *remarks,
        )
        return found

    async def with_tunnels(self, cluster_id: str, work: Coroutine[Any, Any, None]) -> None:
        """What stops, starts or ends a cluster; when it is done, its tunnels are paused, there again, or closed."""
        book = self.tunnelling
        try:
            await work
        finally:
            try:
                await book.settle(cluster_id)
            except Exception:  # what became of the machine is what counts
                log.exception("the tunnels of cluster %s", cluster_id)

    def close(self) -> None:
        """Close the tunnels, give up leases and stop the engine's thread. Machines go on."""
        with self._reaching:
            reached, self._reached = self._reached, None
            tunnels, self._tunnels = self._tunnels, None
        if reached is not None:
            file = reached[1]

            async def leave() -> None:
                if tunnels is not None:
                    tunnels.close_all()
                file.leave()

            try:
                reached[0].thread.call(leave()).result(CLOSE_SECONDS)
            except Exception as error:
                log.warning(
                    "tunnels were not closed in time (%r); they end with this process", error
                )
        super().close()


class Reachable:
    """What a cluster's handle has of tunnels and ssh."""

    def tunnel(self: Cluster, port: int, local: int | None = None, node: int = 0) -> Tunnel:  # type: ignore[misc]
        """A port of a machine, on this computer's loopback and nowhere else, over the ssh connection that is open anyway.

        Parameters
        ----------
        port
            Of the node's own 127.0.0.1. Nothing need listen there yet.
        local
            The port here; by default the same number where that is free, else the next free one.

        Returns
        -------
        Tunnel
            One that leads there already is returned as it is.

        Raises
        ------
        PortTaken
            If `local` is in use.
        UsageError
            If there is no such port or node.
        NotFound
            If it does not run.
        CloudTrouble
            If the machine cannot be reached.

        Examples
        --------
        >>> board = nbprov.cluster("dev").tunnel(6006)  # doctest: +SKIP
        >>> board.url  # doctest: +SKIP
        'http://127.0.0.1:6006'
        """
        self._row()
        session, engine = self._session, self._session.engine

        async def opened() -> tuple[Kept, bool]:
            return await session.tunnelling.open(await engine.attach(self.name), port, local, node)

        # Not as a cell, which waits for the setup: what goes on in that may be worth a look.
        future = engine.thread.call(readably(opened()))
        try:
            kept, is_new = wait_for(future)
        except KeyboardInterrupt:
            future.cancel()
            raise Interrupted(
                f"interrupted before the tunnel to port {port} of {self.name} was open"
            ) from None
        return Tunnel(session, kept, is_new=is_new)

    def ssh_command(self: Cluster, node: int = 0) -> str:  # type: ignore[misc]
        """The ssh command that logs in to a machine from a terminal: this cluster's key, its host key pinned, nothing forwarded.

        Raises
        ------
        NotFound
            If it does not run now.
        UsageError
            If it has no such node.
        """
        from nbprov.machines.ssh_config import command_line, ssh_arguments

        self._row()
        return command_line(ssh_arguments(self._session.engine, self.name, node))
