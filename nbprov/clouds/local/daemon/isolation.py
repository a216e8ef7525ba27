"""Isolation of a machine's processes, so that all of them can be ended.

The best kind that works is used.

`bwrap` gives a machine its own processes, its own /tmp and a read-only view of the rest;
`cgroup.kill` ends a whole tree at once; without either, processes are found by a marker in their
environment.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from nbprov.model.clock import Seconds

from . import platform_calls, processes
from .hidden_paths import view_steps

ISOLATION_VARIABLE = "NBPROV_LOCAL_ISOLATION"
ROOTS_GUEST = 1000
"""The user id of machines in a box of root's; outside it is root's still, without its powers."""
KERNEL_FILES = (
    "/proc/sys",
    "/proc/sysrq-trigger",
    "/proc/irq",
    "/proc/bus",
    "/proc/acpi",
    "/proc/mtrr",
    "/proc/pressure",
    "/proc/fs",
    "/proc/scsi",
)
"""What the kernel lets its owner write without any capability: `core_pattern` names a program."""
SEALED = (Path("/run"),)
"""Where services of the computer listen; in no box is anything of it."""
OWN_TMP = tuple(place for place in (Path("/tmp"), Path("/var/tmp")) if place.is_dir())
"""Where a machine sees its own folder instead."""
PROBE_SECONDS: Seconds = 5.0
"""How long trying one kind of isolation may take; it needs 20 ms."""


class IsolationLevel(StrEnum):
    """The kinds of isolation, best first."""

    BWRAP = "bwrap"
    CGROUP = "cgroup"
    MARKER = "marker"

    @property
    def words(self) -> str:
        """A description for people."""
        return {
            IsolationLevel.BWRAP: "bubblewrap: own processes and /tmp, the rest read-only",
            IsolationLevel.CGROUP: "control groups: ended as a whole, files shared with you",
            IsolationLevel.MARKER: "marked processes: ended one by one, files shared with you",
        }[self]


@dataclass(frozen=True, slots=True)
class Box:
    """The surroundings of one machine.

    Attributes
    ----------
    folder
        The machine's directory, writable at the same path inside.
    hidden
        Directories and files that must not be visible inside.
    shown
        What must still be visible below hidden ones, read-only.
    """

    instance: str
    hostname: str
    folder: Path
    hidden: tuple[Path, ...] = ()
    shown: tuple[Path, ...] = ()


def spawn(
    level: IsolationLevel, box: Box, command: Sequence[str], env: Mapping[str, str], log: int
) -> dict[str, Any]:
    """Start a machine's first process, detached from the daemon, and return a storable handle.

    `log` is an open file, which is closed here.

    Raises
    ------
    OSError
        If it cannot be started.
    """
    try:
        return _spawn(level, box, command, env, log)
    finally:
        os.close(log)


def _spawn(
    level: IsolationLevel, box: Box, command: Sequence[str], env: Mapping[str, str], log: int
) -> dict[str, Any]:
    if level is IsolationLevel.BWRAP:
        return _spawn_bwrap(box, command, env, log)
    group = _new_cgroup(box.instance) if level is IsolationLevel.CGROUP else None
    if group is not None:
        # The shell joins the group before anything of the machine runs.
        command = [
            "/bin/sh",
            "-c",
            'echo $$ > "$0/cgroup.procs" && exec "$@"',
            str(group),
            *command,
        ]
    process = _popen(command, env, log, box.folder)
    return {
        "level": level.value,
        "pid": process.pid,
        "start": processes.started(process.pid),
        "cgroup": str(group or ""),
    }


def guest_id(level: IsolationLevel) -> int:
    """Return the user id that a machine's processes see as their own."""
    own = platform_calls.user_id()
    return ROOTS_GUEST if level is IsolationLevel.BWRAP and own == 0 else own


def alive(handle: Mapping[str, Any]) -> bool:
    """Whether the machine's first process still runs."""
    processes.reap()
    return bool(handle["start"]) and processes.started(handle["pid"]) == handle["start"]


def end(
    handle: Mapping[str, Any] | None, instance: str, folder: Path
) -> list[processes.ProcessIdentity]:
    """End every process of a machine and check that none is left; return those that remain.

    Blocks for milliseconds, at most for 5 s.
    """
    roots: list[tuple[int, str]] = []
    group = None
    if handle is not None:
        roots.append((handle["pid"], handle["start"]))
        group = Path(handle["cgroup"]) if handle.get("cgroup") else None
        if group is not None and (group / "cgroup.kill").exists():
            (group / "cgroup.kill").write_text("1")
            _wait_empty(group)
        elif handle["level"] == IsolationLevel.BWRAP:
            # When the first process of a PID namespace ends, all others end.
            processes.kill_pid(handle["pid"], handle["start"])
    only_marked = handle is None or handle["level"] == IsolationLevel.MARKER
    left = processes.end_all(instance, roots, folder if only_marked else None)
    if group is not None and not left and group.exists():
        _wait_empty(group)
        group.rmdir()
    return left


def probe(folder: Path, forced: str | None = None) -> IsolationLevel:
    """Find the best isolation that works here, by trying. `forced` names one that must work.

    Raises
    ------
    OSError
        If the forced one does not work here.
    """
    name = os.environ.get(ISOLATION_VARIABLE, "") if forced is None else forced
    for level in [IsolationLevel(name)] if name else list(IsolationLevel):
        if _works(level, folder):
            return level
    raise OSError(f"the isolation {name!r} does not work here")


