"""What a cluster's handle has of folders: push, pull, sync."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from nbprov.model.clock import Seconds

if TYPE_CHECKING:
    from nbprov.api.session import Session
    from nbprov.provisioning.live_cluster import LiveCluster
    from nbprov.remote.sync.plan import Direction, SyncPlan
    from nbprov.remote.sync.sync import SyncResult

T = TypeVar("T")


class Carrying(ABC):
    """Folders of this computer and of the cluster's machines."""

    _session: Session

    @abstractmethod
    def _call(
        self, work: Callable[[LiveCluster], Coroutine[Any, Any, T]], timeout: Seconds | None = None
    ) -> T:
        """Do something with the cluster, its connections open."""

    def push(
        self,
        local: str | os.PathLike[str],
        remote: str = "",
        *,
        node: int = 0,
        delete: bool = False,
        dry: bool = False,
        on_plan: Callable[[SyncPlan], object] = lambda plan: None,
        progress: Callable[[int], None] = lambda sent: None,
        timeout: Seconds | None = None,
    ) -> SyncResult:
        """Copy a folder to a machine; only what is missing or differs there is moved, each file verified by digest. Blocks.

        Parameters
        ----------
        local
            The folder here; its ignore file (`.nbprovignore`, else `.skyignore`, else `.gitignore`) counts.
        remote
            The folder there, absolute or below the home; by default the last name of `local` below the home, and `sky_workdir` for `.`.
        delete
            Delete there what is not here.
        dry
            Only find out what would be done: see `SyncResult.plan`.
        on_plan
            Called (on the engine thread) with what will be done, before anything is.
        progress
            Called (on the engine thread) with the bytes sent so far.

        Raises
        ------
        SyncError
            If a folder is missing, a disk full, or some files could not be moved; the others have arrived whole.
        Interrupted
            On Ctrl-C; whole files have arrived, and the next call goes on from there.

        Examples
        --------
        >>> nbprov.cluster("dev").push("src", "~/src").files  # doctest: +SKIP
        12
        """
        from nbprov.remote.sync.plan import Direction

        return self._folders(
            Direction.PUSH, local, remote, node, delete, dry, on_plan, progress, timeout
        )

    def pull(
        self,
        remote: str,
        local: str | os.PathLike[str] = "",
        *,
        node: int = 0,
        delete: bool = False,
        dry: bool = False,
        on_plan: Callable[[SyncPlan], object] = lambda plan: None,
        progress: Callable[[int], None] = lambda sent: None,
        timeout: Seconds | None = None,
    ) -> SyncResult:
        """Copy a folder of a machine here; as `push`, the other way. Nothing is ever written outside `local`. Blocks.

        Parameters
        ----------
        local
            The folder here; by default the last name of `remote`, in the current folder.
        delete
            Delete here what is not there.
        """
        from nbprov.remote.sync.plan import Direction

        return self._folders(
            Direction.PULL,
            local or Path(remote).name,
            remote,
            node,
            delete,
            dry,
            on_plan,
            progress,
            timeout,
        )

    def sync(
        self,
        local: str | os.PathLike[str],
        remote: str = "",
        *,
        node: int = 0,
        delete: bool = False,
        dry: bool = False,
        on_plan: Callable[[SyncPlan], object] = lambda plan: None,
        progress: Callable[[int], None] = lambda sent: None,
        timeout: Seconds | None = None,
    ) -> SyncResult:
        """Bring a folder here and one on a machine into step, both ways. Blocks.

        What changed on one side since the last sync goes to the other; what changed on both is left alone (`SyncResult.plan.conflicts`).
        With `delete`, what one side has lost since goes from the other.
        """
        from nbprov.remote.sync.plan import Direction

        return self._folders(
            Direction.BOTH, local, remote, node, delete, dry, on_plan, progress, timeout
        )

    def _folders(
        self,
        direction: Direction,
        local: str | os.PathLike[str],
        remote: str,
        node: int,
        delete: bool,
        dry: bool,
        on_plan: Callable[[SyncPlan], object],
        progress: Callable[[int], None],
        timeout: Seconds | None,
    ) -> SyncResult:
        from nbprov.machines.files.folder_sync import remote_folder, sync_folder
        from nbprov.remote.sync.options import SyncOptions

        # Made absolute here: the engine's thread knows no other current folder, but time passes.
        wanted = SyncOptions(
            Path(local).expanduser().absolute(),
            remote_folder(os.fspath(local), remote),
            direction,
            delete,
            dry,
        )
        home = self._session.engine.home
        return self._call(
            lambda live: sync_folder(
                live, wanted, home, node=node, on_plan=on_plan, progress=progress
            ),
            timeout,
        )
