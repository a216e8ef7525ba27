"""One folder here and one on a machine, brought into step: looked at, told, moved, verified."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nbprov.model.clock import Seconds
from nbprov.on_machine.sync_files import KEEP_FROM, MOST_ENTRIES, Folder, Rules
from nbprov.on_machine.sync_protocol import Trouble
from nbprov.remote.ssh.tar_copy import remote_path

from .client import Moved, Progress, There, folder_there
from .errors import SyncError, shown
from .gitignore import IgnoreRules
from .plan import Direction, Entry, Known, Listing, SyncPlan, apart, decide, to_compare
from .rsync import LEAST_BYTES, carry, rsync_here, rsync_words

log = logging.getLogger("nbprov.machines")

if TYPE_CHECKING:
    from nbprov.remote.ssh.connection import Connection

FRESH_NS = 2_000_000_000
"""A file that changed within so long may change again within one tick of its clock (2 s at the coarsest): it is compared again next time."""
FREE_BYTES = 50_000_000
"""Left on a disk that a sync fills: a full disk breaks more than a sync."""
NAMED = 3
"""Of several files that failed, so many are named."""

Tell = Callable[[str], None]


def _nothing(_: object) -> None:
    return None


@dataclass(frozen=True, slots=True)
class Wanted:
    """What to bring into step.

    Attributes
    ----------
    here
        The folder on this computer.
    there
        The folder on the machine, absolute or below its home.
    memory
        File that remembers what was found the same; None remembers nothing, and compares all by digest.
    ssh
        Words of an ssh command that reaches the machine, without a host, for rsync; where there are none it is done without.
    """

    here: Path
    there: str
    direction: Direction
    delete: bool = False
    dry: bool = False
    memory: Path | None = None
    ssh: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Synced:
    """What a sync did.

    Attributes
    ----------
    plan
        What it set out to do; with `dry` all there is.
    files
        Files that were moved and verified.
    bytes
        What went over the line.
    deleted
        Files, links and folders.
    """

    plan: SyncPlan
    files: int = 0
    bytes: int = 0
    deleted: int = 0
    seconds: Seconds = 0.0

    def __repr__(self) -> str:
        # Not its plan: that names every file.
        return f"<Synced: {self.files:,} of {len(self.plan.up) + len(self.plan.down):,} files moved, {self.deleted:,} deleted, {self.bytes:,} bytes>"


@dataclass(slots=True)
class _Run:
    wanted: Wanted
    folder: Folder
    far: There
    known: dict[str, Known]
    progress: Progress
    bytes: int = 0
    failed: dict[str, tuple[str, str]] = field(default_factory=dict)


async def sync(
    connection: Connection,
    wanted: Wanted,
    *,
    on_plan: Callable[[SyncPlan], object] = _nothing,
    progress: Progress = _nothing,
    python: str = "python3",
) -> Synced:
    """Bring a folder into step.

    Parameters
    ----------
    on_plan
        Told what would move, before anything does.
    progress
        Told the bytes that went over the line so far.

    Raises
    ------
    SyncError
        If a folder is missing, the disk full, or files could not be moved; every other file has arrived whole by then.
    CopyError
        If the name of the folder there is none.
    """
    began = time.monotonic()
    folder = await asyncio.to_thread(_folder_here, wanted)
    rules = await asyncio.to_thread(_rules, folder)
    # While the machine's side starts. Whoever is broken off has an error of its own.
    mine = asyncio.ensure_future(asyncio.to_thread(_mine, folder, rules))
    mine.add_done_callback(lambda done: done.cancelled() or done.exception())
    try:
        async with folder_there(connection, wanted.there, python) as far:
            run = _Run(wanted, folder, far, load(wanted.memory), progress)
            here, there = await _look(run, rules, mine)
            plan = await _plan(run, here, there)
            on_plan(plan)
            if wanted.dry:
                return Synced(plan)
            await asyncio.to_thread(_room, run, plan)
            folder.standing = {
                name: entry.stamp for name, entry in here.entries.items() if entry.kind == "f"
            }
            files = await _move(run, plan)
            deleted = await _delete(run, plan)
            save(wanted.memory, run.known, {*here.entries, *there.entries})
    except Trouble as trouble:
        raise _error(trouble, wanted) from None
    except (KeyError, ValueError, TypeError, TimeoutError) as error:
        # What nobody foresaw a machine to say ends here too, without a wall of text.
        log.info("a sync with %s: %s: %s", wanted.there, type(error).__name__, error)
        raise _error(
            Trouble("foul", "the machine's answer is malformed, or did not come in time"), wanted
        ) from None
    finally:
        folder.is_over = True
    if run.failed:
        raise _failures(run)
    return Synced(plan, files, run.bytes, deleted, time.monotonic() - began)


def _folder_here(wanted: Wanted) -> Folder:
    remote_path(wanted.there)
    path = wanted.here.expanduser()
    folder = Folder(str(path.absolute()))
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
    if wanted.direction is Direction.PUSH and not os.path.isdir(folder.path):
        raise SyncError(
            f"there is no folder {path} here",
            hint="paths are relative to the notebook's folder",
            code="sync.missing",
        )
    return folder


def _rules(folder: Folder) -> list[list[Any]]:
    """What the ignore file of the folder here says; it counts for both sides."""
    found = IgnoreRules.of(Path(folder.path)).rules if os.path.isdir(folder.path) else ()
    return [[rule.matcher.pattern, rule.is_negated, rule.folders_only] for rule in found]


def _mine(folder: Folder, rules: list[list[Any]]) -> Listing | None:
    return Listing.of(folder.survey(Rules(rules))) if os.path.isdir(folder.path) else None


async def _look(
    run: _Run, rules: list[list[Any]], mine: asyncio.Future[Listing | None]
) -> tuple[Listing, Listing]:
    """List the machine's side too."""
    wanted, far = run.wanted, run.far
    if far.is_home:
        raise SyncError(
            f"{wanted.there} holds the machine's whole home, its keys too",
            hint="name a folder below it",
            code="sync.home",
        )
    if not far.exists and (
        wanted.direction is Direction.PULL or await asyncio.shield(mine) is None
    ):
        raise SyncError(
            f"there is no folder {shown(wanted.there)} on the machine",
            hint="see %%on NAME --bash, ls",
            code="sync.missing",
        )
    windows = sys.platform == "win32"
    folds = windows or sys.platform == "darwin"
    there = await far.listing(rules, windows=windows, folds=folds)
    listed = await asyncio.shield(mine) or Listing(), there
    return apart(*listed) if folds and wanted.direction is not Direction.PUSH else listed


