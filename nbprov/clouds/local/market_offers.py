"""Translation of the market's rows into offers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from nbprov.model.offers import Offer
from nbprov.model.places import Market as Side

if TYPE_CHECKING:
    from .daemon.market import SimulatedMarket

SOURCE = "simulated"


def table(market: SimulatedMarket) -> list[dict[str, Any]]:
    """Return the market's rows as JSON-serialisable dictionaries."""
    return [
        {
            "region": row.region,
            "zone": row.zone,
            "instance_type": row.type.name,
            "accelerator": row.type.accelerator,
            "accelerator_count": float(row.type.count),
            "vcpus": float(row.type.vcpus),
            "memory_gib": float(row.type.memory_gib),
            "market": row.side.value,
            "hourly": row.hourly,
            "quota_family": row.type.family,
            "accelerator_memory_gib": row.type.device_memory_gib,
            "as_of": market.as_of,
        }
        for row in market.rows.values()
    ]


def offer(row: Mapping[str, Any], cloud: str) -> Offer:
    """Translate one row into an offer of this cloud, with its price marked as simulated."""
    fields = {**row, "market": Side(row["market"])}
    return Offer(cloud=cloud, source=SOURCE, **fields)
