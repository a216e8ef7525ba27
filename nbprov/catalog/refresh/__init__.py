"""How prices are renewed: where from, when, and how the files are replaced."""

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