async def _plan(run: _Run, here: Listing, there: Listing) -> SyncPlan:
    names = to_compare(here, there, run.known)
    mine, theirs = await asyncio.gather(
        asyncio.to_thread(_digests, run.folder, names), run.far.digests(names)
    )
    equal = [name for name in names if mine[name] and mine[name] == theirs.get(name)]
    for name in equal:
        _remember(
            run, here.entries[name], here.entries[name].stamp, there.entries[name].stamp, mine[name]
        )
    modes = sys.platform != "win32"
    return decide(
        run.wanted.direction, here, there, run.known, equal, delete=run.wanted.delete, modes=modes
    )


def _digests(folder: Folder, names: Sequence[str]) -> dict[str, str]:
    return {name: folder.digest(name) for name in names}


def _room(run: _Run, plan: SyncPlan) -> None:
    """Refuse before anything moves what cannot fit."""
    down = sum(entry.size for entry in plan.down)
    up = sum(entry.size for entry in plan.up)
    near = run.folder.path
    while not os.path.isdir(near):
        near = os.path.dirname(near)
    for where, needs, free in (
        ("this computer", down, shutil.disk_usage(near).free),
        ("the machine", up, run.far.free),
    ):
        if needs and needs + FREE_BYTES > free:
            raise SyncError(
                f"{needs / 1e6:,.0f} MB do not fit on the disk of {where}, which has {free / 1e6:,.0f} MB left",
                hint="nothing was moved: make room, or ignore what is not needed in .nbprovignore",
                code="sync.full",
            )


# ---------------------------------------------------------------- moving


