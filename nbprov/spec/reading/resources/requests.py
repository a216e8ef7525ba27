"""Expand `resources` into requests, in preference tiers.

Alternatives, accelerators, places and markets are multiplied out in a fixed order.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from nbprov.model.remarks import Origin
from nbprov.model.resources import Accelerator, Request
from nbprov.spec.reading.field_reader import join
from nbprov.spec.reading.guards import AutostopField
from nbprov.spec.schema.registry import Section
from nbprov.spec.yaml.diagnostics import Findings
from nbprov.spec.yaml.nodes import Mapping, Mark, Node, Sequence, describe, is_null

from .accelerators import is_tpu, tpu_place
from .disks import LOCAL_DISK_CLOUDS
from .images import image_in, regions_rule
from .layer import ResourceLayer, read_layer
from .place_choices import MAX_REQUESTS, RequestedPlace, TooManyRequests, requested_places

TierKey = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Resources:
    """The value of `resources`: the requests, and what all of them share.

    Attributes
    ----------
    recovery
        Where a preempted cluster is replaced: `failover`, `eager_next_region`, or empty.
    """

    requests: tuple[Request, ...] = (Request(),)
    autostop: AutostopField | None = None
    recovery: str = ""


def read_resources(node: Node, findings: Findings) -> Resources:
    """Read the value of `resources`: a map, or a list of maps, which is read as `ordered`."""
    try:
        return _read(node, findings)
    except TooManyRequests:
        message = f"more than {MAX_REQUESTS:,} alternatives once all lists are multiplied out"
        hint = (
            "leave out lists: a field that is absent means any; a pattern is one alternative: "
            "region: [us-*]"
        )
        findings.error(node.start, "resources", "too-many", message, hint)
        return Resources()


def _read(node: Node, findings: Findings) -> Resources:
    path = "resources"
    if isinstance(node, Sequence):
        findings.note(
            node.start,
            path,
            "ordered",
            "a list under resources is read as `ordered`: the first is the first choice",
        )
        layers = _items(node, path, findings, ordered=True)
        return _expanded(
            _bounded(layers, ResourceLayer(node.start, path), findings),
            ordered=True,
            findings=findings,
        )
    if not isinstance(node, Mapping):
        example = "resources: {accelerators: A100:8}"
        findings.error(
            node.start,
            path,
            "type",
            f"resources must be a map, not {describe(node)}",
            f"write {example}",
        )
        return Resources()
    outer = read_layer(node, Section.RESOURCES, path, findings)
    if outer is None:
        return Resources()
    kind = _kind_of_alternatives(node, findings)
    if kind is None:
        return _expanded([outer], ordered=False, findings=findings)
    items = node.get(kind)
    if not isinstance(items, Sequence):
        given = describe(items) if items is not None else "nothing"
        at = items.start if items is not None else node.start
        findings.error(
            at,
            join(path, kind),
            "type",
            f"{kind} must be a list of maps, not {given}",
            f"write {kind}: [{{infra: aws}}]",
        )
        return Resources()
    layers = _items(items, join(path, kind), findings, ordered=kind == "ordered")
    merged = _bounded(layers, outer, findings)
    if kind == "ordered":
        _refuse_two_orders(outer, layers, findings)
    return _expanded(merged, ordered=kind == "ordered", findings=findings)


def _kind_of_alternatives(node: Mapping, findings: Findings) -> str | None:
    """`any_of` or `ordered`, whichever has entries; a problem if both have."""
    found = []
    for key, value in node.pairs:
        is_empty = is_null(value) or (isinstance(value, Sequence) and not value.items)
        if key.text in ("any_of", "ordered") and not is_empty:
            found.append(key)
    if len(found) > 1:
        message = (
            f"any_of and ordered are both given (lines {found[0].start.line} and "
            f"{found[1].start.line})"
        )
        hint = "keep one: any_of for the cheapest, ordered for the first"
        findings.error(found[1].start, join("resources", found[1].text), "two-lists", message, hint)
    return found[0].text if found else None


def _items(node: Sequence, path: str, findings: Findings, *, ordered: bool) -> list[ResourceLayer]:
    if len(node.items) > MAX_REQUESTS:
        raise TooManyRequests
    layers = []
    for number, item in enumerate(node.items):
        here = f"{path}[{number}]"
        layer = (
            ResourceLayer(item.start, here)
            if is_null(item)
            else read_layer(item, Section.ITEM, here, findings)
        )
        if layer is not None:
            if ordered and "tier" in layer.given:
                message = "tier stands in a list that is ordered already"
                findings.error(
                    layer.at, join(here, "tier"), "two-orders", message, "use any_of with tier"
                )
            layers.append(layer)
    return layers


def _bounded(
    layers: list[ResourceLayer], outer: ResourceLayer, findings: Findings
) -> list[ResourceLayer]:
    """The alternatives over the outer map, up to the limit of requests."""
    merged, total = [], 0
    for layer in layers:
        merged.append(layer.over(outer, findings))
        total += len(merged[-1].place_choices)
        if total > MAX_REQUESTS:
            raise TooManyRequests
    return merged


def _refuse_two_orders(
    outer: ResourceLayer, items: list[ResourceLayer], findings: Findings
) -> None:
    gpus = outer.accelerators
    if gpus is None or not gpus.ordered or len(gpus.kinds) < 2 or len(items) < 2:
        return
    if any("accelerators" not in item.given for item in items):
        names = ", ".join(str(kind) for kind in gpus.kinds)
        message = "two orders: a list of accelerators and a list of ordered alternatives"
        hint = (
            f"keep one: accelerators: {{{names}}} beside `ordered`, or accelerators: [{names}] "
            "with any_of in place of `ordered`"
        )
        findings.error(gpus.at, "resources.accelerators", "two-orders", message, hint)


def _expanded(layers: list[ResourceLayer], *, ordered: bool, findings: Findings) -> Resources:
    placed = [(layer, _places(layer, findings)) for layer in layers]
    if (
        sum(len(_kinds(layer)) * len(places) * len(layer.use_spot) for layer, places in placed)
        > MAX_REQUESTS
    ):
        raise TooManyRequests
    found: dict[tuple[Any, ...], tuple[TierKey, dict[str, Any]]] = {}
    for number, (layer, places) in enumerate(placed):
        _check_layer(layer, findings)
        for key, tier, demands in _each(layer, places, number if ordered else layer.tier, findings):
            known = found.get(key)
            found[key] = (tier, demands) if known is None else (min(known[0], tier), known[1])
    ranks = {tier: rank for rank, tier in enumerate(sorted({tier for tier, _ in found.values()}))}
    requests = tuple(
        Request(index=n, tier=ranks[tier], **demands)
        for n, (tier, demands) in enumerate(found.values())
    )
    requests = _without_impossible_disks(requests, layers, findings)
    _agree(layers, "priority", findings)
    recovery = _agree(layers, "job_recovery", findings) or ""
    return Resources(requests or (Request(),), _common_autostop(layers, findings), recovery)


def _places(layer: ResourceLayer, findings: Findings) -> tuple[RequestedPlace, ...]:
    found = requested_places(layer.place_choices)
    if not found:
        at, path = next(
            (layer.seen[n] for n in ("infra", "zone", "region", "cloud") if n in layer.seen),
            (layer.at, layer.path),
        )
        findings.error(
            at,
            path,
            "empty",
            f"{path}: no place is left once what is denied is taken out",
            "take a place out of deny",
        )
    return found


def _kinds(layer: ResourceLayer) -> tuple[Accelerator | None, ...]:
    return layer.accelerators.kinds if layer.accelerators else (None,)


def _check_layer(layer: ResourceLayer, findings: Findings) -> None:
    if layer.accelerator_args and not any(is_tpu(kind) for kind in _kinds(layer)):
        at, path = layer.where("accelerator_args")
        message = f"{path} are options of a TPU, and none is asked for"
        findings.error(
            at, path, "tpu", message, "leave them out, or write accelerators: tpu-v5litepod-8"
        )


def _each(
    layer: ResourceLayer, places: tuple[RequestedPlace, ...], first: int, findings: Findings
) -> Iterator[tuple[tuple[Any, ...], TierKey, dict[str, Any]]]:
    """The requests of one layer in the order of the loops: key, tier and demands of each."""
    common = _common_demands(layer)
    shared = tuple(common.values())
    origin = Origin(layer.path, layer.at.line)
    gpu_order = layer.accelerators is not None and layer.accelerators.ordered
    for gpu_number, kind in enumerate(_kinds(layer)):
        kind_key = kind and (
            kind.name.casefold(),
            kind.count,
            kind.memory_gib,
            kind.memory_at_least,
            kind.maker,
        )
        args = layer.accelerator_args if is_tpu(kind) else ()
        for place in places:
            rank = place.rank
            if kind is not None and is_tpu(kind):
                at, path = layer.where("accelerators")
                place = tpu_place(kind, place, layer.instance_type, at, path, findings)
            image = layer.image_id and image_in(
                layer.image_id, place, layer.network_tier, *layer.where("image_id"), findings
            )
            rules = tuple(
                dict.fromkeys((*place.rules, *layer.places, *regions_rule(image, place.region)))
            )
            where = (place.cloud, place.region.casefold(), place.zone.casefold(), rules)
            demands = {
                **common,
                "origin": origin,
                "accelerator": kind,
                "accelerator_args": args,
                "cloud": place.cloud,
                "region": place.region,
                "zone": place.zone,
                "places": rules,
                "image": image,
            }
            for market_number, market in enumerate(layer.use_spot):
                tier = (first, gpu_number if gpu_order else 0, *rank, market_number)
                yield (
                    (where, kind_key, market, args, image, shared),
                    tier,
                    {**demands, "market": market},
                )


def _common_demands(layer: ResourceLayer) -> dict[str, Any]:
    return {
        "instance_type": layer.instance_type,
        "cpus": layer.cpus,
        "memory": layer.memory,
        "disk_gb": layer.disk_size,
        "ports": layer.ports,
        "labels": tuple(sorted(layer.labels.items())),
        "max_hourly": layer.cap,
        "disk_tier": layer.disk_tier,
        "network_tier": layer.network_tier,
        "local_disk": layer.local_disk,
        "lines": tuple((name, mark.line) for name, (mark, _) in layer.seen.items()),
    }


def _without_impossible_disks(
    requests: tuple[Request, ...], layers: list[ResourceLayer], findings: Findings
) -> tuple[Request, ...]:
    """Refuse local disks if all named places have none.

    If the person ignores the field the demand is dropped instead.
    """
    asking = [r for r in requests if r.local_disk is not None]
    if (
        not asking
        or len(asking) < len(requests)
        or any(r.cloud in LOCAL_DISK_CLOUDS for r in asking)
    ):
        return requests
    at, path = layers[0].where("local_disk")
    message = (
        f"local_disk: no machine of {asking[0].cloud} is known to have a disk inside; the program "
        "would not find it"
    )
    findings.cannot_honour(at, path, "local_disk", message, "write infra: aws")
    return tuple(replace(r, local_disk=None) for r in requests)


def _agree(layers: list[ResourceLayer], name: str, findings: Findings) -> Any:
    """The value that all layers give to a field of the whole cluster; a problem if they differ."""
    for layer in layers[1:]:
        if getattr(layer, name) != getattr(layers[0], name):
            at, path = layer.where(name)
            message = f"alternatives must agree on {name}: one cluster comes of them"
            findings.error(
                at,
                path,
                f"{name.replace('_', '-')}-differs",
                message,
                f"write {name} once, under resources",
            )
            break
    return getattr(layers[0], name) if layers else None


def _common_autostop(layers: list[ResourceLayer], findings: Findings) -> AutostopField | None:
    if not layers:
        return None
    first = layers[0].autostop
    for layer in layers[1:]:
        other = layer.autostop
        if (first and first.autostop) != (other and other.autostop) or (first is None) != (
            other is None
        ):
            at: Mark = other.at if other else layer.at
            message = "alternatives must agree on autostop: one cluster comes of them"
            findings.error(
                at,
                join(layer.path, "autostop"),
                "autostop-differs",
                message,
                "write autostop once, under resources",
            )
            break
    return first
