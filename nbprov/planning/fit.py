"""Whether a running cluster serves a spec, and if not, what is in the way."""

from __future__ import annotations

from nbprov.catalog.devices import nominal_gb
from nbprov.catalog.families import MEMORY_IS_TYPICAL
from nbprov.model.clusters import ClusterView
from nbprov.model.money import format_usd
from nbprov.model.offers import Candidate, Offer
from nbprov.model.spec import COUNT_TOLERANCE, Accelerator, Request, Spec


def fits(spec: Spec, view: ClusterView) -> tuple[str, ...]:
    """Name the differences that keep a running cluster from serving a spec.

    A cluster fits if it satisfies at least one of the spec's requests: it may have more than was asked (GPUs, nodes, memory, disk), never less, and
    it must be of the same market. Ports, labels and guards are not compared: they can be changed on a running cluster.

    Returns
    -------
    tuple of str
        Empty where it fits; else the differences to the request it comes closest to, each as `field: asked …, has …`.
    """
    nodes = view.candidate.count
    common = () if spec.num_nodes <= nodes else (f"num_nodes: asked {spec.num_nodes}, has {nodes}",)
    best: tuple[str, ...] | None = None
    for request in spec.requests:
        found = common + _differences(request, view.candidate)
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
        ("region", request.region, offer.region),
        ("zone", request.zone, offer.zone),
        ("instance_type", request.instance_type, offer.instance_type),
    ):
        if asked and asked.casefold() != has.casefold():
            found.append(_said(field, asked, has or "any"))
    if request.accelerator is not None and not _has_accelerator(request.accelerator, running):
        found.append(_said("accelerators", str(request.accelerator), offer.gpus if offer.accelerator else "none"))
    if request.cpus is not None and offer.vcpus is not None and not request.cpus.allows(offer.vcpus):
        found.append(_said("cpus", str(request.cpus), f"{offer.vcpus:g}"))
    if request.memory is not None and not _memory_is_met(request, offer):
        found.append(_said("memory", str(request.memory), f"{offer.memory_gib:g} GiB"))
    if request.market is not offer.market:
        found.append(_said("use_spot", request.market.value, offer.market.value))
    if request.disk_gb > disk_gb:
        found.append(_said("disk_size", f"{request.disk_gb} GB", f"{disk_gb} GB"))
    if request.max_hourly is not None and offer.hourly > request.max_hourly:
        found.append(_said("max_hourly_cost", f"at most {format_usd(request.max_hourly)}", f"{format_usd(offer.hourly)} an hour"))
    return tuple(found)


def _said(field: str, asked: str, has: str) -> str:
    return f"{field}: asked {asked}, has {has}"


def _has_accelerator(asked: Accelerator, running: Candidate) -> bool:
    offer = running.offer
    if not offer.accelerator or offer.accelerator_count < asked.count - COUNT_TOLERANCE - 1e-9:
        return False
    if asked.memory_gib is None:
        # What was written when the cluster was planned (`MI300`) still means what it was resolved to then.
        written = running.request.accelerator
        known = {offer.accelerator.casefold(), written.name.casefold() if written is not None else ""}
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
