"""Dask on a cluster: a scheduler on the head, workers on all nodes, and the notebook's client."""

from __future__ import annotations

import logging
import os
import platform
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nbprov.model.clock import Seconds
from nbprov.model.spec import ComputeEngine
from nbprov.provisioning.live_cluster import LiveCluster

from .engine_state import FOLDER, EngineFailed, EngineMissing, EngineVersions, Running
from .installation import versions_here
from .process_specs import BASE_BYTES, Role, bytes_of, gpus, option, private_address, vcpus

if TYPE_CHECKING:
    from distributed import Client

log = logging.getLogger("nbprov.machines")

SCHEDULER_PORT, DASHBOARD_PORT = 8786, 8787
"""Where Dask itself has them; the next free one where they are taken."""
WORKER_PORTS, NANNY_PORTS = "28000:28499", "28500:28999"
"""Of the private address; below those that systems give to outgoing connections."""
DEATH_SECONDS = 60
"""A worker whose scheduler is gone ends after this, and its keeper starts another."""

QUIET = {
    "DASK_DISTRIBUTED__ADMIN__TICK__INTERVAL": "500ms",
    "DASK_DISTRIBUTED__ADMIN__SYSTEM_MONITOR__INTERVAL": "2s",
    "DASK_DISTRIBUTED__WORKER__PROFILE__INTERVAL": "100ms",
}
"""Dask looks at itself fifty and a hundred times a second: eight workers without work took 0.45 of a core, by which no machine is ever idle."""
NOBODY = {"DASK_DISTRIBUTED__SCHEDULER__NO_WORKERS_TIMEOUT": "10 minutes"}
"""Work that no worker can do any more fails then, and is not waited for without end: longer than a keeper, or a machine in the place of a lost one, needs."""
REST_CORES = 0.03
"""What a process and its nanny take so while they wait, measured and rounded up."""

SCHEDULER, JOBS = "dask-scheduler", "dask-"


def workers_of(live: LiveCluster, engine: ComputeEngine) -> int:
    """Worker processes of one node: one a GPU, else one, unless the spec says otherwise."""
    said = option(engine, "workers")
    if said.isdecimal():
        return max(1, int(said))
    if said == "cpu":
        return max(1, vcpus(live))
    return max(1, gpus(live))


