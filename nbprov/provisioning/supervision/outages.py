"""Outages of machines: since when nobody reaches them, and when they count as idle then.

Pure: readings of time and answers are handed in.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from nbprov.model.clock import Seconds, short_duration
from nbprov.model.failures import Cause
from nbprov.model.guards import Autostop
from nbprov.remote.agent.messages import AgentStatus

UNREACHED_SAID: Seconds = 300.0
"""A machine is reported as out of reach after this long.

A reboot, a router's restart or a walk between two networks takes less.
"""

UNREACHED_AGAIN: Seconds = 3600.0
"""It is reported again this often: each time another hour has been paid for."""

UNREACHED_GRACE: Seconds = 3600.0
"""A machine that was idle when it last answered gets this on top of its idle time.

Somebody else may have begun to use it since.
"""

UNREACHED_MOST: Seconds = 24 * 3600.0
"""A machine that was busy when it last answered, or never answered, gets this on top.

Most work is done in a day.
"""

LEAST_ATTEMPTS = 3
"""Fewer failures end nothing, however far apart.

A computer that wakes up has no network for a moment.
"""

MOST_GAP: Seconds = 900.0
"""Two failures further apart than this are two outages: this computer slept, or nobody asked.

An attempt takes at most two thirds of it.
"""

ATTEMPT_SECONDS: Seconds = 600.0
"""How long one attempt to reach a cluster's agents may take.

It is well below `MOST_GAP`; otherwise every outage would fall apart.
"""

REFUSALS = frozenset({Cause.CREDENTIALS, Cause.BALANCE, Cause.PERMISSION})
"""Causes of a cloud's refusal that do not pass by themselves."""


@dataclass(slots=True)
class Streak:
    """Failures with no success between them.

    Attributes
    ----------
    first, last
        When the first and the last of them were, by a clock that never steps back.
    count
        How many.
    """

    first: Seconds = 0.0
    last: Seconds = 0.0
    count: int = 0

    def failed(self, now: Seconds) -> None:
        """Count one more; after a gap it is the first."""
        if not self.count or now - self.last > MOST_GAP:
            self.first, self.count = now, 0
        self.last = now
        self.count += 1

    def restart(self) -> None:
        """Count from nothing."""
        self.count = 0

    @property
    def span(self) -> Seconds:
        """Seconds from the first to the last of them."""
        return self.last - self.first if self.count else 0.0


@dataclass(frozen=True, slots=True)
class ActivityAnswer:
    """What all agents of a cluster together said of its idleness.

    Attributes
    ----------
    at
        When, by a clock that never steps back.
    left
        Seconds until the cluster has been idle for long enough; None where no agent has an idle
        guard that can come due.
    is_active
        Whether anything was at work on any machine.
    mode
        What the idle guard does: `stop` or `terminate`; empty where there is none.
    """

    at: Seconds
    left: Seconds | None
    is_active: bool
    mode: str


def answer_of(statuses: Sequence[AgentStatus], at: Seconds) -> ActivityAnswer:
    """Put the answers of all nodes together: the busiest decides."""
    idle = [next((g for g in status.guards if g.guard == "idle"), None) for status in statuses]
    left = [guard.left for guard in idle if guard is not None and guard.left is not None]
    return ActivityAnswer(
        at,
        left=max(left) if left and len(left) == len(idle) else None,
        is_active=any(status.active for status in statuses),
        mode=next((guard.mode for guard in idle if guard is not None), ""),
    )


class MachineOutage:
    """Whether the agents of a running cluster answer, and what its idle guard does otherwise.

    Two counts run: one decides when the outage is reported, the other when it ends the cluster.
    The second restarts whenever the cluster is seen at work.

    Attributes
    ----------
    reported, unattended
        The failures that count for the report, and those that count for the end.
    answer
        The last answer of all agents; None where it says nothing of now.
    """

    def __init__(self) -> None:
        self.reported = Streak()
        self.unattended = Streak()
        self.answer: ActivityAnswer | None = None

    def answered(self, answer: ActivityAnswer) -> None:
        """Note that all agents answered."""
        self.answer = answer
        self.restart()

    def failed(self, now: Seconds, *, is_active: bool = False) -> None:
        """Note that an attempt failed, though the cloud itself answers.

        Parameters
        ----------
        is_active
            Something was seen at work: on another machine of the cluster, or by another kernel.
        """
        self.reported.failed(now)
        if is_active:
            self.at_work()
        else:
            self.unattended.failed(now)

    def at_work(self) -> None:
        """Note that somebody uses the cluster, or may do so since its last answer."""
        self.unattended.restart()
        self.answer = None

    def restart(self) -> None:
        """Count from nothing.

        This is also done while the cloud cannot be listed: then it may be this computer that is
        out of reach.
        """
        self.reported.restart()
        self.unattended.restart()

    @property
    def is_to_report(self) -> bool:
        """Whether the outage has lasted long enough to be reported."""
        return self.reported.count > 1 and self.reported.span >= UNREACHED_SAID

    def allowed(self, autostop: Autostop) -> Seconds:
        """How long the cluster may be out of reach before its idle guard is carried out."""
        # A hook that saves results begins on the machine when its idle time is over.
        hook = autostop.hook_timeout if autostop.hook else 0.0
        if self.was_idle:
            assert self.answer is not None, "only an answer tells of idleness"
            return max(0.0, self.answer.left or 0.0) + max(UNREACHED_GRACE, hook)
        return autostop.idle + max(UNREACHED_MOST, hook)

    def due(self, autostop: Autostop) -> tuple[str, str] | None:
        """What the idle guard of the ledger asks for now without an answer, and why.

        That is `stop` or `terminate`; None while nothing is due.
        """
        streak = self.unattended
        if streak.count < LEAST_ATTEMPTS or streak.span < self.allowed(autostop):
            return None
        before = "and idle before" if self.was_idle else "and not known to be idle before"
        return self.mode(autostop), f"idle: not reached for {short_duration(streak.span)}, {before}"

    def mode(self, autostop: Autostop) -> str:
        """What the idle guard does: `stop` or `terminate`."""
        answered = self.answer.mode if self.answer is not None else ""
        return answered or ("terminate" if autostop.down else "stop")

    @property
    def was_idle(self) -> bool:
        """Whether nothing was at work when all agents last answered."""
        answer = self.answer
        return answer is not None and not answer.is_active and answer.left is not None
