"""Build the bytes of a store from price folders."""

from __future__ import annotations

import contextlib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from nbprov.catalog.errors import CatalogError
from nbprov.catalog.sources import gcp_hosts, moved_prices, overrides, price_sanity, skypilot_csv
from nbprov.catalog.sources.overrides import Applied
from nbprov.catalog.sources.price_entry import PriceEntry, Reading
from nbprov.catalog.sources.price_files import LAST, SHIPPED, YOURS, Choice, CloudFiles, read
from nbprov.catalog.vocabulary.device_memory import nominal_gb
from nbprov.catalog.vocabulary.geography import ground_of
from nbprov.catalog.vocabulary.instance_families import (
    family_of,
    is_default_family,
    is_us,
    quota_family,
)
from nbprov.model.offers import Offer
from nbprov.model.places import Market

from .columns import RowColumns, encode

AT_ONCE = 1024
"""Entries that become rows in one batch: enough to be fast, too few to need much memory."""
REPEATED = "line that repeats another (the dearer price was kept)"


@dataclass(slots=True)
class CloudReading:
    """One cloud's rows and the files that they were read from.

    Attributes
    ----------
    choice
        The files that were read; None if none could be.
    errors
        Why the files that come before these could not be read.
    """

    reading: Reading
    choice: Choice | None = None
    errors: list[CatalogError] = field(default_factory=list)
    applied: list[Applied] = field(default_factory=list)
    passed_over: str = ""


def read_all(files: Mapping[str, CloudFiles]) -> dict[str, CloudReading]:
    """Read every cloud, join what is sold apart, apply overrides, and hide absurd prices.

    Files that cannot be read stop nothing: the next choice of that cloud is read instead.
    """
    found = {cloud: _read(cloud, sources) for cloud, sources in files.items()}
    for cloud, cloud_reading in found.items():
        reading = cloud_reading.reading
        if cloud == gcp_hosts.CLOUD:
            price_sanity.hide_flat(reading, _witness(cloud_reading, files[cloud]))
            gcp_hosts.join(reading)
        _drop_typeless(reading)
        _drop_repeats(reading)
        _mark_moved(cloud_reading, files[cloud])
        cloud_reading.applied = overrides.apply(reading, files[cloud].overrides, cloud)
    price_sanity.hide_absurd(
        {cloud: cloud_reading.reading for cloud, cloud_reading in found.items()}
    )
    return found


def _read(cloud: str, sources: CloudFiles) -> CloudReading:
    errors: list[CatalogError] = []
    for choice in sources.choices:
        try:
            return CloudReading(
                read(choice, cloud), choice, errors, passed_over=sources.passed_over
            )
        except CatalogError as error:
            errors.append(error)
    return CloudReading(Reading(), None, errors, passed_over=sources.passed_over)


def _mark_moved(made: CloudReading, sources: CloudFiles) -> None:
    """Mark what moved by more than half in a list that did not come with this release."""
    if made.choice is None or made.choice.label not in (YOURS, LAST):
        return
    shipped = Reading()
    if sources.shipped is not None:
        with contextlib.suppress(CatalogError):
            shipped = read(sources.shipped, made.choice.folder.name)
            if gcp_hosts.CLOUD in {entry.cloud for entry in shipped.entries[:1]}:
                gcp_hosts.join(shipped)
    moved_prices.mark(made.reading, shipped.entries, moved_prices.MovedPrices.read(sources.moved))


def _witness(made: CloudReading, sources: CloudFiles) -> Callable[[], Sequence[PriceEntry]]:
    """Return a function that reads the shipped snapshot of the same cloud.

    It returns nothing if the snapshot itself is what was read.
    """

    def rows() -> Sequence[PriceEntry]:
        for choice in sources.choices:
            if choice.label == SHIPPED and choice != made.choice:
                with contextlib.suppress(CatalogError):
                    return read(choice, gcp_hosts.CLOUD).entries
        return ()

    return rows


def build(files: Mapping[str, CloudFiles]) -> bytes:
    """Build the store of these files.

    Raises
    ------
    CatalogError
        If there is no cloud of which any file can be read: the first cause.
    """
    found = read_all(files)
    errors = [error for made in found.values() for error in made.errors]
    if errors and not any(made.reading.entries for made in found.values()):
        raise errors[0]
    data = encode_readings(found)
    # Kept for one build only: afterwards they would hold some 40 MB that a kernel never
    # needs again.
    for remembered in (
        skypilot_csv.number,
        skypilot_csv.price,
        skypilot_csv.device_of,
        family_of,
        quota_family,
        nominal_gb,
    ):
        remembered.cache_clear()
    return data


