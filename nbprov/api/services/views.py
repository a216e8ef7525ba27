"""Views of clusters for displays: state, place, machines, guards, cost and notes."""

from __future__ import annotations

from nbprov.api.context import Context
from nbprov.api.reports import is_simulated
from nbprov.model.clusters import ClusterView
from nbprov.model.guards import Guards
from nbprov.model.spec import Spec
from nbprov.provisioning.ledger import ClusterRow, Ledger

from .outputs import OutputService


def guards_of(ledger: Ledger, run_id: str, spec: Spec) -> Guards:
    """The guards of a cluster: what its agents were told last, else those of its spec."""
    from nbprov.provisioning.supervision.guard_config import guards_known

    return guards_known(ledger, run_id) or spec.guards


class ViewService:
    """Makes views of clusters from the ledger. Any thread."""

    def __init__(self, context: Context, outputs: OutputService) -> None:
        self._context, self._outputs = context, outputs

    def view(self, row: ClusterRow) -> ClusterView:
        """A cluster with its machines, guards and cost."""
        from nbprov.provisioning.supervision.desired_state import reason_words
        from nbprov.provisioning.supervision.guard_config import cluster_notes

        ledger = self._context.engine.ledger
        guards = guards_of(ledger, row.run_id, self._context.spec_of(row.run_id))
        return ClusterView(
            name=row.name,
            cluster_id=row.cluster_id,
            run_id=row.run_id,
            state=row.state,
            candidate=row.candidate,
            instances=tuple(ledger.instances.members(row.token)),
            guards=guards,
            notes=(*cluster_notes(ledger, row, guards), *self._outputs.words(row)),
            started=row.started,
            ended=row.ended,
            cost=ledger.prices.cost(row.run_id),
            hourly_now=ledger.prices.hourly_now(row.token),
            confirmed=row.confirmed,
            reason=reason_words(row),
            simulated=is_simulated(row.candidate.offer),
        )

    def views(self, *, ended: bool = False) -> list[ClusterView]:
        """Clusters from the ledger, live ones first; with `ended`, those that have ended too."""
        ledger = self._context.engine.ledger
        return [self.view(row) for row in ledger.clusters.latest(live_only=not ended)]
