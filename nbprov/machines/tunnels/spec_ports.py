"""The `ports:` of a spec: a tunnel for each that is not open to the internet, and the address of each that is."""

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
"""Of one range that are opened by themselves: as many as a server tries from its first port on; a hundred would be a hundred listeners for one that is used."""

MOST_TOLD = 4
"""Of the public ports whose addresses are told; the others are counted."""

NOT_HTTP = frozenset({21, 22, 25, 53, 3306, 5432, 5672, 6379, 27017})
"""Ports at which by custom something answers that no browser speaks to."""

Range = tuple[int, int]


def tunnelled(ports: Sequence[Range], expose: ExposedPorts) -> list[Range]:
    """Of a request's ports those that are reached by tunnels, as inclusive ranges.

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
    """Where the public ports of a running cluster are reached, a line each for the first ones; nothing while it has no address."""
    ranges = public_ports(cluster.candidate.request.ports, expose)
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
    said = []
    for port in islice(numbers, MOST_TOLD):
        # Where numbers are mapped one that is not known yet is told once it is.
        host, number = outside.get(port, ("", 0)) if outside else (head.host, port)
        said.append(
            f"{_address(host, number, port)} is public port {port} of {cluster.name}"
            if host
            else f"port {port} has no address yet"
        )
    more = sum(high - low + 1 for low, high in ranges) - len(said)
    if more > 0:
        said.append(f"and {more} more public port{'s' if more > 1 else ''} of {cluster.name}")
    if len(cluster.instances) > 1:
        said.append(
            f"its public ports are open on all {len(cluster.instances)} nodes; these are the head's"
        )
    return said


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
                f"ports {low}-{high} are too many to open by themselves: %nbprov tunnel {live.name} PORT opens one"
            )
            continue
        for port in range(low, high + 1):
            try:
                await tunnels.open(live, port)
            except Exception as error:  # a cluster is no worse for want of a tunnel
                log.exception("the tunnel to port %d of %s", port, live.name)
                words = (
                    error.message
                    if isinstance(error, NbprovError)
                    else f"{type(error).__name__}: {error}"
                )
                remarks.append(f"port {port} has no tunnel: {words}")
    return remarks
