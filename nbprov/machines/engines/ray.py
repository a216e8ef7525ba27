"""Ray on a cluster: a head, the other nodes, and the notebook's client."""

from __future__ import annotations

import logging
import os
import platform
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module, resources
from pathlib import Path
from typing import Any

from nbprov.model.spec import ComputeEngine
from nbprov.provisioning.live_cluster import LiveCluster, Node

from .engine_state import FOLDER, EngineFailed, EngineMissing, EngineVersions, Facts, Running
from .installation import RAYS_DASHBOARD, versions_here
from .process_specs import Role, bytes_of, gpus, option, private_address, vcpus
from .secret_file import secret_file

log = logging.getLogger("nbprov.machines")

GCS_PORT, CLIENT_PORT, DASHBOARD_PORT, AGENT_PORT = 6379, 10001, 8265, 52365
"""Where Ray itself has them; the next free one where they are taken."""
HEAD, NODE, JOBS = "ray-head", "ray-node-", "ray-"
TOKEN_FILE = "engine.token"
PLACE_ON_NODE = "~/.ray/auth_token"
"""Where Ray looks for its token unless it is told otherwise."""
FIRST_WITH_TOKENS = (2, 52)
STARTED = "Ray runtime started"
AUTH: Mapping[str, str] = {"RAY_AUTH_MODE": "token"}
PATIENCE_SECONDS = 120
"""Ray's own waits, of 20 and 30 s, while its processes import all of Ray: a busy machine takes longer, and what gives up then begins from the start."""
PROCESS: Mapping[str, str] = {
    **AUTH,
    "GRPC_ENABLE_FORK_SUPPORT": "0",
    "RAY_gcs_server_port_wait_time_s": str(PATIENCE_SECONDS),
    "RAY_agent_register_timeout_ms": str(PATIENCE_SECONDS * 1000),
    "RAY_CLIENT_SERVER_CHECK_CHANNEL_TIMEOUT_S": str(PATIENCE_SECONDS),
}
"""Nodes are started beside their head, and wait for it. And Ray's client server forks while gRPC's threads start: gRPC's own handlers of forks then
end the child by a SIGSEGV now and then (seen with Ray 2.60), which the client learns of after 40 s only. What is forked is replaced by another
program at once and needs no such handlers."""
PING_SECONDS = 5.0
"""How long a connection may take to answer that is to be used again: a way there and back, on a machine that is busy with work."""
LATE_FOLDER = f"{{home}}{FOLDER[1:]}/late"
"""Of a machine: modules that Ray's processes find before the packages of their names, which are slow to import and not used (`late_grammar.py`)."""
SMALLEST_STORE = 80 * 2**20
"""Ray takes no smaller object store."""


def token_file(folder: Path) -> Path:
    """The file with the token of a cluster's Ray, made on first use, 0600: without it nobody may run code there.

    Parameters
    ----------
    folder
        Where the cluster's keys are.
    """
    return secret_file(folder, TOKEN_FILE, lambda: secrets.token_hex(32).encode())


def _place(live: LiveCluster, node: Node) -> str:
    # Unix sockets go below it, whose paths may have about 100 bytes only.
    return f"/tmp/nbr-{live.run_id[:8]}-{node.instance.node}"


def _arguments(live: LiveCluster, engine: ComputeEngine, node: Node) -> list[str]:
    place = _place(live, node)
    found = [
        "-m",
        "ray.scripts.scripts",
        "start",
        "--block",
        "--disable-usage-stats",
        "--temp-dir",
        place,
    ]
    found += [f"--node-ip-address={private_address(live, node)}"]
    # Nodes of one computer would else take each other's numbers; 0 is any that is free.
    found += ["--min-worker-port=0", "--max-worker-port=0", "--dashboard-agent-listen-port={agent}"]
    said, memory = option(engine, "workers"), bytes_of(option(engine, "memory"))
    cpus = int(said) if said.isdecimal() else vcpus(live)
    found += [f"--num-cpus={cpus}"] if cpus else []
    found += [f"--num-gpus={gpus(live)}"] if said != "cpu" and gpus(live) else []
    return found + (
        [f"--memory={memory}", f"--object-store-memory={max(memory, SMALLEST_STORE)}"]
        if memory
        else []
    )


def _role(
    live: LiveCluster,
    name: str,
    node: Node,
    command: list[str],
    ports: Mapping[str, int],
    up: str = "",
) -> Role:
    grammar = resources.files(__package__).joinpath("late_grammar.py").read_text(encoding="utf-8")
    return Role(
        name,
        node,
        command,
        ports,
        up=up,
        says=STARTED,
        env=PROCESS,
        files={f"{LATE_FOLDER}/rfc3987_syntax.py": grammar},
        everywhere=True,
        paths=[LATE_FOLDER],
        logs=f"{_place(live, node)}/session_latest/logs",
    )


def has_dashboard(facts: Facts) -> bool:
    """Whether the dashboard can run there. Without what it stands on Ray starts a process in its place that shows nothing."""
    return all(name in facts.packages for name in RAYS_DASHBOARD)


