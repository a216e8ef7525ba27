"""The needs of a request beside hardware and place, and which clouds can meet them.

Both are data, `Needs` and `Capabilities`. A cloud that cannot meet a need is dropped with a rule
that says why.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from nbprov.clouds.base import Capabilities
from nbprov.model.offers import DropRule, RuleKind
from nbprov.model.places import Market
from nbprov.model.resources import Request
from nbprov.model.spec import ExposedPorts

FIELDS = {
    RuleKind.MULTI_NODE: "num_nodes",
    RuleKind.SPOT: "use_spot",
    RuleKind.DOCKER: "image_id",
    RuleKind.MACHINE_IMAGE: "image_id",
    RuleKind.IMAGE_REGION: "image_id",
    RuleKind.DISK_TIER: "disk_tier",
    RuleKind.PREMIUM_DISK: "disk_tier",
    RuleKind.NETWORK_TIER: "network_tier",
    RuleKind.FAST_NETWORK: "network_tier",
    RuleKind.LOCAL_DISK: "local_disk",
    RuleKind.ACCELERATOR_ARGS: "accelerator_args",
    RuleKind.PORTS: "ports",
    RuleKind.PRICE: "max_price",
}
"""The field of a spec that each rule is about."""

BEST = "best"
NO_TIER = frozenset({"", BEST})
"""`best` is the best that a place has, so it rules nothing out."""


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
        machine_image=bool(image and image.own),
        disk_tier="" if request.disk_tier in NO_TIER else request.disk_tier,
        network_best=request.network_tier == BEST,
        local_disk=request.local_disk is not None,
        accelerator_args=bool(request.accelerator_args),
        public_ports=bool(request.ports)
        and (expose.everything or _overlap(request.ports, expose.public)),
    )


def lacks(cloud: str, can: Capabilities, needs: Needs) -> DropRule | None:
    """The first need that a cloud cannot meet; None if it meets all."""
    return next(_lacks(cloud, can, needs), None)


def refused_outright(cloud: str, can: Capabilities, needs: Needs) -> DropRule | None:
    """The rule against a request that names this cloud and asks what it never has.

    That is a disk tier, a machine image, or open ports.
    """
    outright = (RuleKind.DISK_TIER, RuleKind.MACHINE_IMAGE, RuleKind.PORTS)
    return next((rule for rule in _lacks(cloud, can, needs) if rule.kind in outright), None)


def _lacks(cloud: str, can: Capabilities, needs: Needs) -> Iterator[DropRule]:
    if needs.several_nodes and not can.multi_node:
        yield DropRule(
            RuleKind.MULTI_NODE, f"{cloud} cannot make a cluster of several nodes", cloud
        )
    if needs.market is Market.SPOT and not can.spot:
        yield DropRule(RuleKind.SPOT, f"{cloud} cannot be asked for spot machines", cloud)
    if needs.docker and not can.docker:
        yield DropRule(RuleKind.DOCKER, f"{cloud} cannot start a container image", cloud)
    if needs.machine_image and not can.images:
        yield DropRule(
            RuleKind.MACHINE_IMAGE, f"{cloud} cannot start a machine image of one's own", cloud
        )
    if needs.disk_tier and needs.disk_tier not in can.disk_tiers:
        has = (
            f"has only {', '.join(sorted(can.disk_tiers))}"
            if can.disk_tiers
            else "has no choice of disks"
        )
        yield DropRule(
            RuleKind.DISK_TIER,
            f"{cloud} {has}: disk_tier {needs.disk_tier} cannot be had there",
            cloud,
        )
    if needs.network_best and not can.network_best:
        yield DropRule(
            RuleKind.NETWORK_TIER,
            f"{cloud} has no faster network: network_tier best cannot be had there",
            cloud,
        )
    if needs.local_disk and not can.local_disk:
        yield DropRule(
            RuleKind.LOCAL_DISK, f"{cloud} cannot promise a disk inside the machine", cloud
        )
    if needs.accelerator_args and not can.accelerator_args:
        yield DropRule(RuleKind.ACCELERATOR_ARGS, f"{cloud} takes no accelerator_args", cloud)
    if needs.public_ports and not can.ports:
        yield DropRule(RuleKind.PORTS, f"{cloud} cannot open ports to the internet", cloud)


def _overlap(ports: tuple[tuple[int, int], ...], public: tuple[tuple[int, int], ...]) -> bool:
    return any(low <= last and first <= high for low, high in ports for first, last in public)
