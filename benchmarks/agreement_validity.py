"""Whether a chosen offer satisfies a request: its own reader of the price files, its own reading of
`resources`, nothing of nbprov.

`agreement.py` counts a choice that is cheaper than SkyPilot's only where this says that it may be
made."""

from __future__ import annotations

import csv
import math
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

DEFAULT_FAMILIES = {
    "aws": re.compile(r"^(m6id?|m7i|r6id?|r7i|c6id?|c7i)\."),
    "azure": re.compile(r"^Standard_(D\d+s|E\d+s|F\d+s)_v[25]$"),
    "gcp": re.compile(r"^n[24]-(standard|highmem|highcpu)-\d+$"),
}
NO_DEFAULT_SIZE = {"runpod", "nebius", "do", "vast", "primeintellect"}
DEFAULT_VCPUS = {"lambda": 30.0}
DEFAULT_RATIO = {"cudo": "2x"}
NO_SPOT = {"lambda", "cudo", "do"}
NO_CLUSTER = {"runpod", "vast", "primeintellect"}
NO_DOCKER = {"cudo", "primeintellect"}
NO_VM_IMAGE = {"lambda", "cudo", "primeintellect"}
NO_TIER = {"runpod", "lambda", "vast", "cudo", "do", "primeintellect", "hyperstack"}
BEST_NETWORK = {"aws", "gcp", "nebius"}
TYPICAL_MEMORY = {"runpod", "primeintellect"}
BY_MEMORY = re.compile(r"(?:([a-z]+):)?([\d.]+)gb(\+?)", re.IGNORECASE)
SOLD_GB = (
    4,
    5,
    6,
    8,
    10,
    11,
    12,
    16,
    20,
    24,
    32,
    40,
    44,
    48,
    64,
    80,
    94,
    96,
    128,
    141,
    144,
    180,
    192,
    256,
    288,
)
UNITS = {"": 1.0, "g": 1.0, "k": 2.0**-20, "m": 2.0**-10, "t": 2.0**10, "p": 2.0**20}


@dataclass(frozen=True)
class Line:
    """One line of a price file; `device` is what it says of the accelerator itself."""

    cloud: str
    kind: str
    gpu: str
    count: float
    vcpus: float | None
    memory: float | None
    price: float | None
    spot: float | None
    region: str
    zone: str
    device: str = ""

    def hourly(self, *, spot: bool) -> float | None:
        """Dollars an hour in a market; None where it is not sold there."""
        return self.spot if spot else self.price


@dataclass
class PriceFiles:
    """The lines of `<folder>/<cloud>/vms.csv` of some clouds, found by accelerator, type and cloud."""

    folder: Path
    clouds: tuple[str, ...]
    by_gpu: dict[str, list[Line]] = field(default_factory=lambda: defaultdict(list))
    by_kind: dict[tuple[str, str], list[Line]] = field(default_factory=lambda: defaultdict(list))
    by_cloud: dict[str, list[Line]] = field(default_factory=lambda: defaultdict(list))
    names: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        for path in sorted(self.folder.glob("*/vms.csv")):
            cloud = path.parent.name
            lines = list(_read(path, cloud))
            self.names |= {line.gpu for line in lines if line.gpu}
            if cloud in self.clouds:
                for line in [*lines, *_attached(lines)] if cloud == "gcp" else lines:
                    if not line.kind:
                        continue
                    self.by_gpu[line.gpu.lower()].append(line)
                    self.by_kind[cloud, line.kind].append(line)
                    self.by_cloud[cloud].append(line)

    def accelerator(self, written: str, cloud: str = "") -> str:
        """The name that is meant, in lower case: the same but for case, else the only one that
        holds it, of a named cloud's if of all there are several.

        "" where none or several do.
        """
        low = written.lower()
        if any(name.lower() == low for name in self.names):
            return low
        holding = {name for name in self.names if low in name.lower()}
        if len(holding) > 1 and cloud:
            holding &= {line.gpu for line in self.by_cloud[cloud]}
        return holding.pop().lower() if len(holding) == 1 else ""

    def price(self, choice: Mapping[str, Any]) -> float | None:
        """What one node of a choice costs by the files; where no zone is named, the least in the
        region.
        """
        lines = self.by_kind.get((choice["cloud"], choice["instance_type"]), [])
        at = [
            line
            for line in lines
            if line.region == choice["region"] and choice.get("zone") in (None, "", line.zone)
        ]
        sold = [p for line in at if (p := line.hourly(spot=bool(choice["use_spot"]))) is not None]
        return min(sold) if sold else None