async def _move(run: _Run, plan: SyncPlan) -> int:
    """Both ways, and once more what arrived damaged or changed meanwhile; returns how many files have arrived."""
    if plan.down or plan.modes_down:
        await asyncio.to_thread(run.folder.make)
    count = 0
    for entries, modes, up in ((plan.up, plan.modes_up, True), (plan.down, plan.modes_down, False)):
        if not entries and not modes:
            continue
        brought = await _by_rsync(run, plan, entries) if up else set()
        count += len(brought)
        entries = tuple(entry for entry in entries if entry.name not in brought)
        moved = await _one_way(run, entries, modes, up=up)
        again = [
            entry
            for entry in entries
            if run.failed.get(entry.name, ("", ""))[0] in ("digest", "changed")
        ]
        if again:
            again = await asyncio.to_thread(_as_now, run.folder, again) if up else again
            for entry in again:
                del run.failed[entry.name]
            more = await _one_way(run, again, (), up=up, resume=False)
            moved.done.update(more.done)
        by_name = {entry.name: entry for entry in (*entries, *again)}
        for name, (stamp, digest) in moved.done.items():
            source = by_name.get(name)
            if source is not None:
                pair = (source.stamp, stamp) if up else (stamp, source.stamp)
                _remember(run, source, *pair, digest)
        count += len(moved.done)
    return count


async def _by_rsync(run: _Run, plan: SyncPlan, entries: Sequence[Entry]) -> set[str]:
    """Let rsync take there large files of which the target has another content; the names of those that are the same now, by digest."""
    replaced = set(plan.replaced)
    names = [
        e.name for e in entries if e.kind == "f" and e.size >= LEAST_BYTES and e.name in replaced
    ]
    rsync = (
        await asyncio.to_thread(rsync_here)
        if names and run.wanted.ssh and run.far.has_rsync
        else ""
    )
    if not rsync:
        return set()
    before = run.bytes

    def progress(sent: int) -> None:
        run.bytes = before + sent
        run.progress(run.bytes)

    # However it ends: what it did not bring is sent over the open connection.
    await carry(rsync_words(rsync, run.wanted.ssh, run.folder.path, run.far.path), names, progress)
    mine, theirs = await asyncio.gather(
        asyncio.to_thread(_digests, run.folder, names), run.far.digests(names)
    )
    return {name for name in names if mine[name] and mine[name] == theirs.get(name)}


async def _one_way(
    run: _Run, entries: Sequence[Entry], modes: Sequence[Entry], *, up: bool, resume: bool = True
) -> Moved:
    before = run.bytes

    def progress(sent: int) -> None:
        run.bytes = before + sent
        run.progress(run.bytes)

    offsets = await _offsets(run, entries, up=up) if resume else {}
    act = run.far.send if up else run.far.fetch
    moved = await act(run.folder, entries, modes, offsets, progress)
    run.failed.update({name: (code, why) for name, code, why in moved.failed})
    return moved


async def _offsets(run: _Run, entries: Sequence[Entry], *, up: bool) -> dict[str, int]:
    """Where to go on with files of which the target has an unfinished part that is, by its digest, how the source begins."""
    large = {
        entry.name: entry.size for entry in entries if entry.kind == "f" and entry.size >= KEEP_FROM
    }
    if not large:
        return {}
    names = list(large)

    def parts_here() -> dict[str, tuple[int, str]]:
        return {name: run.folder.part(name) for name in names}

    parts = await run.far.parts(names) if up else await asyncio.to_thread(parts_here)
    begun = {name: part for name, part in parts.items() if 0 < part[0] <= large.get(name, 0)}
    if not up:
        # The machine digests whole files only, so the part here is compared where the file ends: a wrong one is fetched once more, whole.
        return {name: length for name, (length, _) in begun.items()}

    def starts() -> dict[str, int]:
        return {
            name: length
            for name, (length, digest) in begun.items()
            if run.folder.digest(name, length) == digest
        }

    return await asyncio.to_thread(starts)


