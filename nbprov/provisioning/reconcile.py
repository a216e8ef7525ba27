"""What is done at load about whatever an earlier kernel left: the cloud's list first, the ledger second."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any

from nbprov.model.clock import iso
from nbprov.model.clusters import AttemptState, ClusterState, RunState
from nbprov.model.errors import NbprovError, NotFound
from nbprov.model.failures import CloudError
from nbprov.model.money import format_usd
from nbprov.model.spec import Spec
from nbprov.remote.ssh.keys import ClusterKeys, KeyMaterialError
from nbprov.spec import parse

from .ledger import ClusterRow, LaunchRow, RunRow
from .orphans import LOOK_SECONDS, ORPHAN_SECONDS, end_orphans, tidy
from .reconcile_report import Report
from .run.attempt import Attempt
from .run.events import Action
from .supervision.desired_state import ASKED, TO_STOP, intent_of
from .supervision.stopped_expiry import left_note

if TYPE_CHECKING:
    from .engine import Engine
    from .run.driver import RunDriver

__all__ = ["ORPHAN_SECONDS", "Report", "end_orphans", "reconcile", "tidy"]

log = logging.getLogger("nbprov.reconcile")


async def reconcile(engine: Engine, report: Report) -> None:
    """Bring every unfinished run of the ledger to its end, and check every live cluster against its cloud's list.

    A launch whose kernel died is adopted if it was accepted and not cancelled, otherwise ended. Only machines that bear
    this ledger's owner id are touched. Returns when all is settled; a cloud that does not answer is reported and left for
    the next load, and what cannot be settled is reported without keeping the rest from it.
    """
    engine.lifecycle.watch()
    before = engine.ledger.clusters.latest(live_only=True)
    names = sorted(
        {c.candidate.offer.cloud for c in before}
        | engine.ledger.launches.live_clouds()
        | engine.ledger.side_objects.clouds()
    )
    answers = await asyncio.gather(*(_list(engine, name, report) for name in names))
    listed = {name for name, answered in zip(names, answers, strict=True) if answered}
    work: dict[str, Coroutine[Any, Any, object]] = {}
    for cluster in before:
        _report_cluster(engine, cluster.run_id, report)
        if cluster.candidate.offer.cloud in listed:
            work[f"cluster {cluster.name}"] = _again(engine, cluster.run_id, report)
    for row in engine.ledger.runs.unfinished():
        work[f"run {row.name} {row.run_id}"] = _take_up(engine, row, report, listed)
    for name in sorted(listed):
        work[f"machines at {name}"] = end_orphans(engine, name, report)
        work[f"what lies beside machines at {name}"] = tidy(engine, name, report)
    for what, result in zip(
        work, await asyncio.gather(*work.values(), return_exceptions=True), strict=True
    ):
        if isinstance(result, Exception):
            log.error("%s", what, exc_info=result)
            report.say(
                f"failed {what}",
                f"{' '.join(what.split()[:3])}: not settled, left for the next load: {result}",
            )


async def _list(engine: Engine, name: str, report: Report) -> bool:
    """Have the ledger compared with a cloud's list; whether it could be."""
    try:
        await asyncio.wait_for(engine.lifecycle.observe(engine.cloud(name)), LOOK_SECONDS)
    except NotFound as error:
        report.say(
            f"cloud {name}",
            f"{name}: its adapter is not installed here ({error.message}); what it runs is shown as last seen",
        )
    except TimeoutError:
        report.say(
            f"cloud {name}",
            f"{name}: did not answer within {LOOK_SECONDS:g} s; what it runs is shown as last seen",
        )
    except Exception as error:
        if not isinstance(error, CloudError | NbprovError):
            log.exception("%s could not be listed", name)
        report.say(
            f"cloud {name}",
            f"{name}: cannot be listed now ({error}); what it runs is shown as last seen",
        )
    else:
        return True
    return False


