"""Bring chosen files of a machine to this computer, by name or pattern, each one verified.

A file that was changed here is never overwritten.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nbprov.on_machine.sync_files import MOST_ENTRIES
from nbprov.on_machine.sync_protocol import SyncFailure
from nbprov.on_machine.transfer_limit import TransferLimit, TransferWatch
from nbprov.remote.bounded_transfer import TransferTooSlow, bounded_transfer
from nbprov.remote.sync.client import open_remote_folder
from nbprov.remote.sync.errors import SyncError, shown
from nbprov.remote.sync.inert_names import inert_folder, repository_name
from nbprov.remote.sync.transfer import Progress

from .local_names import RenamingFolder
from .options import PullOptions, PullResult
from .patterns import literal, only, split_pattern
from .pull_run import PullRun

if TYPE_CHECKING:
    from nbprov.remote.ssh.connection import Connection

log = logging.getLogger("nbprov.machines")


async def pull(
    connection: Connection,
    options: PullOptions,
    *,
    on_found: Callable[[int, int], object] = lambda files, size: None,
    progress: Progress = lambda sent: None,
    python: str = "python3",
    limit: TransferLimit = TransferLimit(),  # noqa: B008 - it does not change
) -> PullResult:
    """Bring the files that are missing here or differ.

    Parameters
    ----------
    on_found
        Called with the number of files that will come, and their bytes.
    progress
        Called with the bytes that came over the connection so far.
    limit
        The least speed and the longest time.

    Raises
    ------
    SyncError
        If the machine cannot be asked, the disk here is full, the transfer is too slow, or the
        machine breaks the protocol.
        Files that have arrived by then are whole.
    CopyError
        If the source is no valid name on a machine.
    """
    puller = _Puller(connection, options, on_found, progress, python)
    try:
        async with bounded_transfer(limit) as watch:
            return await puller.run(watch)
    except (SyncFailure, TransferTooSlow) as trouble:
        raise _error(trouble, options) from None
    except (KeyError, ValueError, TypeError, TimeoutError) as error:
        # Whatever else a machine may send ends here too, with a short message.
        log.info("a pull of %s: %s: %s", options.source, type(error).__name__, error)
        raise _error(
            SyncFailure("foul", "the machine's answer is malformed, or did not come in time"),
            options,
        ) from None


class _Puller:
    """Finds out whether the source is a pattern, a folder or a file, and runs the pull."""

    def __init__(
        self,
        connection: Connection,
        options: PullOptions,
        on_found: Callable[[int, int], object],
        progress: Progress,
        python: str,
    ) -> None:
        self._connection, self._options, self._python = connection, options, python
        self._on_found, self._progress = on_found, progress

    async def run(self, watch: TransferWatch) -> PullResult:
        options = self._options
        base, pattern = split_pattern(options.source)
        if pattern:
            return await self._from_folder(base, self._here(options.target), only(pattern), watch)
        name = options.source.rstrip("/").rpartition("/")[2]
        here = self._here(options.target, name if options.own_name else "")
        try:
            return await self._from_folder(options.source, here, [], watch)
        except SyncFailure as trouble:
            if trouble.code != "file":
                raise
        folder = options.source.rpartition("/")[0] or "/"
        here = self._folder_for_file(name)
        return await self._from_folder(folder, here, literal(name), watch)

    def _folder_for_file(self, name: str) -> RenamingFolder:
        options = self._options
        own_name = options.own_name or options.target.is_dir()
        folder = options.target if own_name else options.target.parent
        here = self._here(folder)
        if not own_name:
            here.renamed[name] = options.target.name
        return here

    def _here(self, folder: Path, name: str = "") -> RenamingFolder:
        """Return a folder to write to.

        Raises
        ------
        SyncError
            `sync.link`, if a link on the way to it leads elsewhere.
        """
        options = self._options
        below = "/".join(filter(None, [options.below, name]))
        below = repository_name(below) if options.keep_names else inert_folder(below)
        here = RenamingFolder(str(folder / below))
        if here.path != os.path.normpath(os.path.join(os.path.realpath(folder), below)):
            raise SyncError(
                f"{folder / below} is behind a link, which leads to {here.path}",
                hint="move the link away, or write to the folder that it leads to",
                code="sync.link",
            )
        return here

    async def _from_folder(
        self, folder: str, here: RenamingFolder, rules: list[list[Any]], watch: TransferWatch
    ) -> PullResult:
        async with open_remote_folder(self._connection, folder, self._python, watch) as remote:
            if not remote.exists:
                return PullResult(here.path)
            if not rules and remote.is_home:
                raise SyncError(
                    f"{shown(self._options.source)} holds the machine's whole home, its keys too",
                    hint="name a folder below it",
                    code="sync.home",
                )
            return await PullRun(
                remote, here, self._options, rules, self._on_found, self._progress
            ).run()


def _error(trouble: SyncFailure | TransferTooSlow, options: PullOptions) -> SyncError:
    if isinstance(trouble, TransferTooSlow):
        trouble = SyncFailure("slow", f"the transfer {trouble}, and was ended")
    source = shown(options.source)
    words = {
        "full": f"{source}: the disk of this computer is full;"
        " whole files have arrived, nothing is half written",
        "permission": f"{source} to {options.target}: a folder {trouble.why}",
        "many": f"{source}: one folder {trouble.why}; {MOST_ENTRIES:,} are the most",
        "foul": f"{source}: the pull was broken off: {trouble.why};"
        f" nothing was written outside {options.target}",
    }.get(trouble.code, f"{source}: {trouble.why}")
    return SyncError(words, code=f"sync.{shown(trouble.code, 20)}")
