"""The check of a guard configuration: one that guards nothing by mistake is refused."""

from __future__ import annotations

from typing import Any

from ..errors import RequestError
from ..json_types import Json

MOST_HOLD = 3600.0
"""The longest that outputs may be waited for: fetching takes minutes, and the machine costs."""
KNOWN = frozenset(
    (
        "idle_seconds",
        "wait_for",
        "mode",
        "hook",
        "hook_timeout",
        "max_lifetime_seconds",
        "budget",
        "outputs",
        "poweroff",
    )
)
WAIT_FOR = ("jobs_and_ssh", "jobs", "none")
MODES = ("stop", "terminate")


def check_guards(config: Json) -> Json:
    """Return the configuration.

    Raises
    ------
    RequestError
        `guards`, if a setting is unknown or has no sensible value.
    """
    unknown = sorted(set(config) - KNOWN)
    if unknown:
        raise _refusal("unknown guard setting: {}".format(", ".join(unknown)))
    for key in ("idle_seconds", "max_lifetime_seconds", "hook_timeout"):
        value = config.get(key)
        if value is not None and not (_is_number(value) and 0 < value < float("inf")):
            raise _refusal(f"{key} must be a number of seconds above 0, not {value!r}")
    wait_for = config.get("wait_for", WAIT_FOR[0])
    if wait_for not in WAIT_FOR:
        raise _refusal(f"wait_for must be jobs_and_ssh, jobs or none, not {wait_for!r}")
    _check_mode("mode", config)
    if config.get("budget") is not None:
        _check_budget(config["budget"])
    if config.get("outputs") is not None:
        hold = config["outputs"].get("hold_seconds")
        if not (_is_number(hold) and 0 <= hold <= MOST_HOLD):
            limit = int(MOST_HOLD)
            raise _refusal(
                f"outputs.hold_seconds must be a number of seconds up to {limit}, not {hold!r}"
            )
    limits = (config.get("max_lifetime_seconds"), config.get("budget"))
    if (config.get("idle_seconds") or any(limits)) and not config.get("poweroff"):
        raise _refusal("guards need the command that powers the machine off")
    return config


def _check_budget(budget: Json) -> None:
    for key in ("hourly_micros", "limit_micros"):
        if not (_is_number(budget.get(key)) and budget[key] >= 0):
            raise _refusal(f"budget.{key} must be an amount in micros")
    _check_mode("budget.mode", budget)


def _check_mode(name: str, config: Json) -> None:
    mode = config.get("mode", "terminate")
    if mode not in MODES:
        raise _refusal(f"{name} must be stop or terminate, not {mode!r}")


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _refusal(message: str) -> RequestError:
    return RequestError("guards", message)
