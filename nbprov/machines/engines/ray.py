"""Ray on a cluster: the head process, the processes of the other nodes, and the notebook's client.

Processes are described here and started by `processes.py`.
"""

from __future__ import annotations

import logging
import platform
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from nbprov.model.spec import ComputeEngine
from nbprov.on_machine.loader import source
from nbprov.provisioning.live_cluster import LiveCluster, Node

from .engine_state import (
    FOLDER,
    EngineFailed,
    EngineMissing,
    EngineVersions,
    Interpreter,
    RunningEngine,
)
from .installation import RAYS_DASHBOARD, versions_here
from .process_specs import ProcessSpec, bytes_of, gpus, option, private_address, vcpus
from .ray_token import take_token
from .secret_file import secret_file

log = logging.getLogger("nbprov.machines")

GCS_PORT, CLIENT_PORT, DASHBOARD_PORT, AGENT_PORT = 6379, 10001, 8265, 52365
"""Ray's own default ports; where one is taken, the next free one is used."""
HEAD, NODE, JOBS = "ray-head", "ray-node-", "ray-"
TOKEN_FILE = "engine.token"
PLACE_ON_NODE = "~/.ray/auth_token"
"""Where Ray looks for its token by default."""
FIRST_WITH_TOKENS = (2, 52)
STARTED = "Ray runtime started"
AUTH: Mapping[str, str] = {"RAY_AUTH_MODE": "token"}
PATIENCE_SECONDS = 120
"""Replaces Ray's own time limits of 20 and 30 s for its processes to start.

Importing all of Ray takes longer on a busy machine, and a process that gives up starts over.
"""
PROCESS: Mapping[str, str] = {
    **AUTH,
    "GRPC_ENABLE_FORK_SUPPORT": "0",
    "RAY_gcs_server_port_wait_time_s": str(PATIENCE_SECONDS),
    "RAY_agent_register_timeout_ms": str(PATIENCE_SECONDS * 1000),
    "RAY_CLIENT_SERVER_CHECK_CHANNEL_TIMEOUT_S": str(PATIENCE_SECONDS),
}
"""Variables of Ray's processes.

The nodes start at the same time as their head and wait for it, so the limits are raised. Ray's
client server forks while gRPC's threads start; gRPC's fork handlers then sometimes kill the child
with a SIGSEGV (seen with Ray 2.60), which the client notices only after 40 s. The child executes
another program at once and needs no fork handlers.
"""
PING_SECONDS = 5.0
"""How long an open connection may take to answer before it is replaced.

That is one round trip to a machine that may be busy.
"""
LATE_FOLDER = f"{{home}}{FOLDER[1:]}/late"
"""A folder on the machine that Ray's processes search for modules first.

Its modules replace packages that are slow to import and that Ray does not use; see
`on_machine/engines/lazy_rfc3987.py`.
"""
SMALLEST_STORE = 80 * 2**20
"""Ray accepts no smaller object store."""


def token_file(folder: Path) -> Path:
    """Return the file (0600) with the token of a cluster's Ray, which is made on first use.

    Nobody can run code on that Ray without the token.

    Parameters
    ----------
    folder
        The folder of the cluster's keys.
    """
    return secret_file(folder, TOKEN_FILE, lambda: secrets.token_hex(32).encode())


def _private(live: LiveCluster, node: Node) -> str:
    """Return the folder on a machine that no other user may enter.

    Ray opens its own to everybody, so that lies in this one. It puts Unix sockets below it, whose
    paths are limited to about 100 bytes.
    """
    return f"/tmp/nbr-{live.run_id[:8]}-{node.instance.node}"


def _place(live: LiveCluster, node: Node) -> str:
    return f"{_private(live, node)}/r"


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
    # With fixed ports, nodes on one computer would collide; 0 means any free port.
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
) -> ProcessSpec:
    grammar = source("engines/lazy_rfc3987")
    return ProcessSpec(
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
        private=[_private(live, node)],
        logs=f"{_place(live, node)}/session_latest/logs",
    )


def has_dashboard(interpreter: Interpreter) -> bool:
    """Return whether Ray's dashboard can run on a machine.

    Where a package is missing, Ray starts a process in its place that shows nothing.
    """
    return all(name in interpreter.packages for name in RAYS_DASHBOARD)


