"""Write a spec as the task YAML that SkyPilot reads, and name what is lost."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from nbprov.model.guards import Autostop
from nbprov.model.money import exact_usd
from nbprov.model.resources import PlaceGlob, Request
from nbprov.model.run_policies import ConfirmAbove, OrderPolicy, Race, WaitPolicy
from nbprov.model.spec import KEEP, HealthCheck, Spec
from nbprov.spec.reading.resources.images import regions_rule
from nbprov.spec.reading.resources.place_patterns import place_text
from nbprov.spec.yaml.dump import Number, dumped, duration

from .resources_yaml import factored, written_request
from .spec_yaml import written_autostop, written_program

CLOUDS = frozenset(
    [
        "aws",
        "azure",
        "cudo",
        "do",
        "fluidstack",
        "gcp",
        "hyperbolic",
        "ibm",
        "kubernetes",
        "lambda",
        "mithril",
        "nebius",
        "oci",
        "paperspace",
        "primeintellect",
        "runpod",
        "scp",
        "seeweb",
        "shadeform",
        "slurm",
        "ssh",
        "vast",
        "verda",
        "vsphere",
        "yotta",
    ]
)
"""The clouds that SkyPilot 0.14 knows."""

COUNTRY_REGIONS = frozenset({"runpod", "vast"})
"""Clouds whose regions have names of countries. Elsewhere such a name means all regions there,
which SkyPilot cannot express.
"""

_CONTINENTS = frozenset(
    {"africa", "america", "asia", "europe", "north america", "oceania", "south america"}
)


@dataclass(frozen=True, slots=True)
class SkyPilotTask:
    """A task for SkyPilot.

    Attributes
    ----------
    text
        YAML.
    lost
        What SkyPilot cannot express or reads differently, one line each.
    """

    text: str
    lost: tuple[str, ...]


def to_skypilot(spec: Spec) -> SkyPilotTask:
    """Write a spec as a task that SkyPilot 0.14 accepts.

    Literal places become `any_of`, tiers become `ordered`.

    Examples
    --------
    >>> from nbprov.spec import parse
    >>> resources = "{accelerators: L4, region: [us-east-1, us-west-2], autostop: 10}"
    >>> task = to_skypilot(parse(f"{{resources: {resources}, race: 3}}"))
    >>> print(task.text, *task.lost, sep="")
    resources:
      accelerators: L4:1
      any_of:
      - infra: "*/us-east-1"
      - infra: "*/us-west-2"
      autostop:
        idle_minutes: 10
    race: SkyPilot tries one place at a time
    """
    lost: dict[str, None] = {}
    resources = _resources(spec.requests, lost)
    if spec.guards.autostop is not None:
        resources["autostop"] = _autostop(spec.guards.autostop, lost)
    if spec.recovery:
        resources["job_recovery"] = spec.recovery.upper()
    program = written_program(spec)
    if len(spec.inputs) > 1:
        del program["inputs"]
        lost["inputs: SkyPilot takes the size of one bucket"] = None
    lost.update(dict.fromkeys(_lost_fields(spec)))
    return SkyPilotTask(dumped({"resources": resources, **program}), tuple(lost))


def _resources(requests: tuple[Request, ...], lost: dict[str, None]) -> dict[str, Any]:
    known = [request for request in requests if request.cloud in CLOUDS or not request.cloud]
    for request in requests:
        if request.cloud and request.cloud not in CLOUDS:
            without = "the alternative is left out" if known else "any place will do there"
            lost[
                f"{_place(request)}: SkyPilot does not know the cloud {request.cloud}; {without}"
            ] = None
    kept = sorted(
        known or [replace(r, cloud="", region="", zone="", places=()) for r in requests],
        key=lambda r: (r.tier, r.index),
    )
    items: list[dict[str, Any]] = []
    tiers: list[int] = []
    for number, request in enumerate(kept):
        item = _item(request, kept[:number], lost)
        if item not in items:
            items.append(item)
            tiers.append(request.tier)
    if len({tuple(sorted(item.get("labels", {}).items())) for item in items}) > 1:
        lost["labels: SkyPilot gives the labels of one alternative to the others too"] = None
    if len(items) == 1:
        return items[0]
    shared, own = factored(items)
    if tiers[0] == tiers[-1]:
        return {**shared, "any_of": own}
    if len(set(tiers)) < len(tiers):
        lost[
            "ordered: among alternatives that are equally good here SkyPilot takes the first in "
            "the list, not the cheapest"
        ] = None
    return {**shared, "ordered": own}


def _item(request: Request, earlier: list[Request], lost: dict[str, None]) -> dict[str, Any]:
    plain = replace(request, places=())
    for rule in (
        rule for rule in request.places if rule not in regions_rule(request.image, request.region)
    ):
        missing = [place_text(glob) for glob in rule.allow]
        missing += [
            f"not {place_text(glob)}" for glob in rule.deny if not _is_tried(glob, request, earlier)
        ]
        if missing:
            place = _place(request)
            lost[
                f"{' '.join(missing)}: SkyPilot has no patterns of places; {place or 'any place'} "
                "is asked for"
            ] = None
    region = request.region.casefold()
    is_country = (
        len(region) == 2
        and region.isalpha()
        and request.cloud not in COUNTRY_REGIONS
        and request.cloud != ""
    )
    if is_country or region in _CONTINENTS or region == "eu":
        lost[
            f"region {request.region}: SkyPilot has no countries or continents; any region is "
            "asked for"
        ] = None
        plain = replace(plain, region="")
    image = request.image
    if image is not None and image.docker and any(not where for where, _ in image.machine):
        lost["image_id: SkyPilot takes a machine image below a container only by region"] = None
        plain = replace(plain, image=replace(image, machine=()))
    kind = request.accelerator
    if kind is not None and kind.memory_gib is not None and not kind.count.is_integer():
        whole = replace(kind, count=float(math.ceil(kind.count)))
        lost[
            f"accelerators {kind}: SkyPilot counts whole devices where memory chooses them; "
            f"{whole} is asked for"
        ] = None
        plain = replace(plain, accelerator=whole)
    return {key: value for key, value in written_request(plain).items() if key != "places"}


def _is_tried(denied: PlaceGlob, request: Request, earlier: list[Request]) -> bool:
    """Whether an earlier choice names a denied place, so that `ordered` says the same."""
    place = (
        denied.cloud or request.cloud,
        denied.region or request.region,
        denied.zone or request.zone,
    )
    return any((r.cloud, r.region, r.zone) == place and r.tier < request.tier for r in earlier)


def _place(request: Request) -> str:
    return (
        place_text(PlaceGlob(request.cloud, request.region, request.zone))
        .removeprefix("*/")
        .strip("*")
    )


def _autostop(autostop: Autostop, lost: dict[str, None]) -> dict[str, Any]:
    minutes = math.ceil(autostop.idle / 60)
    if minutes * 60 != autostop.idle:
        lost[f"autostop: SkyPilot counts whole minutes; {minutes} are asked for"] = None
    if autostop.down_after is not None:
        lost["autostop.down_after: SkyPilot keeps a stopped machine until you end it"] = None
    written = {
        **written_autostop(replace(autostop, down_after=None)),
        "idle_minutes": Number(str(minutes)),
    }
    if "hook_timeout" in written:
        written["hook_timeout"] = Number(str(math.ceil(autostop.hook_timeout)))
    return written


def _lost_fields(spec: Spec) -> Iterator[str]:
    guards = spec.guards
    if guards.max_lifetime is not None:
        yield f"max_lifetime: SkyPilot ends nothing after {duration(guards.max_lifetime)}"
    if guards.budget is not None:
        yield f"budget: SkyPilot goes on beyond {exact_usd(guards.budget)}"
    if any(request.max_hourly is not None for request in spec.requests):
        yield "max_price: SkyPilot's max_hourly_cost filters types by their cheapest place only"
    if any(request.ports for request in spec.requests) and not spec.expose.everything:
        yield "expose: SkyPilot opens all ports to the whole internet"
    if spec.prefer is not OrderPolicy.CHEAPEST:
        yield "prefer: SkyPilot takes the cheapest"
    if spec.race != Race():
        yield "race: SkyPilot tries one place at a time"
    if spec.wait != WaitPolicy():
        yield "wait: SkyPilot makes one pass, or waits without end with --retry-until-up"
    if spec.confirm_above != ConfirmAbove():
        yield "confirm_above: SkyPilot asks nothing once it has begun"
    if spec.engine is not None:
        yield f"engine: SkyPilot starts no {spec.engine.kind}; start it in run"
    if spec.health != HealthCheck():
        yield "health: SkyPilot does not check its machines so"
    if spec.python is not None:
        yield "python: SkyPilot makes no environment; install what is needed in setup"
    if spec.on_setup_failure != KEEP:
        yield "on_setup_failure: SkyPilot keeps a machine whose setup failed"
    if spec.outputs:
        yield "outputs: SkyPilot copies nothing back"
