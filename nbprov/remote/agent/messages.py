"""What the agent is told and what it tells, as typed values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from nbprov.model.clock import Instant, Seconds
from nbprov.model.guards import Guards
from nbprov.model.money import Micros
from nbprov.model.secret import Secret

from .framing import instant, number, word

BUDGET_RESERVE_SECONDS: Seconds = 180.0
"""Kept back of a budget: what a hook, a poweroff and the cloud's own stop take, so that the cap holds once all has ended."""

HOLD_SECONDS: Seconds = 600.0
"""How long a machine with outputs waits, at its end, for a notebook that takes them: time to wake a laptop up and pull some GB."""

MOST_COUNT = 2**53
"""What JSON tells exactly; no ledger and no table takes more than 2**63."""

Environment = Mapping[str, str | Secret]


@dataclass(frozen=True, slots=True)
class GuardConfig:
    """What the agent watches, and how it ends the machine.

    Attributes
    ----------
    poweroff
        `Capabilities.poweroff` of the cloud: a shell command in which `{mode}` becomes `stop` or `terminate` and `{reason}` a quoted text.
    idle_seconds, wait_for, mode, hook, hook_timeout
        The idle rule; None means never. `mode` is `stop` or `terminate`.
    max_lifetime_seconds
        Counted from the first start, stops included; then the machine is terminated.
    hourly, limit, spent
        The budget: what a running hour of the whole cluster costs, the cap, and what was spent of it when this configuration was made.
        The hours of this machine are added to `spent` as it runs; sending the same values again does not start the count anew.
    reserve_seconds
        The machine is ended while the budget still pays for this long.
    limit_mode
        What happens at the budget's end: `stop` or `terminate`.
    hold_seconds
        How long the machine waits for its outputs to be taken before it is terminated; lifetime and budget come due so much earlier.
    """

    poweroff: str
    idle_seconds: Seconds | None = None
    wait_for: str = "jobs_and_ssh"
    mode: str = "terminate"
    hook: str = ""
    hook_timeout: Seconds = 3600.0
    max_lifetime_seconds: Seconds | None = None
    hourly: Micros = 0
    limit: Micros | None = None
    spent: Micros = 0
    reserve_seconds: Seconds = BUDGET_RESERVE_SECONDS
    limit_mode: str = "terminate"
    hold_seconds: Seconds = 0.0

    @classmethod
    def of(
        cls,
        guards: Guards,
        *,
        poweroff: str,
        hourly: Micros = 0,
        spent: Micros = 0,
        hold: Seconds = 0.0,
    ) -> GuardConfig:
        """The configuration that follows from a spec's guards.

        Parameters
        ----------
        hourly
            What all machines of the cluster together cost an hour.
        spent
            What the spec has cost so far, by the ledger.
        hold
            How long outputs are waited for; 0 where there are none.
        """
        autostop = guards.autostop
        return cls(
            poweroff=poweroff,
            idle_seconds=autostop.idle if autostop else None,
            wait_for=autostop.wait_for if autostop else "jobs_and_ssh",
            mode="stop" if autostop and not autostop.down else "terminate",
            hook=autostop.hook if autostop else "",
            hook_timeout=autostop.hook_timeout if autostop else 3600.0,
            max_lifetime_seconds=guards.max_lifetime,
            hourly=hourly,
            limit=guards.budget,
            spent=spent,
            limit_mode="stop" if guards.at_limit == "stop" else "terminate",
            hold_seconds=hold,
        )

    def later(self, seconds: Seconds, spent: Micros) -> GuardConfig:
        """What a machine is told that joined its cluster so long after the others, when so much had been spent: the rest of lifetime and budget.

        Examples
        --------
        >>> GuardConfig("sudo poweroff", max_lifetime_seconds=3600.0, limit=9, spent=2).later(600.0, 5).max_lifetime_seconds
        3000.0
        """
        left = (
            None
            if self.max_lifetime_seconds is None
            else max(1.0, self.max_lifetime_seconds - seconds)
        )
        return replace(self, max_lifetime_seconds=left, spent=max(self.spent, spent))

    def to_json(self) -> dict[str, Any]:
        """The form the agent takes."""
        config: dict[str, Any] = {
            "poweroff": self.poweroff,
            "wait_for": self.wait_for,
            "mode": self.mode,
        }
        if self.idle_seconds is not None:
            config["idle_seconds"] = self.idle_seconds
        if self.hook:
            config |= {"hook": self.hook, "hook_timeout": self.hook_timeout}
        if self.max_lifetime_seconds is not None:
            config["max_lifetime_seconds"] = self.max_lifetime_seconds
        if self.limit is not None:
            amounts = {
                "hourly_micros": self.hourly,
                "limit_micros": self.limit,
                "spent_micros": self.spent,
            }
            config["budget"] = amounts | {"reserve_seconds": self.reserve_seconds}
            if self.limit_mode != "terminate":
                config["budget"]["mode"] = self.limit_mode
        if self.hold_seconds:
            config["outputs"] = {"hold_seconds": self.hold_seconds}
        return config

    @classmethod
    def from_json(cls, config: Mapping[str, Any]) -> GuardConfig:
        """Read back what `to_json` wrote.

        Examples
        --------
        >>> config = GuardConfig("sudo poweroff", idle_seconds=60.0, limit=5_000_000)
        >>> GuardConfig.from_json(config.to_json()) == config
        True
        """
        budget = config.get("budget", {})
        amounts = {
            "hourly": "hourly_micros",
            "limit": "limit_micros",
            "spent": "spent_micros",
            "reserve_seconds": "reserve_seconds",
        }
        amounts["limit_mode"] = "mode"
        return cls(
            **{name: config[name] for name in cls.__dataclass_fields__ if name in config},
            **{name: budget[key] for name, key in amounts.items() if key in budget},
            **{
                key: value
                for key, value in config.get("outputs", {}).items()
                if key == "hold_seconds"
            },
        )


