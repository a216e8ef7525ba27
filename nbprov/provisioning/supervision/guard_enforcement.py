"""Guards that only a kernel can carry out: on clouds where a machine that powers itself off stays on the bill."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from nbprov.clouds.base import Capabilities
from nbprov.model.clock import Seconds, short_duration
from nbprov.model.clusters import ClusterState
from nbprov.model.errors import NbprovError, NotFound
from nbprov.model.failures import CloudError
from nbprov.model.money import SECONDS_PER_HOUR, format_usd
from nbprov.provisioning.ledger import ClusterRow
from nbprov.remote.agent.messages import BUDGET_RESERVE_SECONDS, AgentStatus

from .guard_config import STOP, guards_known
from .outages import (
    ATTEMPT_SECONDS,
    UNREACHED,
    UNREACHED_AGAIN,
    Unreached,
    answer_of,
    unreached_words,
)
from .outputs_grace import Holding

if TYPE_CHECKING:
    from nbprov.provisioning.engine import Engine
    from nbprov.remote.agent.client import AgentClient

log = logging.getLogger("nbprov.lifecycle")

ASK_SECONDS: Seconds = 30.0
"""How long an agent may take to say what its guards see: it answers from memory, so this is a matter of the line."""

EVENTS_SECONDS: Seconds = 2.0
"""How long an agent's events are read: those it has come at once."""

LIFETIME_HOOK_SECONDS: Seconds = 300.0
"""What the agent allows a hook at the end of a lifetime; at the end of a budget it is what the reserve pays for."""

HOOK_GRACE: Seconds = 30.0
"""Beyond what a hook is allowed, before it is cut off by ending its machine."""

GUARD = UNREACHED.kind
"""The event of a guard that a kernel carries out, or cannot."""

OTHER_RELEASE = "agent.other-release"
"""The code of an agent that is in use by another release of nbprov: it cannot be asked, and its cluster is anything but idle."""

BILLED = (ClusterState.RUNNING, ClusterState.UNKNOWN)


