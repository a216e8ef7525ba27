"""The needs of a request beside hardware and place, and which clouds can meet them.

Both are data, `Needs` and `Capabilities`. A cloud that cannot meet a need is dropped with a rule
that says why.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from nbprov.clouds.base import Capabilities
from nbprov.model.places import Market
from nbprov.model.resources import Request
from nbprov.model.spec import ExposedPorts

BEST = "best"
NO_TIER = frozenset({"", BEST})
"""`best` is the best that a place has, so it rules nothing out."""


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule that drops offers: its name and its words."""

    name: str
    words: str


@dataclass(frozen=True, slots=True)
class Needs:
    """What a request needs of a cloud, whatever the machine and the place.

    Attributes
    ----------
    disk_tier
        A tier that the cloud must have; empty for no demand, and for `best`.
    public_ports
        Whether ports are opened to the internet; tunnels need nothing of a cloud.
    """

    market: Market = Market.ON_DEMAND
    several_nodes: bool = False
    docker: bool = False
    machine_image: bool = False
    disk_tier: str = ""
    network_best: bool = False
    local_disk: bool = False
    accelerator_args: bool = False
    public_ports: bool = False


def needs_of(request: Request, nodes: int, expose: ExposedPorts) -> Needs:
    """The needs of a request."""
    image = request.image
    return Needs(
        market=request.market,
        several_nodes=nodes > 1,
        docker=bool(image and image.docker),
        machine_image=bool(image and image.machine),
        disk_tier="" if request.disk_tier in NO_TIER else request.disk_tier,
        network_best=request.network_tier == BEST,
        local_disk=request.local_disk is not None,
        accelerator_args=bool(request.accelerator_args),
        public_ports=bool(request.ports)
        and (expose.everything or _overlap(request.ports, expose.public)),
    )


def lacks(cloud: str, can: Capabilities, needs: Needs) -> Rule | None:
    """The first need that a cloud cannot meet; None if it meets all."""
    return next(_lacks(cloud, can, needs), None)


def refused_outright(cloud: str, can: Capabilities, needs: Needs) -> Rule | None:
    """The rule against a request that names this cloud and asks what it never has.

    That is a disk tier, a machine image, or open ports.
    """
    outright = {f"disk-tier:{cloud}", f"machine-image:{cloud}", f"ports:{cloud}"}
    return next((rule for rule in _lacks(cloud, can, needs) if rule.name in outright), None)


def _lacks(cloud: str, can: Capabilities, needs: Needs) -> Iterator[Rule]:
    if needs.several_nodes and not can.multi_node:
        yield Rule(f"multi-node:{cloud}", f"{cloud} cannot make a cluster of several nodes")
    if needs.market is Market.SPOT and not can.spot:
        yield Rule(f"spot:{cloud}", f"{cloud} cannot be asked for spot machines")
    if needs.docker and not can.docker:
        yield Rule(f"docker:{cloud}", f"{cloud} cannot start a container image")
    if needs.machine_image and not can.images:
        yield Rule(f"machine-image:{cloud}", f"{cloud} cannot start a machine image of one's own")
    if needs.disk_tier and needs.disk_tier not in can.disk_tiers:
        has = (
            f"has only {', '.join(sorted(can.disk_tiers))}"
            if can.disk_tiers
            else "has no choice of disks"
        )
        yield Rule(
            f"disk-tier:{cloud}", f"{cloud} {has}: disk_tier {needs.disk_tier} cannot be had there"
        )
    if needs.network_best and not can.network_best:
        yield Rule(
            f"network-tier:{cloud}",
            f"{cloud} has no faster network: network_tier best cannot be had there",
        )
    if needs.local_disk and not can.local_disk:
        yield Rule(f"local-disk:{cloud}", f"{cloud} cannot promise a disk inside the machine")
    if needs.accelerator_args and not can.accelerator_args:
        yield Rule(f"accelerator-args:{cloud}", f"{cloud} takes no accelerator_args")
    if needs.public_ports and not can.ports:
        yield Rule(f"ports:{cloud}", f"{cloud} cannot open ports to the internet")


def _overlap(ports: tuple[tuple[int, int], ...], public: tuple[tuple[int, int], ...]) -> bool:
    return any(low <= last and first <= high for low, high in ports for first, last in public)
