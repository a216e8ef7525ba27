"""The ledger: the durable record of every run, launch, machine, price and event of a user.

A launch is committed here before anything is bought. The package may import `nbprov.model`. Start
reading at `ledger.py`, which opens the file and holds one table object for each subject.
"""

from __future__ import annotations

from .leases import LEASE_SECONDS, LeaseLost
from .ledger import Ledger
from .replacements import ReplacementRow
from .rows import AttemptRow, ClusterRow, LaunchRow, RunRow
from .runs import NameTaken
from .side_objects import SideRow, SideState

__all__ = [
    "LEASE_SECONDS",
    "AttemptRow",
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
