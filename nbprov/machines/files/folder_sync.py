"""Sync a folder of this computer with one on a cluster's machine, and describe it in words."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Any

from nbprov.machines import idle_inhibitor
from nbprov.machines.node_selection import one_node
from nbprov.machines.ssh_config import (
    SshConfigError,
    SshFileUnwritable,
    options_for,
    write_known_hosts,
)
from nbprov.model.clock import Seconds
from nbprov.model.errors import UsageError
from nbprov.model.sources import WORKDIR
from nbprov.provisioning.live_cluster import LiveCluster, Node, agent_of
from nbprov.remote.ssh.connection import Connection
from nbprov.remote.sync.errors import shown
from nbprov.remote.sync.options import SyncOptions
from nbprov.remote.sync.plan import Direction, SyncPlan
from nbprov.remote.sync.sync import SyncResult, sync

MEMORY_FOLDER = "synced"
"""A folder in our home, with one file for each pair of synced folders.

A file holds the names, sizes, times and digests that were the same at the last sync.
"""
MOST_AWAKE: Seconds = 12 * 3600.0
"""How long a sync keeps its nodes from being ended as idle.

A machine that sends a byte now and then must not keep itself running for ever.
"""
SHORT: Seconds = 0.5
"""A shorter sync tells the nodes only afterwards.

