"""Dask and Ray from a notebook: what a session and a cluster's handle have of them."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

from nbprov.api.errors import readable, readably
from nbprov.api.spec_inputs import found_again
from nbprov.model.clock import Seconds
from nbprov.model.errors import Interrupted, NbprovError
from nbprov.model.spec import ComputeEngine
from nbprov.runtime.waiting import wait_for

from .tunnels import Reaching

if TYPE_CHECKING:
    from distributed import Client

    from nbprov.api.cluster import Cluster
    from nbprov.api.launching.cluster_reuse import SettingUp
    from nbprov.api.run import Run
    from nbprov.api.session import Session
    from nbprov.machines.engines.engine_state import Running
    from nbprov.machines.engines.ray import Connection
    from nbprov.machines.engines.startup import Values
    from nbprov.machines.tunnels.tunnels import Kept
    from nbprov.provisioning.live_cluster import LiveCluster
    from nbprov.remote.agent.messages import Environment

log = logging.getLogger("nbprov.api")

CONNECT_SECONDS: Seconds = 30.0
"""How long a client may take to be connected: the scheduler is up by then, so this is a matter of the line."""
WORKERS_SECONDS: Seconds = 60.0
"""How long a client waits for all workers; fewer are a remark, not an error."""


class Engined(Reaching):
    """What a session has of engines."""

    def __init__(self, home: Any, *, demo: bool) -> None:
        self._engine_words: dict[str, tuple[str, ...]] = {}
        self._clients: dict[str, Any] = {}
        self._connections: dict[str, Connection] = {}
        self._plain: set[str] = set()  # clusters whose cells need no word of an engine
        self._connecting = threading.Lock()
        super().__init__(home, demo=demo)

    def engine_words(self, run_id: str) -> tuple[str, ...]:
        """What a person should know of a cluster's engine, a line each. Any thread."""
        return self._engine_words.get(run_id, ())

    def begun_here(self: Session, run_id: str) -> Run | SettingUp | None:  # type: ignore[misc]
        """The launch or the setting up of a run that this session began, and so was given the values for; None where another kernel did."""
        return next(
            (run for run in self.runs.values() if run.run_id == run_id), None
        ) or self.setting_up.get(run_id)

    def environment_of(self: Session, run_id: str) -> Environment:  # type: ignore[misc]
        """The envs and secrets of a run: as this session was given them, else as they are found again.

        Raises
        ------
        EngineFailed
            If some are found nowhere; what is started without them would fail later, and without a word of why.
        """
        known = self.begun_here(run_id)
        if known is not None:
            return known.environment()
        spec, _ = self.asked.get(run_id) or (self.spec_of(run_id), "")
        found, lacking = found_again(spec)
        if lacking:
            from nbprov.machines.engines.engine_state import EngineFailed

            raise EngineFailed(
                f"this kernel does not know {', '.join(lacking)}, which the engine is to be started with",
                hint=f"set os.environ[{lacking[0]!r}] in this kernel, and try again",
                code="engine.unknown-values",
            )
        self.add_job_secrets(found)
        return found

    async def engine_up(
        self,
        live: LiveCluster,
        engine: ComputeEngine,
        values: Values,
        report: Callable[[str], None],
    ) -> Running:
        """Start what of a cluster's engine does not run, and open the tunnel to its dashboard. On the engine's thread."""
        from nbprov.machines.engines.startup import ensure_engine

        running = await ensure_engine(live, engine, values, report)
        await self.open_dashboard(live, running)
        return running

    async def see_engine(self: Session, live: LiveCluster) -> None:  # type: ignore[misc]
        """See that cells and jobs find an engine that an earlier kernel started. On the engine's thread; asks a machine once. Never raises."""
        if live.variables or live.run_id in self._plain:
            return
        engine = self.spec_of(live.run_id).engine
        if engine is None or engine.kind != "ray":
            self._plain.add(live.run_id)
            return
        from nbprov.machines.engines.startup import variables_of

        try:
            live.variables = await variables_of(live, engine)
        except Exception as error:  # a cell is no worse for want of it, and has its own words where the machine does not answer
            log.info("%s of %s: %s", engine.kind, live.name, error)

    async def open_dashboard(self, live: LiveCluster, running: Running) -> Kept | None:
        """The tunnel to an engine's dashboard; None where it has none. Never raises."""
        from nbprov.machines.engines.startup import services

        self._engine_words[live.run_id] = running.remarks
        port, service = running.ports.get("dashboard", 0), services(running.kind).get("dashboard")
        if not port or service is None:
            return None
        try:
            return (await self.tunnelling.open(live, port, service=service))[0]
        except Exception as error:  # a cluster is no worse for want of a tunnel
            log.exception("the dashboard of %s", live.name)
            words = (
                error.message
                if isinstance(error, NbprovError)
                else f"{type(error).__name__}: {error}"
            )
            self._engine_words[live.run_id] += (f"its dashboard has no tunnel: {words}",)
            return None

    async def with_engine(self: Session, cluster: Cluster, work: Coroutine[Any, Any, None]) -> None:  # type: ignore[misc]
        """A start of a stopped cluster, and then of its engine. Where that fails the cluster runs all the same, and its words say so."""
        await work
        run_id = cluster.cluster_id
        engine = self.spec_of(run_id).engine
        if engine is None:
            return
        try:
            live = await self.engine.attach(cluster.name)
            await self.engine_up(
                live, engine, lambda: self.environment_of(run_id), lambda text: None
            )
        except Exception as error:
            log.warning("%s of %s: %s", engine.kind, cluster.name, error)
            words = str(getattr(readable(error), "message", None) or error)
            self._engine_words[run_id] = (
                f"{engine.kind} is not up again: {words.splitlines()[0]}",
            )

    def forget_clients(self, run_id: str) -> None:
        """Close this kernel's client of a cluster that ends or stops, which else looks for its scheduler for ever. Returns at once."""

        def forget() -> None:
            with self._connecting:  # one may be connecting just now
                client, connection = (
                    self._clients.pop(run_id, None),
                    self._connections.pop(run_id, None),
                )
            if client is not None:
                _close(client)
            if connection is not None:
                connection.close()

        if run_id in self._clients or run_id in self._connections:
            threading.Thread(target=forget, daemon=True).start()