@dataclass(frozen=True)
class Alternative:
    """One way to satisfy `resources`.

    Its fields, with one accelerator demand or none, in a tier.
    """

    tier: tuple[int, int]
    fields: Mapping[str, Any]
    gpu: tuple[str, float] | None


def judge(
    resources: Mapping[str, Any] | None, nodes: int, choice: Mapping[str, Any], files: PriceFiles
) -> str:
    """Why a choice may not be made; empty where it may.

    A choice holds `cloud, region, zone, instance_type, use_spot` and `hourly`, the dollars of one
    node."""
    matching = [
        line
        for line in files.by_kind.get((choice["cloud"], choice["instance_type"]), [])
        if line.region == choice["region"] and line.zone == (choice["zone"] or "")
    ]
    if not matching:
        return "no such line in the price files"
    spot = bool(choice["use_spot"])
    prices = [line.hourly(spot=spot) for line in matching]
    if not any(p is not None and math.isclose(p, choice["hourly"], abs_tol=2e-6) for p in prices):
        return f"the price files say {prices}, the choice says {choice['hourly']}"
    ways = list(alternatives(resources or {}))
    for tier in sorted({way.tier for way in ways}):
        here = [way for way in ways if way.tier == tier]
        if any(
            is_met(way, line, nodes, files)
            for way in here
            for line in matching
            if _spot(way) == spot
        ):
            return ""
        if any(is_met(way, line, nodes, files) for way in here for line in _lines_for(way, files)):
            return "a preferred alternative has an offer"
    return "no alternative is satisfied"


def cheapest(resources: Mapping[str, Any] | None, nodes: int, files: PriceFiles) -> float | None:
    """Dollars an hour of the cheapest node that satisfies the first alternative that any satisfies;
    None where none does.
    """
    ways = list(alternatives(resources or {}))
    for tier in sorted({way.tier for way in ways}):
        prices = [
            price
            for way in ways
            if way.tier == tier
            for line in _lines_for(way, files)
            if is_met(way, line, nodes, files)
            and (price := line.hourly(spot=_spot(way))) is not None
        ]
        if prices:
            return min(prices)
    return None


def alternatives(resources: Mapping[str, Any]) -> Iterator[Alternative]:
    """Every way to satisfy `resources`.

    Items of `any_of` or `ordered` over the outer fields, times the accelerators.
    """
    outer = {k: v for k, v in resources.items() if k not in ("any_of", "ordered")}
    ordered = bool(resources.get("ordered"))
    items = resources.get("ordered") or resources.get("any_of") or [{}]
    for number, item in enumerate(items):
        fields = dict(outer)
        if "infra" in (item or {}):
            fields = {k: v for k, v in fields.items() if k not in ("cloud", "region", "zone")}
        fields.update(item or {})
        if "gpus" in (item or {}):
            fields["accelerators"] = fields.pop("gpus")
        fields.setdefault("accelerators", fields.pop("gpus", None))
        given = fields.pop("accelerators")
        for place, gpu in enumerate(_gpus(given)):
            tier = (number if ordered else 0, place if isinstance(given, list) else 0)
            yield Alternative(tier, {k: v for k, v in fields.items() if v is not None}, gpu)


