"""What an engine runs on which machine: data for the keeper, made by `dask.py` and `ray.py`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from nbprov.model.errors import NbprovError
from nbprov.model.spec import ComputeEngine
from nbprov.provisioning.live_cluster import LiveCluster, Node

from .engine_state import EngineFailed

MIB = 1024 * 1024
BASE_BYTES = 384 * MIB
"""Private memory of a process before it holds any data (interpreter, libraries, stacks of its threads), which a limit must leave beside it."""


@dataclass(frozen=True, slots=True)
class Role:
    """One long-lived process of an engine.

    Attributes
    ----------
    name
        Of its job: `dask-scheduler`, `dask-worker-0`.
    command
        After the interpreter; `{name}` stands for a port of `ports`.
    ports
        Name -> the number that is tried first, at the node's private address.
    up, says
        Which of the ports is listened on once it is up, and the text that a line of its output holds then; either or both.
    data
        Bytes of private memory a process may have; 0 for no limit.
    everywhere
        It listens on all addresses whatever it is told, so its ports must be free on all of them.
    files
        Path -> text of files that are written first; `{home}` stands for the home in both.
    paths
        Folders where its Python looks for modules before any other; `{home}` stands for the home.
    logs
        Where its own logs are on the node, in words; nothing where its output is all.
    rest
        Cores that it uses while it waits for work: no activity.
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
    logs: str = ""
    rest: float = 0.0


def private_address(live: LiveCluster, node: Node) -> str:
    """Where the other nodes reach it.

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
        f"{live.name}: node {node.instance.node} has no private address, and an engine is bound to nothing else",
        hint="use one machine, or another cloud",
        code="engine.no-private-address",
    )


def gpus(live: LiveCluster) -> int:
    """GPUs of one node; a share of one is none of its own."""
    return int(live.candidate.offer.accelerator_count)


def vcpus(live: LiveCluster) -> int:
    """vCPUs of one node, 0 where the catalogue does not say."""
    return int(live.candidate.offer.vcpus or 0)


def option(engine: ComputeEngine, name: str) -> str:
    """An option of the spec's, or nothing."""
    return dict(engine.options).get(name, "")


def bytes_of(text: str) -> int:
    """The bytes that `512MB`, `2GiB` or a number mean; 0 for nothing.

    Raises
    ------
    NbprovError
        If it is no size.

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
    raise NbprovError(f"{text!r} is no size", code="engine.size")


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
