"""The ledger's verbs. Each public method is one durable change or one look-up."""

from __future__ import annotations

from .blocks import Blocks
from .clusters import Clusters
from .history import History
from .leases import LEASE_SECONDS
from .rows import ClusterRow
from .runs import Runs

__all__ = ["LEASE_SECONDS", "ClusterRow", "Ledger"]


class Ledger(Runs, Clusters, Blocks, History):
    """The ledger as the engine uses it: runs, launches, clusters, blocks and history in one file."""
