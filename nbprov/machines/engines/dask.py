"""Dask on a cluster: the scheduler on the head, workers on all nodes, and the notebook's client.

Processes are described here and started by `processes.py`.
"""

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

from .engine_state import FOLDER, EngineFailed, EngineMissing, EngineVersions, RunningEngine
from .installation import versions_here
from .process_specs import BASE_BYTES, ProcessSpec, bytes_of, gpus, option, private_address, vcpus

if TYPE_CHECKING:
    from distributed import Client

log = logging.getLogger("nbprov.machines")

SCHEDULER_PORT, DASHBOARD_PORT = 8786, 8787
"""Dask's own default ports; where one is taken, the next free one is used."""
WORKER_PORTS, NANNY_PORTS = "28000:28499", "28500:28999"
"""At the private address; below the range that systems use for outgoing connections."""
DEATH_SECONDS = 60
"""A worker whose scheduler is gone ends after this, and its supervisor starts another."""

QUIET = {
    "DASK_DISTRIBUTED__ADMIN__TICK__INTERVAL": "500ms",
    "DASK_DISTRIBUTED__ADMIN__SYSTEM_MONITOR__INTERVAL": "2s",
    "DASK_DISTRIBUTED__WORKER__PROFILE__INTERVAL": "100ms",
}
"""Lowers the rates of Dask's own monitoring.

With its defaults of 50 and 100 times a second, eight idle workers took 0.45 of a core, so that no
machine ever counted as idle.
"""
NOBODY = {"DASK_DISTRIBUTED__SCHEDULER__NO_WORKERS_TIMEOUT": "10 minutes"}
"""Tasks that no worker can run fail after this in place of waiting for ever.

It leaves enough time to restart a worker or to replace a lost machine.
"""
REST_CORES = 0.03
"""CPU use of an idle process and its nanny with `QUIET`, measured and rounded up."""

SCHEDULER, JOBS = "dask-scheduler", "dask-"


def workers_of(live: LiveCluster, engine: ComputeEngine) -> int:
    """Return the number of workers on a node: the spec's, else one per GPU, else one."""
    said = option(engine, "workers")
    if said.isdecimal():
        return max(1, int(said))
    if said == "cpu":
        return max(1, vcpus(live))
    return max(1, gpus(live))


def threads_of(live: LiveCluster, engine: ComputeEngine) -> int:
    """Return the threads of a worker: the spec's, else its share of the vCPUs; 0 if unknown."""
    said = option(engine, "threads")
    return int(said) if said else vcpus(live) and max(1, vcpus(live) // workers_of(live, engine))


def _tls() -> list[str]:
    place = os.path.join("{home}", FOLDER[2:], "engine.pem")
    return ["--protocol", "tls", "--tls-ca-file", place, "--tls-cert", place, "--tls-key", place]


def scheduler(live: LiveCluster) -> ProcessSpec:
    """The head's."""
    at = private_address(live, live.head)
    command = ["-m", "distributed.cli.dask_scheduler", "--host", at, "--port", "{scheduler}"]
    # With --no-dashboard it would still listen, and on all addresses, so it is bound instead.
    command += ["--dashboard-address", f"{at}:{{dashboard}}", *_tls()]
    return ProcessSpec(
        SCHEDULER,
        live.head,
        command,
        {"scheduler": SCHEDULER_PORT, "dashboard": DASHBOARD_PORT},
        up="scheduler",
        env=QUIET | NOBODY,
        rest=REST_CORES,
    )


def workers(live: LiveCluster, engine: ComputeEngine, port: int) -> list[ProcessSpec]:
    """Describe the workers of every node; with GPUs, each worker is a job with one GPU."""
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
            scratch = os.path.join("{home}", FOLDER[2:], "dask")
            command += ["--local-directory", scratch, *_tls()]
            command += ["--nthreads", str(threads)] if threads else []
            command += ["--memory-limit", str(memory // count)] if memory else []
            env = QUIET | ({"CUDA_VISIBLE_DEVICES": str(index)} if of_gpu else {})
            job = f"dask-worker-{number}" + (f"-{index}" if index else "")
            data = memory // count + BASE_BYTES if memory else 0
            rest = REST_CORES * (1 if of_gpu else count)
            found.append(
                ProcessSpec(
                    job,
                    node,
                    command,
                    says="Registered to",
                    env=env,
                    data=data,
                    files=files,
                    private=[scratch],
                    rest=rest,
                )
            )
    return found


def config_text(live: LiveCluster, port: int) -> str:
    """Return the text of `~/.config/dask/nbprov.yaml` on every node.

    With it, `distributed.Client()` needs no address there.
    """
    place = f"{{home}}/{FOLDER[2:]}/engine.pem"
    tls = "".join(
        f"      {role}:\n        cert: {place}\n        key: {place}\n"
        for role in ("client", "scheduler", "worker")
    )
    address = f"tls://{private_address(live, live.head)}:{port}"
    return (
        f"scheduler-address: {address}\n"
        f"distributed:\n  comm:\n    tls:\n      ca-file: {place}\n{tls}"
    )


def check_installed(name: str) -> None:
    """Check that Dask's client is installed in this kernel's environment.

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


def check_versions(name: str, running: RunningEngine) -> None:
    """Check that the versions here match those of the cluster.

    Raises
    ------
    EngineVersions
        Naming both versions.
    """
    here, there = versions_here("dask"), running.interpreter.packages
    for package in ("distributed", "dask"):
        if here.get(package) != there.get(package):
            raise EngineVersions(
                f"{package} is {here.get(package)} here and {there.get(package)} on {name}:"
                " client and scheduler must be the same",
                hint=f"%pip install {package}=={there.get(package)}, or set"
                f" python: {{requirements: [{package}=={here.get(package)}]}} in the spec",
            )
    if _minor(platform.python_version()) != _minor(running.interpreter.python):
        raise EngineVersions(
            f"Python is {platform.python_version()} here and {running.interpreter.python}"
            f" on {name}: functions cannot be sent between them",
            hint=f'set python: {{version: "{platform.python_version()}"}} in the spec',
        )


def _minor(version: str) -> list[str]:
    return version.split(".")[:2]


def connect(name: str, local: int, certificate: Path, dashboard: str, seconds: Seconds) -> Client:
    """Return a client of the scheduler that a local port leads to.

    Raises
    ------
    EngineFailed
        If it does not answer.
    """
    distributed: Any = import_module("distributed")  # only partly typed

    class ClusterClient(distributed.Client):  # type: ignore[misc]
        """A client whose dashboard link leads through the tunnel to the scheduler's dashboard."""

        @property
        def dashboard_link(self) -> Any:
            return dashboard

    place = str(certificate)
    security = distributed.Security(
        tls_ca_file=place, tls_client_cert=place, tls_client_key=place, require_encryption=True
    )
    try:
        # The private addresses of workers cannot be reached from here.
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
    """Wait for all workers; late ones are logged, and join when they are up."""
    try:
        client.wait_for_workers(count, timeout=seconds)
    except TimeoutError:
        log.warning("fewer than %d Dask workers after %g s", count, seconds)