def _as_now(folder: Folder, entries: Sequence[Entry]) -> list[Entry]:
    """Files that changed while they were read, as they are now; those that are gone stay failed."""
    found: list[Entry] = []
    for entry in entries:
        with suppress(OSError, Trouble), folder.open(entry.name) as file:
            info = os.fstat(file.fileno())
            mode = info.st_mode & 0o777
            found.append(
                Entry(entry.name, "f", info.st_size, info.st_mtime_ns, info.st_ctime_ns, mode, "")
            )
    return found


async def _delete(run: _Run, plan: SyncPlan) -> int:
    """Last, and only if all that should come has come."""
    if run.failed:
        return 0
    kept: list[tuple[str, str]] = []
    if plan.delete_there:
        kept += await run.far.delete(plan.delete_there)
    if plan.delete_here:
        kept += await asyncio.to_thread(lambda: list(run.folder.delete(plan.delete_here)))
    run.failed.update({name: ("delete", f"could not be deleted: {why}") for name, why in kept})
    for name in (*plan.delete_here, *plan.delete_there):
        run.known.pop(name, None)
    return len(plan.delete_there) + len(plan.delete_here) - len(kept)


# ---------------------------------------------------------------- errors


def _error(trouble: Trouble, wanted: Wanted) -> SyncError:
    where = f"{wanted.here} and {shown(wanted.there)}"
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
            f"{shown(wanted.there)} is a file on the machine",
            "name the folder that it lies in",
        ),
        "foul": (
            f"the sync was broken off: {trouble.why}",
            "nothing was written outside the folder; end the machine if it is not to be trusted",
        ),
    }.get(trouble.code, (f"{where}: {trouble.why}", "run it again: it goes on from where it was"))
    code = "missing" if trouble.code == "file" else trouble.code
    return SyncError(words, hint=hint, code=f"sync.{shown(code, 20)}")


def _failures(run: _Run) -> SyncError:
    first = "; ".join(f"{shown(name)} {why}" for name, (_, why) in list(run.failed.items())[:NAMED])
    more = len(run.failed) - NAMED
    codes = {code for code, _ in run.failed.values()}
    count = len(run.failed)
    return SyncError(
        f"{count:,} file{'' if count == 1 else 's'} could not be brought into step: {first}{f'; and {more:,} more' if more > 0 else ''}",
        hint="all else has arrived; run it again for the rest",
        code=f"sync.{codes.pop()}"
        if len(codes) == 1 and codes <= {"permission", "busy", "changed"}
        else "sync.failed",
    )


# ---------------------------------------------------------------- memory


def _remember(
    run: _Run, source: Entry, here: tuple[int, int, int], there: tuple[int, int, int], digest: str
) -> None:
    run.known[source.name] = Known(here, there, digest, time.time_ns() - source.mtime > FRESH_NS)


def load(memory: Path | None) -> dict[str, Known]:
    """What is remembered; nothing where the file cannot be read, which costs time and no more."""
    found: dict[str, Known] = {}
    if memory is None:
        return found
    with suppress(OSError, ValueError, TypeError, AttributeError, KeyError):
        content: Any = json.loads(memory.read_text(encoding="ascii"))
        for name, (here, there, digest, is_sure) in content["files"].items():
            found[name] = Known(_stamp(here), _stamp(there), str(digest), is_sure is True)
    return found


def _stamp(numbers: Sequence[Any]) -> tuple[int, int, int]:
    size, mtime, ctime = map(int, numbers)
    return size, mtime, ctime


def save(memory: Path | None, known: Mapping[str, Known], present: set[str]) -> None:
    """Remember what was found the same, of what is there still; in one step, and only for the person."""
    if memory is None:
        return
    memory.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    content = {
        "files": {
            name: [one.here, one.there, one.digest, one.is_sure]
            for name, one in known.items()
            if name in present
        }
    }
    descriptor, name = tempfile.mkstemp(dir=memory.parent, prefix=".sync-")
    try:
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            file.write(
                json.dumps(content, separators=(",", ":"))
            )  # all at once: `dump` is ten times as slow
        os.replace(name, memory)
    except OSError:
        os.unlink(name)
        raise


__all__ = ["Direction", "SyncError", "SyncPlan", "Synced", "Wanted", "load", "save", "sync"]