def is_met(way: Alternative, line: Line, nodes: int, files: PriceFiles) -> bool:
    """Whether a line satisfies an alternative."""
    asked = way.fields
    price = line.hourly(spot=_spot(way))
    return (
        price is not None
        and _is_place(asked, line)
        and _can(asked, line, nodes, spot=_spot(way))
        and _is_machine(way, line, files)
        and not any(
            price > float(str(cap).lstrip("$"))
            for cap in (asked.get("max_hourly_cost"), asked.get("max_price"))
            if cap is not None
        )
    )


def _is_machine(way: Alternative, line: Line, files: PriceFiles) -> bool:
    asked = way.fields
    cpus, memory = asked.get("cpus"), asked.get("memory")
    if asked.get("instance_type"):
        if asked["instance_type"].lower() != line.kind.lower():
            return False
    elif way.gpu is None:
        family = DEFAULT_FAMILIES.get(line.cloud)
        if family is not None and not family.match(line.kind):
            return False
        if line.cloud not in NO_DEFAULT_SIZE:
            if cpus is None and memory is None:
                cpus = f"{DEFAULT_VCPUS.get(line.cloud, 8.0):g}+"
            memory = DEFAULT_RATIO.get(line.cloud, "4x") if memory is None else memory
    if way.gpu is not None:
        name, count = way.gpu
        by_memory = BY_MEMORY.fullmatch(name)
        is_kind = (
            _has_memory(by_memory, line)
            if by_memory
            else line.gpu.lower() == files.accelerator(name, _cloud(asked))
        )
        if not is_kind or abs(line.count - count) > 0.01:
            return False
    if not _enough(cpus, line.vcpus, line.vcpus):
        return False
    typical = line.cloud in TYPICAL_MEMORY and way.gpu is not None
    return typical or _enough(memory, line.memory, line.vcpus)


def _cloud(asked: Mapping[str, Any]) -> str:
    """The cloud that is named; "" where none is."""
    named = str(asked.get("infra") or asked.get("cloud") or "").partition("/")[0].lower()
    return "" if named == "*" else named


def _is_place(asked: Mapping[str, Any], line: Line) -> bool:
    cloud, region, zone = asked.get("cloud"), asked.get("region"), asked.get("zone")
    if asked.get("infra"):
        parts = [*str(asked["infra"]).split("/"), "*", "*"][:3]
        cloud, region, zone = (None if part == "*" else part for part in parts)
    pairs = ((cloud, line.cloud), (region, line.region), (zone, line.zone))
    return all(wanted is None or str(wanted).lower() == has.lower() for wanted, has in pairs)


def _can(asked: Mapping[str, Any], line: Line, nodes: int, *, spot: bool) -> bool:
    cloud, tier = line.cloud, str(asked.get("disk_tier") or "best").lower()
    image = asked.get("image_id")
    docker = isinstance(image, str) and image.startswith("docker:")
    if (spot and cloud in NO_SPOT) or (nodes > 1 and cloud in NO_CLUSTER):
        return False
    if image and cloud in (NO_DOCKER if docker else NO_VM_IMAGE):
        return False
    if isinstance(image, Mapping) and "docker" not in image and line.region not in image:
        return False
    if tier not in ("best", "none") and (
        cloud in NO_TIER or (cloud == "azure" and tier == "ultra")
    ):
        return False
    if (
        tier in ("medium", "high")
        and cloud == "azure"
        and not re.match(r"^Standard_[A-Z]+\d+(-\d+)?[a-z]*s", line.kind)
    ):
        return False
    if str(asked.get("network_tier")).lower() == "best":
        return cloud in BEST_NETWORK and (
            cloud != "nebius" or (line.gpu in ("H100", "H200") and line.count == 8)
        )
    return not asked.get("local_disk") or cloud == "aws"


