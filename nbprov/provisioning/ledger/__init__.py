"""The ledger: every intent, attempt, instance, price, guard, observation and event, durable before
anything is bought.
"""

from __future__ import annotations

from .leases import LEASE_SECONDS, LeaseLost
from .ledger import Ledger
from .replacements import ReplacementRow
from .rows import ClusterRow, LaunchRow, RunRow
from .runs import NameTaken
from .side_objects import SideRow, SideState

__all__ = [
    "LEASE_SECONDS",
    "ClusterRow",
    "LaunchRow",
    "LeaseLost",
    "Ledger",
    "NameTaken",
    "ReplacementRow",
    "RunRow",
    "SideRow",
    "SideState",
]
