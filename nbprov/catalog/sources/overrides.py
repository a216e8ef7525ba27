"""Override files: a user's own lines that add, change or hide rows.

They lie apart from the files that a refresh writes. An override file has the columns of the v8
layout, found by name, and any of them may be missing. A line applies to all rows of its cloud that
match the `InstanceType`, `Region`, `AvailabilityZone`, `AcceleratorName` and `AcceleratorCount`
that it gives. Its other values (`Price`, `SpotPrice`, `vCPUs`, `MemoryGiB`, `Arch`, `GpuInfo`)
replace those of the rows; `Hide` with yes, true or 1 removes the rows. A line that matches no row
adds one, for which it needs a type, a region and a price. Prices given here are never hidden as
absurd.
"""

from __future__ import annotations

import csv
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from nbprov.catalog.errors import CatalogError
from nbprov.model.money import Micros
from nbprov.model.resources import COUNT_TOLERANCE

from . import skypilot_csv
from .price_entry import PriceEntry, Reading

COLUMNS = (
    "InstanceType",
    "AcceleratorName",
    "AcceleratorCount",
    "vCPUs",
    "MemoryGiB",
    "GpuInfo",
    "Price",
    "SpotPrice",
    "Region",
    "AvailabilityZone",
    "Arch",
    "Hide",
)
_YES = frozenset({"true", "yes", "1", "y", "x"})
_NO = frozenset({"", "false", "no", "0", "n"})
MOST_BAD_LINES = 20
"""The most bad lines of a file that are reported singly; a file in a wrong form has thousands."""


@dataclass(frozen=True, slots=True)
class BadLine:
    """A line of an override file that was not used, and why. Line 0 is the whole file."""

    line: int
    message: str


@dataclass(slots=True)
class Applied:
    """The effect of one override file.

    Attributes
    ----------
    file
        Its name with its folder's.
    added, changed, hidden
        Numbers of rows, each of one type and place.
    bad
        Lines that were not used, the first `MOST_BAD_LINES`; `bad_lines` is how many there are.
    """

    file: str
    added: int = 0
    changed: int = 0
    hidden: int = 0
    bad_lines: int = 0
    bad: list[BadLine] = field(default_factory=list)

    def refuse(self, line: int, message: str) -> None:
        """Note a bad line."""
        self.bad_lines += 1
        if len(self.bad) < MOST_BAD_LINES:
            self.bad.append(BadLine(line, message))

    def to_json(self) -> dict[str, Any]:
        """Return the object as JSON for the store's head."""
        return asdict(self)

    @staticmethod
    def of_json(stored: Mapping[str, Any]) -> Applied:
        """Make the object from the JSON of the store's head."""
        return Applied(**{**stored, "bad": [BadLine(**line) for line in stored["bad"]]})


@dataclass(frozen=True, slots=True)
class _Line:
    """One line with its figures parsed."""

    instance_type: str
    region: str
    zone: str
    accelerator: str
    count: float | None
    price: Micros | None
    spot: Micros | None
    vcpus: float | None
    memory: float | None
    arch: str
    info: str
    hide: bool

    def fits(self, entry: PriceEntry) -> bool:
        return (
            (not self.instance_type or entry.instance_type.lower() == self.instance_type.lower())
            and (not self.region or entry.region.lower() == self.region.lower())
            and (not self.zone or entry.zone.lower() == self.zone.lower())
            and (not self.accelerator or entry.accelerator.lower() == self.accelerator.lower())
            and (self.count is None or abs(entry.devices - self.count) <= COUNT_TOLERANCE)
        )


def apply(reading: Reading, files: Iterable[Path], cloud: str) -> list[Applied]:
    """Apply the override files to what was read, in place and in order.

    It never raises: the result names bad lines and files.
    """
    return [_apply(reading, path, cloud) for path in files]


