"""Prices that come with a cloud's package, as a table with the columns of SkyPilot's catalogue."""

from __future__ import annotations

import csv
from functools import lru_cache
from importlib.resources import files

from nbprov.model.offers import Offer
from nbprov.model.places import Market

from .region_fetch import number, price

TABLE = "vms.csv"
MARKETS = ((Market.ON_DEMAND, "Price"), (Market.SPOT, "SpotPrice"))


@lru_cache(maxsize=8)
def shipped_offers(cloud: str, package: str, as_of: str) -> tuple[Offer, ...]:
    """Return the rows of `vms.csv` in this package as offers of this date (`YYYY-MM-DD`)."""
    text = (files(package) / TABLE).read_text(encoding="utf-8")
    return tuple(
        Offer(
            cloud=cloud,
            region=row["Region"],
            zone=row.get("AvailabilityZone") or "",
            instance_type=row["InstanceType"],
            accelerator=row["AcceleratorName"],
            accelerator_count=number(row["AcceleratorCount"]) or 0,
            vcpus=number(row["vCPUs"]),
            memory_gib=number(row["MemoryGiB"]),
            market=market,
            hourly=hourly,
            source=f"{package} package",
            as_of=as_of,
        )
        for row in csv.DictReader(text.splitlines())
        for market, column in MARKETS
        if (hourly := price(row.get(column))) is not None
    )