class Enforcing(Holding, ABC):
    """Ends or stops clusters whose guards are due and whose machines cannot end their own bill. On the engine thread."""

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine)
        self._asking: set[str] = set()
        self._unreached: dict[str, Unreached] = {}
        self._dark: set[str] = set()
        self._ending_since: dict[str, Seconds] = {}

    @abstractmethod
    async def down(self, row: ClusterRow, reason: str = "you ended it") -> None:
        """End a cluster; see `Lifecycle.down`."""

    @abstractmethod
    async def stop(self, row: ClusterRow, reason: str = "you stopped it") -> None:
        """Stop a cluster; see `Lifecycle.stop`."""

    def _enforce(self, row: ClusterRow) -> None:
        """Carry out what is due by the ledger; else ask the agents, which alone know of idleness."""
        if row.state not in BILLED:
            self._unreached.pop(row.cluster_id, None)
            return
        if self._busy[row.cluster_id]:
            return
        self._is_seen(row)  # in every round, for a cloud that was out of reach between two attempts
        try:
            capabilities = self._engine.cloud(row.candidate.offer.cloud).capabilities
        except NotFound:  # its adapter is not installed here
            return
        if capabilities.poweroff_ends_bill:
            if (
                row.cluster_id not in self._asking
                and not self._is_being_made(row)
                and self._is_to_look(row)
            ):
                self._asking.add(row.cluster_id)
                self._begin(self._look_for_hold(row))
            return
        due = self._due_by_ledger(row)
        if due is not None:
            if due[0] == STOP or self._may_end(row):
                self._carry_out(row, *due)
        elif row.cluster_id not in self._asking and not self._is_being_made(row):
            self._asking.add(row.cluster_id)
            self._begin(self._ask_agents(row))

    async def _look_for_hold(self, row: ClusterRow) -> None:
        try:
            told, _ = await self._statuses(row)
            self._waits(row, told)
        finally:
            self._asking.discard(row.cluster_id)

    def _is_being_made(self, row: ClusterRow) -> bool:
        driver = self._engine.drivers.get(row.run_id)
        return driver is not None and not driver.ready.done()

    def _due_by_ledger(self, row: ClusterRow) -> tuple[str, str] | None:
        """What lifetime and budget ask for, with no word from the machine: `stop` or `terminate`, and why."""
        ledger = self._engine.ledger
        guards = guards_known(ledger, row.run_id)
        if guards is None:
            return None
        has_hook = guards.autostop is not None and bool(guards.autostop.hook)
        began = min(
            [i.launched_at for i in ledger.instances.of_launch(row.token) if i.launched_at]
            + [row.started]
        )
        more = LIFETIME_HOOK_SECONDS + HOOK_GRACE if has_hook else 0.0
        if (
            guards.max_lifetime is not None
            and self._engine.clock.now() - began >= guards.max_lifetime + more
        ):
            return "terminate", f"lifetime: {short_duration(guards.max_lifetime)} are over"
        if guards.budget is not None:
            spent = ledger.prices.cost(row.run_id)
            # The agent begins its hook while the budget still pays for the reserve: that is the hook's.
            reserve = HOOK_GRACE if has_hook else BUDGET_RESERVE_SECONDS
            kept_back = (
                max(row.candidate.hourly, ledger.prices.hourly_now(row.token))
                * reserve
                / SECONDS_PER_HOUR
            )
            if spent + kept_back >= guards.budget:
                mode = STOP if guards.at_limit == STOP else "terminate"
                return mode, f"budget: {format_usd(spent)} of {format_usd(guards.budget)} spent"
        return None

    def _is_seen(self, row: ClusterRow) -> bool:
        """Whether this cluster's cloud could be asked of it the last time; else its silence counts for nothing, and the count starts anew."""
        is_seen = (
            row.candidate.offer.cloud not in self._dark and row.cluster_id not in self._foreign
        )
        if not is_seen and row.cluster_id in self._unreached:
            self._unreached[row.cluster_id].paused()
        return is_seen

    async def _ask_agents(self, row: ClusterRow) -> None:
        try:
            told, trouble = await self._statuses(row)
            statuses = [status for _, status in told]
            ending = [(agent, status.ending) for agent, status in told if status.ending is not None]
            if trouble is None:
                self._unreached.setdefault(row.cluster_id, Unreached()).answered(
                    answer_of(statuses, self._engine.clock.elapsed())
                )
                self._notes.over(row, UNREACHED)
            if self._waits(row, told):
                return
            if ending and all(
                [await self._hook_is_over(row, agent, due.guard) for agent, due in ending]
            ):
                self._carry_out(row, ending[0][1].mode, ending[0][1].reason)
            elif trouble is not None:
                self._not_reached(row, trouble, is_active=any(status.active for status in statuses))
        finally:
            self._asking.discard(row.cluster_id)

    async def _statuses(
        self, row: ClusterRow
    ) -> tuple[list[tuple[AgentClient, AgentStatus]], Exception | None]:
        """What the agents say, all asked at once, and why one of them, or all, said nothing."""

        async def one(agent: AgentClient | None) -> tuple[AgentClient, AgentStatus]:
            if agent is None:
                raise NbprovError("the connection to it is closed", code="agent.closed")
            async with asyncio.timeout(ASK_SECONDS):
                return agent, await agent.status()

        try:
            async with asyncio.timeout(ATTEMPT_SECONDS):
                live = await self._engine.attach(row.name)
        except Exception as error:  # whatever it is, nobody knows of the machine's idle time
            return [], error
        answers = await asyncio.gather(
            *(one(node.agent) for node in live.present), return_exceptions=True
        )
        told = [answer for answer in answers if not isinstance(answer, BaseException)]
        if told and len(told) == len(answers):
            return told, None
        return told, next(
            (a for a in answers if isinstance(a, Exception)),
            NbprovError("its machines did not answer", code="agent.silent"),
        )

    def _not_reached(self, row: ClusterRow, error: Exception, *, is_active: bool) -> None:
        """Tell of a machine that does not answer, and carry out its idle guard once nobody reached it for long enough."""
        ledger, clock = self._engine.ledger, self._engine.clock
        if not isinstance(error, CloudError | NbprovError | TimeoutError | OSError):
            log.error("%s: its guards could not be asked", row.name, exc_info=error)
        log.info("%s: its guards cannot be asked now: %s; tried again", row.name, error)
        current = ledger.clusters.of_run(row.run_id)
        if current is None or current.state not in BILLED or not self._is_seen(row):
            return
        silence, now = self._unreached.setdefault(row.cluster_id, Unreached()), clock.elapsed()
        silence.failed(now, is_active=is_active or getattr(error, "code", "") == OTHER_RELEASE)
        # What began between the last answer and the silence is not idle, though that answer was.
        if silence.answer is not None and any(
            clock.now() - job["started"] < now - silence.answer.at
            for job in ledger.jobs.of_run(row.run_id)
            if job["started"]
        ):
            silence.at_work()
        guards = guards_known(ledger, row.run_id)
        autostop = guards.autostop if guards is not None else None
        if silence.is_to_say:
            since = clock.now() - (now - silence.told.first)
            self._notes.say(
                row,
                UNREACHED,
                unreached_words(row, silence, error, since=since, autostop=autostop),
                again=UNREACHED_AGAIN,
            )
        due = silence.due(autostop) if autostop is not None else None
        if due is not None and self._notes.is_over_since(row, UNREACHED, silence.ending.span):
            silence.at_work()  # another kernel reaches it
        elif due is not None:
            self._carry_out(current, *due)

    async def _hook_is_over(self, row: ClusterRow, agent: AgentClient, guard: str) -> bool:
        """Whether a machine whose guard is due may be ended: its hook, which may save what was computed, has run or had its time."""
        guards = guards_known(self._engine.ledger, row.run_id)
        autostop = guards.autostop if guards is not None else None
        if autostop is None or not autostop.hook:
            return True
        now = self._engine.clock.elapsed()
        since = self._ending_since.setdefault(row.cluster_id, now)
        allowed = {"lifetime": LIFETIME_HOOK_SECONDS, "budget": BUDGET_RESERVE_SECONDS}.get(
            guard, autostop.hook_timeout
        )
        if now - since >= min(allowed, autostop.hook_timeout) + HOOK_GRACE:
            return True
        is_over = False
        with contextlib.suppress(TimeoutError, CloudError, NbprovError, OSError):
            async with asyncio.timeout(EVENTS_SECONDS):
                async for event in agent.events():  # does not end by itself
                    what = event.content.get("what")
                    # Those of an earlier start, before a stop, are in the journal too.
                    is_over = what == "poweroff" or (is_over and what not in ("started", "guard"))
        return is_over

    def _carry_out(self, row: ClusterRow, mode: str, reason: str) -> None:
        ledger = self._engine.ledger
        self._ending_since.pop(row.cluster_id, None)
        if self._busy[row.cluster_id] or not self._try_lease(row.run_id):
            return  # somebody is at work on it: looked at again in the next round
        if mode == STOP:
            ledger.events.add(row.run_id, GUARD, f"stopped by this kernel: {reason}", row.token)
            self._begin(self.stop(row, reason))
        elif ledger.clusters.move(row.cluster_id, ClusterState.ENDING, reason, was=row.state):
            ledger.events.add(row.run_id, GUARD, f"ended by this kernel: {reason}", row.token)
            self._begin(self.down(row, reason))
        else:
            self._release(row.run_id)


def needs_kernel(name: str, capabilities: Capabilities) -> str:
    """What a person should know before Launch of a cloud whose machines cannot end their own bill; empty for the others."""
    if capabilities.poweroff_ends_bill:
        return ""
    watched = "idle time and budget" if capabilities.own_timer else "idle time, lifetime and budget"
    return (
        f"on {name} nothing ends the machine while no notebook runs: {watched} are acted on by a kernel with nbprov;"
        " after the last one stopped the machine stays on the bill until a kernel loads nbprov again"
    )
