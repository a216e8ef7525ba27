"""From `resources` to requests: alternatives, accelerators, places and markets expanded in a defined order, in preference tiers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from nbprov.model.places import Market
from nbprov.model.spec import Accelerator, Origin, Request

from .fields import Where
from .guards import GivenAutostop
from .layers import Layer, read_layer
from .nodes import Mapping, Node, Sequence, describe, is_null
from .problems import Findings
from .scalars import Triple
from .values import join

MAX_REQUESTS = 1000
"""More alternatives than this is a mistake: no plan has so many kinds of machines."""

TierKey = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class Resources:
    """What `resources` says: the requests, and the autostop that all of them share."""

    requests: tuple[Request, ...] = (Request(),)
    autostop: GivenAutostop | None = None


def read_resources(node: Node, findings: Findings) -> Resources:
    """Read the value of `resources`: a map, or a list of maps, which is read as `ordered`."""
    path = "resources"
    if isinstance(node, Sequence):
        findings.note(node.start, path, "ordered", "a list under resources is read as `ordered`: the first is the first choice")
        outer = Layer(node.start, path)
        layers = _items(node, path, findings, ordered=True)
        return _expanded(outer, layers, ordered=True, findings=findings)
    if not isinstance(node, Mapping):
        example = "resources: {accelerators: A100:8}"
        findings.error(node.start, path, "type", f"resources must be a map, not {describe(node)}", f"write {example}")
        return Resources()
    outer_read = read_layer(node, Where.RESOURCES, path, findings)
    if outer_read is None:
        return Resources()
    kind = _kind_of_alternatives(node, findings)
    if kind is None:
        return _expanded(outer_read, [outer_read], ordered=False, findings=findings)
    items = node.get(kind)
    if not isinstance(items, Sequence):
        given = describe(items) if items is not None else "nothing"
        findings.error(
            node.start, join(path, kind), "type", f"{kind} must be a list of maps, not {given}", f"write {kind}: [{{infra: aws}}]"
        )
        return Resources()
    layers = _items(items, join(path, kind), findings, ordered=kind == "ordered")
    merged = [layer.over(outer_read, findings) for layer in layers]
    if kind == "ordered":
        _refuse_two_orders(outer_read, layers, merged, findings)
    return _expanded(outer_read, merged, ordered=kind == "ordered", findings=findings)


def _kind_of_alternatives(node: Mapping, findings: Findings) -> str | None:
    """`any_of` or `ordered`, whichever is there and not empty; a problem where both are."""
    found = []
    for key, value in node.pairs:
        is_empty = is_null(value) or (isinstance(value, Sequence) and not value.items)
        if key.text in ("any_of", "ordered") and not is_empty:
            found.append(key)
    if len(found) > 1:
        message = f"any_of and ordered are both given (lines {found[0].start.line} and {found[1].start.line})"
        findings.error(
            found[1].start,
            join("resources", found[1].text),
            "two-lists",
            message,
            "keep one: any_of for the cheapest, ordered for the first",
        )
    return found[0].text if found else None


def _items(node: Sequence, path: str, findings: Findings, *, ordered: bool) -> list[Layer]:
    layers = []
    for number, item in enumerate(node.items):
        here = f"{path}[{number}]"
        layer = Layer(item.start, here) if is_null(item) else read_layer(item, Where.ITEM, here, findings)
        if layer is not None:
            if ordered and "tier" in layer.given:
                findings.error(
                    layer.at, join(here, "tier"), "two-orders", "tier stands in a list that is ordered already", "use any_of with tier"
                )
            layers.append(layer)
    return layers


def _refuse_two_orders(outer: Layer, items: list[Layer], merged: list[Layer], findings: Findings) -> None:
    gpus = outer.accelerators
    if gpus is None or not gpus.ordered or len(gpus.kinds) < 2 or len(merged) < 2:
        return
    if any("accelerators" not in item.given for item in items):
        names = [str(kind) for kind in gpus.kinds]
        message = "two orders: a list of accelerators and a list of ordered alternatives"
        any_gpu = "{" + ", ".join(names) + "}"
        one_each = " ".join(f"- accelerators: {name}" for name in names[:2])
        findings.error(
            gpus.at, "resources.accelerators", "two-orders", message, f"write accelerators: {any_gpu} for any, or in ordered: {one_each}"
        )


def _expanded(outer: Layer, layers: list[Layer], *, ordered: bool, findings: Findings) -> Resources:
    total = sum(len(_kinds(layer)) * len(layer.places) * len(layer.use_spot) for layer in layers)
    if total > MAX_REQUESTS:
        message = f"{total:,} alternatives once all lists are multiplied out; at most {MAX_REQUESTS:,}"
        findings.error(outer.at, "resources", "too-many", message, "leave out lists: a field that is absent means any")
        return Resources()
    autostop = _common_autostop(layers, findings)
    merged: dict[Request, tuple[Request, TierKey]] = {}
    for request, key in _each(layers, ordered=ordered):
        same = _identity(request)
        if same not in merged:
            merged[same] = (request, key)
        else:
            merged[same] = (merged[same][0], min(merged[same][1], key))
    ranks = {key: rank for rank, key in enumerate(sorted({key for _, key in merged.values()}))}
    requests = tuple(replace(r, index=n, tier=ranks[key]) for n, (r, key) in enumerate(merged.values()))
    return Resources(requests or (Request(),), autostop)


def _each(layers: list[Layer], *, ordered: bool) -> Iterator[tuple[Request, TierKey]]:
    for number, layer in enumerate(layers):
        gpu_order = layer.accelerators is not None and layer.accelerators.ordered
        for gpu_number, kind in enumerate(_kinds(layer)):
            for place in layer.places:
                for market_number, market in enumerate(layer.use_spot):
                    first = number if ordered else layer.tier
                    yield _request(layer, kind, place, market), (first, gpu_number if gpu_order else 0, market_number)


def _kinds(layer: Layer) -> tuple[Accelerator | None, ...]:
    return layer.accelerators.kinds if layer.accelerators else (None,)


def _request(layer: Layer, kind: Accelerator | None, place: Triple, market: Market) -> Request:
    return Request(
        origin=Origin(layer.path, layer.at.line),
        cloud=place.cloud,
        region=place.region,
        zone=place.zone,
        instance_type=layer.instance_type,
        accelerator=kind,
        cpus=layer.cpus,
        memory=layer.memory,
        market=market,
        disk_gb=layer.disk_size,
        ports=layer.ports,
        labels=tuple(sorted(layer.labels.items())),
        max_hourly=layer.cap,
    )


def _identity(request: Request) -> Request:
    """The request without what does not matter to what it asks for: names in any case, where it was written."""
    kind = request.accelerator
    return replace(
        request,
        origin=Origin(""),
        region=request.region.casefold(),
        zone=request.zone.casefold(),
        accelerator=kind and replace(kind, name=kind.name.casefold()),
    )


def _common_autostop(layers: list[Layer], findings: Findings) -> GivenAutostop | None:
    if not layers:
        return None
    first = layers[0].autostop
    for layer in layers[1:]:
        other = layer.autostop
        if (first and first.autostop) != (other and other.autostop) or (first is None) != (other is None):
            at = other.at if other else layer.at
            message = "alternatives must agree on autostop: one cluster comes of them"
            findings.error(at, join(layer.path, "autostop"), "autostop-differs", message, "write autostop once, under resources")
            break
    return first