def _apply(reading: Reading, path: Path, cloud: str) -> Applied:
    done = Applied(f"{path.parent.name}/{path.name}")
    try:
        lines = list(_lines(path, done))
        as_of = datetime.fromtimestamp(path.stat().st_mtime, UTC).strftime("%Y-%m-%d")
    except CatalogError as error:
        done.refuse(0, error.message)
        return done
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        done.refuse(0, f"it cannot be read: {error}")
        return done
    source = f"your override {done.file}"
    rows = _Rows(reading.entries)
    for number, line in lines:
        met = rows.find(line)
        if line.hide:
            rows.gone.update(met)
            if not met:
                done.refuse(number, "it hides a row that is not there")
        elif met:
            for i in met:
                rows.entries[i] = _changed(rows.entries[i], line, source, as_of, reading)
            rows.changed.update(met)
        else:
            trouble = _addable(line)
            if trouble:
                done.refuse(number, trouble)
            else:
                rows.add(_added(line, rows.like(line), cloud, source, as_of, reading))
    done.added, done.changed, done.hidden = (
        rows.added,
        len(rows.changed - rows.gone),
        len(rows.gone),
    )
    done.bad.sort(key=lambda bad: bad.line)
    reading.entries = [entry for i, entry in enumerate(rows.entries) if i not in rows.gone]
    return done


class _Rows:
    """The rows of a cloud, found by type, while lines are applied to them."""

    def __init__(self, entries: list[PriceEntry]) -> None:
        self.entries = list(entries)
        self.gone: set[int] = set()
        self.changed: set[int] = set()
        self.added = 0
        self._by_type: dict[str, list[int]] = defaultdict(list)
        for i, entry in enumerate(entries):
            self._by_type[entry.instance_type.lower()].append(i)

    def find(self, line: _Line) -> list[int]:
        """Return the positions of the rows that a line matches."""
        among = (
            self._by_type.get(line.instance_type.lower(), [])
            if line.instance_type
            else range(len(self.entries))
        )
        return [i for i in among if i not in self.gone and line.fits(self.entries[i])]

    def like(self, line: _Line) -> PriceEntry | None:
        """Return a row of the same machine in another place."""
        same = (self.entries[i] for i in self._by_type.get(line.instance_type.lower(), ()))
        wanted = (line.accelerator.lower(), line.count)
        return next(
            (
                entry
                for entry in same
                if not line.accelerator or (entry.accelerator.lower(), entry.devices) == wanted
            ),
            None,
        )

    def add(self, entry: PriceEntry) -> None:
        """Add a new row."""
        self._by_type[entry.instance_type.lower()].append(len(self.entries))
        self.entries.append(entry)
        self.added += 1


def _lines(path: Path, done: Applied) -> Iterator[tuple[int, _Line]]:
    with path.open(encoding="utf-8-sig", newline="") as file:
        reader = csv.reader(file)
        header = [name.strip() for name in next(reader, [])]
        at = {name.lower(): i for i, name in enumerate(header)}
        if "instancetype" not in at and "acceleratorname" not in at and "region" not in at:
            raise CatalogError(
                "its first line names none of the columns InstanceType, AcceleratorName, Region",
                code="catalog.columns",
            )
        for cells in reader:
            if not any(cell.strip() for cell in cells) or cells[0].lstrip().startswith("#"):
                continue
            number = reader.line_num
            if len(cells) > len(header):
                done.refuse(
                    number,
                    f"it has {len(cells)} cells where the first line names {len(header)} columns",
                )
                continue
            values = {
                name: cells[at[name.lower()]].strip()
                if at.get(name.lower(), len(cells)) < len(cells)
                else ""
                for name in COLUMNS
            }
            line = _read(values, lambda message, n=number: done.refuse(n, message))  # type: ignore[misc]
            if line is not None:
                yield number, line


