"""The project's own form of a price list: one folder a cloud with three small, sorted text files.

`types.csv`
    What a machine is: `id,type,accelerator,count,device_gib,maker,vcpus,memory_gib,arch`. `id` is
    the type's name, with `#2` and so on where a cloud sells two machines under one name; a line
    without `type` is an accelerator sold apart from its host.
`prices.csv`
    What it costs where: `id,region,zones,on_demand,spot,source,spot_source`, US dollars an hour.
    `zones` are the zones with the same prices, separated by spaces; none means the region. An empty
    price is not known.
`sources.csv`
    Where a price comes from: `key,as_of,source`. Every price names a key.
"""

from __future__ import annotations

import csv
import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from decimal import Decimal
from pathlib import Path

from nbprov.catalog.errors import CatalogError
from nbprov.model.money import MICROS_PER_USD, Micros
from nbprov.model.paths import make_folder, open_private

from .price_entry import PriceEntry, Reading
from .skypilot_csv import NO_PRICE, number, price

FILE_NAMES = ("prices.csv", "sources.csv", "types.csv")
TYPES_HEADER = (
    "id",
    "type",
    "accelerator",
    "count",
    "device_gib",
    "maker",
    "vcpus",
    "memory_gib",
    "arch",
)
PRICES_HEADER = ("id", "region", "zones", "on_demand", "spot", "source", "spot_source")
SOURCES_HEADER = ("key", "as_of", "source")

_DATE = re.compile(r"^\d{4}-\d{2}-\d{2}$")


def read(folder: Path, cloud: str) -> Reading:
    """Read one cloud's folder.

    Raises
    ------
    CatalogError
        If a file is missing or torn, a column or figure is wrong, or a price names no known type or
        source.
    """
    where = f"{folder.name}/types.csv"
    reading = Reading()
    try:
        known = {key: (source, as_of) for key, as_of, source in sources(folder)}
        types = {row[0]: _type_of(row) for row in _table(folder / "types.csv", TYPES_HEADER)}
        where = f"{folder.name}/prices.csv"
        for kind, region, zones, on_demand_text, spot_text, source_key, spot_key in _table(
            folder / "prices.csv", PRICES_HEADER
        ):
            on_demand, spot = price(on_demand_text), price(spot_text)
            source, as_of = known[source_key] if source_key else ("", "")
            spot_source, spot_as_of = known[spot_key] if spot_key else (source, as_of)
            if on_demand is None and spot is None:
                reading.left_out[NO_PRICE] += max(1, len(zones.split()))
                continue
            prices = (on_demand, spot, source, as_of, spot_source, spot_as_of)
            reading.entries += [
                PriceEntry(cloud, region, zone, *types[kind], *prices)
                for zone in zones.split() or ("",)
            ]
    except KeyError as error:
        raise CatalogError(
            f"{where} names {error}, which is not defined", code="catalog.snapshot"
        ) from error
    except ValueError as error:
        raise CatalogError(f"{where} is damaged: {error}", code="catalog.snapshot") from error
    return reading


def sources(folder: Path) -> list[tuple[str, str, str]]:
    """Return the sources of a cloud's folder as (key, date, words).

    Raises
    ------
    CatalogError
        If the file cannot be read or is torn.
    ValueError
        If something stands where a date belongs.
    """
    return [
        (key, _date(as_of), source)
        for key, as_of, source in _table(folder / "sources.csv", SOURCES_HEADER)
    ]


def write(
    folder: Path, entries: Iterable[PriceEntry], source_keys: Sequence[tuple[str, str, str]]
) -> None:
    """Write entries of one cloud as its three files.

    The same entries give the same bytes, whatever their order.

    Parameters
    ----------
    source_keys
        Lines of `sources.csv` (key, as_of, source); the source and spot_source of an entry are
        looked up in them.
    """
    key_of = {(source, as_of): key for key, as_of, source in source_keys}
    specs: dict[str, set[tuple[str, ...]]] = defaultdict(set)
    lines: dict[tuple[str, ...], list[str]] = defaultdict(list)
    listed = sorted(
        entries,
        key=lambda e: (e.region, e.zone, _name(e), *_spec(e), e.on_demand or 0, e.spot or 0),
    )
    for entry in listed:
        specs[_name(entry)].add(_spec(entry))
    ids = {}
    for name, variants in specs.items():
        for i, spec in enumerate(sorted(variants)):
            ids[name, spec] = name if i == 0 else f"{name}#{i + 1}"
    for entry in listed:
        source = key_of[entry.source, entry.as_of]
        spot_source = key_of[entry.spot_source, entry.spot_as_of]
        key = (
            ids[_name(entry), _spec(entry)],
            entry.region,
            _dollars(entry.on_demand),
            _dollars(entry.spot),
            source,
            spot_source if entry.spot is not None and spot_source != source else "",
        )
        lines[key].append(entry.zone)
    make_folder(folder)
    _write(
        folder / "types.csv", TYPES_HEADER, sorted((key, *spec) for (_, spec), key in ids.items())
    )
    prices = ((k[0], k[1], " ".join(sorted(zones)), *k[2:]) for k, zones in lines.items())
    _write(folder / "prices.csv", PRICES_HEADER, sorted(prices))
    used = {k[i] for k in lines for i in (4, 5)}
    _write(
        folder / "sources.csv", SOURCES_HEADER, sorted(row for row in source_keys if row[0] in used)
    )


def _type_of(
    row: Sequence[str],
) -> tuple[str, str, float, float | None, str, float | None, float | None, str]:
    _, name, accelerator, count, device, maker, vcpus, gib, arch = row
    return (
        name,
        accelerator,
        number(count) or 0.0,
        number(device),
        maker,
        number(vcpus),
        number(gib),
        arch,
    )


def _name(entry: PriceEntry) -> str:
    return entry.instance_type or f"{entry.accelerator}:{entry.devices:g}"


def _spec(entry: PriceEntry) -> tuple[str, ...]:
    def text(value: float | None) -> str:
        return "" if not value else f"{value:.10g}"

    figures = (text(entry.vcpus), text(entry.memory_gib))
    return (
        entry.instance_type,
        entry.accelerator,
        text(entry.devices),
        text(entry.device_gib),
        entry.maker,
        *figures,
        entry.arch,
    )


def _dollars(amount: Micros | None) -> str:
    return "" if amount is None else f"{(Decimal(amount) / MICROS_PER_USD).normalize():f}"


def _date(text: str) -> str:
    if not _DATE.match(text):
        raise ValueError(f"{text!r} is not a date")
    return text


def _table(path: Path, header: tuple[str, ...]) -> Iterable[list[str]]:
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            lines = csv.reader(file)
            first = next(lines, [])
            if tuple(first) != header:
                raise CatalogError(
                    f"{path.parent.name}/{path.name} does not begin with {','.join(header)}",
                    code="catalog.columns",
                )
            for line in lines:
                if len(line) != len(header):
                    raise CatalogError(
                        f"{path.parent.name}/{path.name} line {lines.line_num} is torn",
                        code="catalog.snapshot",
                    )
                yield line
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise CatalogError(
            f"{path.parent.name}/{path.name} cannot be read: {error}", code="catalog.unreadable"
        ) from error


def _write(path: Path, header: tuple[str, ...], rows: Iterable[Sequence[str]]) -> None:
    with open(path, "w", encoding="utf-8", newline="", opener=open_private) as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(header)
        writer.writerows(rows)
