"""Folders of this computer and of machines: push, pull, sync."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from nbprov.api.context import Context
from nbprov.api.steps import Steps
from nbprov.machines.local_paths import local_path
from nbprov.model.clock import Seconds

from .remote import RemoteService

if TYPE_CHECKING:
    from nbprov.provisioning.ledger import ClusterRow
    from nbprov.remote.sync.plan import Direction, SyncPlan
    from nbprov.remote.sync.sync import SyncResult


class FolderService:
    """Copies folders to machines and back."""

    def __init__(self, context: Context, remote: RemoteService) -> None:
        self._context, self._remote = context, remote

    def push(
        self,
        row: ClusterRow,
        /,
        local: str | os.PathLike[str],
        remote: str = "",
        *,
        node: int = 0,
        delete: bool = False,
        dry: bool = False,
        on_plan: Callable[[SyncPlan], object] = lambda plan: None,
        progress: Callable[[int], None] = lambda sent: None,
        timeout: Seconds | None = None,
    ) -> Steps[SyncResult]:
        """Copy a folder to a machine. Blocks.

        Only what is missing or differs there is moved, and each file is verified by its digest.

        Parameters
        ----------
        local
            The folder here; its ignore file (`.nbprovignore`, else `.skyignore`, else
            `.gitignore`) counts.
        remote
            The folder there, absolute or below the home; by default the last name of `local`
            below the home, and `sky_workdir` for `.`.
        node
            The number of the machine; 0 is the head.
        delete
            Delete there what is not here.
        dry
            Only find out what would be done: see `SyncResult.plan`.
        on_plan
            Called (on the engine thread) with what will be done, before anything is.
        progress
            Called (on the engine thread) with the bytes sent so far.
        timeout
            Seconds after which it is waited for no more.

        Raises
        ------
        SyncError
            If a folder is missing, a disk is full, or some files could not be moved; the others
            have arrived whole.
        Interrupted
            On Ctrl-C; whole files have arrived, and the next call resumes from there.

        Examples
        --------
        >>> nbprov.cluster("dev").push("src", "~/src").files  # doctest: +SKIP
        12
        """
        from nbprov.remote.sync.plan import Direction

        return self._copy(
            *(row, Direction.PUSH, local, remote, node, delete, dry, on_plan, progress, timeout)
        )

    def pull(
        self,
        row: ClusterRow,
        /,
        remote: str,
        local: str | os.PathLike[str] = "",
        *,
        node: int = 0,
        delete: bool = False,
        dry: bool = False,
        keep_names: bool = False,
        on_plan: Callable[[SyncPlan], object] = lambda plan: None,
        progress: Callable[[int], None] = lambda sent: None,
        timeout: Seconds | None = None,
    ) -> Steps[SyncResult]:
        """Copy a folder of a machine to this computer; as `push`, the other way. Blocks.

        Nothing is ever written outside `local`.

        Parameters
        ----------
        remote
            The folder there, absolute or below the home.
        local
            The folder here; by default the last name of `remote`, in the current folder.
        delete
            Delete here what is not there.
        keep_names
            Bring also new files whose ending is not one of data, and the permission to execute.
            Without it they are left there, and named.
        node, dry, on_plan, progress, timeout
            As for `push`.
        """
        from nbprov.remote.sync.plan import Direction

        local = local or Path(remote).name
        return self._copy(
            *(row, Direction.PULL, local, remote, node, delete, dry, on_plan, progress, timeout),
            keep_names=keep_names,
        )

    def sync(
        self,
        row: ClusterRow,
        /,
        local: str | os.PathLike[str],
        remote: str = "",
        *,
        node: int = 0,
        delete: bool = False,
        dry: bool = False,
        keep_names: bool = False,
        on_plan: Callable[[SyncPlan], object] = lambda plan: None,
        progress: Callable[[int], None] = lambda sent: None,
        timeout: Seconds | None = None,
    ) -> Steps[SyncResult]:
        """Synchronize a folder here and one on a machine, both ways. Blocks.

        What changed on one side since the last sync is copied to the other. What changed on both
        sides is left alone (`SyncResult.plan.conflicts`). With `delete`, what one side has lost
        since is deleted on the other. `keep_names` is that of `pull`; the others are those of
        `push`: `local`, `remote`, `node`, `dry`, `on_plan`, `progress`, `timeout`.
        """
        from nbprov.remote.sync.plan import Direction

        return self._copy(
            *(row, Direction.BOTH, local, remote, node, delete, dry, on_plan, progress, timeout),
            keep_names=keep_names,
        )

    def _copy(
        self,
        row: ClusterRow,
        direction: Direction,
        local: str | os.PathLike[str],
        remote: str,
        node: int,
        delete: bool,
        dry: bool,
        on_plan: Callable[[SyncPlan], object],
        progress: Callable[[int], None],
        timeout: Seconds | None,
        *,
        keep_names: bool = False,
    ) -> Steps[SyncResult]:
        from nbprov.machines.files.folder_sync import remote_folder, sync_folder
        from nbprov.remote.sync.options import SyncOptions

        # Made absolute now: the current folder may be another one when the copy begins.
        wanted = SyncOptions(
            local_path(os.fspath(local), Path.cwd(), "sync"),
            remote_folder(os.fspath(local), remote),
            direction,
            delete,
            dry,
            keep_names=keep_names,
        )
        home = self._context.engine.home
        return self._remote.call(
            row.name,
            lambda live: sync_folder(
                live, wanted, home, node=node, on_plan=on_plan, progress=progress
            ),
            timeout,
        )
