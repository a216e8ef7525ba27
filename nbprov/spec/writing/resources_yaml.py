"""Write requests as the map that stands under `resources`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from nbprov.model.places import Market
from nbprov.model.resources import (
    DEFAULT_DISK_GB,
    Accelerator,
    Compare,
    Image,
    PlaceGlob,
    PlaceRule,
    Quantity,
    Request,
)
from nbprov.spec.reading.resources.images import DOCKER, regions_rule
from nbprov.spec.reading.resources.place_choices import RequestedPlace, requested_places_of_infra
from nbprov.spec.reading.resources.place_patterns import WHOLE_REST, place_text
from nbprov.spec.yaml.dump import money, number

_YES_NO = {"true": True, "false": False}


def written_resources(requests: tuple[Request, ...]) -> dict[str, Any]:
    """The requests as `resources` writes them.

    Shared fields stand once, all others under `any_of` or `ordered`.
    """
    items = [written_request(request) for request in requests]
    if len(items) == 1:
        return items[0]
    tiers = [request.tier for request in requests]
    shared, own = factored(items)
    if tiers == list(range(len(tiers))):
        return {**shared, "ordered": own}
    if any(tiers):
        own = [
            {**item, "tier": tier} if tier else item for item, tier in zip(own, tiers, strict=True)
        ]
    return {**shared, "any_of": own}


def factored(items: list[dict[str, Any]]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The fields that all maps share, and the rest of each map.

    A region that an alternative names takes the place of what stands outside, zone included, so a
    zone is shared only where the cloud and the region are.
    """
    same = {
        key: all(item.get(key) == items[0].get(key) for item in items)
        for key in {key: None for item in items for key in item}
    }
    same["region"] = same.get("region", True) and same.get("cloud", True)
    same["zone"] = same.get("zone", True) and same["region"]
    shared = {key: value for key, value in items[0].items() if same[key]}
    return shared, [
        {key: value for key, value in item.items() if key not in shared} for item in items
    ]


def written_request(request: Request) -> dict[str, Any]:
    """One request as a map.

    It leaves out what is not demanded, and the rule that an image by region implies.
    """
    implied = regions_rule(request.image, request.region)
    request = replace(request, places=tuple(rule for rule in request.places if rule not in implied))
    written: dict[str, Any] = {
        **_place(request),
        "instance_type": request.instance_type,
        "accelerators": _accelerator(request.accelerator),
        "accelerator_args": {
            name: _YES_NO.get(value, value) for name, value in request.accelerator_args
        },
        "cpus": _quantity(request.cpus),
        "memory": _quantity(request.memory),
        "use_spot": request.market is Market.SPOT,
        "image_id": written_image(request.image),
        "disk_size": request.disk_gb if request.disk_gb != DEFAULT_DISK_GB else None,
        "disk_tier": request.disk_tier,
        "network_tier": request.network_tier,
        "local_disk": _local_disk(request),
        "ports": [f"{low}-{high}" if high > low else low for low, high in request.ports],
        "labels": dict(request.labels),
        "max_hourly_cost": None if request.max_hourly is None else money(request.max_hourly),
    }
    return {key: value for key, value in written.items() if value}


def _place(request: Request) -> dict[str, Any]:
    names = PlaceGlob(request.cloud, request.region, request.zone)
    if request.cloud in WHOLE_REST and request.zone:
        written: dict[str, Any] = {
            "cloud": request.cloud,
            "region": request.region,
            "zone": request.zone,
        }
    else:
        written = {"infra": place_text(names) if names != PlaceGlob() else ""}
        as_map = _infra_map(request, names)
        if as_map is not None:
            return {"infra": as_map}
    return {**written, "places": [_rule(rule) for rule in request.places]}


def _infra_map(request: Request, names: PlaceGlob) -> dict[str, Any] | None:
    """A single rule and the names beside it as one `infra` map, if it reads back as the same."""
    if len(request.places) != 1:
        return None
    (rule,) = request.places
    allow = [
        PlaceGlob(glob.cloud or names.cloud, glob.region or names.region, glob.zone or names.zone)
        for glob in rule.allow or (PlaceGlob(),)
    ]
    wish = RequestedPlace(names.cloud, names.region, names.zone, request.places)
    if requested_places_of_infra(allow, rule.deny) != (wish,):
        return None
    said = {
        "allow": [place_text(glob) for glob in allow if glob != PlaceGlob()],
        "deny": [place_text(glob) for glob in rule.deny],
    }
    return {key: value for key, value in said.items() if value}


def _rule(rule: PlaceRule) -> dict[str, Any]:
    said = {
        "allow": [place_text(glob) for glob in rule.allow],
        "deny": [place_text(glob) for glob in rule.deny],
    }
    return {key: value for key, value in said.items() if value}


def written_image(image: Image | None) -> str | dict[str, str] | None:
    """An image as `image_id` writes it."""
    if image is None:
        return None
    if not image.machine:
        return f"{DOCKER}{image.docker}"
    if not image.docker and image.machine[0][0] == "" and len(image.machine) == 1:
        return image.machine[0][1]
    return {**({"docker": image.docker} if image.docker else {}), **dict(image.machine)}


def _local_disk(request: Request) -> str:
    disk = request.local_disk
    return (
        "" if disk is None else f"{disk.kind}:{number(disk.size_gb)}{'+' if disk.at_least else ''}"
    )


def _accelerator(kind: Accelerator | None) -> str:
    if kind is None:
        return ""
    head = kind.name
    if kind.memory_gib is not None:
        maker = f"{kind.maker}:" if kind.maker else ""
        head = f"{maker}{number(kind.memory_gib)}GB{'+' if kind.memory_at_least else ''}"
    return f"{head}:{number(kind.count)}"


def _quantity(quantity: Quantity | None) -> str:
    if quantity is None:
        return ""
    return (
        number(quantity.value)
        + {Compare.EXACTLY: "", Compare.AT_LEAST: "+", Compare.PER_VCPU: "x"}[quantity.compare]
    )
