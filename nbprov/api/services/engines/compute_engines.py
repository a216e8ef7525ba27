"""Compute engines (Dask, Ray) on clusters: their processes, dashboards and environment."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from nbprov.api.context import Context
from nbprov.api.errors import readable_error
from nbprov.api.services.tunnels import TunnelService
from nbprov.api.spec_inputs import found_again
from nbprov.model.clock import Seconds
from nbprov.model.errors import NbprovError
from nbprov.model.spec import ComputeEngine

if TYPE_CHECKING:
    from nbprov.machines.engines.engine_state import RunningEngine
    from nbprov.machines.engines.processes import Values
    from nbprov.machines.engines.ray import RayConnection
    from nbprov.machines.tunnels.tunnel import PersistentTunnel
    from nbprov.provisioning.live_cluster import LiveCluster
    from nbprov.remote.agent.messages import Environment

log = logging.getLogger("nbprov.api")

CONNECT_SECONDS: Seconds = 30.0
"""How long a client may take to connect or to close: the scheduler is up by then, so only the
connection matters."""


class ComputeEngineService:
    """Starts compute engines, and keeps this kernel's clients of them.

    Attributes
    ----------
    connecting
        Held while a client is connected or taken away.
    clients, connections
        This kernel's Dask clients and Ray connections, by run id.
    """

    def __init__(self, context: Context, tunnels: TunnelService) -> None:
        self._context, self._tunnels = context, tunnels
        self._words: dict[str, tuple[str, ...]] = {}
        self._without: set[str] = set()  # runs whose cells need no variables of an engine
        self.connecting = threading.Lock()
        self.clients: dict[str, Any] = {}
        self.connections: dict[str, RayConnection] = {}

    def words(self, run_id: str) -> tuple[str, ...]:
        """What a person should know of a cluster's engine, a line each. Any thread."""
        return self._words.get(run_id, ())

    def environment_of(self, run_id: str) -> Environment:
        """The envs and secrets of a run: as this session was given them, else found again.

        Raises
        ------
        EngineFailed
            If some are found nowhere. An engine that is started without them would fail later,
            and its error would not say why.
        """
        inputs = self._context.inputs.get(run_id)
        if inputs is not None:
            return inputs.everything()
        found, lacking = found_again(self._context.wished(run_id)[0])
        if lacking:
            from nbprov.machines.engines.engine_state import EngineFailed

            raise EngineFailed(
                f"this kernel does not know {', '.join(lacking)}, which the engine needs to start",
                hint=f"set os.environ[{lacking[0]!r}] in this kernel, and try again",
                code="engine.unknown-values",
            )
        self._context.add_secrets(found)
        return found

    # ------------------------------------------------------------ on the engine thread

    async def start(
        self,
        live: LiveCluster,
        engine: ComputeEngine,
        values: Values,
        report: Callable[[str], None],
    ) -> RunningEngine:
        """Start what of an engine does not run, and open the tunnel to its dashboard."""
        from nbprov.machines.engines.startup import ensure_engine

        running = await ensure_engine(live, engine, values, report)
        await self.open_dashboard(live, running)
        return running

    async def start_known(self, live: LiveCluster, engine: ComputeEngine) -> RunningEngine:
        """As `start`, with the values of the cluster's run and without reports."""
        return await self.start(
            live, engine, lambda: self.environment_of(live.run_id), lambda text: None
        )

    async def start_again(self, cluster_id: str) -> None:
        """Start the engine of a cluster that was just started. Never raises.

        The cluster runs also where this fails; `words` says why.
        """
        engine = self._context.engine
        wanted = self._context.spec_of(cluster_id).engine
        row = engine.ledger.clusters.by_id(cluster_id)
        if wanted is None or row is None:
            return
        try:
            await self.start_known(await engine.attach(row.name), wanted)
        except Exception as error:
            log.warning("%s of %s: %s", wanted.kind, row.name, error)
            words = str(getattr(readable_error(error), "message", None) or error)
            self._words[cluster_id] = (f"{wanted.kind} is not up again: {words.splitlines()[0]}",)

    async def find_running(self, live: LiveCluster) -> None:
        """Let cells and jobs find an engine that an earlier kernel started. Never raises.

        A machine is asked once.
        """
        if live.variables or live.run_id in self._without:
            return
        engine = self._context.spec_of(live.run_id).engine
        if engine is None or engine.kind != "ray":
            self._without.add(live.run_id)
            return
        from nbprov.machines.engines.startup import variables_of

        try:
            live.variables = await variables_of(live, engine)
        except Exception as error:  # the cell says itself where the machine does not answer
            log.info("%s of %s: %s", engine.kind, live.name, error)

    async def open_dashboard(
        self, live: LiveCluster, running: RunningEngine
    ) -> PersistentTunnel | None:
        """Open the tunnel to an engine's dashboard; None where it has none. Never raises."""
        from nbprov.machines.engines.startup import services

        self._words[live.run_id] = running.remarks
        port, service = running.ports.get("dashboard", 0), services(running.kind).get("dashboard")
        if not port or service is None:
            return None
        try:
            return (await self._tunnels.open_tunnels.open(live, port, service=service))[0]
        except Exception as error:  # the engine works without this tunnel
            log.exception("the dashboard of %s", live.name)
            words = (
                error.message
                if isinstance(error, NbprovError)
                else f"{type(error).__name__}: {error}"
            )
            self._words[live.run_id] += (f"its dashboard has no tunnel: {words}",)
            return None

    # ------------------------------------------------------------ clients

    def forget_clients(self, run_id: str) -> None:
        """Close this kernel's client of a cluster that ends or stops. Returns at once.

        Otherwise it would look for its scheduler for ever.
        """

        def forget() -> None:
            with self.connecting:  # a client may be connecting just now
                client = self.clients.pop(run_id, None)
                connection = self.connections.pop(run_id, None)
            if client is not None:
                _close(client)
            if connection is not None:
                connection.close()

        if run_id in self.clients or run_id in self.connections:
            threading.Thread(target=forget, daemon=True).start()


def _close(client: Any) -> None:
    try:
        client.close(timeout=CONNECT_SECONDS)
    except Exception as error:
        log.info("a client did not close: %s", error)
