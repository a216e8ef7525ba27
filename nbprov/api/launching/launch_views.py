"""The view of a launch by its id, whichever kernel began it and however it ended."""

from __future__ import annotations

from dataclasses import replace

from nbprov.api.context import Context
from nbprov.api.reports.launch_log import log_path
from nbprov.api.run_progress import at_the_end
from nbprov.api.services import Services
from nbprov.model.clusters import AttemptView, ClusterState, RunState, RunView
from nbprov.model.offers import Plan
from nbprov.provisioning.ledger import ClusterRow, Ledger, RunRow

SHOWN_ATTEMPTS = 100
"""So many of the latest attempts a panel shows, beside those that are not over.

A launch that waits for stock makes thousands, and its panel is renewed at each of them.
"""


def launch_view(context: Context, services: Services, run_id: str) -> RunView | None:
    """The view of a launch, from this session's run or from the ledger; None if there is none."""
    run = next((run for run in context.runs.values() if run.run_id == run_id), None)
    if run is not None:
        return run.view()
    ledger = context.engine.ledger
    row = ledger.runs.get(run_id)
    if row is None:
        return None
    cluster = ledger.clusters.of_run(run_id)
    view = _of_rows(context, row, cluster)
    if cluster is None:
        return view
    view = replace(view, cluster=services.views.view(cluster))
    return at_the_end(view) if cluster.state is ClusterState.ENDED else view


def _of_rows(context: Context, row: RunRow, cluster: ClusterRow | None) -> RunView:
    engine = context.engine
    ledger = engine.ledger
    driver = engine.drivers.get(row.run_id)
    followed = driver.view() if driver is not None and not driver.finished.done() else None
    plan = Plan(context.spec_of(row.run_id), (), is_kept=False)
    state = RunState.CANCELLING if row.cancelled and not row.state.is_final else row.state
    ended = row.updated if row.state.is_final else None
    attempts = _attempts(ledger, row.run_id, cluster, followed)
    return RunView(
        run_id=row.run_id,
        name=row.name,
        state=state,
        plan=followed.plan if followed is not None else plan,
        message=followed.message if followed is not None else row.message,
        attempts=attempts,
        earlier=ledger.launches.count(row.run_id) - len(attempts),
        started=row.created,
        ended=cluster.started if cluster is not None else ended,
        now=engine.clock.now(),
        cost=ledger.prices.cost(row.run_id),
        error="" if attempts and state is RunState.FAILED else row.error,
        log_path=str(log_path(engine.home, row.run_id)),
        race=row.race,
        notes=followed.notes if followed is not None else (),
        waiting=followed.waiting if followed is not None else None,
        following=followed.following if followed is not None else None,
    )


def _attempts(
    ledger: Ledger, run_id: str, cluster: ClusterRow | None, followed: RunView | None
) -> tuple[AttemptView, ...]:
    """The attempts that a panel shows, as the ledger has them.

    What only a driver here knows comes from its view.
    """
    costs, phases = ledger.prices.by_launch(run_id), ledger.events.phases(run_id)
    here = {attempt.token: attempt for attempt in followed.attempts} if followed else {}
    views = []
    latest = ledger.launches.latest_attempts(run_id, SHOWN_ATTEMPTS)
    shown = {row.number: row for row in (*ledger.launches.live_attempts(run_id), *latest)}
    for _, launch in sorted(shown.items()):
        is_ready = cluster is not None and launch.token == cluster.token
        view = AttemptView(
            number=launch.number,
            token=launch.token,
            candidate=launch.candidate,
            state=launch.state,
            started=launch.created,
            ended=cluster.started if cluster is not None and is_ready else launch.ended,
            failure=launch.failure,
            cost=costs.get(launch.token, 0),
            phases=phases.get(launch.token, ()),
        )
        if (known := here.get(launch.token)) is not None:
            view = replace(view, cut_off=known.cut_off, usual=known.usual)
        views.append(view)
    return tuple(views)
