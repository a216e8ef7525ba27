"""Ends a running cluster that its cloud charges more for than was agreed to."""

from __future__ import annotations

from nbprov.model.clock import Seconds, short_duration, utc_text
from nbprov.provisioning.ledger import ClusterRow
from nbprov.provisioning.run.pricing.price_check import agreed_for
from nbprov.provisioning.run.pricing.requote import listed_beyond

from .cluster_work import ClusterWork
from .condition_notes import DEARER
from .context import SupervisionContext
from .guard_config import STOP, guards_known
from .guard_enforcement import GuardEnforcer
from .listing.cluster_state import BILLED
from .outputs_grace import OutputsGrace

PRICE_GRACE: Seconds = 1800.0
"""How long a cluster that became dearer than agreed runs on after that was said.

It may be at work for days, and half an hour is long enough to save results or to agree. Machines
that are being launched, started or replaced have done no work yet and are ended at once.
"""

REPORTED_AGAIN: Seconds = 86_400.0
"""Longer than `PRICE_GRACE`: the first report says when it ends, so it is not repeated."""


class PriceGuard:
    """Compares what one cluster costs with what was agreed to. On the engine thread."""

    def __init__(
        self,
        context: SupervisionContext,
        work: ClusterWork,
        grace: OutputsGrace,
        enforcer: GuardEnforcer,
    ) -> None:
        self._context, self._work = context, work
        self._grace, self._enforcer = grace, enforcer

    def reconcile(self, row: ClusterRow) -> None:
        """Say at once that a cluster is dearer than agreed, and end it `PRICE_GRACE` later."""
        context, ledger = self._context, self._context.ledger
        if row.state not in BILLED or self._work.is_busy:
            return
        running = ledger.prices.running(row.token)
        beyond = listed_beyond(row.candidate, running, agreed_for(ledger, row))
        if not beyond:
            context.notes.over(row, DEARER)
            return
        mode, now = self._mode(row), context.clock.now()
        verb = "stopped" if mode == STOP else "ended"
        words = (
            f": {beyond}; it is {verb} by a kernel after {utc_text(now + PRICE_GRACE)}, unless you"
            f" agree: run its %%provision cell with --yes; %nbprov down {row.name} ends it now"
        )
        context.notes.say(row, DEARER, words, again=REPORTED_AGAIN)
        reported = context.notes.reported_at(row, DEARER)
        if reported is None or now - reported < PRICE_GRACE:
            return
        if mode == STOP or self._grace.may_end(row):
            reason = f"dearer than agreed for {short_duration(PRICE_GRACE)}: {beyond}"
            self._enforcer.carry_out(row, mode, reason)

    def _mode(self, row: ClusterRow) -> str:
        """What the cluster's other guards do with it: stop it, or terminate it."""
        guards = guards_known(self._context.ledger, row.run_id)
        if guards is None:
            return "terminate"
        keeps = guards.autostop is not None and not guards.autostop.down
        return STOP if keeps or guards.at_limit == STOP else "terminate"