def head(live: LiveCluster, engine: ComputeEngine, facts: Facts | None = None) -> Role:
    """The first node's; its interpreter tells whether there is a dashboard, and matters where the role is started alone."""
    command = [
        *_arguments(live, engine, live.head),
        "--head",
        "--port={gcs}",
        "--ray-client-server-port={client}",
    ]
    # The monitor asks for more machines, which is not Ray's business here. Without a dashboard there is still a process with a port of its.
    shown = "true" if facts is not None and has_dashboard(facts) else "false"
    command += [
        f"--include-dashboard={shown}",
        f"--dashboard-host={private_address(live, live.head)}",
        "--dashboard-port={dashboard}",
        "--no-monitor",
    ]
    ports = {
        "gcs": GCS_PORT,
        "client": CLIENT_PORT,
        "dashboard": DASHBOARD_PORT,
        "agent": AGENT_PORT,
    }
    return _role(live, HEAD, live.head, command, ports, up="client")


def nodes(live: LiveCluster, engine: ComputeEngine, port: int) -> list[Role]:
    """Those of the others."""
    address = f"--address={private_address(live, live.head)}:{port}"
    return [
        _role(
            live,
            f"{NODE}{n.instance.node}",
            n,
            [*_arguments(live, engine, n), address],
            {"agent": AGENT_PORT},
        )
        for n in live.present[1:]
    ]


def variables(live: LiveCluster, port: int) -> dict[str, str]:
    """What `run` and cells on the machines need for `ray.init()` without an address."""
    return {**AUTH, "RAY_ADDRESS": f"{private_address(live, live.head)}:{port}"}


def check_installed(name: str) -> None:
    """See that there can be a client at all.

    Raises
    ------
    EngineMissing
        If Ray is not installed here.
    """
    if "ray" not in versions_here("ray"):
        raise EngineMissing(
            f"{name}.ray() needs the package ray in this kernel's environment",
            hint='%pip install "ray[client]"',
        )


def check_protected(name: str, facts: Facts) -> None:
    """See that the Ray of a machine knows tokens: it listens on all addresses, and runs what anybody sends it where it knows none.

    Raises
    ------
    EngineVersions
        If it is too old for it.
    """
    said = facts.packages.get("ray", "")
    numbers = tuple(int(part) for part in said.split(".")[:2] if part.isdecimal())
    if numbers < FIRST_WITH_TOKENS:
        least = ".".join(map(str, FIRST_WITH_TOKENS))
        raise EngineVersions(
            f"ray is {said} on {name}, which anybody in its network could use: {least} is the first that asks for a token",
            hint=f'python: {{requirements: ["ray[client]>={least}"]}} in the spec',
        )


def check_versions(name: str, running: Running) -> None:
    """See that this kernel can be its client: Ray takes none of another version, nor of another Python.

    Raises
    ------
    EngineVersions
        Naming both versions.
    """
    here, there = versions_here("ray").get("ray"), running.facts.packages.get("ray")
    if here != there:
        raise EngineVersions(
            f"ray is {here} here and {there} on {name}: client and cluster must be the same",
            hint=f'%pip install "ray[client]=={there}", or python: {{requirements: ["ray[client]=={here}"]}} in the spec',
        )
    if platform.python_version() != running.facts.python:
        raise EngineVersions(
            f"Python is {platform.python_version()} here and {running.facts.python} on {name}: Ray wants the same, to the last figure",
            hint=f'python: {{version: "{platform.python_version()}"}} in the spec; what runs on {name} itself is not concerned',
        )


@dataclass(frozen=True)
class Connection:
    """This kernel's connection to the Ray of a cluster.

    Attributes
    ----------
    context
        What `ray.init` returned.
    worker
        What of Ray holds the connection; another one is another connection.
    """

    context: Any
    worker: Any

    def is_alive(self) -> bool:
        """Whether it is this kernel's still, and answers."""
        if _worker() is not self.worker:
            return False
        try:
            return bool(
                self.worker.is_connected() and self.worker.ping_server(timeout=PING_SECONDS)
            )
        except Exception as error:  # gRPC's own, which is not imported for this
            log.info("Ray does not answer: %s", error)
            return False

    def close(self) -> None:
        """End it, unless this kernel has another by now: whoever waits for a result then has an error, and waits no longer."""
        if _worker() is self.worker:
            import_module("ray").shutdown()


def _worker() -> Any:
    ray: Any = import_module("ray")  # typed in part only
    return getattr(ray.util.client.ray.get_context(), "client_worker", None)


def connect(name: str, local: int, token: Path) -> Connection:
    """Connect this kernel to the head that a port of this computer leads to.

    Raises
    ------
    EngineFailed
        If it does not answer.
    """
    ray: Any = import_module("ray")  # typed in part only
    if ray.util.client.ray.is_connected() or ray.is_initialized():
        ray.shutdown()
    _take_token(token)
    try:
        context = ray.init(f"ray://127.0.0.1:{local}")
    except (ConnectionError, TimeoutError, RuntimeError) as error:
        words = [line for line in str(error).strip().splitlines() if line.strip()]
        raise EngineFailed(
            f"Ray of {name} does not answer: {words[-1] if words else type(error).__name__}",
            hint=f"%nbprov logs {name} {HEAD} has its last words",
        ) from error
    return Connection(context, _worker())


def _take_token(token: Path) -> None:
    """Make this process's Ray show the token of a cluster."""
    # Ray takes it from the environment alone, where another cluster's own would come first.
    os.environ.pop("RAY_AUTH_TOKEN", None)
    os.environ.update({**AUTH, "RAY_AUTH_TOKEN_PATH": str(token)})
    # It has read the environment when it was imported, and keeps the token of the cluster before: without this the client only times out.
    raylet: Any = import_module("ray._raylet")
    if hasattr(raylet, "Config"):
        raylet.Config.initialize("")
    if hasattr(raylet, "AuthenticationTokenLoader"):
        raylet.AuthenticationTokenLoader.instance().reset_cache()