def _read(values: Mapping[str, str], refuse: Callable[[str], None]) -> _Line | None:
    figures: dict[str, float | None] = {}
    for name in ("AcceleratorCount", "vCPUs", "MemoryGiB"):
        try:
            figures[name] = skypilot_csv.number(values[name])
        except ValueError:
            refuse(f"{name} is {values[name]!r}, not a number")
            return None
    prices: dict[str, Micros | None] = {}
    for name in ("Price", "SpotPrice"):
        try:
            prices[name] = skypilot_csv.price(values[name])
        except ValueError:
            refuse(f"{name} is {values[name]!r}, not a price")
            return None
    hide = values["Hide"].lower()
    if hide not in _YES | _NO:
        refuse(f"Hide is {values['Hide']!r}: write yes, or leave it empty")
        return None
    line = _Line(
        values["InstanceType"],
        values["Region"],
        values["AvailabilityZone"],
        values["AcceleratorName"],
        figures["AcceleratorCount"] or None,
        prices["Price"],
        prices["SpotPrice"],
        figures["vCPUs"],
        figures["MemoryGiB"],
        values["Arch"],
        values["GpuInfo"],
        hide in _YES,
    )
    trouble = _pointless(line)
    if trouble:
        refuse(trouble)
        return None
    return line


def _pointless(line: _Line) -> str:
    if not (line.instance_type or line.accelerator or line.region or line.zone):
        return "it names no type, accelerator or place"
    if line.hide:
        return ""
    if not line.instance_type:
        return "only a line that hides may go without InstanceType"
    says = (line.price, line.spot, line.vcpus, line.memory, line.arch or None, line.info or None)
    return (
        ""
        if any(value is not None for value in says)
        else "it changes nothing: give Price, SpotPrice or Hide"
    )


def _addable(line: _Line) -> str:
    if not line.region:
        return f"{line.instance_type} is not known, and a new row needs a Region"
    if line.price is None and line.spot is None:
        return (
            f"{line.instance_type} is not known in {line.region}, and a new row needs a Price"
            " or SpotPrice"
        )
    return (
        f"AcceleratorCount is missing beside {line.accelerator}"
        if line.accelerator and line.count is None
        else ""
    )


def _changed(
    entry: PriceEntry, line: _Line, source: str, as_of: str, reading: Reading
) -> PriceEntry:
    new: dict[str, Any] = {}
    if line.price is not None:
        new |= {"on_demand": line.price, "source": source, "as_of": as_of}
        reading.said.add((entry.key, False))
    if line.spot is not None:
        new |= {"spot": line.spot, "spot_source": source, "spot_as_of": as_of}
        reading.said.add((entry.key, True))
    if line.vcpus is not None:
        new["vcpus"] = line.vcpus
    if line.memory is not None:
        new["memory_gib"] = line.memory
    if line.arch:
        new["arch"] = line.arch
    if line.info and entry.accelerator:
        device, maker = skypilot_csv.device_of(
            line.info, entry.accelerator, entry.devices, entry.cloud
        )
        new |= {"device_gib": device if device is not None else entry.device_gib, "maker": maker}
    return entry._replace(**new)


def _added(
    line: _Line, like: PriceEntry | None, cloud: str, source: str, as_of: str, reading: Reading
) -> PriceEntry:
    """Make a new row from a line.

    Figures that the line does not give are taken from the same type in another place, if any.
    """
    if like is None:
        devices = (line.count or 0.0) if line.accelerator else 0.0
        device, maker = (
            skypilot_csv.device_of(line.info, line.accelerator, devices, cloud)
            if line.accelerator
            else (None, "")
        )
        like = PriceEntry(
            cloud,
            "",
            "",
            line.instance_type,
            line.accelerator,
            devices,
            device,
            maker,
            None,
            None,
            "",
            None,
            None,
            source,
            as_of,
            source,
            as_of,
        )
    fresh = like._replace(
        region=line.region,
        zone=line.zone,
        on_demand=None,
        spot=None,
        source=source,
        as_of=as_of,
        spot_source=source,
        spot_as_of=as_of,
    )
    return _changed(fresh, line, source, as_of, reading)