def threads_of(live: LiveCluster, engine: ComputeEngine) -> int:
    """Threads of one worker: the node's vCPUs shared among its workers, unless the spec says; 0 where nobody knows."""
    said = option(engine, "threads")
    return int(said) if said else vcpus(live) and max(1, vcpus(live) // workers_of(live, engine))


def _tls() -> list[str]:
    place = os.path.join("{home}", FOLDER[2:], "engine.pem")
    return ["--protocol", "tls", "--tls-ca-file", place, "--tls-cert", place, "--tls-key", place]


def scheduler(live: LiveCluster) -> Role:
    """The head's."""
    at = private_address(live, live.head)
    command = ["-m", "distributed.cli.dask_scheduler", "--host", at, "--port", "{scheduler}"]
    # --no-dashboard still listens, and on all addresses: bound is better than off.
    command += ["--dashboard-address", f"{at}:{{dashboard}}", *_tls()]
    return Role(
        SCHEDULER,
        live.head,
        command,
        {"scheduler": SCHEDULER_PORT, "dashboard": DASHBOARD_PORT},
        up="scheduler",
        env=QUIET | NOBODY,
        rest=REST_CORES,
    )


def workers(live: LiveCluster, engine: ComputeEngine, port: int) -> list[Role]:
    """Those of every node; a worker a GPU is a job of its own, with that GPU alone."""
    count, threads, memory = (
        workers_of(live, engine),
        threads_of(live, engine),
        bytes_of(option(engine, "memory")),
    )
    of_gpu = gpus(live) > 0 and option(engine, "workers") in ("", "gpu")
    head = private_address(live, live.head)
    found = []
    files = {"{home}/.config/dask/nbprov.yaml": config_text(live, port)}
    for node in live.present:
        at, number = private_address(live, node), node.instance.node
        for index in range(count if of_gpu else 1):
            name = f"node{number}" + (f"-gpu{index}" if of_gpu and count > 1 else "")
            command = [
                "-m",
                "distributed.cli.dask_worker",
                f"tls://{head}:{port}",
                "--host",
                at,
                "--name",
                name,
            ]
            command += [
                "--nworkers",
                "1" if of_gpu else str(count),
                "--dashboard-address",
                f"{at}:0",
            ]
            command += [
                "--worker-port",
                WORKER_PORTS,
                "--nanny-port",
                NANNY_PORTS,
                "--death-timeout",
                str(DEATH_SECONDS),
            ]
            command += ["--local-directory", os.path.join("{home}", FOLDER[2:], "dask"), *_tls()]
            command += ["--nthreads", str(threads)] if threads else []
            command += ["--memory-limit", str(memory // count)] if memory else []
            env = QUIET | ({"CUDA_VISIBLE_DEVICES": str(index)} if of_gpu else {})
            job = f"dask-worker-{number}" + (f"-{index}" if index else "")
            data = memory // count + BASE_BYTES if memory else 0
            rest = REST_CORES * (1 if of_gpu else count)
            found.append(
                Role(
                    job,
                    node,
                    command,
                    says="Registered to",
                    env=env,
                    data=data,
                    files=files,
                    rest=rest,
                )
            )
    return found


def config_text(live: LiveCluster, port: int) -> str:
    """What `~/.config/dask/nbprov.yaml` says on every node: with it `distributed.Client()` there needs no address."""
    place = f"{{home}}/{FOLDER[2:]}/engine.pem"
    tls = "".join(
        f"      {role}:\n        cert: {place}\n        key: {place}\n"
        for role in ("client", "scheduler", "worker")
    )
    address = f"tls://{private_address(live, live.head)}:{port}"
    return f"scheduler-address: {address}\ndistributed:\n  comm:\n    tls:\n      ca-file: {place}\n{tls}"


def check_installed(name: str) -> None:
    """See that there can be a client at all.

    Raises
    ------
    EngineMissing
        If `distributed` is not installed here.
    """
    if "distributed" not in versions_here("dask"):
        raise EngineMissing(
            f"{name}.dask() needs the package distributed in this kernel's environment",
            hint="%pip install distributed",
        )


def check_versions(name: str, running: Running) -> None:
    """See that this kernel can be its client.

    Raises
    ------
    EngineVersions
        Naming both versions.
    """
    here, there = versions_here("dask"), running.facts.packages
    for package in ("distributed", "dask"):
        if here.get(package) != there.get(package):
            raise EngineVersions(
                f"{package} is {here.get(package)} here and {there.get(package)} on {name}: client and scheduler must be the same",
                hint=f"%pip install {package}=={there.get(package)}, or python: {{requirements: [{package}=={here.get(package)}]}} in the spec",
            )
    if _minor(platform.python_version()) != _minor(running.facts.python):
        raise EngineVersions(
            f"Python is {platform.python_version()} here and {running.facts.python} on {name}: functions cannot travel between them",
            hint=f'python: {{version: "{platform.python_version()}"}} in the spec',
        )


def _minor(version: str) -> list[str]:
    return version.split(".")[:2]


def connect(name: str, local: int, certificate: Path, dashboard: str, seconds: Seconds) -> Client:
    """A client of the scheduler that a port of this computer leads to.

    Raises
    ------
    EngineFailed
        If it does not answer.
    """
    distributed: Any = import_module("distributed")  # typed in part only

    class ClusterClient(distributed.Client):  # type: ignore[misc]
        """A client whose dashboard is reached through the tunnel, not at the address that the scheduler has there."""

        @property
        def dashboard_link(self) -> Any:
            return dashboard

    place = str(certificate)
    security = distributed.Security(
        tls_ca_file=place, tls_client_cert=place, tls_client_key=place, require_encryption=True
    )
    try:
        # Workers' private addresses are not reached from here: all goes by the scheduler.
        client: Client = ClusterClient(
            f"tls://127.0.0.1:{local}",
            security=security,
            direct_to_workers=False,
            timeout=seconds,
            name=f"nbprov-{name}",
        )
        return client
    except (OSError, TimeoutError) as error:
        raise EngineFailed(
            f"the Dask scheduler of {name} does not answer: {error}",
            hint=f"%nbprov logs {name} {SCHEDULER}",
        ) from error


def await_workers(client: Client, count: int, seconds: Seconds) -> None:
    """Wait for all workers; those that are not there in time are told of in the log, and join when they come."""
    try:
        client.wait_for_workers(count, timeout=seconds)
    except TimeoutError:
        log.warning("fewer than %d Dask workers after %g s", count, seconds)
