"""From price folders to the bytes of a store."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from nbprov.model.offers import Offer
from nbprov.model.places import Market

from . import hosts, snapshot, v8
from .devices import nominal_gb
from .entry import Entry, Reading
from .families import family_of, is_default_family, is_us, quota_family
from .sanity import hide_absurd
from .store import COLUMNS, encode

REPEATED = "line that repeats another (the dearer price was kept)"


def cloud_files(folders: Iterable[Path]) -> dict[str, tuple[Path, ...]]:
    """The files of each cloud; where two folders have the same cloud, the later one's files stand alone."""
    found: dict[str, tuple[Path, ...]] = {}
    for folder in folders:
        if not folder.is_dir():
            continue
        for place in sorted(folder.iterdir()):
            if not place.is_dir():
                continue
            own = tuple(place / name for name in snapshot.FILE_NAMES)
            if all(path.is_file() for path in own):
                found[place.name] = own
            elif (place / v8.FILE_NAME).is_file():
                found[place.name] = (place / v8.FILE_NAME,)
    return dict(sorted(found.items()))


def read_all(files: Mapping[str, Sequence[Path]]) -> dict[str, Reading]:
    """Read every cloud, join what is sold apart, hide what is absurd."""
    readings = {}
    for cloud, paths in files.items():
        reading = v8.read(paths[0], cloud) if paths[0].name == v8.FILE_NAME else snapshot.read(paths[0].parent, cloud)
        if cloud == hosts.CLOUD:
            hosts.join(reading)
        else:
            _drop_typeless(reading)
        _drop_repeats(reading)
        readings[cloud] = reading
    hide_absurd(readings)
    return readings


def build(files: Mapping[str, Sequence[Path]]) -> bytes:
    """The store of these files."""
    return encode_readings(read_all(files))


def encode_readings(readings: Mapping[str, Reading]) -> bytes:
    """The store of what was read."""
    columns: dict[str, list[Any]] = {name: [] for name in COLUMNS}
    for reading in readings.values():
        for entry in reading.entries:
            for row in rows_of(entry):
                for name, value in zip(COLUMNS, row, strict=True):
                    columns[name].append(value)
    return encode(columns, _summary(columns, readings))


def rows_of(entry: Entry) -> Iterable[tuple[Any, ...]]:
    """The rows of an entry, one a market with a known price, in the order of `COLUMNS`."""
    for is_spot in (False, True):
        hourly = entry.spot if is_spot else entry.on_demand
        if hourly is None:
            continue
        yield (
            entry.cloud,
            entry.region,
            entry.zone,
            entry.instance_type,
            entry.accelerator,
            entry.arch,
            entry.maker,
            family_of(entry.cloud, entry.instance_type),
            quota_family(entry.cloud, entry.instance_type, entry.accelerator),
            entry.spot_source if is_spot else entry.source,
            entry.spot_as_of if is_spot else entry.as_of,
            hourly,
            entry.devices,
            entry.device_gib,
            nominal_gb(entry.device_gib),
            entry.vcpus,
            entry.memory_gib,
            is_spot,
            is_us(entry.cloud, entry.region),
            is_default_family(entry.cloud, entry.instance_type, entry.accelerator),
            entry.asked_only,
        )


def row_of_offer(offer: Offer) -> tuple[Any, ...]:
    """A live offer in the order of `COLUMNS`."""
    return (
        offer.cloud,
        offer.region,
        offer.zone,
        offer.instance_type,
        offer.accelerator,
        offer.arch,
        "",
        family_of(offer.cloud, offer.instance_type),
        offer.quota_family,
        offer.source,
        offer.as_of,
        offer.hourly,
        offer.accelerator_count,
        offer.accelerator_memory_gib,
        nominal_gb(offer.accelerator_memory_gib),
        offer.vcpus,
        offer.memory_gib,
        offer.market is Market.SPOT,
        is_us(offer.cloud, offer.region),
        is_default_family(offer.cloud, offer.instance_type, offer.accelerator),
        False,
    )


def _drop_typeless(reading: Reading) -> None:
    whole = [e for e in reading.entries if e.instance_type]
    if len(whole) != len(reading.entries):
        reading.left_out[hosts.NO_HOST] += len(reading.entries) - len(whole)
        reading.entries = whole


def _drop_repeats(reading: Reading) -> None:
    kept: dict[tuple[str, str, str], Entry] = {}
    for entry in reading.entries:
        key = (entry.region, entry.zone, entry.instance_type)
        known = kept.get(key)
        if known is None:
            kept[key] = entry
            continue
        reading.left_out[REPEATED] += 1
        if (entry.on_demand or 0, entry.spot or 0) > (known.on_demand or 0, known.spot or 0):
            kept[key] = entry
    reading.entries = list(kept.values())


def _summary(columns: Mapping[str, Sequence[Any]], readings: Mapping[str, Reading]) -> dict[str, Any]:
    """What the head answers without the columns: places, accelerators with the counts sold, sources with dates."""
    places: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    sources: dict[str, Counter[tuple[str, str]]] = defaultdict(Counter)
    gpu_rows: Counter[str] = Counter()
    counts: dict[str, Counter[float]] = defaultdict(Counter)
    sizes: dict[str, Counter[float]] = defaultdict(Counter)
    makers: dict[str, Counter[str]] = defaultdict(Counter)
    sellers: dict[str, set[str]] = defaultdict(set)
    wanted = ("cloud", "region", "zone", "accelerator", "accelerator_count", "accelerator_memory_gib", "maker", "source", "as_of")
    for cloud, region, zone, name, count, size, maker, source, as_of in zip(*(columns[w] for w in wanted), strict=True):
        zones = places[cloud][region]
        if zone:
            zones.add(zone)
        sources[cloud][source, as_of] += 1
        if name:
            gpu_rows[cloud] += 1
            counts[name][count] += 1
            sellers[name].add(cloud)
            if maker:
                makers[name][maker] += 1
            if size and count >= 1:
                sizes[name][size] += 1
    return {
        "places": {c: {r: sorted(z) for r, z in sorted(regions.items())} for c, regions in sorted(places.items())},
        "accelerators": {
            name: {
                "counts": sorted(counts[name]),
                "memory": sizes[name].most_common(1)[0][0] if sizes[name] else None,
                "maker": makers[name].most_common(1)[0][0] if makers[name] else "",
                "clouds": sorted(sellers[name]),
            }
            for name in sorted(counts)
        },
        "clouds": {
            cloud: {
                "rows": sum(sources[cloud].values()),
                "gpu_rows": gpu_rows[cloud],
                "sources": [[source, as_of, n] for (source, as_of), n in sorted(sources[cloud].items())],
                "left_out": dict(sorted(reading.left_out.items())),
            }
            for cloud, reading in sorted(readings.items())
        },
    }
