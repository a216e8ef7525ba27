"""Bring a folder here and one on a machine into step: list both, plan, move and verify."""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nbprov.model.clock import Seconds
from nbprov.on_machine.sync_files import MOST_ENTRIES, Rules, SyncFolder
from nbprov.on_machine.sync_protocol import SyncFailure
from nbprov.on_machine.transfer_limit import TransferLimit
from nbprov.remote.bounded_transfer import TransferTooSlow, bounded_transfer
from nbprov.remote.ssh.tar_copy import remote_path
from nbprov.runtime.fault_log import log_fault

from .client import RemoteFolder, open_remote_folder
from .errors import SyncError, shown
from .gitignore import IgnoreRules
from .listing import SyncListing, apart
from .options import SyncOptions
from .plan import Direction, SyncPlan
from .records import load, save
from .sync_run import SyncRun
from .transfer import Progress

log = logging.getLogger("nbprov.machines")

if TYPE_CHECKING:
    from nbprov.remote.ssh.connection import Connection

FREE_BYTES = 50_000_000
"""Left free on a disk that a sync fills: a full disk breaks more than a sync."""
NAMED = 3
"""How many of the files that failed are named in the error."""


@dataclass(frozen=True, slots=True)
class SyncResult:
    """What a sync did.

    Attributes
    ----------
    plan
        What it set out to do; with `dry` nothing else happened.
    files
        Files that were moved and verified.
    bytes
        What went over the connection.
    deleted
        Files, links and folders.
    """

    plan: SyncPlan
    files: int = 0
    bytes: int = 0
    deleted: int = 0
    seconds: Seconds = 0.0

    def __repr__(self) -> str:
        # Without the plan, which names every file.
        planned = len(self.plan.up) + len(self.plan.down)
        return (
            f"<SyncResult: {self.files:,} of {planned:,} files moved,"
            f" {self.deleted:,} deleted, {self.bytes:,} bytes>"
        )


def _nothing(_: object) -> None:
    return None


async def sync(
    connection: Connection,
    options: SyncOptions,
    *,
    on_plan: Callable[[SyncPlan], object] = _nothing,
    progress: Progress = _nothing,
    python: str = "python3",
    limit: TransferLimit = TransferLimit(),  # noqa: B008 - it does not change
) -> SyncResult:
    """Bring a folder into step.

    Parameters
    ----------
    on_plan
        Called with the plan, before anything moves.
    progress
        Called with the bytes that went over the connection so far.
    limit
        The least speed and the longest time.

    Raises
    ------
    SyncError
        If a folder is missing, the disk full, the transfer too slow, or files could not be moved;
        every other file has arrived whole by then.
    CopyError
        If the folder's name on the machine is invalid.
    """
    began = time.monotonic()
    folder = await asyncio.to_thread(_folder_here, options)
    rules = await asyncio.to_thread(_rules, folder)
    # Listed while the machine's program starts. If that fails, its error is the one to raise.
    mine = asyncio.ensure_future(asyncio.to_thread(_list_here, folder, rules))
    mine.add_done_callback(lambda done: done.cancelled() or done.exception())
    try:
        async with (
            bounded_transfer(limit) as watch,
            open_remote_folder(connection, options.there, python, watch) as remote,
        ):
            run = SyncRun(options, folder, remote, load(options.memory), progress, limit)
            here, there = await _list_both(options, remote, rules, mine)
            plan = await run.plan(here, there)
            on_plan(plan)
            if options.dry:
                return SyncResult(plan)
            files, deleted = await _carry_out(run, plan, here, there)
    except (SyncFailure, TransferTooSlow) as trouble:
        raise _error(trouble, options) from None
    except (KeyError, ValueError, TypeError, TimeoutError) as error:
        # Whatever else a machine may send ends here too, with a short message.
        log.info("a sync with %s: %s: %s", options.there, type(error).__name__, error)
        raise _error(
            SyncFailure("foul", "the machine's answer is malformed, or did not come in time"),
            options,
        ) from None
    finally:
        folder.is_over = True
    if run.failed:
        raise _failures(run.failed)
    return SyncResult(plan, files, run.bytes, deleted, time.monotonic() - began)


async def _carry_out(
    run: SyncRun, plan: SyncPlan, here: SyncListing, there: SyncListing
) -> tuple[int, int]:
    """Do what a plan says; return how many files were moved, and how much was deleted."""
    options = run.options
    await asyncio.to_thread(_check_room, run, plan)
    run.folder.standing = {
        name: entry.stamp for name, entry in here.entries.items() if entry.kind == "f"
    }
    files = await run.move(plan)
    deleted = await run.delete(plan)
    try:
        save(options.memory, run.known, {*here.entries, *there.entries})
    except OSError as error:  # then files are compared by their content again
        log_fault(
            log, error, "%s cannot be written, and the next sync takes longer", options.memory
        )
    return files, deleted