def _report_cluster(engine: Engine, run_id: str, report: Report) -> None:
    row = engine.ledger.clusters.of_run(run_id)
    if row is None or row.state is ClusterState.ENDING:
        return
    where = f"{row.candidate.offer.instance_type} in {row.candidate.offer.place}"
    words = {
        ClusterState.RUNNING: f"still running: %%on {row.name} goes on with it{_left_undone(engine, run_id)}",
        ClusterState.STOPPED: f"stopped: %nbprov start {row.name} brings it back",
        ClusterState.ENDED: f"ended while no kernel was there: {row.reason}",
    }.get(row.state, f"{row.state.value}: {row.reason}")
    words = _wanted_words(row) or words
    if (
        row.state is ClusterState.STOPPED
        and engine.leaving is not None
        and engine.leaving.outputs_left(row)
    ):
        words = f"{words}; outputs: {left_note(engine.ledger, row)}"
    if engine.lifecycle.is_missing(row):
        words = "not in its cloud's list just now; it is looked for again before it counts as ended"
    report.say(row.cluster_id, f"{row.name} ({where}): {words}")


def _wanted_words(row: ClusterRow) -> str:
    """What is said of a cluster that its kernel was to end or stop; nothing of others."""
    intent = intent_of(row.reason)
    if not intent:
        return ""
    first = "its outputs are pulled first; " if intent == ASKED else ""
    if intent == TO_STOP:
        return f"was to be stopped when its kernel stopped: its logs and outputs are pulled, and it is stopped; %nbprov start {row.name} keeps it running"
    return f"was to be ended when its kernel stopped: {first}%nbprov down {row.name} --no-outputs ends it at once"


def _left_undone(engine: Engine, run_id: str) -> str:
    """What the spec of a run asks for on its machines and nobody has begun, to be put behind a sentence."""
    row = engine.ledger.runs.get(run_id)
    if row is None or engine.ledger.jobs.of_run(run_id):
        return ""
    spec = _spec_of(row)
    scripts = [name for name in ("setup", "run") if getattr(spec, name)]
    undone = ["its files were not copied"] if spec.workdir or spec.file_mounts else []
    undone += (
        [f"its {' and '.join(scripts)} {'were' if len(scripts) > 1 else 'was'} not run"]
        if scripts
        else []
    )
    return f"; {' and '.join(undone)}: run the %%provision cell again to do so" if undone else ""


async def _again(engine: Engine, run_id: str, report: Report) -> None:
    """Go through a start or a stop again that a kernel left half-way."""
    row = _half_way(engine, run_id)
    run = engine.ledger.runs.get(run_id)
    if row is None or run is None or not await _take_lease(engine, run, report, key=row.cluster_id):
        return
    row = _half_way(engine, run_id)
    if row is None:  # it was not half-way after all: the other kernel came to its goal
        _give_back(engine, run_id)
        _report_cluster(engine, run_id, report)
    elif row.state is ClusterState.STARTING:
        await _start_again(engine, row, report)
    else:
        await _stop_again(engine, row, report)


def _half_way(engine: Engine, run_id: str) -> ClusterRow | None:
    row = engine.ledger.clusters.of_run(run_id)
    return (
        row
        if row is not None and row.state in (ClusterState.STARTING, ClusterState.STOPPING)
        else None
    )


async def _start_again(engine: Engine, row: ClusterRow, report: Report) -> None:
    # A machine that was started and got no agent has no guards: the start is gone through again, to its end.
    try:
        await engine.lifecycle.start(row)
    except (CloudError, NbprovError) as error:
        report.say(
            row.cluster_id,
            f"{row.name}: was being started when its kernel stopped, and could not be: {error}",
        )
    else:
        report.say(
            row.cluster_id,
            f"{row.name}: was being started when its kernel stopped; it runs: %%on {row.name} uses it",
        )