def head(
    live: LiveCluster, engine: ComputeEngine, interpreter: Interpreter | None = None
) -> ProcessSpec:
    """Describe the process of the first node.

    Parameters
    ----------
    interpreter
        The node's; needed only for a start, where it decides whether there is a dashboard.
    """
    command = [
        *_arguments(live, engine, live.head),
        "--head",
        "--port={gcs}",
        "--ray-client-server-port={client}",
    ]
    # The monitor would ask for more machines, which nbprov decides. Without a dashboard Ray
    # still starts a process that needs the port.
    shown = "true" if interpreter is not None and has_dashboard(interpreter) else "false"
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


def nodes(live: LiveCluster, engine: ComputeEngine, port: int) -> list[ProcessSpec]:
    """Describe the processes of the other nodes."""
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
    """Return the variables by which `ray.init()` on the machines finds the head."""
    return {**AUTH, "RAY_ADDRESS": f"{private_address(live, live.head)}:{port}"}


def check_installed(name: str) -> None:
    """Check that Ray is installed in this kernel's environment.

    Raises
    ------
    EngineMissing
        If it is not.
    """
    if "ray" not in versions_here("ray"):
        raise EngineMissing(
            f"{name}.ray() needs the package ray in this kernel's environment",
            hint='%pip install "ray[client]"',
        )


def check_protected(name: str, interpreter: Interpreter) -> None:
    """Check that the Ray of a machine supports tokens.

    Ray listens on all addresses; without tokens it runs what anybody sends to it.

    Raises
    ------
    EngineVersions
        If it is too old.
    """
    said = interpreter.packages.get("ray", "")
    numbers = tuple(int(part) for part in said.split(".")[:2] if part.isdecimal())
    if numbers < FIRST_WITH_TOKENS:
        least = ".".join(map(str, FIRST_WITH_TOKENS))
        raise EngineVersions(
            f"ray is {said} on {name}, which anybody in its network could use:"
            f" {least} is the first version that asks for a token",
            hint=f'set python: {{requirements: ["ray[client]>={least}"]}} in the spec',
        )


def check_versions(name: str, running: RunningEngine) -> None:
    """Check that the versions of Ray and Python match: Ray accepts no client with other ones.

    Raises
    ------
    EngineVersions
        Naming both versions.
    """
    here, there = versions_here("ray").get("ray"), running.interpreter.packages.get("ray")
    if here != there:
        raise EngineVersions(
            f"ray is {here} here and {there} on {name}: client and cluster must be the same",
            hint=f'%pip install "ray[client]=={there}",'
            f' or set python: {{requirements: ["ray[client]=={here}"]}} in the spec',
        )
    if platform.python_version() != running.interpreter.python:
        raise EngineVersions(
            f"Python is {platform.python_version()} here and {running.interpreter.python}"
            f" on {name}: Ray needs exactly the same version",
            hint=f'set python: {{version: "{platform.python_version()}"}} in the spec;'
            f" what runs on {name} itself works as it is",
        )


@dataclass(frozen=True)
class RayConnection:
    """This kernel's connection to the Ray of a cluster.

    Attributes
    ----------
    context
        What `ray.init` returned.
    worker
        Ray's object that holds the connection; it tells one connection from the next.
    """

    context: Any
    worker: Any

    def is_alive(self) -> bool:
        """Return whether this is still the kernel's connection, and Ray answers over it."""
        if _worker() is not self.worker:
            return False
        try:
            return bool(
                self.worker.is_connected() and self.worker.ping_server(timeout=PING_SECONDS)
            )
        except Exception as error:  # gRPC's errors, which would take an import to name
            log.info("Ray does not answer: %s", error)
            return False

    def close(self) -> None:
        """End the connection, unless this kernel has replaced it.

        Whoever waits for a result over it gets an error.
        """
        if _worker() is self.worker:
            import_module("ray").shutdown()


def _worker() -> Any:
    ray: Any = import_module("ray")  # only partly typed
    return getattr(ray.util.client.ray.get_context(), "client_worker", None)


def connect(name: str, local: int, token: Path) -> RayConnection:
    """Connect this kernel to the head that a local port leads to.

    Raises
    ------
    EngineFailed
        If it does not answer.
    """
    ray: Any = import_module("ray")  # only partly typed
    if ray.util.client.ray.is_connected() or ray.is_initialized():
        ray.shutdown()
    take_token(token, AUTH)
    try:
        context = ray.init(f"ray://127.0.0.1:{local}")
    except (ConnectionError, TimeoutError, RuntimeError) as error:
        words = [line for line in str(error).strip().splitlines() if line.strip()]
        raise EngineFailed(
            f"Ray of {name} does not answer: {words[-1] if words else type(error).__name__}",
            hint=f"%nbprov logs {name} {HEAD} shows its last lines",
        ) from error
    return RayConnection(context, _worker())