def _enough(asked: Any, actual: float | None, vcpus: float | None) -> bool:
    if asked is None:
        return True
    match = re.fullmatch(r"\s*([\d.]+)\s*([kmgtp]?)i?b?\s*(\+|x)?\s*", str(asked).lower())
    if match is None or actual is None:
        return False
    value = float(match[1]) * UNITS[match[2]]
    if match[3] == "+":
        return actual >= value - 1e-9
    if match[3] == "x":
        return vcpus is not None and actual >= value * vcpus - 1e-9
    return math.isclose(actual, value, rel_tol=1e-6)


def _has_memory(asked: re.Match[str], line: Line) -> bool:
    """Whether the device is sold under the memory that is asked; what it reports is up to a twelfth
    less.
    """
    reported = re.search(r"SizeInMiB'?\"?: ?(\d+)", line.device)
    if (
        not line.gpu
        or reported is None
        or (asked[1] and asked[1].lower() not in line.device.lower())
    ):
        return False
    gib = float(reported[1]) / 1024
    size = next((gb for gb in SOLD_GB if gib - 0.6 <= gb <= gib * 12 / 11), gib)
    return size >= float(asked[2]) if asked[3] else size == float(asked[2])


def _gpus(given: Any) -> list[tuple[str, float] | None]:
    if given in (None, ""):
        return [None]
    if isinstance(given, str):
        head = BY_MEMORY.match(given.strip())
        name, _, count = (
            (head[0], "", given.strip()[head.end() :].lstrip(":")) if head else given.partition(":")
        )
        return [(name.strip(), float(count or 1))]
    if isinstance(given, Mapping):
        return [(n, float(c)) if c is not None else _gpus(n)[0] for n, c in given.items()]
    return [gpu for one in given for gpu in _gpus(one)]


def _spot(way: Alternative) -> bool:
    return way.fields.get("use_spot") is True


def _lines_for(way: Alternative, files: PriceFiles) -> Iterable[Line]:
    if way.gpu is not None and not BY_MEMORY.fullmatch(way.gpu[0]):
        return files.by_gpu.get(files.accelerator(way.gpu[0], _cloud(way.fields)), [])
    kind = way.fields.get("instance_type")
    if kind:
        return [line for cloud in files.clouds for line in files.by_kind.get((cloud, kind), [])]
    return [line for lines in files.by_cloud.values() for line in lines]


def _read(path: Path, cloud: str) -> Iterator[Line]:
    with path.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            yield Line(
                cloud,
                row["InstanceType"],
                row["AcceleratorName"] or "",
                _number(row["AcceleratorCount"]) or 0.0,
                _number(row.get("vCPUs")),
                _number(row.get("MemoryGiB")),
                _number(row["Price"]) or None,
                _number(row.get("SpotPrice")) or None,
                row["Region"],
                row.get("AvailabilityZone") or "",
                row.get("GpuInfo") or "",
            )


def _number(text: str | None) -> float | None:
    return float(text) if text and text.lower() != "nan" else None


def _attached(lines: Iterable[Line]) -> Iterator[Line]:
    """GCP: a host with accelerators that are sold apart, in the zone of both, under the name nbprov
    gives such a machine.
    """
    lines = list(lines)
    hosts = defaultdict(list)
    for line in lines:
        if line.kind.startswith("n1-"):
            hosts[line.region, line.zone].append(line)
    for gpu in lines:
        if gpu.kind:
            continue
        for host in hosts.get((gpu.region, gpu.zone)) or hosts.get((gpu.region, ""), []):
            price, spot = (
                None if a is None or b is None else a + b
                for a, b in ((gpu.price, host.price), (gpu.spot, host.spot))
            )
            kind = f"{host.kind}+{gpu.count:g}x{gpu.gpu}"
            yield Line(
                "gcp",
                kind,
                gpu.gpu,
                gpu.count,
                host.vcpus,
                host.memory,
                price,
                spot,
                gpu.region,
                gpu.zone,
                gpu.device,
            )