Telling takes a process on the node, a tenth of the time of a sync of small files.
"""
NAMED = 3
"""Names that a summary shows as examples."""
LISTED = 50
"""Names to be deleted that a summary lists; the rest is counted."""
WAYS = {Direction.PUSH: "to", Direction.PULL: "from", Direction.BOTH: "and"}


def remote_folder(here: str, there: str) -> str:
    """Return the folder on the machine.

    It is the one that is named; else the last part of the local name, below the home, with
    `sky_workdir` for `.`.

    Examples
    --------
    >>> remote_folder("runs/one", ""), remote_folder(".", ""), remote_folder("x", "/data/x")
    ('~/one', '~/sky_workdir', '/data/x')
    """
    if there:
        return there
    name = PurePosixPath(here.replace(os.sep, "/")).name
    if name == "..":
        raise UsageError(
            f"{here} does not tell the folder on the machine", hint=f"name both: {here}:~/FOLDER"
        )
    return f"~/{WORKDIR if name in ('', '~') else name}"


async def sync_folder(
    live: LiveCluster,
    wanted: SyncOptions,
    home: Path,
    *,
    node: int = 0,
    on_plan: Callable[[SyncPlan], object] = lambda plan: None,
    progress: Callable[[int], None] = lambda sent: None,
) -> SyncResult:
    """Sync a folder here with one on a node.

    Parameters
    ----------
    wanted
        What to sync; its `memory` and `ssh` are filled in.
    home
        Our folder, where the state of synced files is remembered.

    Raises
    ------
    SyncError
        If it fails, as `nbprov.remote.sync.sync.sync` says.
    UsageError
        If there is no such node.
    """
    machine = one_node(live, node)
    connection = await open_connection(machine)
    key = "\0".join(
        [live.run_id, str(node), str(wanted.here.expanduser().absolute()), wanted.there]
    )
    memory = (
        home
        / MEMORY_FOLDER
        / (hashlib.sha256(key.encode("utf-8", "surrogateescape")).hexdigest()[:32] + ".json")
    )
    full = replace(wanted, memory=memory, ssh=_ssh(live, machine))
    async with awake(live, SHORT):
        return await sync(connection, full, on_plan=on_plan, progress=progress)


def awake(live: LiveCluster, first: Seconds = 0.0) -> AbstractAsyncContextManager[None]:
    """Keep the nodes from being ended as idle during a long copy.

    `first` is the parameter of `idle_inhibitor.awake`.
    """
    return idle_inhibitor.awake(live.nodes, MOST_AWAKE, first)


async def open_connection(node: Node) -> Connection:
    """Return the open connection to a node, reconnecting if it broke."""
    agent = agent_of(node)
    if not agent.connection.is_open:
        # Any request makes the agent's client reconnect.
        await agent.status()
    return agent.connection


def _ssh(live: LiveCluster, node: Node) -> tuple[str, ...]:
    if shutil.which("rsync") is None or shutil.which("ssh") is None:
        return ()
    try:
        options = options_for(node.instance, live.keys)
        write_known_hosts(live.keys)
    except (SshConfigError, SshFileUnwritable):
        return ()
    return (
        "ssh",
        "-F",
        "none",
        "-T",
        "-o",
        "BatchMode=yes",
        *(word for name, value in options.items() for word in ("-o", f"{name}={value}")),
    )


def summary(plan: SyncPlan, here: str, there: str, name: str, *, dry: bool = False) -> list[str]:
    """Return the lines that say what a sync will do, printed before anything moves.

    Examples
    --------
    >>> from nbprov.remote.sync.listing import ListedPath
    >>> from nbprov.remote.sync.plan import Direction, SyncPlan
    >>> plan = SyncPlan(Direction.PUSH, up=(ListedPath("a", "f", 2_000_000, 0, 0, 0o644, ""),))
    >>> summary(plan, "x", "~/x", "dev")
    ['x to ~/x on dev: 1 file, 2.0 MB (1 new)', '  largest: a 2.0 MB']
    """
    head = f"{shown(here)} {WAYS[plan.direction]} {shown(there)} on {name}"
    lines = [f"{head}: {_what(plan)}" + ("; a dry run, nothing is changed" if dry else "")]
    largest = sorted(plan.files, key=lambda entry: -entry.size)[:NAMED]
    if largest:
        lines.append(
            "  largest: "
            + ", ".join(f"{shown(entry.name)} {size_words(entry.size)}" for entry in largest)
        )
    if plan.ignored_count:
        lines.append(
            "  ignored by the folder's ignore file, or .git: "
            + _several(plan.ignored_count, plan.ignored)
        )
    by_reason: dict[str, list[str]] = {}
    for skipped, why in plan.skipped:
        by_reason.setdefault(shown(why), []).append(skipped)
    lines += [
        f"  skipped, {why}: {_several(len(names), names)}"
        for why, names in list(by_reason.items())[:LISTED]
    ]
    if plan.conflicts:
        lines.append(
            "  left alone, changed on both sides:"
            f" {_several(len(plan.conflicts), plan.conflicts)}; --push or --pull decides"
        )
    for where, names in (("there", plan.delete_there), ("here", plan.delete_here)):
        if names:
            listed = ", ".join(map(shown, names[:LISTED]))
            more = f", and {len(names) - LISTED:,} more" if len(names) > LISTED else ""
            lines.append(
                f"  {'would be' if dry else 'is'} deleted {where}: {len(names):,} ({listed}{more})"
            )
    return lines + [f"  {note}" for note in plan.notes]


def _what(plan: SyncPlan) -> str:
    files = plan.files
    same = (
        f"{len(plan.same):,} {'is' if len(plan.same) == 1 else 'are'} the same" if plan.same else ""
    )
    if plan.is_empty:
        return "nothing to move" + (f", {same}" if same else "")
    replaced = len(plan.replaced)
    parts = [f"{len(files) - replaced:,} new"] if len(files) > replaced else []
    if replaced:
        parts.append(
            f"{replaced:,} replaced"
            + (f", {len(plan.newer):,} of them newer where it is replaced" if plan.newer else "")
        )
    up, down = (sum(e.kind == "f" for e in side) for side in (plan.up, plan.down))
    ways = f"{_files(up)} up and {down:,} down"
    count = ways if plan.direction is Direction.BOTH else _files(len(files))
    return ", ".join(
        filter(
            None,
            [
                f"{count}, {size_words(plan.bytes)}" + (f" ({', '.join(parts)})" if parts else ""),
                same,
            ],
        )
    )


def _files(count: int) -> str:
    return f"{count:,} file{'' if count == 1 else 's'}"


def _several(count: int, names: Any) -> str:
    first = ", ".join(shown(name) for name in tuple(names)[:NAMED])
    return f"{count:,} ({first}{', …' if count > min(NAMED, len(names)) else ''})"


def size_words(count: int) -> str:
    """Return a number of bytes in words.

    Examples
    --------
    >>> size_words(0), size_words(812), size_words(40_960), size_words(1_250_000)
    ('0 B', '812 B', '41.0 kB', '1.2 MB')
    >>> size_words(12_500_000_000)
    '12,500 MB'
    """
    if count < 1e3:
        return f"{count} B"
    if count < 1e6:
        return f"{count / 1e3:.1f} kB"
    return f"{count / 1e6:,.0f} MB" if count >= 1e8 else f"{count / 1e6:.1f} MB"


def ended(done: SyncResult) -> str:
    """Return one line about a sync that is done."""
    if done.plan.is_empty:
        return "in step"
    gone = f", {done.deleted:,} deleted" if done.deleted else ""
    return (
        f"{_files(done.files)} moved and verified,"
        f" {size_words(done.bytes)} over the line{gone}, {done.seconds:.1f} s"
    )
