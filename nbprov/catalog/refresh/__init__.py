"""Refreshes of price files: where prices are fetched from, when, and how files are replaced.

May import `catalog.sources`, `nbprov.clouds` and what is below them. Start reading at
`refresher.py`, which refreshes all clouds; `refresh_cloud.py` refreshes one.
"""

from __future__ import annotations

from .cloud_folder import Owner
from .policy import Policy, Settings, Source
from .price_diff import Change, Differences, Kind
from .refresher import Upkeep
from .status import CloudRefresh, CloudStatus, Outcome, Refreshed, Step

__all__ = [
    "Change",
    "CloudRefresh",
    "CloudStatus",
    "Differences",
    "Kind",
    "Outcome",
    "Owner",
    "Policy",
    "Refreshed",
    "Settings",
    "Source",
    "Step",
    "Upkeep",
]