@dataclass(frozen=True, slots=True)
class AgentConfig:
    """How to install and start the agent.

    Attributes
    ----------
    guards
        None leaves the guards as they are; on a new machine that is none, so the first start should give them.
    folder
        The agent's folder below the home on the machine.
    python
        The interpreter that runs the agent; 3.8 or later.
    start_seconds
        From the first command to the agent's hello.
    """

    guards: GuardConfig | None = None
    folder: str = ".nbprov"
    python: str = "python3"
    start_seconds: Seconds = 60.0


@dataclass(frozen=True, slots=True)
class Output:
    """One numbered piece of what a task gave.

    Attributes
    ----------
    number
        1 is the task's first; a follower that has seen N asks for what comes after N.
    kind
        `stdout`, `stderr` (jobs and shells, a line each, or some where they come in a flood); `stream`, `display_data`, `update_display_data`, `execute_result`, `error`,
        `clear_output` (cells, content as Jupyter's messages have it); `note` (the agent's own words); `gap` (the numbers `from` to
        `to` were dropped, the journal being full); `event` (of the agent itself); `end` (the last one).
    text
        The text of a line, of a stream or of a note.
    content
        Everything else: the message's content; for `end` its `status`, `exit_code` and, for cells, `execution_count`.
    """

    number: int
    at: Instant
    kind: str
    text: str = ""
    content: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, entry: Mapping[str, Any]) -> Output:
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
        How it ended: `ok`, `failed`, `error`, `cancelled`, `aborted`, `skipped`, `lost` (the agent itself was ended); else empty.
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
        """Read the agent's answer, newer agents' further fields aside."""
        return cls(
            word(data["id"]),
            word(data["kind"]),
            word(data["name"]),
            word(data["state"]),
            status=word(data.get("status") or ""),
            exit_code=_count(data.get("exit_code")),
            created=instant(data.get("created", 0.0)),
            started=None if data.get("started") is None else instant(data["started"]),
            ended=None if data.get("ended") is None else instant(data["ended"]),
            last=_count(data.get("last")) or 0,
            gpus=_share(data.get("gpus")),
            devices=tuple(int(number(device)) for device in data.get("devices") or ()),
            nodes=_count(data.get("nodes")) or 1,
            position=_count(data.get("position")),
            service=bool(data.get("service")),
            reason=word(data.get("reason") or ""),
        )

    @property
    def is_over(self) -> bool:
        """Whether it has ended."""
        return self.state == "ended"