async def _stop_again(engine: Engine, row: ClusterRow, report: Report) -> None:
    # The cloud may never have been asked, and then it runs, and costs, as if nobody had wanted it stopped.
    try:
        await engine.lifecycle.stop(row, row.reason)
    except (CloudError, NbprovError) as error:
        report.say(
            row.cluster_id,
            f"{row.name}: was being stopped when its kernel stopped, and could not be: {error}",
        )
    else:
        report.say(
            row.cluster_id,
            f"{row.name}: was being stopped when its kernel stopped; it is: %nbprov start {row.name} brings it back",
        )


async def _take_up(engine: Engine, row: RunRow, report: Report, listed: set[str]) -> None:
    if _is_driven(engine, row.run_id):
        return
    if silent := _clouds_of(engine, row.run_id) - listed:
        report.say(
            row.run_id,
            f"{row.name}: {', '.join(sorted(silent))} cannot be listed now; what it left there is taken up at the next load",
        )
        return
    if not await _take_lease(engine, row, report):
        return
    try:
        cluster = engine.ledger.clusters.of_run(row.run_id)
        if cluster is not None and cluster.state is ClusterState.ENDING:
            report.say(row.run_id, f"{row.name}: going on to end it")
            await engine.lifecycle.down(cluster, cluster.reason)
            report.say(row.run_id, f"{row.name}: ended, confirmed by the cloud's list")
            if not engine.ledger.leases.take(row.run_id):
                return
        # Whoever held the lease until now may have moved it on, or its person may have cancelled it.
        current = engine.ledger.runs.get(row.run_id)
        if current is not None:
            await _wind_up(engine, current, report, has_cluster=cluster is not None)
    finally:
        _give_back(engine, row.run_id)


def _clouds_of(engine: Engine, run_id: str) -> set[str]:
    """The clouds that must answer before a run can be taken up."""
    clouds = {
        launch.cloud
        for launch in engine.ledger.launches.of_run(run_id)
        if not launch.state.is_final
    }
    cluster = engine.ledger.clusters.of_run(run_id)
    if cluster is not None and cluster.state is ClusterState.ENDING:
        clouds.add(cluster.candidate.offer.cloud)
    return clouds


def _is_driven(engine: Engine, run_id: str) -> bool:
    return run_id in engine.drivers and not engine.drivers[run_id].machine.finished


def _give_back(engine: Engine, run_id: str) -> None:
    if not _is_driven(engine, run_id):
        engine.ledger.leases.release(run_id)


async def _take_lease(engine: Engine, row: RunRow, report: Report, key: str = "") -> bool:
    ledger, key = engine.ledger, key or row.run_id
    while not ledger.leases.take(row.run_id):
        current = ledger.runs.get(row.run_id)
        if current is None:
            return False
        left = current.lease_expires - engine.clock.now()
        renewed = current.lease_expires > row.lease_expires
        if renewed:
            report.say(key, f"{row.name}: another notebook is at work on it")
            return False
        report.say(
            key,
            f"{row.name}: its kernel is silent; taken over in {max(0, left):.0f} s unless it speaks up",
        )
        await asyncio.sleep(max(0.05, min(1.0, left)))
    return True


