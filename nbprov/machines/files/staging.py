"""Bring the files of a spec to every node before setup.

Local files are sent from here; the nodes download those of buckets and the web themselves.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path, PurePosixPath

from nbprov.machines.local_paths import local_path
from nbprov.model.clock import Seconds
from nbprov.model.sources import WORKDIR, Mount, Repository, SourceKind
from nbprov.model.spec import Spec
from nbprov.provisioning.live_cluster import LiveCluster, all_of
from nbprov.remote.download.download import download
from nbprov.remote.sync.errors import shown
from nbprov.remote.sync.options import SyncOptions
from nbprov.remote.sync.plan import Direction, SyncPlan

from .folder_sync import awake, open_connection, size_words, summary, sync_folder
from .git_checkout import RepositoryCheckout
from .remote_sources import list_in_time
from .source_listing import SourceListing

Report = Callable[[str], None]

TOLD_EVERY: Seconds = 0.5
"""Interval of progress lines; a person reads no faster."""


async def place_files(
    live: LiveCluster,
    spec: Spec,
    folder: Path,
    home: Path,
    report: Report,
    note: Report,
    *,
    only: int | None = None,
) -> None:
    """Bring `workdir` and `file_mounts` to all nodes at once, in the order of the spec.

    Parameters
    ----------
    only
        The number of the only node to bring them to.
    folder
        The folder that relative paths start at.
    home
        Our folder, where the state of synced files is remembered.
    report, note
        Receive lines: what happens now, and what is worth keeping.

    Raises
    ------
    DownloadError, SyncError, CopyError, RepositoryError
        For the first failure. What has arrived stays, and the next run continues from there.
    """
    found: dict[str, SourceListing] = {}
    numbers = range(len(live.nodes)) if only is None else (only,)
    for mount in spec.file_mounts:
        if mount.kind is not SourceKind.LOCAL and mount.source not in found:
            found[mount.source] = await list_in_time(mount.source)
            for line in facts(found[mount.source], mount.target, live):
                report(line)
    async with awake(live):
        if isinstance(spec.workdir, Repository):
            async with RepositoryCheckout(live, spec.workdir, report, note) as working:
                await all_of(*(working.bring(number) for number in numbers))
        await all_of(
            *(
                _NodeStaging(live, number, spec, folder, home, report, found).carry_out()
                for number in numbers
            )
        )


def facts(found: SourceListing, target: str, live: LiveCluster) -> list[str]:
    """Return the lines that say what will be downloaded, before anything is."""
    count = len(found.items)
    size = (
        size_words(found.bytes) if all(item.size >= 0 for item in found.items) else "size unknown"
    )
    lines = [
        f"{shown(found.source)} to {shown(target)}:"
        f" {count:,} file{'' if count == 1 else 's'}, {size}"
    ]
    if found.skipped:
        name, why = found.skipped[0]
        lines.append(
            f"{shown(found.source)}: {len(found.skipped):,} skipped, as {shown(name)}: {why}"
        )
    at = live.candidate.offer
    leaves_cloud = found.cloud and at.cloud != "local" and at.cloud != found.cloud
    if found.bytes and (
        leaves_cloud or (found.cloud == at.cloud and found.region and found.region != at.region)
    ):
        out = size_words(found.bytes * len(live.nodes))
        where = f"{found.cloud} {found.region}".strip()
        lines.append(
            f"{out} leave {where} for {at.cloud} {at.region}: the bucket's owner pays for traffic"
        )
    return lines


class _NodeStaging:
    """The staging of one node."""

    def __init__(
        self,
        live: LiveCluster,
        number: int,
        spec: Spec,
        folder: Path,
        home: Path,
        report: Report,
        found: dict[str, SourceListing],
    ) -> None:
        self._live, self._number, self._spec = live, number, spec
        self._folder, self._home, self._report, self._found = folder, home, report, found
        self._told = 0.0
        self._where = live.name + (f" node {number}" if len(live.nodes) > 1 else "")

    async def carry_out(self) -> None:
        """Bring one source after another, since a later one may lie inside an earlier one."""
        workdir = self._spec.workdir
        if isinstance(workdir, str) and workdir:
            await self._local(Mount(f"~/{WORKDIR}", workdir))
        for mount in self._spec.file_mounts:
            await (self._local(mount) if mount.kind is SourceKind.LOCAL else self._fetched(mount))

    async def _local(self, mount: Mount) -> None:
        here = local_path(mount.source, self._folder, "workdir or file_mounts")
        target = _below_home(mount.target)
        if not await asyncio.to_thread(here.is_dir) or target in ("~", "."):
            connection = await open_connection(self._live.nodes[self._number])
            await connection.copy_in(here, target)
            return
        total = 0

        def on_plan(plan: SyncPlan) -> None:
            nonlocal total
            total = plan.bytes
            self._report(summary(plan, mount.source, mount.target, self._where)[0])

        wanted = SyncOptions(here, target, Direction.PUSH)
        await sync_folder(
            self._live,
            wanted,
            self._home,
            node=self._number,
            on_plan=on_plan,
            progress=lambda sent: self._say(sent, total),
        )

    async def _fetched(self, mount: Mount) -> None:
        found = self._found[mount.source]
        target = PurePosixPath(_below_home(mount.target))
        folder, items = str(target), found.items
        if not found.is_tree:
            folder = str(target.parent) if target.parent.name or target.is_absolute() else "~"
            items = (replace(items[0], name=target.name),)
        connection = await open_connection(self._live.nodes[self._number])
        await download(
            connection,
            folder,
            items,
            found.signer,
            is_tree=found.is_tree,
            source=shown(found.source),
            progress=lambda count: self._say(count, found.bytes),
        )

    def _say(self, count: int, total: int) -> None:
        now = time.monotonic()
        if now - self._told >= TOLD_EVERY:
            self._told = now
            of = f" of {size_words(total)}" if total >= count else ""
            self._report(f"files: {size_words(count)}{of}, {self._where}")


def _below_home(target: str) -> str:
    # ~/x and x are both below the home; /x is absolute.
    return target[2:] if target.startswith("~/") else str(PurePosixPath(target))


__all__ = ["facts", "place_files"]
