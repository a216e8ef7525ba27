"""Finding and killing every process of one machine.

Processes are found by the marker in their environment, their ancestors, session and working
directory. This is the weakest isolation, and the check after every other kind.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from nbprov.model.clock import Seconds

from . import platform_calls

MARKER = "NBPROV_INSTANCE"
"""The variable that every process of a machine inherits; its value is the machine's id."""

SWEEP_SECONDS: Seconds = 5.0
"""How long killing may take before the daemon reports leftovers and tries again; a sweep takes a
few milliseconds."""
SWEEP_STEP: Seconds = 0.003
"""The pause between a kill and the next look, in which killed processes vanish."""


@dataclass(frozen=True, slots=True)
class ProcessIdentity:
    """One process; `start` distinguishes it from a later one with the same id."""

    pid: int
    parent: int
    group: int
    session: int
    start: str
    zombie: bool
    title: str
    marked: bool


def started(pid: int) -> str:
    """Return the start time of a process as the system writes it.

    Empty for zombies and missing ones.
    """
    if platform_calls.IS_LINUX:
        found = _read_stat(pid)
        return "" if found is None or found[0] in "ZX" else found[4]
    return _started_ps(pid)


def _started_ps(pid: int) -> str:
    shown = subprocess.run(
        ["ps", "-o", "stat=,lstart=", "-p", str(pid)], capture_output=True, text=True, check=False
    ).stdout.strip()
    return "" if not shown or shown.startswith("Z") else " ".join(shown.split()[1:])


_children: set[int] = set()


def adopt(pid: int) -> None:
    """Remember a child of this process, so that `reap` collects it when it has ended."""
    _children.add(pid)


def reap() -> None:
    """Reap adopted children that have ended, so that none stays a zombie.

    Other children are not touched.
    """
    for pid in list(_children):
        if platform_calls.collect(pid):
            _children.discard(pid)


def kill_pid(pid: int, start: str) -> None:
    """Kill one process if it is still the one that began at `start`; one that is gone is
    skipped.
    """
    if start and started(pid) == start:
        platform_calls.kill(pid)


def of_machine(
    instance: str, roots: Iterable[tuple[int, str]] = (), folder: Path | None = None
) -> list[ProcessIdentity]:
    """Return all living processes of a machine.

    Parameters
    ----------
    roots
        Processes (id, start) known to be the machine's, with all their descendants.
    folder
        The machine's directory, if only the marker keeps its processes together. An orphan without
        a terminal that works inside it counts too, because it may have cleared its environment.
    """
    mark = f"{MARKER}={instance}"
    table = _table_linux(mark, folder) if platform_calls.IS_LINUX else _table_ps(mark)
    spared = {os.getpid(), os.getppid(), 0, 1}
    mine = {p.pid for p in table.values() if p.marked} - spared
    mine |= {pid for pid, start in roots if pid in table and table[pid].start == start} - spared
    for pid in list(mine):
        # The monitor of an ssh session overwrites its environment with its title, so it is found
        # from its children.
        above = table[pid].parent
        while above in table and above not in spared and table[above].title.startswith("sshd"):
            mine.add(above)
            above = table[above].parent
    heads = {p.session for p in table.values() if p.pid in mine and p.session in mine}
    grown = True
    while grown:
        more = {
            p.pid
            for p in table.values()
            if p.pid not in mine and (p.parent in mine or p.session in heads)
        } - spared
        mine |= more
        grown = bool(more)
    return [p for p in table.values() if p.pid in mine and not p.zombie]


def end_all(
    instance: str, roots: Iterable[tuple[int, str]] = (), folder: Path | None = None
) -> list[ProcessIdentity]:
    """Kill all processes of a machine until a look finds none; return what is left when time is
    up.
    """
    known = list(roots)
    deadline = time.monotonic() + SWEEP_SECONDS
    while True:
        found = of_machine(instance, known, folder)
        known += [(p.pid, p.start) for p in found]
        for process in found:
            platform_calls.kill(process.pid)
        reap()
        # Checked only after a kill: on a computer so busy that one look takes all the time, a
        # machine must not survive.
        if not found or time.monotonic() > deadline:
            return found
        time.sleep(SWEEP_STEP)


def _read_stat(pid: int) -> tuple[str, int, int, int, str, str, str] | None:
    try:
        text = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return None
    opened, closed = text.index("("), text.rindex(")")
    rest = text[closed + 2 :].split()
    return (
        rest[0],
        int(rest[1]),
        int(rest[2]),
        int(rest[3]),
        rest[19],
        text[opened + 1 : closed],
        rest[4],
    )


def _table_linux(mark: str, folder: Path | None) -> dict[int, ProcessIdentity]:
    table: dict[int, ProcessIdentity] = {}
    needle = mark.encode() + b"\0"
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        stat = _read_stat(int(entry))
        if stat is None:
            continue
        marked, title = False, stat[5]
        try:
            environ = Path(f"/proc/{entry}/environ").read_bytes()
            marked = needle in environ and (environ.startswith(needle) or b"\0" + needle in environ)
            if folder is not None and not marked and (stat[1], stat[6]) == (1, "0"):
                marked = Path(os.readlink(f"/proc/{entry}/cwd")).is_relative_to(folder)
        except OSError:
            marked = False  # Another user's process, or gone: not the machine's.
        table[int(entry)] = ProcessIdentity(
            int(entry), stat[1], stat[2], stat[3], stat[4], stat[0] in "ZX", title, marked
        )
    return table


def _table_ps(mark: str) -> dict[int, ProcessIdentity]:
    flags = "axEww" if sys.platform == "darwin" else "axeww"
    fields = "pid=,ppid=,pgid=,sess=,stat=,lstart=,command="
    shown = subprocess.run(
        ["ps", flags, "-o", fields], capture_output=True, text=True, errors="replace", check=True
    ).stdout
    return parse_ps(shown, mark)


def parse_ps(shown: str, mark: str) -> dict[int, ProcessIdentity]:
    """Read the processes and environments that `ps` prints, on platforms without /proc.

    Examples
    --------
    >>> line = "  7  1  7  0 Ss Sat Nov 21 07:09:10 2026 /bin/sleep 9 NBPROV_INSTANCE=i-1 A=b"
    >>> parse_ps(line, "NBPROV_INSTANCE=i-1")[7].marked
    True
    >>> parse_ps(line, "NBPROV_INSTANCE=i-2")[7].marked
    False
    """
    table: dict[int, ProcessIdentity] = {}
    for line in shown.splitlines():
        parts = line.split(None, 10)
        if len(parts) < 11 or not parts[0].isdigit():
            continue
        pid, parent, group = int(parts[0]), int(parts[1]), int(parts[2])
        session = int(parts[3]) if parts[3].isdigit() and parts[3] != "0" else group
        command = parts[10]
        table[pid] = ProcessIdentity(
            pid,
            parent,
            group,
            session,
            " ".join(parts[5:10]),
            parts[4].startswith("Z"),
            command,
            mark in command.split()[1:],
        )
    return table
