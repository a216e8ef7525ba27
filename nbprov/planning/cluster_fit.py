"""Check whether a running cluster serves a spec, and name what differs."""

from __future__ import annotations

from nbprov.catalog.vocabulary.device_memory import nominal_gb
from nbprov.catalog.vocabulary.instance_families import MEMORY_IS_TYPICAL
from nbprov.model.clusters import ClusterView
from nbprov.model.money import exact_usd
from nbprov.model.offers import Candidate, Offer
from nbprov.model.resources import COUNT_TOLERANCE, Accelerator, Request
from nbprov.model.spec import Spec

from .filters.place_patterns import is_allowed, region_matches

DISK_TIERS = ("low", "medium", "high", "ultra")
"""Slowest first."""


def fits(spec: Spec, view: ClusterView) -> tuple[str, ...]:
    """Name the differences that keep a running cluster from serving a spec.

    A cluster fits if it satisfies at least one of the spec's requests. It may have more than was
    asked (GPUs, nodes, memory, disk) but not less, and must be of the same market. Ports, labels
    and guards are not compared, because they can be changed on a running cluster.

    Returns
    -------
    tuple of str
        Empty if it fits; else the differences to the closest request, each as `field: asked …, has
        …`.
    """
    running = view.candidate
    assert running is not None, "a cluster was bought"
    nodes = running.count
    common = () if spec.num_nodes <= nodes else (f"num_nodes: asked {spec.num_nodes}, has {nodes}",)
    best: tuple[str, ...] | None = None
    for request in spec.requests:
        found = common + _differences(request, running)
        if not found:
            return ()
        if best is None or len(found) < len(best):
            best = found
    return best or common


def _differences(request: Request, running: Candidate) -> tuple[str, ...]:
    offer, disk_gb = running.offer, running.request.disk_gb
    found = []
    for field, asked, has in (
        ("cloud", request.cloud, offer.cloud),
        ("zone", request.zone, offer.zone),
        ("instance_type", request.instance_type, offer.instance_type),
    ):
        if asked and asked.casefold() != has.casefold():
            found.append(_said(field, asked, has or "any"))
    if request.region and not region_matches(request.region, offer.cloud, offer.region):
        found.append(_said("region", request.region, offer.region))
    found += [
        _said("place", str(rule), str(offer.place))
        for rule in request.places
        if not is_allowed(offer.place, (rule,))
    ]
    if request.accelerator is not None and not _has_accelerator(request.accelerator, running):
        found.append(
            _said(
                "accelerators",
                str(request.accelerator),
                offer.gpus if offer.accelerator else "none",
            )
        )
    if (
        request.cpus is not None
        and offer.vcpus is not None
        and not request.cpus.allows(offer.vcpus)
    ):
        found.append(_said("cpus", str(request.cpus), f"{offer.vcpus:g}"))
    if request.memory is not None and not _memory_is_met(request, offer):
        found.append(_said("memory", str(request.memory), f"{offer.memory_gib:g} GiB"))
    if request.market is not offer.market:
        found.append(_said("use_spot", request.market.value, offer.market.value))
    if not _has_disk_tier(request.disk_tier, running.request.disk_tier):
        found.append(
            _said("disk_tier", request.disk_tier, running.request.disk_tier or "no tier of its own")
        )
    if request.network_tier == "best" and running.request.network_tier != "best":
        found.append(_said("network_tier", "best", running.request.network_tier or "standard"))
    if request.image is not None and request.image != running.request.image:
        found.append(
            _said("image_id", str(request.image), str(running.request.image or "the usual image"))
        )
    if request.disk_gb > disk_gb:
        found.append(_said("disk_size", f"{request.disk_gb} GB", f"{disk_gb} GB"))
    if request.max_hourly is not None and offer.hourly > request.max_hourly:
        found.append(
            _said(
                "max_hourly_cost",
                f"at most {exact_usd(request.max_hourly)}",
                f"{exact_usd(offer.hourly)} an hour",
            )
        )
    return tuple(found)


def _has_disk_tier(asked: str, has: str) -> bool:
    """Whether a tier is met, by itself or by a faster one.

    `best` is the best of a place, so a running cluster has it only if it was asked for.
    """
    if not asked or asked == has:
        return True
    return (
        asked in DISK_TIERS
        and has in DISK_TIERS
        and DISK_TIERS.index(asked) <= DISK_TIERS.index(has)
    )


def _said(field: str, asked: str, has: str) -> str:
    return f"{field}: asked {asked}, has {has}"


def _has_accelerator(asked: Accelerator, running: Candidate) -> bool:
    offer = running.offer
    if not offer.accelerator or offer.accelerator_count < asked.count - COUNT_TOLERANCE - 1e-9:
        return False
    if asked.memory_gib is None:
        # A name as written at planning time (`MI300`) still means what it was resolved to then.
        written = running.request.accelerator
        known = {
            offer.accelerator.casefold(),
            written.name.casefold() if written is not None else "",
        }
        return asked.name.casefold() in known
    nominal = nominal_gb(offer.accelerator_memory_gib)
    if nominal is None:
        return False
    return nominal >= asked.memory_gib if asked.memory_at_least else nominal == asked.memory_gib


def _memory_is_met(request: Request, offer: Offer) -> bool:
    if request.memory is None or offer.memory_gib is None:
        return True
    if offer.accelerator and offer.cloud in MEMORY_IS_TYPICAL:
        return True
    return request.memory.allows(offer.memory_gib, vcpus=offer.vcpus or 0.0)
