"""The ledger's verbs. Each public method is one durable change or one look-up."""

from __future__ import annotations

from .blocks import Blocks
from .cluster_names import Names
from .leases import LEASE_SECONDS
from .replacements import Replacements
from .rows import ClusterRow
from .runs import Runs
from .side_objects import SideObjects
from .stock_observations import Probes

__all__ = ["LEASE_SECONDS", "ClusterRow", "Ledger"]


class Ledger(Runs, Names, Blocks, SideObjects, Probes, Replacements):
    """The ledger as the engine uses it: runs, launches, clusters, blocks, history, side objects, probes and replacements in one file."""
