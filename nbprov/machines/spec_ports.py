"""The `ports:` of a spec: a tunnel for each that is not open to the internet."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence

from nbprov.model.errors import NbprovError
from nbprov.model.spec import Expose
from nbprov.provisioning.launching import public_ports
from nbprov.provisioning.live import LiveCluster

from .tunnels import Tunnels

log = logging.getLogger("nbprov.machines")

MOST_PORTS = 16
"""Of one range that are opened by themselves: as many as a server tries from its first port on; a hundred would be a hundred listeners for one that is used."""

Range = tuple[int, int]


def tunnelled(ports: Sequence[Range], expose: Expose) -> list[Range]:
    """Of a request's ports those that are reached by tunnels, as inclusive ranges.

    Examples
    --------
    >>> tunnelled([(8000, 8010), (9000, 9000)], Expose(public=((8005, 8007),)))
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


async def open_ports(tunnels: Tunnels, live: LiveCluster, expose: Expose) -> list[str]:
    """Open the tunnels that a cluster's spec asks for, to its head. Never raises.

    Returns
    -------
    list of str
        What was not opened and why, a line each.
    """
    remarks = []
    for low, high in tunnelled(live.candidate.request.ports, expose):
        if high - low >= MOST_PORTS:
            remarks.append(f"ports {low}-{high} are too many to open by themselves: %nbprov tunnel {live.name} PORT opens one")
            continue
        for port in range(low, high + 1):
            try:
                await tunnels.open(live, port)
            except Exception as error:  # a cluster is no worse for want of a tunnel
                log.exception("the tunnel to port %d of %s", port, live.name)
                words = error.message if isinstance(error, NbprovError) else f"{type(error).__name__}: {error}"
                remarks.append(f"port {port} has no tunnel: {words}")
    return remarks
