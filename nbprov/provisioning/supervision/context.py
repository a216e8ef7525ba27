"""What all parts that supervise clusters share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from nbprov.clouds.base import Capabilities
from nbprov.model.clock import Clock
from nbprov.model.errors import NotFound
from nbprov.provisioning.async_cloud import AsyncCloud
from nbprov.provisioning.engine_hooks import EngineHooks
from nbprov.provisioning.ledger import ClusterRow, Ledger

from .condition_notes import ConditionNotes
from .listing.cloud_outages import CloudOutages

if TYPE_CHECKING:
    from nbprov.provisioning.live_cluster import LiveCluster
    from nbprov.provisioning.run.driver import RunDriver


class Connections(Protocol):
    """The open connections of this kernel; see `cluster_connections.py`."""

    live: dict[str, LiveCluster]

    async def attach(self, name: str) -> LiveCluster:
        """The live cluster with open connections."""

    async def forget(self, run_id: str) -> None:
        """Close a cluster's connections."""


class SideObjectRemover(Protocol):
    """Removes what lies beside machines; see `side_objects.SideObjectCollector`."""

    def soon(self, name: str) -> None:
        """Look at a cloud in the background until nothing is left to remove."""

    def told(self, name: str, is_over: bool) -> None:
        """Note that a launch may have left something at a cloud."""

    def now_and_then(self, name: str) -> None:
        """Look at a cloud unless that was done a short while ago."""


@dataclass(frozen=True, slots=True)
class SupervisionContext:
    """The ledger, the clouds and the connections of one engine.

    Attributes
    ----------
    keys_folder
        Holds a folder of keys for each run.
    clouds
        Looks a cloud up by its name.
    drivers
        The launches that this kernel drives, by the ids of their runs.
    changed
        Tells displays that something has changed.
    requested
        Ids of the clusters whose requested end or stop this kernel sees to.
    outages
        The clouds that cannot be listed now.
    notes
        Writes outages to the ledger.
    """

    ledger: Ledger
    clock: Clock
    keys_folder: Path
    clouds: Callable[[str], AsyncCloud]
    hooks: EngineHooks
    connections: Connections
    side_objects: SideObjectRemover
    drivers: Mapping[str, RunDriver]
    changed: Callable[[], None]
    requested: set[str] = field(default_factory=set)
    outages: CloudOutages = field(init=False)
    notes: ConditionNotes = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "outages", CloudOutages())
        object.__setattr__(self, "notes", ConditionNotes(self.ledger, self.clock, self.changed))

    def cloud_of(self, row: ClusterRow) -> AsyncCloud:
        """The cloud of a cluster.

        Raises
        ------
        NotFound
            If its adapter is not installed here.
        """
        return self.clouds(row.candidate.offer.cloud)

    def capabilities_of(self, row: ClusterRow) -> Capabilities | None:
        """What a cluster's cloud can do; None where its adapter is not installed here."""
        try:
            return self.cloud_of(row).capabilities
        except NotFound:
            return None