def _folder_here(options: SyncOptions) -> SyncFolder:
    remote_path(options.there)
    path = options.here.expanduser()
    folder = SyncFolder(str(path.absolute()))
    if folder.is_home_or_above():
        raise SyncError(
            f"{path} holds your whole home, keys and settings too",
            hint="name a folder below it",
            code="sync.home",
        )
    if os.path.lexists(folder.path) and not os.path.isdir(folder.path):
        raise SyncError(
            f"{path} is not a folder", hint="name the folder that it lies in", code="sync.missing"
        )
    if options.direction is Direction.PUSH and not os.path.isdir(folder.path):
        raise SyncError(
            f"there is no folder {path} here",
            hint="paths are relative to the notebook's folder",
            code="sync.missing",
        )
    folder.modes = 0o777 if options.keep_names else 0o666
    return folder


def _rules(folder: SyncFolder) -> list[list[Any]]:
    """Return the rules of the ignore file here, which count for both sides."""
    found = IgnoreRules.of(Path(folder.path)).rules if os.path.isdir(folder.path) else ()
    return [[rule.matcher.pattern, rule.is_negated, rule.folders_only] for rule in found]


def _list_here(folder: SyncFolder, rules: list[list[Any]]) -> SyncListing | None:
    return SyncListing.of(folder.survey(Rules(rules))) if os.path.isdir(folder.path) else None


async def _list_both(
    options: SyncOptions,
    remote: RemoteFolder,
    rules: list[list[Any]],
    mine: asyncio.Future[SyncListing | None],
) -> tuple[SyncListing, SyncListing]:
    if remote.is_home:
        raise SyncError(
            f"{options.there} holds the machine's whole home, its keys too",
            hint="name a folder below it",
            code="sync.home",
        )
    if not remote.exists and (
        options.direction is Direction.PULL or await asyncio.shield(mine) is None
    ):
        raise SyncError(
            f"there is no folder {shown(options.there)} on the machine",
            hint="see %%on NAME --bash, ls",
            code="sync.missing",
        )
    windows = sys.platform == "win32"
    folds = windows or sys.platform == "darwin"
    there = await remote.listing(rules, windows=windows, folds=folds)
    listed = await asyncio.shield(mine) or SyncListing(), there
    return apart(*listed) if folds and options.direction is not Direction.PUSH else listed


def _check_room(run: SyncRun, plan: SyncPlan) -> None:
    """Refuse what does not fit on a disk, before anything moves."""
    down = sum(entry.size for entry in plan.down)
    up = sum(entry.size for entry in plan.up)
    near = run.folder.path
    while not os.path.isdir(near):
        near = os.path.dirname(near)
    for where, needs, free in (
        ("this computer", down, shutil.disk_usage(near).free),
        ("the machine", up, run.remote.free),
    ):
        if needs and needs + FREE_BYTES > free:
            raise SyncError(
                f"{needs / 1e6:,.0f} MB do not fit on the disk of {where},"
                f" which has {free / 1e6:,.0f} MB left",
                hint="nothing was moved: make room, or ignore what is not needed in .nbprovignore",
                code="sync.full",
            )


def _error(trouble: SyncFailure | TransferTooSlow, options: SyncOptions) -> SyncError:
    where = f"{options.here} and {shown(options.there)}"
    if isinstance(trouble, TransferTooSlow):
        trouble = SyncFailure("slow", f"the transfer {trouble}, and was ended")
    words, hint = {
        "full": (
            "the disk is full; whole files have arrived, nothing is half written",
            "make room and run it again: it goes on",
        ),
        "permission": (f"{where}: a folder {trouble.why}", "choose a folder that is yours"),
        "many": (
            f"{where}: one {trouble.why}",
            f"name a folder below, or ignore some: {MOST_ENTRIES:,} are the most",
        ),
        "file": (
            f"{shown(options.there)} is a file on the machine",
            "name the folder that it lies in",
        ),
        "foul": (
            f"the sync was broken off: {trouble.why}",
            "nothing was written outside the folder; end the machine if it is not to be trusted",
        ),
    }.get(trouble.code, (f"{where}: {trouble.why}", "run it again: it goes on from where it was"))
    code = "missing" if trouble.code == "file" else trouble.code
    return SyncError(words, hint=hint, code=f"sync.{shown(code, 20)}")


def _failures(failed: dict[str, tuple[str, str]]) -> SyncError:
    first = "; ".join(f"{shown(name)} {why}" for name, (_, why) in list(failed.items())[:NAMED])
    count, codes = len(failed), {code for code, _ in failed.values()}
    more = f"; and {count - NAMED:,} more" if count > NAMED else ""
    is_one_cause = len(codes) == 1 and codes <= {"permission", "busy", "changed"}
    return SyncError(
        f"{count:,} file{'' if count == 1 else 's'} could not be brought into step: {first}{more}",
        hint="all else has arrived; run it again for the rest",
        code=f"sync.{codes.pop()}" if is_one_cause else "sync.failed",
    )
