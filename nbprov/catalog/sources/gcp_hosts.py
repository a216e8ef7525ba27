"""Join GCP accelerators with their hosts, since a catalogue row is always a whole machine.

GCP sells T4, V100, P100, P4 and K80 apart; they attach to N1 machines of many sizes. Files that
SkyPilot hosts split every other GPU machine too (`a2-highgpu-8g` without accelerator, and `A100:8`
without a type), and the two prices are added. A file that lists whole machines shows it by naming
the accelerator on the type's own line.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping

from nbprov.model.money import Micros

from .price_entry import PriceEntry, Reading

CLOUD = "gcp"
JOINER = "+"
NO_HOST = "accelerator without a known host"
HOST_ALONE = "host that is not sold without its accelerator"

# The most vCPUs and GiB that Google allows beside this many accelerators. A few zones have lower
# memory limits, which the cloud itself enforces.
_LIMITS: Mapping[str, Mapping[int, tuple[int, int]]] = {
    "K80": {1: (8, 52), 2: (16, 104), 4: (32, 208), 8: (64, 208)},
    "P4": {1: (24, 156), 2: (48, 312), 4: (96, 624)},
    "P100": {1: (16, 104), 2: (32, 208), 4: (96, 624)},
    "T4": {1: (48, 312), 2: (48, 312), 4: (96, 624)},
    "V100": {1: (12, 78), 2: (24, 156), 4: (48, 312), 8: (96, 624)},
}
# The vCPUs that such machines usually have (as AWS p2, p3 and g4dn do). A host with fewer is
# offered only to queries that ask for it.
_USUAL_VCPUS: Mapping[str, Mapping[int, int]] = {
    "K80": {1: 4, 2: 8, 4: 16, 8: 32},
    "P4": {1: 8, 2: 16, 4: 32},
    "P100": {1: 8, 2: 16, 4: 32},
    "T4": {1: 4, 2: 8, 4: 48},
    "V100": {1: 8, 2: 16, 4: 32, 8: 64},
}
_USUAL_FAMILY = "n1-standard-"
_HOST = re.compile(r"^n1-(standard|highmem|highcpu)-\d+$")

_G2 = {4: 1, 8: 1, 12: 1, 16: 1, 32: 1, 24: 2, 48: 4, 96: 8}
_FIXED = (
    (re.compile(r"^a2-(?:highgpu|megagpu)-(\d+)g$"), "A100"),
    (re.compile(r"^a2-ultragpu-(\d+)g$"), "A100-80GB"),
    (re.compile(r"^a3-(?:highgpu|edgegpu)-(\d+)g$"), "H100"),
    (re.compile(r"^a3-megagpu-(\d+)g$"), "H100-MEGA"),
    (re.compile(r"^a3-ultragpu-(\d+)g$"), "H200"),
    (re.compile(r"^a4-highgpu-(\d+)g$"), "B200"),
    (re.compile(r"^g2-standard-(\d+)$"), "L4"),
    (re.compile(r"^g4-standard-(\d+)$"), "RTXPRO6000"),
)

Place = tuple[str, str]


def fixed_accelerator(instance_type: str) -> tuple[str, float] | None:
    """Return the accelerators that a type always has, if its name tells.

    Examples
    --------
    >>> fixed_accelerator("a2-highgpu-8g"), fixed_accelerator("n2-standard-8")
    (('A100', 8.0), None)
    """
    for pattern, accelerator in _FIXED:
        match = pattern.match(instance_type)
        if match:
            size = int(match.group(1))
            if accelerator == "L4":
                return ("L4", float(_G2[size])) if size in _G2 else None
            return accelerator, size / 48 if accelerator == "RTXPRO6000" else float(size)
    return None


def join(reading: Reading) -> None:
    """Join accelerators and hosts that are listed apart into whole machines, in place."""
    apart = [e for e in reading.entries if not e.instance_type]
    whole = [e for e in reading.entries if e.instance_type]
    split_hosts = [e for e in whole if not e.accelerator and fixed_accelerator(e.instance_type)]
    if not apart and not split_hosts:
        return
    n1: dict[Place, list[PriceEntry]] = defaultdict(list)
    fixed: dict[tuple[Place, str, float], list[PriceEntry]] = defaultdict(list)
    for entry in whole:
        place = (entry.region, entry.zone)
        if _HOST.match(entry.instance_type):
            n1[place].append(entry)
    for entry in split_hosts:
        found = fixed_accelerator(entry.instance_type)
        if found is not None:
            fixed[((entry.region, entry.zone), *found)].append(entry)
    taken = {id(e) for e in split_hosts}
    result = [e for e in whole if id(e) not in taken]
    used: set[int] = set()
    for device in apart:
        if device.accelerator in _LIMITS:
            made = _attach(device, _at(n1, device))
        else:
            hosts = fixed.get(
                ((device.region, device.zone), device.accelerator, device.devices), []
            )
            used.update(id(h) for h in hosts)
            made = [_sum(device, host, host.instance_type, asked_only=False) for host in hosts]
        if not made:
            reading.left_out[NO_HOST] += 1
        result.extend(made)
    alone = sum(1 for e in split_hosts if id(e) not in used)
    if alone:
        reading.left_out[HOST_ALONE] += alone
    reading.entries = result


def _at(n1: Mapping[Place, list[PriceEntry]], device: PriceEntry) -> Iterable[PriceEntry]:
    """Return the hosts in the device's zone, or those of other zones in its region.

    Host prices go by region, so hosts of another zone do if the zone has no lines of its own.
    """
    here = n1.get((device.region, device.zone)) or n1.get((device.region, ""))
    if here:
        return here
    return next((hosts for (region, _), hosts in n1.items() if region == device.region), ())


def _attach(device: PriceEntry, hosts: Iterable[PriceEntry]) -> list[PriceEntry]:
    count = round(device.devices)
    limit = _LIMITS[device.accelerator].get(count)
    if limit is None:
        return []
    usual = _USUAL_VCPUS[device.accelerator][count]
    made = []
    for host in hosts:
        vcpus, gib = host.vcpus or 0, host.memory_gib or 0
        if vcpus > limit[0] or gib > limit[1]:
            continue
        asked_only = not host.instance_type.startswith(_USUAL_FAMILY) or vcpus < usual
        name = f"{host.instance_type}{JOINER}{count}x{device.accelerator}"
        made.append(_sum(device, host, name, asked_only=asked_only))
    return made


def _sum(device: PriceEntry, host: PriceEntry, name: str, *, asked_only: bool) -> PriceEntry:
    def both(a: Micros | None, b: Micros | None) -> Micros | None:
        return None if a is None or b is None else a + b

    source = (
        device.source if device.source == host.source else f"{device.source} + host: {host.source}"
    )
    spot_source = (
        device.spot_source
        if device.spot_source == host.spot_source
        else f"{device.spot_source} + host: {host.spot_source}"
    )
    return device._replace(
        instance_type=name,
        vcpus=host.vcpus,
        memory_gib=host.memory_gib,
        arch=host.arch or device.arch,
        on_demand=both(device.on_demand, host.on_demand),
        spot=both(device.spot, host.spot),
        source=source,
        as_of=min(device.as_of, host.as_of),
        spot_source=spot_source,
        spot_as_of=min(device.spot_as_of, host.spot_as_of),
        asked_only=asked_only,
    )
