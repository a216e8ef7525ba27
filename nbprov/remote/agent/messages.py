"""What the agent tells, as typed values, and the variables that a task gets."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from nbprov.model.clock import Instant, Seconds
from nbprov.model.clusters import GpuLoad, LoadSample, MachineLoad
from nbprov.model.secret import Secret

from .framing import LATEST, instant, number, printable

MIB = 1024**2
MOST_SAMPLES = 20
"""Samples of a load that are read; an agent keeps a minute's, 5 s apart."""
MOST_GPUS = 64
MOST_CPUS = 1_000_000
MOST_COUNT = 2**53
"""The largest count that JSON tells exactly, which also fits the ledger's 64-bit columns."""

Environment = Mapping[str, str | Secret]


@dataclass(frozen=True, slots=True)
class OutputPiece:
    """One numbered piece of a task's output.

    Attributes
    ----------
    number
        1 is the task's first; a follower that has seen N asks for what comes after N.
    kind
        `stdout`, `stderr` (jobs and shells: a line each, or several lines where they come fast);
        `stream`, `display_data`, `update_display_data`, `execute_result`, `error`, `clear_output`
        (cells, content as Jupyter's messages have it); `note` (the agent's own words); `gap` (the
        numbers `from` to `to` were dropped, as the journal was full); `event` (of the agent
        itself); `end` (the last one).
    text
        The text of a line, of a stream or of a note.
    content
        Everything else: the message's content; for `end` its `status`, `exit_code` and, for cells,
        `execution_count`.
    """

    number: int
    at: Instant
    kind: str
    text: str = ""
    content: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, entry: Mapping[str, Any]) -> OutputPiece:
        """Read a journal entry."""
        content = entry.get("content")
        if content is None:
            content = {
                key: value for key, value in entry.items() if key not in ("n", "t", "k", "text")
            }
        text = entry.get("text", content.get("text", ""))
        return cls(
            entry["n"], entry["t"], entry["k"], text if isinstance(text, str) else "", content
        )


@dataclass(frozen=True, slots=True)
class TaskInfo:
    """A job, a shell or a cell as the agent knows it.

    Attributes
    ----------
    state
        `queued`, `running`, `ended`.
    status
        How it ended: `ok`, `failed`, `error`, `cancelled`, `aborted`, `skipped`, `lost` (the agent
        itself was ended); else empty.
    exit_code
        Of a job or a shell that ran; negative where a signal ended it.
    last
        The number of its last output so far.
    gpus
        What a submitted job asks for: `all`, a number, a share of one; None for others.
    devices
        The GPUs that it was given.
    nodes
        How many nodes have a part of it.
    position
        In the queue; 1 is the next one to begin.
    service
        It waits for work, and does not by itself count as activity.
    reason
        Why the agent ended it; empty where it did not.
    """

    id: str
    kind: str
    name: str
    state: str
    status: str = ""
    exit_code: int | None = None
    created: Instant = 0.0
    started: Instant | None = None
    ended: Instant | None = None
    last: int = 0
    gpus: str | float | None = None
    devices: Sequence[int] = ()
    nodes: int = 1
    position: int | None = None
    service: bool = False
    reason: str = ""

    @classmethod
    def of(cls, data: Mapping[str, Any]) -> TaskInfo:
        """Read the agent's answer."""
        return cls(
            printable(data["id"]),
            printable(data["kind"]),
            printable(data["name"]),
            printable(data["state"]),
            status=printable(data.get("status") or ""),
            exit_code=_count(data.get("exit_code")),
            created=instant(data.get("created", 0.0)),
            started=None if data.get("started") is None else instant(data["started"]),
            ended=None if data.get("ended") is None else instant(data["ended"]),
            last=_count(data.get("last")) or 0,
            gpus=_share(data.get("gpus")),
            devices=tuple(_whole(device) for device in data.get("devices") or ()),
            nodes=_count(data.get("nodes")) or 1,
            position=_count(data.get("position")),
            service=bool(data.get("service")),
            reason=printable(data.get("reason") or ""),
        )

    @property
    def is_over(self) -> bool:
        """Whether it has ended."""
        return self.state == "ended"


@dataclass(frozen=True, slots=True)
class GuardState:
    """One active guard, and how many seconds it leaves.

    `left` is None where nothing is spent, so that it never comes due. `hold_left`, of the guard
    that ends the machine, says how much longer it waits for its outputs to be fetched; else it is
    None.
    """

    guard: str
    left: Seconds | None
    mode: str
    reason: str
    hold_left: Seconds | None = None


@dataclass(frozen=True, slots=True)
class PeerState:
    """Another machine of the cluster as an agent knows it.

    `heard` and `idle` are the seconds since it was heard of and since it was active; None if never.
    """

    node: int
    heard: Seconds | None
    idle: Seconds | None


