"""Refreshes of price files: where prices are fetched from, when, and how files are replaced.

May import `catalog.sources`, `nbprov.clouds` and what is below them. Start reading at
`refresher.py`, which refreshes all clouds; `refresh_cloud.py` refreshes one.
"""

from __future__ import annotations

from .cloud_folder import Owner
from .policy import RefreshPolicy, Settings, Source
from .price_diff import ChangeKind, Differences, PriceChange
from .refresher import PriceFileStore
from .status import CloudRefresh, CloudStatus, Outcome, Refreshed, RefreshStep

__all__ = [
    "ChangeKind",
    "CloudRefresh",
    "CloudStatus",
    "Differences",
    "Outcome",
    "Owner",
    "PriceChange",
    "PriceFileStore",
    "RefreshPolicy",
    "RefreshStep",
    "Refreshed",
    "Settings",
    "Source",
]
