"""This kernel's clients of the compute engines (Dask, Ray) of clusters."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from nbprov.api.context import Context
from nbprov.api.errors import with_readable_errors
from nbprov.api.services.remote import RemoteService
from nbprov.api.services.tunnels import TunnelService
from nbprov.api.steps import Steps, result
from nbprov.model.clock import Seconds
from nbprov.model.errors import Interrupted

from .compute_engines import CONNECT_SECONDS, ComputeEngineService

if TYPE_CHECKING:
    from distributed import Client

    from nbprov.machines.engines.engine_state import RunningEngine
    from nbprov.machines.tunnels.tunnel import PersistentTunnel
    from nbprov.provisioning.ledger import ClusterRow

WORKERS_SECONDS: Seconds = 60.0
"""How long a client waits for all workers; a missing worker is a remark, not an error."""


class EngineClientService:
    """Connects this kernel to the compute engines of clusters."""

    def __init__(
        self,
        context: Context,
        engines: ComputeEngineService,
        tunnels: TunnelService,
        remote: RemoteService,
    ) -> None:
        self._context, self._engines = context, engines
        self._tunnels, self._remote = tunnels, remote

    def start_engine(self, row: ClusterRow, /) -> Steps[None]:
        """Start what does not run of the engine that its spec asks for. Blocks.

        Raises
        ------
        NoEngine
            If its spec asks for none.
        EngineFailed
            If a process did not come up, with its last lines.
        """
        yield from self._running(row, "")

    def dask(self, row: ClusterRow, /) -> Steps[Client]:
        """A Dask client of this cluster's scheduler. Blocks until the workers are there.

        It connects through a tunnel on this computer's loopback and becomes the default client of
        this kernel, so that `df.compute()` runs on the cluster. A second call gives the same
        client. Dask reads what the scheduler sends with pickle: whoever owns the machines can run
        code in this kernel from then on.

        Raises
        ------
        NoEngine
            If the spec does not say `engine: dask`.
        EngineMissing
            If `distributed` is not installed here, with the line that installs it.
        EngineVersions
            If Dask or Python have other versions there, naming both.
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

        dask.check_installed(row.name)
        running = yield from self._running(row, "dask")
        dask.check_versions(row.name, running)
        engines = self._engines
        with engines.connecting:
            known = engines.clients.get(row.run_id)
            if known is not None and known.status == "running":
                client: Client = known
                return client
            scheduler, dashboard, folder = yield from self._tunnel(row, running, "scheduler")
            link = f"{dashboard.view().url}/status" if dashboard is not None else ""
            made = dask.connect(
                row.name, scheduler.local, certificate(folder), link, CONNECT_SECONDS
            )
            engines.clients[row.run_id] = made
        dask.await_workers(made, running.workers, WORKERS_SECONDS)
        return made

    def ray(self, row: ClusterRow, /) -> Steps[Any]:
        """Connect this kernel to Ray of this cluster. Blocks; returns what `ray.init` returns.

        It connects through a tunnel on this computer's loopback; `ray.remote`, `ray.get` and the
        rest then work there. A second call keeps a connection that answers. A connection that this
        kernel had to another Ray is closed.

        Raises
        ------
        NoEngine
            If the spec does not say `engine: ray`.
        EngineMissing
            If Ray is not installed here, with the line that installs it.
        EngineVersions
            If Ray or Python have other versions there, naming both. Ray needs exactly the same
            version of Python.
        EngineFailed
            If Ray has ended there and does not start again, with its last lines.

        Examples
        --------
        >>> context = nbprov.cluster("dev").ray()  # doctest: +SKIP
        """
        from nbprov.machines.engines import ray

        ray.check_installed(row.name)
        running = yield from self._running(row, "ray")
        ray.check_versions(row.name, running)
        engines = self._engines
        with engines.connecting:
            known = engines.connections.get(row.run_id)
            if known is None or not known.is_alive():
                client, _, folder = yield from self._tunnel(row, running, "client")
                engines.connections[row.run_id] = known = ray.connect(
                    row.name, client.local, ray.token_file(folder)
                )
            return known.context

    def _running(self, row: ClusterRow, kind: str) -> Steps[RunningEngine]:
        from nbprov.machines.engines.engine_state import NoEngine

        engine = self._context.spec_of(row.run_id).engine
        if engine is None or kind not in ("", engine.kind):
            has = "no engine" if engine is None else f"the engine {engine.kind}"
            raise NoEngine(
                f"{row.name} has {has}",
                hint=f"write engine: {kind or 'dask'} into its spec;"
                " engines are started with a cluster",
            )
        return (
            yield from self._remote.call(
                row.name, lambda live: self._engines.start_known(live, engine)
            )
        )

    def _tunnel(
        self, row: ClusterRow, running: RunningEngine, port: str
    ) -> Steps[tuple[PersistentTunnel, PersistentTunnel | None, Path]]:
        """The tunnels to a port of the engine and to its dashboard, and the key folder."""
        from nbprov.machines.engines.startup import services

        engine, tunnels = self._context.engine, self._tunnels.open_tunnels

        async def opened() -> tuple[PersistentTunnel, PersistentTunnel | None, Path]:
            live = await engine.attach(row.name)
            kept, _ = await tunnels.open(
                live, running.ports[port], service=services(running.kind)[port]
            )
            return kept, await self._engines.open_dashboard(live, running), live.keys.folder

        future = engine.thread.call(with_readable_errors(opened()))
        try:
            return (yield from result(future))
        except KeyboardInterrupt:
            raise Interrupted(
                f"interrupted before {running.kind} of {row.name} was reached"
            ) from None
        finally:
            future.cancel()
