"""What can be done with clusters that are up: observe, stop, start, end and rename them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Collection
from contextlib import asynccontextmanager

from nbprov.model.clusters import DesiredState
from nbprov.model.spec import Spec
from nbprov.provisioning.async_cloud import AsyncCloud
from nbprov.provisioning.ledger import ClusterRow

from .cloud_watcher import CloudWatcher
from .cluster_controller import ClusterController
from .context import SupervisionContext
from .verbs.cluster_rename import ClusterRename


class ClusterLifecycle:
    """The verbs of clusters; hands each to the cluster's controller.

    Coroutines run on the engine thread. A verb that was begun goes on to its end even where
    nobody waits for it any more.

    Parameters
    ----------
    looked
        Called after each look at all live clusters, and once there are none any more.

    Attributes
    ----------
    controllers
        The controllers of clusters that this kernel has looked at, by the ids of the clusters.
    asked
        Ids of the clusters whose requested end or stop this kernel sees to, logs and outputs
        first.
    """

    def __init__(self, context: SupervisionContext, looked: Callable[[], object]) -> None:
        self._context, self._looked = context, looked
        self.controllers: dict[str, ClusterController] = {}
        self.asked = context.requested
        self.watcher = CloudWatcher(context, self.controller, self._keep)
        self._rename = ClusterRename(context, lambda row: self.controller(row).work)

    def controller(self, row: ClusterRow) -> ClusterController:
        """The controller of a cluster; made when it is first asked for. Any thread."""
        found = self.controllers.get(row.cluster_id)
        if found is None:
            made = ClusterController(
                self._context, row.run_id, watch=self.watch, observe=self.observe
            )
            found = self.controllers.setdefault(row.cluster_id, made)
        return found

    def _keep(self, cluster_ids: Collection[str]) -> None:
        """Drop the controllers of all other clusters that have nothing to do any more."""
        for cluster_id, controller in list(self.controllers.items()):
            if cluster_id not in cluster_ids and controller.work.is_idle:
                del self.controllers[cluster_id]
        self._looked()

    # ------------------------------------------------------------ observing

    def watch(self) -> None:
        """Look at live clusters regularly from now on, as long as there are any.

        On the engine thread.
        """
        self.watcher.watch()

    async def observe(self, cloud: AsyncCloud) -> None:
        """Bring the ledger up to date with one listing of a cloud.

        Raises
        ------
        CloudError
            If the cloud cannot be listed; then nothing is concluded.
        """
        await self.watcher.observe(cloud)

    def is_missing(self, row: ClusterRow) -> bool:
        """Whether the last listing lacked a machine; that alone does not mean that it is gone."""
        return self.controller(row).listing.is_missing(row)

    def is_busy(self, cluster_id: str) -> bool:
        """Whether a verb of this kernel is at work on a cluster."""
        controller = self.controllers.get(cluster_id)
        return controller is not None and controller.work.is_busy

    # ------------------------------------------------------------ end, stop and start

    async def down(self, row: ClusterRow, reason: str = "you ended it") -> None:
        """End a cluster and confirm it by listing. Returns when no machine of it is left.

        Never gives up: where the cloud does not answer or the ledger cannot be written, it is
        tried again; where this kernel stops, the cluster stays `ending` and the next one
        continues.

        Raises
        ------
        NotFound
            If its cloud has no adapter here.
        """
        await self.controller(row).terminator.down(row, reason)

    async def forget(self, row: ClusterRow) -> str:
        """Count a cluster as ended that is being ended and whose end its cloud never confirmed.

        This is for an account that is out of reach for good.

        Returns
        -------
        str
            What a person has to look for at the provider.

        Raises
        ------
        CannotForget
            If it is not being ended, or its cloud lists machines of it.
        """
        return await self.controller(row).terminator.forget(row)

    async def stop(self, row: ClusterRow, reason: str = "you stopped it") -> None:
        """Stop a cluster and keep its disks.

        Raises
        ------
        CannotStop
            If its cloud has no stopped state, it is spot, or it is being ended.
        ClusterBusy
            If another kernel is at work on it.
        CloudError
            Where it cannot be confirmed that it stopped.
        """
        await self.controller(row).stopper.stop(row, reason)

    def check_stop(self, row: ClusterRow) -> None:
        """Raise `CannotStop` where a cluster has no stopped state. Any thread."""
        self.controller(row).stopper.check_stop(row)

    def can_stop(self, row: ClusterRow) -> bool:
        """Whether it has a stopped state, as far as that can be told here. Any thread."""
        return self.controller(row).stopper.can_stop(row)

    async def start(
        self, row: ClusterRow, *, spec: Spec | None = None, agreed: bool = False
    ) -> None:
        """Start a stopped cluster; its address may have changed.

        Parameters
        ----------
        spec, agreed
            See `start_terms`.

        Raises
        ------
        UsageError
            If it costs more now than may be paid.
        CloudError
            With the cause, where the cloud refuses, or where its agent cannot be started; then it
            is stopped again.
        NotFound
            If it is being ended.
        ClusterBusy
            If another kernel is at work on it.
        """
        await self.controller(row).start(row, spec, agreed=agreed)

    @asynccontextmanager
    async def leased(self, row: ClusterRow) -> AsyncIterator[None]:
        """Keep other kernels from doing the same to a cluster, as far as that can be.

        Guards that a kernel carries out go on meanwhile.
        """
        async with self.controller(row).work.leased():
            yield

    # ------------------------------------------------------------ what is to become of it

    def ask(self, row: ClusterRow, desired: DesiredState, reason: str) -> bool:
        """Write down what is to become of a running cluster; whether the ledger has it now.

        A requested end does not become a stop by a later request, nor does the end of a cluster
        whose place another one took. Any thread; never raises.
        """
        return self.controller(row).desired_state.ask(row, desired, reason)

    def is_asked(self, row: ClusterRow, *desired: DesiredState) -> bool:
        """Whether one of these ends or stops is still requested in the ledger. Any thread."""
        return self.controller(row).desired_state.is_asked(row, *desired)

    def take_back(self, row: ClusterRow) -> None:
        """Keep a cluster that was to be ended or stopped: it is used again, or cannot be.

        Any thread.
        """
        self.controller(row).desired_state.take_back(row)

    # ------------------------------------------------------------ names

    async def rename(self, row: ClusterRow, name: str) -> None:
        """Give a cluster another name.

        Raises
        ------
        NameTaken
            If it is in use.
        NotFound
            If the cluster has ended or is being ended.
        ClusterBusy
            If it is being stopped, started or ended, here or in another kernel.
        """
        await self._rename.rename(row, name)

    async def take_place(self, new: ClusterRow, old: ClusterRow) -> ClusterRow:
        """Put a cluster in the place of another; returns the old one's row under its new name.

        From here on whoever looks ends the old one: a kernel that dies right after this leaves
        it to the next.

        Raises
        ------
        NotFound
            If one of them has ended meanwhile.
        ClusterBusy
            If somebody is at work on the old one.
        """
        return await self._rename.take_place(new, old)