async def _wind_up(engine: Engine, row: RunRow, report: Report, *, has_cluster: bool) -> None:
    launches = engine.ledger.launches.of_run(row.run_id)
    # A run with a cluster keeps exactly that one; whatever else it made is ended.
    cancelled = row.cancelled or row.state is RunState.CANCELLING or has_cluster
    pending = [
        launch
        for launch in launches
        if not launch.state.is_final and not (has_cluster and launch.state is AttemptState.READY)
    ]
    waits = not cancelled and row.wait_deadline > engine.clock.now()
    if waits and _read_spec(row) is None:  # without it anything at all would be bought
        report.say(
            f"spec {row.run_id}",
            f"{row.name}: its spec cannot be read by this release of nbprov, so its wait ends here",
        )
        waits = False
    if not pending and not waits:
        if not has_cluster and not row.state.is_final:
            words = (
                "its kernel stopped before anything was created"
                if not launches
                else "its kernel stopped when nothing of it was left"
            )
            state = (
                RunState.CANCELLED
                if row.cancelled or row.state is RunState.CANCELLING
                else RunState.FAILED
            )
            engine.ledger.runs.move(row.run_id, state, words)
            report.say(row.run_id, f"{row.name}: {words}; nothing is left on the bill")
        return
    driver = engine.restored_driver(row, _spec_of(row))
    for launch in launches if waits else pending:
        driver.adopt(launch)
    driver.keep_state = has_cluster
    try:
        driver.keys = ClusterKeys.load(driver.keys_folder)
    except KeyMaterialError as error:
        log.warning("%s: %s", row.name, error)
        cancelled = True  # machines that cannot be reached are of no use to anybody
    driver.state = RunState.CANCELLING if cancelled else RunState.LAUNCHING
    driver.started = row.created
    first = driver.machine.restore(
        [_attempt(row) for row in driver.rows.values()],
        cancelled=cancelled,
        now=engine.clock.now(),
        elapsed=engine.clock.elapsed(),
        go_on=waits,
    )
    if waits and not cancelled:
        _go_on_waiting(engine, row, driver, first, report)
        return
    found = _found(pending)
    report.say(
        row.run_id,
        f"{row.name}: a launch was under way when its kernel stopped ({found}); {'ending it' if cancelled else 'taking it up'}",
    )
    await engine.follow(driver, first)
    report.say(row.run_id, _outcome(engine, row, driver))


def _go_on_waiting(
    engine: Engine, row: RunRow, driver: RunDriver, first: list[Action], report: Report
) -> None:
    """Take up a wait for stock; it may go on for hours, so nothing else waits for its end."""
    report.say(
        row.run_id,
        f"{row.name}: its kernel stopped while it waited for stock; it goes on here until {iso(row.wait_deadline)},"
        f" at most {format_usd(row.consent)}/h as agreed: run the %%provision cell again to follow it, %nbprov down {row.name} ends it",
    )
    task = engine.follow(driver, first)
    task.add_done_callback(lambda _: report.say(row.run_id, _outcome(engine, row, driver)))


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


def _found(pending: list[LaunchRow]) -> str:
    return (
        ", ".join(
            f"attempt {launch.number} {launch.state.value} in {launch.candidate.offer.place}"
            for launch in pending
        )
        or "nothing sent yet"
    )


def _outcome(engine: Engine, row: RunRow, driver: RunDriver) -> str:
    machine = driver.machine
    attempts = machine.attempts.values()
    ended = sum(a.state is AttemptState.GONE for a in attempts)
    absent = sum(a.state in (AttemptState.ABSENT, AttemptState.REFUSED) for a in attempts)
    parts = [f"{ended} ended and confirmed gone"] if ended else []
    parts += [f"{absent} never became a machine"] if absent else []
    open_ones = [a for a in attempts if not a.is_over and a.token != machine.winner]
    error = driver.finished.exception() if driver.finished.done() else None
    if open_ones or error is not None or not driver.finished.done():
        parts += [
            f"attempt {a.number} is {a.state.value} in {a.candidate.offer.place}" for a in open_ones
        ]
        parts += [str(error or driver.message)] if error or not open_ones else []
        return f"{row.name}: not settled yet: {', '.join(parts)}"
    if driver.is_detached:  # what became of it, and what it may buy yet, another kernel knows
        return f"{row.name}: {driver.message or 'another kernel has taken it over'}"
    if machine.winner is not None:
        place = machine.attempts[machine.winner].candidate.offer.place
        text = f"{row.name}: adopted, it runs in {place}: %%on {row.name} uses it, %nbprov down {row.name} ends it"
        return text + (f" ({', '.join(parts)})" if parts else "") + _left_undone(engine, row.run_id)
    return f"{row.name}: its kernel stopped during the launch; {', '.join(parts) or 'nothing had been created'}; nothing is left on the bill"
