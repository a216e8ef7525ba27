"""The processes of an engine as data for their supervisor, made by `dask.py` and `ray.py`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from nbprov.model.errors import NbprovError
from nbprov.model.spec import ComputeEngine
from nbprov.provisioning.live_cluster import LiveCluster, Node

from .engine_state import EngineFailed

MIB = 1024 * 1024
BASE_BYTES = 384 * MIB
"""Private memory of a process before it holds any data: interpreter, libraries, stacks.

A memory limit must leave this much room on top.
"""


@dataclass(frozen=True, slots=True)
class ProcessSpec:
    """One long-lived process of a compute engine.

    Attributes
    ----------
    name
        The name of its job: `dask-scheduler`, `dask-worker-0`.
    command
        The arguments of the interpreter; `{name}` stands for a port of `ports`.
    ports
        The number to try first for each port, at the node's private address.
    up, says
        The process is up once this one of its ports is listened on, and once a line of its output
        holds this text; either or both.
    data
        Bytes of private memory that the process may have; 0 for no limit.
    everywhere
        The process listens on all addresses whatever it is told, so its ports must be free on all.
    files
        Texts by path of files to write first; `{home}` stands for the home in both.
    paths
        Folders that its Python searches for modules first; `{home}` stands for the home.
    private
        Folders that are made first, for nobody else; `{home}` stands for the home.
    logs
        Where its own logs are on the node; empty where its output is all there is.
    rest
        The cores that it uses while idle, which do not count as activity.
    """

    name: str
    node: Node
    command: Sequence[str]
    ports: Mapping[str, int] = field(default_factory=dict)
    up: str = ""
    says: str = ""
    env: Mapping[str, str] = field(default_factory=dict)
    data: int = 0
    files: Mapping[str, str] = field(default_factory=dict)
    everywhere: bool = False
    paths: Sequence[str] = ()
    private: Sequence[str] = ()
    logs: str = ""
    rest: float = 0.0


def private_address(live: LiveCluster, node: Node) -> str:
    """Return the address at which the other nodes reach a node.

    Raises
    ------
    EngineFailed
        If several nodes have no private network.
    """
    found = node.instance.private_host
    if found:
        return found
    if len(live.nodes) == 1:
        return "127.0.0.1"
    raise EngineFailed(
        f"{live.name}: node {node.instance.node} has no private address,"
        " and engines listen on nothing else",
        hint="use one machine, or another cloud",
        code="engine.no-private-address",
    )


def gpus(live: LiveCluster) -> int:
    """Return the whole GPUs of one node; a share of a GPU counts as none."""
    return int(live.candidate.offer.accelerator_count)


def vcpus(live: LiveCluster) -> int:
    """Return the vCPUs of one node; 0 where the price catalog does not say."""
    return int(live.candidate.offer.vcpus or 0)


def option(engine: ComputeEngine, name: str) -> str:
    """Return an option of the spec's engine; empty where it is not set."""
    return dict(engine.options).get(name, "")


def bytes_of(text: str) -> int:
    """Return the bytes that `512MB`, `2GiB` or a number mean; 0 for empty text.

    Raises
    ------
    NbprovError
        If it is not a size.

    Examples
    --------
    >>> bytes_of("512MB"), bytes_of("2GiB"), bytes_of("")
    (512000000, 2147483648, 0)
    """
    if not text:
        return 0
    for unit, factor in UNITS.items():
        if text.upper().endswith(unit.upper()):
            return int(float(text[: -len(unit)]) * factor)
    if text.isdecimal():
        return int(text)
    raise NbprovError(f"{text!r} is not a size", code="engine.size")


UNITS = {
    "KiB": 2**10,
    "MiB": 2**20,
    "GiB": 2**30,
    "TiB": 2**40,
    "KB": 10**3,
    "MB": 10**6,
    "GB": 10**9,
    "TB": 10**12,
}
