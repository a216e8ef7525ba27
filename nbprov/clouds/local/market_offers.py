"""Translation of the market's rows into offers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nbprov.model.offers import SIMULATED, Offer
from nbprov.model.places import Market as Side


def offer(row: Mapping[str, Any], cloud: str) -> Offer:
    """Translate one row into an offer of this cloud, with its price marked as simulated."""
    fields = {**row, "market": Side(row["market"])}
    return Offer(cloud=cloud, source=SIMULATED, **fields)
