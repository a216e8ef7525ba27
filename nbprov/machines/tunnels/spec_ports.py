"""The `ports:` of a spec: a tunnel for each private port, and the address of each public one."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from itertools import islice

from nbprov.model.clusters import ClusterState, ClusterView
from nbprov.model.errors import NbprovError
from nbprov.model.launches import InstanceState
from nbprov.model.spec import ExposedPorts
from nbprov.provisioning.live_cluster import LiveCluster
from nbprov.provisioning.run.launch_builder import public_ports

from .tunnels import Tunnels

log = logging.getLogger("nbprov.machines")

MOST_PORTS = 16
"""Ports of one range that are opened automatically.

Servers try about as many from their first port on; more would be mostly unused listeners.
"""

MOST_TOLD = 4
"""Public ports whose addresses are listed; the others are counted."""

NOT_HTTP = frozenset({21, 22, 25, 53, 3306, 5432, 5672, 6379, 27017})
"""Well-known ports of services that browsers do not speak to."""

Range = tuple[int, int]


def tunnelled(ports: Sequence[Range], expose: ExposedPorts) -> list[Range]:
    """Return the ports of a request that are reached by tunnels, as inclusive ranges.

    Examples
    --------
    >>> tunnelled([(8000, 8010), (9000, 9000)], ExposedPorts(public=((8005, 8007),)))
    [(8000, 8004), (8008, 8010), (9000, 9000)]
    """
    left = [(low, high) for low, high in ports]
    for low, high in public_ports(tuple(ports), expose):
        left = [part for both in left for part in _without(both, low, high)]
    return left


def _without(both: Range, low: int, high: int) -> Iterator[Range]:
    first, last = both
    if low > last or high < first:
        yield both
        return
    if first < low:
        yield first, low - 1
    if high < last:
        yield high + 1, last


def public_words(cluster: ClusterView, expose: ExposedPorts) -> list[str]:
    """Return lines with the addresses of a running cluster's public ports.

    There is none while the cluster has no address.
    """
    asked = cluster.candidate.request.ports if cluster.candidate is not None else ()
    ranges = public_ports(asked, expose)
    head = next(
        (
            i
            for i in cluster.instances
            if i.node == 0 and i.state is InstanceState.RUNNING and i.host
        ),
        None,
    )
    if not ranges or head is None or cluster.state is not ClusterState.RUNNING:
        return []
    numbers = (port for low, high in ranges for port in range(low, high + 1))
    outside = {port: (host, number) for port, host, number in head.mapped}
    lines = []
    for port in islice(numbers, MOST_TOLD):
        # With mapped ports, the number outside may become known later.
        host, number = outside.get(port, ("", 0)) if outside else (head.host, port)
        lines.append(
            f"{_address(host, number, port)} is public port {port} of {cluster.name}"
            if host
            else f"port {port} has no address yet"
        )
    more = sum(high - low + 1 for low, high in ranges) - len(lines)
    if more > 0:
        lines.append(f"and {more} more public port{'s' if more > 1 else ''} of {cluster.name}")
    if len(cluster.instances) > 1:
        lines.append(
            f"its public ports are open on all {len(cluster.instances)} nodes; these are the head's"
        )
    return lines


def _address(host: str, number: int, port: int) -> str:
    place = f"[{host}]:{number}" if ":" in host else f"{host}:{number}"
    if port in NOT_HTTP:
        return place
    return f"{'https' if port in (443, 8443) else 'http'}://{place}"


async def open_ports(tunnels: Tunnels, live: LiveCluster, expose: ExposedPorts) -> list[str]:
    """Open the tunnels that a cluster's spec asks for, to its head. Never raises.

    Returns
    -------
    list of str
        What was not opened and why, a line each.
    """
    remarks = []
    for low, high in tunnelled(live.candidate.request.ports, expose):
        if high - low >= MOST_PORTS:
            remarks.append(
                f"ports {low}-{high} are too many to open automatically:"
                f" %nbprov tunnel {live.name} PORT opens one"
            )
            continue
        for port in range(low, high + 1):
            try:
                await tunnels.open(live, port)
            except Exception as error:  # a cluster is useful without a tunnel
                log.exception("tunnel to port %d of %s", port, live.name)
                words = (
                    error.message
                    if isinstance(error, NbprovError)
                    else f"{type(error).__name__}: {error}"
                )
                remarks.append(f"port {port} has no tunnel: {words}")
    return remarks
