"""Carries out guards on clouds where a machine that powers itself off stays on the bill."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from nbprov.clouds.base import Capabilities
from nbprov.model.clock import Seconds, short_duration
from nbprov.model.clusters import ClusterState
from nbprov.model.errors import NbprovError
from nbprov.model.events import EventKind
from nbprov.model.failures import CloudError
from nbprov.model.guards import Guards
from nbprov.model.money import SECONDS_PER_HOUR, exact_usd, format_usd
from nbprov.provisioning.ledger import ClusterRow
from nbprov.remote.agent.config import BUDGET_RESERVE_SECONDS

from .agent_poll import agent_statuses, is_powering_off
from .cluster_work import ClusterWork
from .condition_notes import UNREACHED, unreached_words
from .context import SupervisionContext
from .guard_config import STOP, guards_known
from .listing.cluster_state import BILLED
from .outages import UNREACHED_AGAIN, MachineOutage, answer_of
from .outputs_grace import OutputsGrace
from .verbs.stopper import Stopper
from .verbs.terminator import Terminator

if TYPE_CHECKING:
    from nbprov.remote.agent.client import AgentClient

log = logging.getLogger("nbprov.lifecycle")

LIFETIME_HOOK_SECONDS: Seconds = 300.0
"""What the agent allows a hook at the end of a lifetime.

At the end of a budget it allows what the reserve pays for.
"""

HOOK_GRACE: Seconds = 30.0
"""A hook that takes longer than allowed by this much is cut off: its machine is ended."""

OTHER_RELEASE = "agent.other-release"
"""The code of an agent that another release of nbprov uses now.