@dataclass(frozen=True, slots=True)
class KernelState:
    """A kernel: `none`, `starting`, `idle`, `busy`, `unresponsive` or `dead`."""

    name: str
    state: str
    cells: int
    queued: int
    info: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class AgentStatus:
    """What the agent says of itself and its machine.

    Attributes
    ----------
    uptime, age
        Seconds since the agent started, and since the machine's first start.
    idle, active
        Seconds without activity, and what is active now, in words.
    ending
        Which guard is ending the machine; None while none is.
    disk_free, disk_total
        Bytes of the disk that holds the home.
    """

    version: str
    python: str
    platform: str
    uptime: Seconds
    age: Seconds
    idle: Seconds
    active: tuple[str, ...]
    guards: tuple[GuardState, ...]
    kernels: tuple[KernelState, ...]
    tasks: tuple[TaskInfo, ...]
    gpus: tuple[str, ...]
    cpus: int
    disk_free: int
    disk_total: int
    ending: GuardState | None = None

    @classmethod
    def of(cls, data: Mapping[str, Any]) -> AgentStatus:
        """Read the agent's answer."""
        kernels = [
            KernelState(
                printable(name),
                printable(row["state"]),
                _whole(row["cells"]),
                _whole(row["queued"]),
                {
                    printable(k): printable(str(v))
                    for k, v in row.items()
                    if k not in ("state", "cells", "queued")
                },
            )
            for name, row in data["kernels"].items()
        ]
        return cls(
            version=printable(data["version"]),
            python=printable(data["python"]),
            platform=printable(data["platform"]),
            uptime=_duration(data["uptime"]),
            age=_duration(data["age"]),
            idle=_duration(data["idle"]),
            active=tuple(map(printable, data["active"])),
            guards=guard_states(data["guards"]),
            kernels=tuple(kernels),
            tasks=tuple(map(TaskInfo.of, data["tasks"])),
            gpus=tuple(map(printable, data["gpus"])),
            cpus=_whole(data["cpus"] or 0),
            disk_free=_whole(data["disk_free"]),
            disk_total=_whole(data["disk_total"]),
            ending=guard_state(data["ending"]) if data["ending"] else None,
        )


def _duration(value: object) -> Seconds:
    if abs(number(value)) >= LATEST:
        raise TypeError("a duration is expected")
    return number(value)


def _duration_or_none(value: object) -> Seconds | None:
    return None if value is None else _duration(value)


def _count(value: object) -> int | None:
    if value is None:
        return None
    return _whole(value)


def _whole(value: object) -> int:
    if abs(number(value)) >= MOST_COUNT:
        raise TypeError("a count is expected")
    return int(number(value))


def _share(value: object) -> str | float | None:
    return None if value is None else printable(value) if isinstance(value, str) else number(value)


def guard_state(data: Mapping[str, Any]) -> GuardState:
    """Read one guard of the agent's answer."""
    return GuardState(
        printable(data["guard"]),
        _duration_or_none(data["left"]),
        printable(data["mode"]),
        printable(data["reason"]),
        _duration_or_none(data.get("hold_left")),
    )


def guard_states(rows: Iterable[Mapping[str, Any]]) -> tuple[GuardState, ...]:
    """Read the guards of the agent's answer."""
    return tuple(map(guard_state, rows))


def peer_states(rows: Iterable[Mapping[str, Any]]) -> tuple[PeerState, ...]:
    """Read what an agent says of the other machines."""
    return tuple(
        PeerState(
            _whole(row["node"]),
            _duration_or_none(row["heard"]),
            _duration_or_none(row["idle"]),
        )
        for row in rows
    )


def machine_load(data: Mapping[str, Any], now: Instant) -> MachineLoad:
    """Read the agent's answer on its machine's load, whose samples have ages."""
    return MachineLoad(
        tuple(
            LoadSample(
                now - _within(row["age"], LATEST),
                _within(row["cores"], MOST_CPUS),
                _bytes(row["memory"]),
                tuple(map(_gpu_load, row["gpus"][:MOST_GPUS])),
            )
            for row in data["samples"][-MOST_SAMPLES:]
        ),
        int(_within(data["cpus"] or 0, MOST_CPUS)),
        _bytes(data["memory"]),
        _bytes(data["disk_used"]),
        _bytes(data["disk_total"]),
        None if data["idle_left"] is None else instant(now + number(data["idle_left"])),
        bool(data["is_active"]),
    )


def _gpu_load(row: Sequence[object]) -> GpuLoad:
    percent, used, total = row
    return GpuLoad(
        None if percent is None else _within(percent, 100),
        None if used is None else _bytes(used, MIB),
        None if total is None else _bytes(total, MIB),
    )


def _within(value: object, most: float) -> float:
    """Return a figure that a machine can have; others would burst the page's tables."""
    if not 0 <= number(value) <= most:
        raise TypeError("a figure that a machine can have is expected")
    return number(value)


def _bytes(value: object, unit: int = 1) -> int:
    count = number(value) * unit
    if not 0 <= count < MOST_COUNT:
        raise TypeError("a size is expected")
    return int(count)


def plain_environment(env: Environment | None) -> dict[str, str]:
    """Return the variables with their secrets in clear, only for a verified connection."""
    return {
        name: value.reveal() if isinstance(value, Secret) else value
        for name, value in (env or {}).items()
    }


def environment_fields(env: Environment | None) -> dict[str, Any]:
    """Return the variables as the agent reads them, and the names of those to mask."""
    return {
        "env": plain_environment(env),
        "secrets": [name for name, value in (env or {}).items() if isinstance(value, Secret)],
    }