def encode_readings(found: Mapping[str, CloudReading]) -> bytes:
    """Encode the store of what was read.

    The readings are empty afterwards, since holding both would need twice the memory.
    """
    columns = RowColumns()
    for made in found.values():
        entries = made.reading.entries
        while entries:
            columns.add([row for entry in entries[-AT_ONCE:] for row in rows_of(entry)])
            del entries[-AT_ONCE:]
    return encode(columns, _summary(columns, found))


def rows_of(entry: PriceEntry) -> Iterable[tuple[Any, ...]]:
    """Return the rows of an entry in the order of `COLUMNS`.

    There is one row for each market with a known price.
    """
    ground = ground_of(entry.cloud, entry.region)
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
            ground.country,
            ground.part,
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
            entry.spot_before if is_spot else entry.on_demand_before,
        )


def row_of_offer(offer: Offer) -> tuple[Any, ...]:
    """Return a live offer in the order of `COLUMNS`."""
    ground = ground_of(offer.cloud, offer.region)
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
        ground.country,
        ground.part,
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
        offer.moved_from,
    )


def _drop_typeless(reading: Reading) -> None:
    whole = [e for e in reading.entries if e.instance_type]
    if len(whole) != len(reading.entries):
        reading.left_out[gcp_hosts.NO_HOST] += len(reading.entries) - len(whole)
        reading.entries = whole


def _drop_repeats(reading: Reading) -> None:
    kept: dict[tuple[str, str, str], PriceEntry] = {}
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


def _summary(columns: RowColumns, found: Mapping[str, CloudReading]) -> dict[str, Any]:
    """Return the parts of the head that need no columns: places, accelerators, clouds' sources."""
    totals = _Totals()
    for row in zip(*map(columns.of, _COUNTED), strict=True):
        totals.count(*row)
    return {
        "places": {
            cloud: {region: sorted(zones) for region, zones in sorted(regions.items())}
            for cloud, regions in sorted(totals.places.items())
        },
        "accelerators": {name: totals.accelerator(name) for name in sorted(totals.counts)},
        "clouds": {cloud: totals.cloud(cloud, made) for cloud, made in sorted(found.items())},
    }


_COUNTED = (
    "cloud",
    "region",
    "zone",
    "accelerator",
    "accelerator_count",
    "accelerator_memory_gib",
    "maker",
    "source",
    "as_of",
)
"""The columns that the head is counted from, in the order of `_Totals.count`'s parameters."""


class _Totals:
    """Places, sources and accelerators, counted row by row."""

    def __init__(self) -> None:
        self.places: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
        self.sources: dict[str, Counter[tuple[str, str]]] = defaultdict(Counter)
        self.gpu_rows: Counter[str] = Counter()
        self.counts: dict[str, Counter[float]] = defaultdict(Counter)
        self.sizes: dict[str, Counter[float]] = defaultdict(Counter)
        self.makers: dict[str, Counter[str]] = defaultdict(Counter)
        self.sellers: dict[str, set[str]] = defaultdict(set)

    def count(
        self,
        cloud: str,
        region: str,
        zone: str,
        accelerator: str,
        count: float,
        memory_gib: float,
        maker: str,
        source: str,
        as_of: str,
    ) -> None:
        """Add one row."""
        zones = self.places[cloud][region]
        if zone:
            zones.add(zone)
        self.sources[cloud][source, as_of] += 1
        if accelerator:
            self.gpu_rows[cloud] += 1
            self.counts[accelerator][count] += 1
            self.sellers[accelerator].add(cloud)
            if maker:
                self.makers[accelerator][maker] += 1
            if memory_gib == memory_gib and count >= 1:  # NaN stands for "not known"
                self.sizes[accelerator][memory_gib] += 1

    def accelerator(self, name: str) -> dict[str, Any]:
        """Return the head's entry of an accelerator, with the most frequent memory and maker."""
        sizes, makers = self.sizes[name], self.makers[name]
        return {
            "counts": sorted(self.counts[name]),
            "memory": sizes.most_common(1)[0][0] if sizes else None,
            "maker": makers.most_common(1)[0][0] if makers else "",
            "clouds": sorted(self.sellers[name]),
        }

    def cloud(self, name: str, made: CloudReading) -> dict[str, Any]:
        """Return the head's entry of a cloud."""
        sources = sorted(self.sources[name].items())
        return {
            "rows": sum(self.sources[name].values()),
            "gpu_rows": self.gpu_rows[name],
            "sources": [[source, as_of, rows] for (source, as_of), rows in sources],
            "left_out": dict(sorted(made.reading.left_out.items())),
            "origin": made.choice.label if made.choice is not None else "",
            "errors": [[error.code, error.message] for error in made.errors],
            "passed_over": made.passed_over,
            "overrides": [applied.to_json() for applied in made.applied],
        }