def _works(level: IsolationLevel, folder: Path) -> bool:
    if platform_calls.IS_WINDOWS:
        return False
    trial = Box(f"probe-{os.getpid()}", "probe", folder / f"probe-{os.getpid()}")
    if level is IsolationLevel.MARKER:
        return True
    if level is IsolationLevel.CGROUP:
        try:
            group = _new_cgroup(trial.instance)
            usable = (group / "cgroup.kill").exists() and os.access(group / "cgroup.procs", os.W_OK)
            usable = usable and _can_join(group)
            group.rmdir()
        except OSError:
            return False
        return usable
    if shutil.which("bwrap") is None:
        return False
    (trial.folder / "tmp").mkdir(parents=True, mode=0o700)
    try:
        command = [
            *_bwrap_arguments(trial),
            "--",
            "/bin/sh",
            "-c",
            "test -r /proc/1/stat && ! touch /etc/nbprov-probe 2>/dev/null"
            " && ! test -w /proc/sys/kernel/core_pattern && grep -q 'CapEff:[[:space:]]*0*$'"
            " /proc/self/status",
        ]
        done = subprocess.run(command, capture_output=True, timeout=PROBE_SECONDS, check=False)
        return done.returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False
    finally:
        shutil.rmtree(trial.folder, ignore_errors=True)


def _can_join(group: Path) -> bool:
    joined = subprocess.run(
        ["/bin/sh", "-c", 'echo $$ > "$0/cgroup.procs"', str(group)],
        capture_output=True,
        timeout=PROBE_SECONDS,
        check=False,
    )
    _wait_empty(group)
    return joined.returncode == 0


def _popen(
    command: Sequence[str],
    env: Mapping[str, str],
    log: int,
    cwd: Path,
    pass_fds: tuple[int, ...] = (),
) -> subprocess.Popen[bytes]:
    process = subprocess.Popen(
        list(command),
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=log,
        env=dict(env),
        cwd=cwd,
        pass_fds=pass_fds,
        start_new_session=True,
    )
    # It outlives this object and this process; `processes.reap` collects it.
    processes.adopt(process.pid)
    process.returncode = 0
    return process


def _spawn_bwrap(
    box: Box, command: Sequence[str], env: Mapping[str, str], log: int
) -> dict[str, Any]:
    reading, writing = os.pipe()
    try:
        arguments = [
            *_bwrap_arguments(box),
            "--info-fd",
            str(writing),
            "--chdir",
            str(box.folder / "home"),
            "--",
            *command,
        ]
        _popen(arguments, env, log, box.folder, (writing,))
    except OSError:
        os.close(reading)
        raise
    finally:
        os.close(writing)
    with os.fdopen(reading, "rb") as info:
        told = info.read()
    try:
        first = int(json.loads(told)["child-pid"])
    except (ValueError, KeyError):
        raise OSError("bwrap did not start; the console says why") from None
    return {
        "level": IsolationLevel.BWRAP.value,
        "pid": first,
        "start": processes.started(first),
        "cgroup": "",
    }


def _bwrap_arguments(box: Box) -> list[str]:
    arguments = [
        "bwrap",
        "--unshare-pid",
        "--unshare-ipc",
        "--unshare-uts",
        "--hostname",
        box.hostname,
    ]
    # No capabilities, for root either: its machines get a user id of their own, by which sshd does
    # without those that it needs as root. bwrap sees to it that no program gains any.
    if platform_calls.user_id() == 0:
        inside = str(guest_id(IsolationLevel.BWRAP))
        arguments += ["--unshare-user", "--uid", inside, "--gid", inside]
    arguments += ["--cap-drop", "ALL"]
    arguments += ["--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"]
    for file in KERNEL_FILES:
        arguments += ["--ro-bind-try", file, file]
    for step in view_steps((*SEALED, *OWN_TMP, *box.hidden), box.shown):
        path = str(step.path)
        if step.is_shown:
            arguments += ["--ro-bind-try", path, path]
        elif step.path in OWN_TMP:
            arguments += ["--bind", str(box.folder / "tmp"), path]
        elif step.path.is_dir():
            arguments += ["--tmpfs", path]
        else:
            arguments += ["--ro-bind", "/dev/null", path]
    # As root, sshd needs /run/sshd, which containers lack.
    arguments += ["--dir", "/run/sshd"]
    arguments += ["--bind", str(box.folder), str(box.folder)]
    accounts = box.folder / "boot" / "passwd"
    if accounts.is_file() and not accounts.is_symlink():
        arguments += ["--ro-bind", str(accounts), "/etc/passwd"]
    return arguments


def _new_cgroup(instance: str) -> Path:
    group = _cgroup_home() / f"nbprov-{instance}"
    group.mkdir(exist_ok=True)
    return group


def _cgroup_home() -> Path:
    """Return this process's control group (version 2), if it was delegated so that children may be
    made.
    """
    mount = next(
        (
            p
            for p in ("/sys/fs/cgroup", "/sys/fs/cgroup/unified")
            if Path(p, "cgroup.procs").exists()
        ),
        None,
    )
    if mount is None:
        raise OSError("no control groups of version 2")
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        if line.startswith("0::"):
            return Path(mount + line[3:])
    raise OSError("not in a control group of version 2")


def _wait_empty(group: Path) -> None:
    deadline = time.monotonic() + processes.SWEEP_SECONDS
    while time.monotonic() < deadline and "populated 1" in (group / "cgroup.events").read_text():
        processes.reap()
        time.sleep(processes.SWEEP_STEP)
