"""Views of clusters for displays: state, place, machines, guards, cost and notes."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from nbprov.api.context import Context
from nbprov.model.clusters import AttemptState, ClusterState, ClusterView, RunState
from nbprov.model.guards import Guards
from nbprov.model.spec import Spec
from nbprov.provisioning.ledger import AttemptRow, ClusterRow, Ledger, RunRow

from .machine_loads import LoadService
from .outputs import OutputService


def guards_of(ledger: Ledger, run_id: str, spec: Spec) -> Guards:
    """The guards of a cluster: what its agents were told last, else those of its spec."""
    from nbprov.provisioning.supervision.guard_config import guards_known

    return guards_known(ledger, run_id) or spec.guards


_STATES = {
    RunState.LAUNCHING: ClusterState.LAUNCHING,
    RunState.WAITING: ClusterState.WAITING,
    RunState.CANCELLING: ClusterState.ENDING,
}
"""The states of launches under way, as states of what they are to become."""


class ViewService:
    """Makes views of clusters from the ledger. Any thread."""

    def __init__(self, context: Context, outputs: OutputService, loads: LoadService) -> None:
        self._context, self._outputs, self._loads = context, outputs, loads

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
            simulated=row.candidate.offer.is_simulated,
            uptime=ledger.prices.uptime(row.token),
            loads=self._loads.of(row.run_id) if row.state is ClusterState.RUNNING else (),
        )

    def views(self, *, ended: bool = False, kept: Collection[str] = ()) -> list[ClusterView]:
        """Everything that may be on the bill, from the ledger.

        Live clusters come first, then launches under way, which are no clusters yet, and machines
        of attempts that failed or lost a race until they are confirmed gone.

        Parameters
        ----------
        ended
            Whether clusters that have ended are listed too.
        kept
            Ids of clusters and launches that are listed however they ended.
        """
        ledger = self._context.engine.ledger
        rows = ledger.clusters.latest(live_only=not ended)
        others = set(kept) - {row.cluster_id for row in rows}
        more = [row for row in map(ledger.clusters.by_id, others) if row is not None]
        rows += sorted(more, key=lambda row: -row.started)
        found = [self.view(row) for row in rows]
        known = {view.cluster_id for view in found}
        live = [view for view in found if view.ended is None]
        pending = self._pending()
        known |= {view.cluster_id for view in pending}
        over = [view for view in (self._over(one) for one in kept if one not in known) if view]
        return [*live, *pending, *over, *(view for view in found if view.ended is not None)]

    def _pending(self) -> list[ClusterView]:
        """Launches that are no clusters yet, and machines that no cluster has."""
        ledger = self._context.engine.ledger
        views: list[ClusterView] = []
        for run in ledger.runs.unfinished():
            cluster = ledger.clusters.of_run(run.run_id)
            pending = ledger.launches.live_attempts(run.run_id)
            if cluster is None:
                views.append(self._launch(run, pending))
                continue
            others = [x for x in pending if x.token != cluster.token]
            views += [self._machine(run, cluster, launch) for launch in others]
        return views

    def _launch(self, run: RunRow, pending: Sequence[AttemptRow]) -> ClusterView:
        """A launch as one row: all its machines together, at the place tried last."""
        ledger = self._context.engine.ledger
        latest = pending[-1] if pending else None
        state = _STATES.get(run.state, ClusterState.ENDING)
        if run.cancelled:
            state = ClusterState.ENDING
        return ClusterView(
            name=run.name,
            cluster_id=run.run_id,
            run_id=run.run_id,
            state=state,
            candidate=latest.candidate if latest is not None else None,
            instances=tuple(i for x in pending for i in ledger.instances.members(x.token)),
            guards=guards_of(ledger, run.run_id, self._context.spec_of(run.run_id)),
            started=run.created,
            cost=ledger.prices.cost(run.run_id),
            hourly_now=sum(ledger.prices.hourly_now(x.token) for x in pending),
            reason=self._launch_words(run, state),
            simulated=bool(pending) and all(x.candidate.offer.is_simulated for x in pending),
            attempt=latest.state if latest is not None else None,
            uptime=ledger.prices.uptime(latest.token) if latest is not None else 0.0,
        )

    def _launch_words(self, run: RunRow, state: ClusterState) -> str:
        if state is ClusterState.ENDING:
            return "cancelled" if run.cancelled else run.message
        engine = self._context.engine
        if engine.ledger.leases.left(run.run_id) <= 0 and not engine.runs.is_driven(run.run_id):
            return "its kernel has ended; %load_ext nbprov takes it up"
        return ""

    def _machine(self, run: RunRow, cluster: ClusterRow, launch: AttemptRow) -> ClusterView:
        """A machine beside a cluster, such as the loser of a race, until it is gone."""
        ledger = self._context.engine.ledger
        return ClusterView(
            name=cluster.name,
            cluster_id=launch.token,
            run_id=run.run_id,
            state=ClusterState.ENDING,
            candidate=launch.candidate,
            instances=tuple(ledger.instances.members(launch.token)),
            guards=Guards(),
            started=launch.created,
            cost=ledger.prices.cost(run.run_id, launch.token),
            hourly_now=ledger.prices.hourly_now(launch.token),
            reason=f"attempt {launch.number} of {cluster.name}, which has another machine",
            simulated=launch.candidate.offer.is_simulated,
            attempt=AttemptState.ENDING,
            uptime=ledger.prices.uptime(launch.token),
        )

    def _over(self, run_id: str) -> ClusterView | None:
        """A launch that ended without a cluster; None for any other id."""
        ledger = self._context.engine.ledger
        run = ledger.runs.get(run_id)
        if run is None or ledger.clusters.of_run(run_id) is not None:
            return None
        latest = ledger.launches.latest_attempts(run_id, 1)
        # However many were refused, only what was on the bill says whether somebody pays.
        paid = ledger.launches.paid_attempts(run_id) or latest
        return ClusterView(
            name=run.name,
            cluster_id=run_id,
            run_id=run_id,
            state=ClusterState.ENDED,
            candidate=latest[-1].candidate if latest else None,
            instances=(),
            guards=Guards(),
            started=run.created,
            ended=run.updated,
            cost=ledger.prices.cost(run_id),
            reason=run.message or run.state.value,
            simulated=bool(paid) and all(x.candidate.offer.is_simulated for x in paid),
        )
