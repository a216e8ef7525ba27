"""How prices are renewed: where from, when, and how the files are replaced."""

from __future__ import annotations

from .differences import Change, Differences, Kind
from .folder import Owner
from .policy import Policy, Settings, Source
from .results import CloudRefresh, CloudStatus, Outcome, Refreshed, Step
from .upkeep import Upkeep

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
