"""Guards: the idle time, lifetime and budget after which a cluster stops or ends."""

from __future__ import annotations

from dataclasses import dataclass

from .clock import Seconds, short_duration
from .money import Micros, exact_usd

DEFAULT_IDLE_SECONDS: Seconds = 60 * 60.0


@dataclass(frozen=True, slots=True)
class Autostop:
    """Stop or end the cluster after a time without use.

    Attributes
    ----------
    idle
        Seconds without a cell, a job, an ssh session, GPU or CPU use.
    down
        True ends the cluster; False stops it and keeps the disk.
    wait_for
        What counts as use: `jobs_and_ssh`, `jobs` or `none`.
    hook, hook_timeout
        A command that runs on the machine before it stops; if it fails there is only a warning.
    down_after
        Seconds after which a stopped cluster ends; None for never.
    """

    idle: Seconds
    down: bool = False
    wait_for: str = "jobs_and_ssh"
    hook: str = ""
    hook_timeout: Seconds = 3600.0
    down_after: Seconds | None = None


@dataclass(frozen=True, slots=True)
class Guards:
    """The limits that end a cluster without a person: idle time, lifetime and budget.

    Attributes
    ----------
    autostop
        None only if the spec switches it off.
    warn
        Shares of the budget (0 to 1) at which to warn, ascending.
    at_limit
        What happens at the budget's limit: `down` or `stop`.
    """

    autostop: Autostop | None = Autostop(DEFAULT_IDLE_SECONDS, down=True)
    max_lifetime: Seconds | None = None
    budget: Micros | None = None
    is_default: bool = True
    warn: tuple[float, ...] = ()
    at_limit: str = "down"

    def words(self) -> str:
        """The guards as one phrase for the plan, the panel and the table."""
        said = (self.idle_words(), self.lifetime_words(), self.budget_words())
        return ", ".join(words for words in said if words) or "none"

    def idle_words(self) -> str:
        """The idle guard as words; empty where it is off."""
        if self.autostop is None:
            return ""
        verb = "down" if self.autostop.down else "stop"
        return f"{verb} after {short_duration(self.autostop.idle)} idle"

    def lifetime_words(self) -> str:
        """The longest lifetime as words; empty where there is none."""
        return (
            f"down after {short_duration(self.max_lifetime)}"
            if self.max_lifetime is not None
            else ""
        )

    def budget_words(self) -> str:
        """The budget as words; empty where there is none."""
        return "" if self.budget is None else f"{self.at_limit} at {exact_usd(self.budget)}"