It cannot be asked, and its cluster is anything but idle.
"""


class GuardEnforcer:
    """Ends or stops one cluster whose guards are due. On the engine thread.

    Parameters
    ----------
    is_reachable
        Whether the cluster's cloud shows its machines to this kernel.

    Attributes
    ----------
    outage
        Since when nobody reaches the agents; None where nobody asked them.
    """

    def __init__(
        self,
        context: SupervisionContext,
        work: ClusterWork,
        grace: OutputsGrace,
        terminator: Terminator,
        stopper: Stopper,
        is_reachable: Callable[[ClusterRow], bool],
    ) -> None:
        self._context, self._work, self._grace = context, work, grace
        self._terminator, self._stopper = terminator, stopper
        self._is_reachable = is_reachable
        self._is_asking = False
        self._hook_since: Seconds | None = None
        self.outage: MachineOutage | None = None

    def reconcile(self, row: ClusterRow) -> None:
        """Carry out what is due by the ledger; otherwise ask the agents, who know of idleness."""
        if row.state not in BILLED:
            self.outage = None
            return
        if self._work.is_busy:
            return
        self._is_counted(row)  # in every round, to see an outage of the cloud between two attempts
        capabilities = self._context.capabilities_of(row)
        if capabilities is None:
            return
        can_ask = not self._is_asking and not self._is_being_made(row)
        if capabilities.poweroff_ends_bill:
            if can_ask and self._grace.is_to_look(row):
                self._is_asking = True
                self._work.begin(self._look_for_hold(row))
            return
        due = self.due_by_ledger(row)
        if due is not None:
            if due[0] == STOP or self._grace.may_end(row):
                self.carry_out(row, *due)
        elif can_ask:
            self._is_asking = True
            self._work.begin(self._ask_agents(row))

    async def _look_for_hold(self, row: ClusterRow) -> None:
        try:
            statuses, _ = await agent_statuses(self._context.connections, row)
            self._grace.is_waiting(row, statuses)
        finally:
            self._is_asking = False

    def _is_being_made(self, row: ClusterRow) -> bool:
        driver = self._context.drivers.get(row.run_id)
        return driver is not None and not driver.ready.done()

    def _is_counted(self, row: ClusterRow) -> bool:
        """Whether an outage of the machines counts: their cloud shows them to this kernel.

        Otherwise it may be this computer that is out of reach, and the count starts anew.
        """
        is_reachable = self._is_reachable(row)
        if not is_reachable and self.outage is not None:
            self.outage.restart()
        return is_reachable

    # ------------------------------------------------------------ what is due

    def due_by_ledger(self, row: ClusterRow) -> tuple[str, str] | None:
        """What lifetime and budget ask for, without an answer of the machine, and why.

        That is `stop` or `terminate`; None while nothing is due.
        """
        guards = guards_known(self._context.ledger, row.run_id)
        if guards is None:
            return None
        return self._lifetime_due(row, guards) or self._budget_due(row, guards)

    def _lifetime_due(self, row: ClusterRow, guards: Guards) -> tuple[str, str] | None:
        if guards.max_lifetime is None:
            return None
        launched = [i.launched_at for i in self._context.ledger.instances.of_launch(row.token)]
        began = min([at for at in launched if at] + [row.started])
        hook = LIFETIME_HOOK_SECONDS + HOOK_GRACE if _has_hook(guards) else 0.0
        if self._context.clock.now() - began < guards.max_lifetime + hook:
            return None
        return "terminate", f"lifetime: {short_duration(guards.max_lifetime)} are over"

    def _budget_due(self, row: ClusterRow, guards: Guards) -> tuple[str, str] | None:
        if guards.budget is None:
            return None
        ledger = self._context.ledger
        spent = ledger.prices.cost(row.run_id)
        # The agent starts its hook while the budget still pays for the reserve, which is the
        # hook's.
        reserve = HOOK_GRACE if _has_hook(guards) else BUDGET_RESERVE_SECONDS
        hourly = max(row.candidate.hourly, ledger.prices.hourly_now(row.token))
        if spent + hourly * reserve / SECONDS_PER_HOUR < guards.budget:
            return None
        mode = STOP if guards.at_limit == STOP else "terminate"
        return mode, f"budget: {format_usd(spent)} of {exact_usd(guards.budget)} spent"

    # ------------------------------------------------------------ asking the agents

    async def _ask_agents(self, row: ClusterRow) -> None:
        try:
            answers, error = await agent_statuses(self._context.connections, row)
            statuses = [status for _, status in answers]
            if error is None:
                answer = answer_of(statuses, self._context.clock.elapsed())
                self._known_outage().answered(answer)
                self._context.notes.over(row, UNREACHED)
            if self._grace.is_waiting(row, answers):
                return
            ending = [(agent, s.ending) for agent, s in answers if s.ending is not None]
            if ending and all([await self._is_hook_over(row, a, due.guard) for a, due in ending]):
                self.carry_out(row, ending[0][1].mode, ending[0][1].reason)
            elif error is not None:
                self._not_reached(row, error, is_active=any(s.active for s in statuses))
        finally:
            self._is_asking = False

    def _known_outage(self) -> MachineOutage:
        if self.outage is None:
            self.outage = MachineOutage()
        return self.outage

    def _not_reached(self, row: ClusterRow, error: Exception, *, is_active: bool) -> None:
        """Report agents that do not answer, and carry the idle guard out after long enough."""
        ledger, clock = self._context.ledger, self._context.clock
        if not isinstance(error, CloudError | NbprovError | TimeoutError | OSError):
            log.error("%s: its guards could not be asked", row.name, exc_info=error)
        log.info("%s: its guards cannot be asked now: %s; tried again", row.name, error)
        current = ledger.clusters.of_run(row.run_id)
        if current is None or current.state not in BILLED or not self._is_counted(row):
            return
        outage, now = self._known_outage(), clock.elapsed()
        is_active = is_active or getattr(error, "code", "") == OTHER_RELEASE
        outage.failed(now, is_active=is_active)
        if self._has_new_job(row, outage, now):
            outage.at_work()
        guards = guards_known(ledger, row.run_id)
        autostop = guards.autostop if guards is not None else None
        if outage.is_to_report:
            since = clock.now() - (now - outage.reported.first)
            words = unreached_words(row, outage, error, since=since, autostop=autostop)
            self._context.notes.say(row, UNREACHED, words, again=UNREACHED_AGAIN)
        due = outage.due(autostop) if autostop is not None else None
        if due is None:
            return
        if self._context.notes.is_over_since(row, UNREACHED, outage.unattended.span):
            outage.at_work()  # another kernel reaches it
        else:
            self.carry_out(current, *due)

    def _has_new_job(self, row: ClusterRow, outage: MachineOutage, now: Seconds) -> bool:
        """Whether a job began since the last answer: the cluster is not idle, though it was."""
        if outage.answer is None:
            return False
        age = now - outage.answer.at
        jobs = self._context.ledger.jobs.of_run(row.run_id)
        return any(
            self._context.clock.now() - job["started"] < age for job in jobs if job["started"]
        )

    async def _is_hook_over(self, row: ClusterRow, agent: AgentClient, guard: str) -> bool:
        """Whether the hook of a machine whose guard is due has run, or had its time.

        The hook may save results, so the machine is not ended before.
        """
        guards = guards_known(self._context.ledger, row.run_id)
        autostop = guards.autostop if guards is not None else None
        if autostop is None or not autostop.hook:
            return True
        now = self._context.clock.elapsed()
        if self._hook_since is None:
            self._hook_since = now
        limits = {"lifetime": LIFETIME_HOOK_SECONDS, "budget": BUDGET_RESERVE_SECONDS}
        allowed = min(limits.get(guard, autostop.hook_timeout), autostop.hook_timeout)
        if now - self._hook_since >= allowed + HOOK_GRACE:
            return True
        return await is_powering_off(agent)

    # ------------------------------------------------------------ carrying out

    def carry_out(self, row: ClusterRow, mode: str, reason: str) -> None:
        """Stop or terminate the cluster, unless somebody is at work on it."""
        ledger = self._context.ledger
        self._hook_since = None
        if self._work.is_busy or not self._work.try_lease():
            return  # somebody is at work on it: the next round looks again
        if mode == STOP:
            self._note(row, mode, f"stopped by this kernel: {reason}")
            self._work.begin(self._stopper.stop(row, reason))
        elif ledger.record(
            lambda: ledger.clusters.move(
                row.cluster_id, ClusterState.ENDING, reason, was=row.state
            ),
            True,
        ):
            self._note(row, mode, f"ended by this kernel: {reason}")
            self._work.begin(self._terminator.down(row, reason))
        else:
            self._work.release()

    def _note(self, row: ClusterRow, mode: str, text: str) -> None:
        ledger = self._context.ledger
        add = partial(ledger.events.add, row.run_id, EventKind.GUARD_ENFORCED, text, row.token)
        ledger.record(partial(add, mode=mode), None)


def _has_hook(guards: Guards) -> bool:
    return guards.autostop is not None and bool(guards.autostop.hook)


def needs_kernel(name: str, capabilities: Capabilities) -> str:
    """What to know before Launch of a cloud whose machines cannot end their own bill.

    Empty for the other clouds.
    """
    if capabilities.poweroff_ends_bill:
        return ""
    watched = "idle time and budget" if capabilities.own_timer else "idle time, lifetime and budget"
    return (
        f"on {name} nothing ends the machine while no notebook runs: {watched} are acted on by a"
        " kernel with nbprov; after the last one stopped the machine stays on the bill until a"
        " kernel loads nbprov again"
    )
