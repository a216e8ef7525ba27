"""Warns when the share of a budget that the spec names is spent."""

from __future__ import annotations

from functools import partial

from nbprov.model.events import EventKind
from nbprov.model.guards import Guards
from nbprov.provisioning.ledger import ClusterRow

from .context import SupervisionContext
from .guard_config import share_words, shares_spent


def warn_of_budget(context: SupervisionContext, row: ClusterRow, guards: Guards) -> None:
    """Write an event for each share that is spent, once for all kernels."""
    if not guards.warn:
        return
    ledger = context.ledger
    spent = ledger.prices.cost(row.run_id)
    known = {
        (event.data["share"], event.data["budget"])
        for event in ledger.events.of_run(row.run_id)
        if event.kind is EventKind.BUDGET_SHARE_SPENT
    }
    for share, budget in shares_spent(guards, spent):
        if (share, budget) not in known:
            text = share_words(share, budget, spent)
            kind = EventKind.BUDGET_SHARE_SPENT
            add = partial(ledger.events.add, row.run_id, kind, text, row.token)
            ledger.record(partial(add, share=share, budget=budget), None)
            context.changed()
