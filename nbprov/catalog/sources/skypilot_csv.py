"""Reader of the v8 CSV layout: `<cloud>/vms.csv`, one line for each type and place.

Columns are found by name. Files in this layout have many authors, and their known quirks are
handled here: counts and prices written as text, a price of 0.00 for "unknown", device memory in GiB
under a name that says MiB, device memory of the whole machine (Vast), spot sold as its own type,
and free-text regions with commas.
"""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from operator import itemgetter
from pathlib import Path

from nbprov.catalog.errors import CatalogError
from nbprov.model.money import Micros, usd
from nbprov.model.price_list import MOST_HOURLY

from .price_entry import PriceEntry, Reading

FILE_NAME = "vms.csv"
REQUIRED = ("InstanceType", "AcceleratorName", "AcceleratorCount", "Price", "Region")
OPTIONAL = ("vCPUs", "MemoryGiB", "GpuInfo", "SpotPrice", "AvailabilityZone", "Arch")

NO_PRICE = "no price"
MALFORMED = "malformed line"
PLACEHOLDER = "placeholder price"

_NOTHING = frozenset({"", "nan", "none", "null", "n/a", "-"})
_SIZE = re.compile(r"""['"]SizeInMiB['"]\s*:\s*['"]?([\d.]+)""")
_TOTAL = re.compile(r"""['"]TotalGpuMemoryInMiB['"]\s*:\s*['"]?([\d.]+)""")
_MAKER = re.compile(r"""['"]Manufacturer['"]\s*:\s*['"]([^'"]+)['"]""")
_GIB_NOT_MIB = 1024.0
"""Smaller figures are in GiB, whatever their name says: no accelerator has under 1 GiB."""
_TPU_PLACEHOLDER = 700_000_000
_UNKNOWN_MAKERS = {
    "tpu": "Google",
    "inferentia": "AWS",
    "trainium": "AWS",
    "mi": "AMD",
    "gaudi": "Intel",
    "radeon": "AMD",
}


def read(path: Path, cloud: str) -> Reading:
    """Read one v8 file.

    Raises
    ------
    CatalogError
        If the file cannot be read or lacks a column that every v8 file has.
    """
    as_of = datetime.fromtimestamp(path.stat().st_mtime, UTC).strftime("%Y-%m-%d")
    source = f"{cloud} price file in the v8 layout"
    reading = Reading()
    for cells in _lines(path, reading):
        entry = _entry(cells, cloud, source, as_of, reading)
        if entry is not None:
            reading.entries.append(entry)
    return reading


def _lines(path: Path, reading: Reading) -> Iterator[tuple[str, ...]]:
    wanted = REQUIRED + OPTIONAL
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            lines = csv.reader(file)
            header = [name.strip() for name in next(lines, [])]
            missing = [name for name in REQUIRED if name not in header]
            if missing:
                raise CatalogError(
                    f"{path.parent.name}/{path.name} has no column {', '.join(missing)}",
                    hint="a file in the v8 layout names its columns in the first line",
                    code="catalog.columns",
                )
            # A missing column is read from an extra, empty cell.
            cells = itemgetter(
                *(header.index(name) if name in header else len(header) for name in wanted)
            )
            short = False
            for line in lines:
                short = len(line) != len(header) and any(cell.strip() for cell in line)
                if short:
                    reading.left_out[MALFORMED] += 1
                elif line and len(line) == len(header):
                    line.append("")
                    yield tuple(map(str.strip, cells(line)))
        if short and not _ends_whole(path):
            raise CatalogError(
                f"{path.parent.name}/{path.name} breaks off in the middle of a line",
                code="catalog.torn",
            )
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise CatalogError(
            f"{path.parent.name}/{path.name} cannot be read: {error}", code="catalog.unreadable"
        ) from error


def _ends_whole(path: Path) -> bool:
    """Tell whether the last line is complete: a download or copy that broke off ends anywhere."""
    with path.open("rb") as file:
        file.seek(-1, 2)
        return file.read(1) in b"\r\n"


def _entry(
    cells: Sequence[str], cloud: str, source: str, as_of: str, reading: Reading
) -> PriceEntry | None:
    (
        kind,
        accelerator,
        count_text,
        price_text,
        region,
        vcpus,
        memory,
        info,
        spot_text,
        zone,
        arch,
    ) = cells
    try:
        count, on_demand, spot = number(count_text) or 0.0, price(price_text), price(spot_text)
        cores, gib = number(vcpus), number(memory)
    except ValueError:
        reading.left_out[MALFORMED] += 1
        return None
    accelerator, region, zone, arch = (
        "" if text.lower() in _NOTHING else text for text in (accelerator, region, zone, arch)
    )
    if not region or (accelerator and count <= 0) or not (kind or accelerator):
        reading.left_out[MALFORMED] += 1
        return None
    if kind.upper().endswith("SPOT") and spot is None:
        on_demand, spot = None, on_demand
    if on_demand is None and spot is None:
        reading.left_out[NO_PRICE] += 1
        return None
    if accelerator.lower().startswith("tpu") and on_demand == _TPU_PLACEHOLDER:
        reading.left_out[PLACEHOLDER] += 1
        return None
    device, maker = device_of(info, accelerator, count, cloud) if accelerator else (None, "")
    return PriceEntry(
        cloud, region, zone, kind, accelerator, count if accelerator else 0.0, device, maker,
        cores, gib, arch, on_demand, spot, source, as_of, source, as_of,
    )  # fmt: skip


@lru_cache(maxsize=65536)
def number(text: str) -> float | None:
    """Parse a positive figure; return None if the cell says nothing.

    Raises
    ------
    ValueError
        If the cell holds something else.
    """
    if text.lower() in _NOTHING:
        return None
    value = float(text)
    if not math.isfinite(value) or value < 0:
        raise ValueError(f"{text!r} is not a size")
    return value or None


@lru_cache(maxsize=65536)
def price(text: str) -> Micros | None:
    """Parse a price in micros; return None if the cell is empty or zero, which means unknown.

    Raises
    ------
    ValueError
        If the cell holds something else, or an amount that no machine costs.
    """
    if text.lower() in _NOTHING:
        return None
    amount = usd(text)
    if not 0 <= amount <= MOST_HOURLY:
        raise ValueError(f"{text!r} is not a price")
    return amount or None


@lru_cache(maxsize=4096)
def device_of(info: str, accelerator: str, count: float, cloud: str) -> tuple[float | None, str]:
    """Return the memory of one device in GiB and its maker, from the `GpuInfo` text.

    The text is a Python literal or JSON. The memory is None if the text does not give it.
    """
    maker = _MAKER.search(info)
    size = _SIZE.search(info)
    name = maker.group(1).upper() if maker else ""
    if not name or name in {"NONE", "NULL"}:
        name = next(
            (
                made
                for head, made in _UNKNOWN_MAKERS.items()
                if accelerator.lower().startswith(head)
            ),
            "NVIDIA" if accelerator else "",
        )
    if size is None or float(size.group(1)) <= 0:
        return None, name
    mib = float(size.group(1))
    if mib < _GIB_NOT_MIB:
        mib *= 1024
    elif cloud == "vast" and count > 1:
        total = _TOTAL.search(info)
        if total is not None and math.isclose(float(total.group(1)), mib):
            mib /= count
    return round(mib / 1024, 3), name
