"""Reader of EC2's public price list of a region.

A list is 70 to 190 MB of CSV of which a few hundred rows matter, so it is read line by line.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from nbprov.clouds.pricing.region_fetch import number, price
from nbprov.model.failures import Cause, CloudError, Failure
from nbprov.model.money import Micros

HEADER_WITHIN = 20
"""The header follows a few lines about the list. A file without one by this line is not a price
list."""
ALWAYS = (
    "termtype",
    "unit",
    "priceperunit",
    "currency",
    "instancetype",
    "vcpu",
    "memory",
    "tenancy",
    "operatingsystem",
    "preinstalleds/w",
)
# The value that each column must have. A column that a list lacks is not checked.
WANTED = {
    "termtype": ("OnDemand",),
    "unit": ("Hrs",),
    "currency": ("USD",),
    "tenancy": ("Shared",),
    "operatingsystem": ("Linux",),
    "preinstalleds/w": ("NA", ""),
    "capacitystatus": ("Used",),
    # A Capacity Block equals an ordinary on-demand machine in all other columns.
    "marketoption": ("OnDemand",),
    "locationtype": ("AWS Region",),
    "licensemodel": ("No License required", "NA", ""),
}


@dataclass(frozen=True, slots=True)
class Listed:
    """One type in the list. `on_demand` is None if the list contains two prices for it."""

    instance_type: str
    vcpus: float | None
    memory_gib: float | None
    gpus: float | None
    arch: str
    on_demand: Micros | None


@dataclass(slots=True)
class PriceListColumns:
    """The positions of the columns by name, because AWS changes their number and order."""

    at: dict[str, int]
    wanted: list[tuple[int, tuple[str, ...]]] = field(default_factory=list)

    @classmethod
    def of(cls, header: Sequence[str]) -> PriceListColumns | None:
        """Read the columns if this line is the header, else return None."""
        at = {name.replace(" ", "").lower(): place for place, name in enumerate(header)}
        if any(name not in at for name in ALWAYS):
            return None
        return cls(at, [(at[name], words) for name, words in WANTED.items() if name in at])

    def sold_plainly(self, row: Sequence[str]) -> bool:
        """Whether a row is a plain Linux machine on demand, priced by the hour."""
        return len(row) == len(self.at) and all(
            row[place] in values for place, values in self.wanted
        )

    def get(self, row: Sequence[str], name: str) -> str:
        """Return a field; empty if the list has no such column."""
        place = self.at.get(name)
        return "" if place is None else row[place]


def read_list(lines: Iterable[str], region: str) -> dict[str, Listed]:
    """Return the types in a region's list.

    Raises
    ------
    CloudError
        If it is not a price list, or has no machine in it.
    """
    found: dict[str, Listed] = {}
    columns: PriceListColumns | None = None
    quick = ""
    place = 0
    for seen, line in enumerate(lines):
        if columns is None:
            columns = PriceListColumns.of(next(csv.reader([line]), []))
            if columns is not None and line.startswith('"'):
                # Rows are rejected by the text before the kind of term, because parsing the nine
                # tenths that are reservations is slow.
                quick, place = "OnDemand", columns.at["termtype"]
            elif columns is None and seen >= HEADER_WITHIN:
                break
            continue
        if quick:
            head = line.split('","', place + 1)
            if len(head) <= place or head[place].strip('"') != quick or '"Linux"' not in line:
                continue
        row = next(csv.reader([line]), [])
        if columns.sold_plainly(row):
            _add(found, columns, row)
    if not found:
        what = "has no machine in it" if columns else "has no header that nbprov knows"
        raise CloudError(
            Failure(Cause.TRANSIENT, f"EC2's price list of {region} {what}", code="odd-answer")
        )
    return found


def _add(found: dict[str, Listed], columns: PriceListColumns, row: Sequence[str]) -> None:
    name, amount = columns.get(row, "instancetype"), price(columns.get(row, "priceperunit"))
    if "." not in name or amount is None:
        return
    earlier = found.get(name)
    if earlier is not None and earlier.on_demand != amount:
        amount = None
    found[name] = Listed(
        name,
        number(columns.get(row, "vcpu")),
        number(columns.get(row, "memory")),
        number(columns.get(row, "gpu")),
        _arch(columns.get(row, "physicalprocessor"), columns.get(row, "processorarchitecture")),
        amount,
    )


def _arch(processor: str, bits: str) -> str:
    if "graviton" in processor.lower() or "arm" in bits.lower():
        return "arm64"
    return "x86_64" if "64-bit" in bits or processor.startswith(("Intel", "AMD")) else ""
