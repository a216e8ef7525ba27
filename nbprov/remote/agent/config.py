"""What the agent is told: how it is started, and the guards that it enforces."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from nbprov.model.clock import Seconds
from nbprov.model.guards import Guards
from nbprov.model.money import Micros

BUDGET_RESERVE_SECONDS: Seconds = 180.0
"""Kept back of a budget.

A hook, the poweroff and the cloud's own stop take so long, and the cap must hold after them.
"""

HOLD_SECONDS: Seconds = 600.0
"""How long a machine with outputs waits, before it ends, for a notebook that fetches them.

It is time to wake up a laptop and pull some GB.
"""


@dataclass(frozen=True, slots=True)
class GuardConfig:
    """What the agent watches, and how it ends the machine.

    Attributes
    ----------
    poweroff
        `Capabilities.poweroff` of the cloud: a shell command in which `{mode}` becomes `stop` or
        `terminate` and `{reason}` a quoted text.
    idle_seconds, wait_for, mode, hook, hook_timeout
        The idle rule; None means never. `mode` is `stop` or `terminate`.
    max_lifetime_seconds
        Counted from the first start, stops included; then the machine is terminated.
    hourly, limit, spent
        The budget: what an hour of the whole cluster costs, the cap, and what was spent of it when
        this configuration was made. The agent adds the hours of this machine to `spent` as it runs;
        sending the same values again does not start the count anew.
    reserve_seconds
        The machine is ended while the budget still pays for this long.
    limit_mode
        What happens at the budget's end: `stop` or `terminate`.
    hold_seconds
        How long the machine waits for its outputs to be fetched before it is terminated. Lifetime
        and budget come due so much earlier.
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
        """Make the configuration that follows from a spec's guards.

        Parameters
        ----------
        hourly
            What all machines of the cluster together cost an hour.
        spent
            What the spec has cost so far, by the ledger.
        hold
            How long to wait for outputs; 0 where there are none.
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
        """Return the configuration for a machine that joins its cluster later: what is left.

        Parameters
        ----------
        seconds
            How long after the others it joins.
        spent
            What the cluster had cost by then.

        Examples
        --------
        >>> config = GuardConfig("sudo poweroff", max_lifetime_seconds=3600.0, limit=9, spent=2)
        >>> config.later(600.0, 5).max_lifetime_seconds
        3000.0
        """
        left = (
            None
            if self.max_lifetime_seconds is None
            else max(1.0, self.max_lifetime_seconds - seconds)
        )
        return replace(self, max_lifetime_seconds=left, spent=max(self.spent, spent))

    def to_json(self) -> dict[str, Any]:
        """Return the form that the agent reads."""
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
        """Read what `to_json` wrote.

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
        None leaves the guards as they are. A new machine has none, so its first start should give
        them.
    folder
        The agent's folder below the home on the machine.
    python
        The interpreter that runs the agent; 3.8 or later.
    start_seconds
        From the first command to the agent's greeting.
    """

    guards: GuardConfig | None = None
    folder: str = ".nbprov"
    python: str = "python3"
    start_seconds: Seconds = 60.0