@dataclass(frozen=True, slots=True)
class GuardState:
    """One guard that is on: what it is and how many seconds it leaves; None where nothing is spent, so it never comes due.

    `hold_left`, of the guard that ends the machine, says for how long its outputs are waited for still; None where they are not.
    """

    guard: str
    left: Seconds | None
    mode: str
    reason: str
    hold_left: Seconds | None = None


@dataclass(frozen=True, slots=True)
class PeerState:
    """Another machine of the cluster as an agent knows it: its node, seconds since it was heard of and since it was active; None if never."""

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
        Bytes where the home lies.
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
                word(name),
                word(row["state"]),
                int(number(row["cells"])),
                int(number(row["queued"])),
                {
                    word(k): word(str(v))
                    for k, v in row.items()
                    if k not in ("state", "cells", "queued")
                },
            )
            for name, row in data["kernels"].items()
        ]
        return cls(
            version=word(data["version"]),
            python=word(data["python"]),
            platform=word(data["platform"]),
            uptime=number(data["uptime"]),
            age=number(data["age"]),
            idle=number(data["idle"]),
            active=tuple(map(word, data["active"])),
            guards=guard_states(data["guards"]),
            kernels=tuple(kernels),
            tasks=tuple(map(TaskInfo.of, data["tasks"])),
            gpus=tuple(map(word, data["gpus"])),
            cpus=int(number(data["cpus"] or 0)),
            disk_free=int(number(data["disk_free"])),
            disk_total=int(number(data["disk_total"])),
            ending=guard_state(data["ending"]) if data["ending"] else None,
        )


def _moment(value: object) -> Instant | None:
    return None if value is None else number(value)


def _count(value: object) -> int | None:
    if value is None:
        return None
    if abs(number(value)) >= MOST_COUNT:
        raise TypeError("a count is expected")
    return int(number(value))


def _share(value: object) -> str | float | None:
    return None if value is None else word(value) if isinstance(value, str) else number(value)


def guard_state(data: Mapping[str, Any]) -> GuardState:
    """Read one guard of the agent's answer."""
    return GuardState(
        word(data["guard"]),
        _moment(data["left"]),
        word(data["mode"]),
        word(data["reason"]),
        _moment(data.get("hold_left")),
    )


def guard_states(rows: Iterable[Mapping[str, Any]]) -> tuple[GuardState, ...]:
    """Read the guards of the agent's answer."""
    return tuple(map(guard_state, rows))


def peer_states(rows: Iterable[Mapping[str, Any]]) -> tuple[PeerState, ...]:
    """Read what an agent says of the other machines."""
    return tuple(
        PeerState(int(number(row["node"])), _moment(row["heard"]), _moment(row["idle"]))
        for row in rows
    )


def plain_environment(env: Environment | None) -> dict[str, str]:
    """The variables with their secrets in clear. Only for what is written to a verified connection."""
    return {
        name: value.reveal() if isinstance(value, Secret) else value
        for name, value in (env or {}).items()
    }


def environment_fields(env: Environment | None) -> dict[str, Any]:
    """The variables as the agent takes them, with the names of those that it blots out of all output."""
    return {
        "env": plain_environment(env),
        "secrets": [name for name, value in (env or {}).items() if isinstance(value, Secret)],
    }
