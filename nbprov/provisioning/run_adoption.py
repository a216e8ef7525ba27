"""Adopts the runs of a kernel that died, or ends what they made."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from nbprov.model.clock import utc_text
from nbprov.model.clusters import AttemptState, ClusterState, RunState
from nbprov.model.errors import NbprovError
from nbprov.model.money import exact_usd
from nbprov.model.spec import Spec
from nbprov.remote.ssh.keys import ClusterKeys, KeyMaterialError
from nbprov.spec import parse

from .ledger import LaunchRow, RunRow
from .reconcile_report import ReconcileReport
from .run.attempt import Attempt
from .run.events import Action

if TYPE_CHECKING:
    from .engine import Engine
    from .run.driver import RunDriver

log = logging.getLogger("nbprov.reconcile")


async def adopt_run(engine: Engine, row: RunRow, report: ReconcileReport, listed: set[str]) -> None:
    """Continue or end an unfinished run of the ledger, once its lease has lapsed.

    Parameters
    ----------
    listed
        The clouds that could be listed: a run with machines elsewhere is left for the next load.
    """
    if engine.runs.is_driven(row.run_id):
        return
    if silent := _clouds_of(engine, row.run_id) - listed:
        names = ", ".join(sorted(silent))
        report.say(
            row.run_id,
            f"{row.name}: {names} cannot be listed now;"
            " what it left there is taken up at the next load",
        )
        return
    if not await take_lease(engine, row, report, row.run_id):
        return
    try:
        cluster = engine.ledger.clusters.of_run(row.run_id)
        if cluster is not None and cluster.state is ClusterState.ENDING:
            report.say(row.run_id, f"{row.name}: going on to end it")
            await engine.lifecycle.down(cluster, cluster.reason)
            report.say(row.run_id, f"{row.name}: ended, confirmed by the cloud's list")
            if not engine.ledger.leases.take(row.run_id):
                return
        # Whoever held the lease may have moved the run on, or its person may have cancelled it.
        current = engine.ledger.runs.get(row.run_id)
        if current is not None:
            await _continue(engine, current, report, has_cluster=cluster is not None)
    finally:
        engine.runs.release(row.run_id)


def _clouds_of(engine: Engine, run_id: str) -> set[str]:
    """The clouds that must answer before a run can be adopted."""
    clouds = {launch.cloud for launch in engine.ledger.launches.live_attempts(run_id)}
    cluster = engine.ledger.clusters.of_run(run_id)
    if cluster is not None and cluster.state is ClusterState.ENDING:
        clouds.add(cluster.candidate.offer.cloud)
    return clouds


async def take_lease(engine: Engine, row: RunRow, report: ReconcileReport, key: str) -> bool:
    """Wait until a run's lease has lapsed, and take it; whether this kernel has it then.

    Parameters
    ----------
    key
        The line of the report that tells of it.
    """
    ledger = engine.ledger
    while not ledger.leases.take(row.run_id):
        current = ledger.runs.get(row.run_id)
        if current is None:
            return False
        if (current.lease_holder, current.lease_renewed) != (row.lease_holder, row.lease_renewed):
            report.say(key, f"{row.name}: another notebook is at work on it")
            return False
        left = ledger.leases.left(row.run_id)
        report.say(
            key,
            f"{row.name}: its kernel is silent; taken over in {max(0, left):.0f} s"
            " unless it speaks up",
        )
        await asyncio.sleep(max(0.05, min(1.0, left)))
    return True


async def _continue(
    engine: Engine, row: RunRow, report: ReconcileReport, *, has_cluster: bool
) -> None:
    launches = engine.ledger.launches.of_run(row.run_id)
    # A run with a cluster keeps exactly that one; whatever else it made is ended.
    cancelled = row.cancelled or row.state is RunState.CANCELLING or has_cluster
    pending = [
        launch
        for launch in launches
        if not launch.state.is_final and not (has_cluster and launch.state is AttemptState.READY)
    ]
    waits = _may_wait(engine, row, report, cancelled=cancelled)
    if not pending and not waits:
        if not has_cluster and not row.state.is_final:
            _close_empty(engine, row, report, has_launches=bool(launches))
        return
    driver = engine.runs.restore(row, _spec_of(row))
    for launch in launches if waits else pending:
        driver.adopt(launch)
    driver.keep_state = has_cluster
    context = driver.context
    try:
        context.progress.keys = ClusterKeys.load(context.keys_folder)
    except KeyMaterialError as error:
        log.warning("%s: %s", row.name, error)
        cancelled = True  # machines that cannot be reached are of no use to anybody
    context.progress.state = RunState.CANCELLING if cancelled else RunState.LAUNCHING
    context.progress.started = row.created
    first = driver.failover.restore(
        [_attempt(launch) for launch in driver.rows.values()],
        cancelled=cancelled,
        now=engine.clock.now(),
        elapsed=engine.clock.elapsed(),
        go_on=waits,
    )
    if waits and not cancelled:
        _continue_waiting(engine, row, driver, first, report)
        return
    found, verb = _found_words(pending), "ending it" if cancelled else "taking it up"
    report.say(
        row.run_id,
        f"{row.name}: a launch was under way when its kernel stopped ({found}); {verb}",
    )
    await engine.runs.follow(driver, first)
    report.say(row.run_id, _outcome_words(engine, row, driver))


def _may_wait(engine: Engine, row: RunRow, report: ReconcileReport, *, cancelled: bool) -> bool:
    """Whether the run may continue to wait for stock.

    It may not without its spec: then it would take any machine at all.
    """
    if cancelled or row.wait_deadline <= engine.clock.now():
        return False
    if _read_spec(row) is not None:
        return True
    report.say(
        f"spec {row.run_id}",
        f"{row.name}: its spec cannot be read by this release of nbprov, so its wait ends here",
    )
    return False


def _close_empty(
    engine: Engine, row: RunRow, report: ReconcileReport, *, has_launches: bool
) -> None:
    """Close a run of which nothing is left."""
    words = (
        "its kernel stopped when nothing of it was left"
        if has_launches
        else "its kernel stopped before anything was created"
    )
    is_cancelled = row.cancelled or row.state is RunState.CANCELLING
    state = RunState.CANCELLED if is_cancelled else RunState.FAILED
    engine.ledger.runs.move(row.run_id, state, words)
    report.say(row.run_id, f"{row.name}: {words}; nothing is left on the bill")


def _continue_waiting(
    engine: Engine, row: RunRow, driver: RunDriver, first: list[Action], report: ReconcileReport
) -> None:
    """Continue a wait for stock; it may last for hours, so nothing else waits for its end."""
    report.say(
        row.run_id,
        f"{row.name}: its kernel stopped while it waited for stock; it goes on here until"
        f" {utc_text(row.wait_deadline)}, at most {exact_usd(row.consent)}/h as agreed: run the"
        f" %%provision cell again to follow it, %nbprov down {row.name} ends it",
    )
    task = engine.runs.follow(driver, first)
    task.add_done_callback(lambda _: report.say(row.run_id, _outcome_words(engine, row, driver)))


def _read_spec(row: RunRow) -> Spec | None:
    try:
        return parse(row.spec)
    except NbprovError as error:
        log.warning("the spec of run %s cannot be read by this release: %s", row.run_id, error)
        return None


def _spec_of(row: RunRow) -> Spec:
    return _read_spec(row) or Spec(name=row.name)


def _attempt(row: LaunchRow) -> Attempt:
    return Attempt(
        row.token,
        row.candidate,
        row.number,
        row.slot,
        state=row.state,
        failure=row.failure,
        ids=row.ids,
    )


# ---------------------------------------------------------------- words


def setup_left_words(engine: Engine, run_id: str) -> str:
    """What the spec asks for on the machines and nobody has begun, to be put behind a sentence."""
    row = engine.ledger.runs.get(run_id)
    if row is None or engine.ledger.jobs.of_run(run_id):
        return ""
    spec = _spec_of(row)
    scripts = [name for name in ("setup", "run") if getattr(spec, name)]
    left = ["its files were not copied"] if spec.workdir or spec.file_mounts else []
    if scripts:
        left.append(f"its {' and '.join(scripts)} {'were' if len(scripts) > 1 else 'was'} not run")
    return f"; {' and '.join(left)}: run the %%provision cell again to do so" if left else ""


def _found_words(pending: list[LaunchRow]) -> str:
    found = [
        f"attempt {launch.number} {launch.state.value} in {launch.candidate.offer.place}"
        for launch in pending
    ]
    return ", ".join(found) or "nothing sent yet"


def _outcome_words(engine: Engine, row: RunRow, driver: RunDriver) -> str:
    failover = driver.failover
    attempts = failover.attempts.values()
    ended = sum(a.state is AttemptState.GONE for a in attempts)
    absent = sum(a.state in (AttemptState.ABSENT, AttemptState.REFUSED) for a in attempts)
    parts = [f"{ended} ended and confirmed gone"] if ended else []
    parts += [f"{absent} never became a machine"] if absent else []
    open_ones = [a for a in attempts if not a.is_over and a.token != failover.winner]
    error = driver.finished.exception() if driver.finished.done() else None
    if open_ones or error is not None or not driver.finished.done():
        parts += [
            f"attempt {a.number} is {a.state.value} in {a.candidate.offer.place}" for a in open_ones
        ]
        parts += [str(error or driver.message)] if error or not open_ones else []
        return f"{row.name}: not settled yet: {', '.join(parts)}"
    if driver.is_detached:  # another kernel knows what became of it, and what it may still buy
        return f"{row.name}: {driver.message or 'another kernel has taken it over'}"
    if failover.winner is not None:
        place = failover.attempts[failover.winner].candidate.offer.place
        others = f" ({', '.join(parts)})" if parts else ""
        return (
            f"{row.name}: adopted, it runs in {place}: %%on {row.name} uses it,"
            f" %nbprov down {row.name} ends it{others}{setup_left_words(engine, row.run_id)}"
        )
    made = ", ".join(parts) or "nothing had been created"
    return f"{row.name}: its kernel stopped during the launch; {made}; nothing is left on the bill"
