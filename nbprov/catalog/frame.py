"""Rows as a pandas table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nbprov.model.money import MICROS_PER_USD

if TYPE_CHECKING:
    from pandas import DataFrame

    from .rows import Rows

COLUMNS = (
    "cloud",
    "region",
    "zone",
    "instance_type",
    "accelerator",
    "accelerator_count",
    "accelerator_memory_gib",
    "vcpus",
    "memory_gib",
    "market",
    "hourly",
    "quota_family",
    "source",
    "as_of",
)


def to_frame(rows: Rows) -> DataFrame:
    """A table with one line a row; `hourly` in US dollars, figures that are not known as NaN."""
    import pandas as pd

    data = {name: rows.column(name) for name in COLUMNS}
    data["market"] = [market.value for market in data["market"]]  # type: ignore[assignment]
    data["hourly"] = data["hourly"] / MICROS_PER_USD
    return pd.DataFrame(data)