def _close(client: Any) -> None:
    try:
        client.close(timeout=CONNECT_SECONDS)
    except Exception as error:
        log.info("a client did not close: %s", error)


class EngineClients:
    """What a cluster's handle has of engines."""

    def start_engine(self: Cluster) -> None:  # type: ignore[misc]
        """Start what does not run of the engine that its spec asks for; what runs is left alone. Blocks.

        Raises
        ------
        NoEngine
            If its spec asks for none.
        EngineFailed
            If a process did not come up, with its last lines.
        """
        self._up("")

    def dask(self: Cluster) -> Client:  # type: ignore[misc]
        """A Dask client of this cluster's scheduler, through a tunnel on this computer's loopback. Blocks until the workers are there.

        It becomes the default client of this kernel, so that `df.compute()` runs on the cluster. A second call gives the same client.
        What the scheduler sends is read with pickle, as Dask does it: whoever owns the machines can run code in this kernel from then on.

        Raises
        ------
        NoEngine
            If the spec does not say `engine: dask`.
        EngineMissing
            If `distributed` is not installed here, with the line that installs it.
        EngineVersions
            If Dask or Python are of other versions there, naming both.
        EngineFailed
            If the scheduler or a worker has ended and does not start again, with its last lines.

        Examples
        --------
        >>> client = nbprov.cluster("dev").dask()  # doctest: +SKIP
        >>> client.submit(sum, [1, 2]).result()  # doctest: +SKIP
        3
        """
        from nbprov.machines.engines import dask
        from nbprov.machines.engines.certificates import certificate

        dask.check_installed(self.name)
        running = self._up("dask")
        dask.check_versions(self.name, running)
        session, run_id = self._session, self.cluster_id
        with session._connecting:
            known = session._clients.get(run_id)
            if known is not None and known.status == "running":
                client: Client = known
                return client
            scheduler, dashboard, folder = self._reach(running, "scheduler")
            link = f"{dashboard.view().url}/status" if dashboard is not None else ""
            made = dask.connect(
                self.name, scheduler.local, certificate(folder), link, CONNECT_SECONDS
            )
            session._clients[run_id] = made
        dask.await_workers(made, running.workers, WORKERS_SECONDS)
        return made

    def ray(self: Cluster) -> Any:  # type: ignore[misc]
        """Connect this kernel to Ray of this cluster, through a tunnel on this computer's loopback; what `ray.init` returns. Blocks.

        `ray.remote`, `ray.get` and the rest then work there. A second call leaves a connection alone that answers. One that this kernel
        had to another Ray is ended.

        Raises
        ------
        NoEngine
            If the spec does not say `engine: ray`.
        EngineMissing
            If Ray is not installed here, with the line that installs it.
        EngineVersions
            If Ray or Python are of other versions there, naming both: Ray wants Python the same to the last figure.
        EngineFailed
            If Ray has ended there and does not start again, with its last lines.

        Examples
        --------
        >>> context = nbprov.cluster("dev").ray()  # doctest: +SKIP
        """
        from nbprov.machines.engines import ray

        ray.check_installed(self.name)
        running = self._up("ray")
        ray.check_versions(self.name, running)
        session, run_id = self._session, self.cluster_id
        with session._connecting:
            known = session._connections.get(run_id)
            if known is None or not known.is_alive():
                client, _, folder = self._reach(running, "client")
                session._connections[run_id] = known = ray.connect(
                    self.name, client.local, ray.token_file(folder)
                )
            return known.context

    def _up(self: Cluster, kind: str) -> Running:  # type: ignore[misc]
        from nbprov.machines.engines.engine_state import NoEngine

        session, run_id = self._session, self._row().run_id
        engine = session.spec_of(run_id).engine
        if engine is None or kind not in ("", engine.kind):
            raise NoEngine(
                f"{self.name} has {'no engine' if engine is None else f'the engine {engine.kind}'}",
                hint=f"write engine: {kind or 'dask'} into its spec; engines are started with a cluster",
            )
        return self._call(
            lambda live: session.engine_up(
                live, engine, lambda: session.environment_of(run_id), lambda text: None
            )
        )

    def _reach(self: Cluster, running: Running, port: str) -> tuple[Kept, Kept | None, Any]:  # type: ignore[misc]
        """The tunnels to a port of the engine and to its dashboard, and the folder of the cluster's keys."""
        from nbprov.machines.engines.startup import services

        session, engine = self._session, self._session.engine

        async def opened() -> tuple[Kept, Kept | None, Any]:
            live = await engine.attach(self.name)
            kept, _ = await session.tunnelling.open(
                live, running.ports[port], service=services(running.kind)[port]
            )
            return kept, await session.open_dashboard(live, running), live.keys.folder

        future = engine.thread.call(readably(opened()))
        try:
            return wait_for(future)
        except KeyboardInterrupt:
            future.cancel()
            raise Interrupted(
                f"interrupted before {running.kind} of {self.name} was reached"
            ) from None


class EngineClientsOfRun:
    """What the handle of a launch has of engines, so that the name of a `%%provision` cell serves for both."""

    def dask(self: Run) -> Client:  # type: ignore[misc]
        """Wait until the cluster is set up, then as `Cluster.dask`. An interrupt of the wait leaves the launch alone."""
        self.wait_detached()
        return self.wait().dask()

    def ray(self: Run) -> Any:  # type: ignore[misc]
        """Wait until the cluster is set up, then as `Cluster.ray`. An interrupt of the wait leaves the launch alone."""
        self.wait_detached()
        return self.wait().ray()
