"""Settles at load what an earlier kernel left: the clouds' listings first, the ledger second."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any

from nbprov.clouds import registry
from nbprov.model.clock import Seconds
from nbprov.model.clusters import ClusterState, DesiredState
from nbprov.model.errors import NbprovError, NotFound
from nbprov.model.failures import CloudError
from nbprov.model.launches import Instance
from nbprov.runtime.fault_log import log_fault

from .ledger import ClusterRow
from .orphans import ORPHAN_SECONDS
from .reconcile_report import ReconcileReport
from .run_adoption import adopt_run, setup_left_words, take_lease
from .supervision.side_objects import words
from .supervision.stopped_expiry import left_note

if TYPE_CHECKING:
    from .engine import Engine

__all__ = ["ORPHAN_SECONDS", "ReconcileReport", "end_orphans", "reconcile", "tidy"]

log = logging.getLogger("nbprov.reconcile")

LOOK_SECONDS: Seconds = 45.0
"""How long a cloud may take to be listed at load.

That is twice its own limit, since the watcher's listing may come first.
"""


async def reconcile(engine: Engine, report: ReconcileReport) -> None:
    """Bring every unfinished run to its end, and check every live cluster by its cloud's listing.

    A launch whose kernel died is adopted if it was accepted and not cancelled; otherwise it is
    ended. Only machines that bear this ledger's owner id are touched. Returns when all is settled.
    A cloud that does not answer is reported and left for the next load, and what cannot be
    settled is reported and does not hold up the rest.
    """
    if engine.ledger.store.warning:
        report.say("ledger", engine.ledger.store.warning)
    engine.lifecycle.watch()
    lost_at = engine.ledger.lost_at
    before = engine.ledger.clusters.latest(live_only=True)
    names = sorted(
        {c.candidate.offer.cloud for c in before}
        | engine.ledger.launches.live_clouds()
        | engine.ledger.side_objects.clouds()
        | (await _usable_clouds(engine) if lost_at is not None else set())
    )
    answers = await asyncio.gather(*(_list(engine, name, report) for name in names))
    listed = {name for name, answered in zip(names, answers, strict=True) if answered}
    work: dict[str, Coroutine[Any, Any, object]] = {}
    for cluster in before:
        _report_cluster(engine, cluster.run_id, report)
        if cluster.candidate.offer.cloud in listed:
            work[f"cluster {cluster.name}"] = _finish_change(engine, cluster.run_id, report)
    for row in engine.ledger.runs.unfinished():
        work[f"run {row.name} {row.run_id}"] = adopt_run(engine, row, report, listed)
    for name in sorted(listed):
        work[f"machines at {name}"] = end_orphans(engine, name, report)
        work[f"what lies beside machines at {name}"] = tidy(engine, name, report)
    results = await asyncio.gather(*work.values(), return_exceptions=True)
    for what, result in zip(work, results, strict=True):
        if isinstance(result, Exception):
            log_fault(log, result, "%s", what)
            subject = " ".join(what.split()[:3])
            report.say(
                f"failed {what}", f"{subject}: not settled, left for the next load: {result}"
            )

    found = [i for result in results if isinstance(result, list) for i in result]
    is_left = lost_at is not None and any(i.launched_at < lost_at for i in found)
    if lost_at is not None and not is_left and listed == set(names):
        engine.ledger.record(engine.ledger.end_loss, None)


async def _usable_clouds(engine: Engine) -> set[str]:
    """All clouds where the machines of a lost ledger may be; none is started for that."""
    usable = set()
    for name in registry.names():
        try:
            cloud = engine.cloud(name)
            if cloud.capabilities.named_only:
                is_usable = (engine.home / cloud.name).is_dir()
            else:
                async with asyncio.timeout(LOOK_SECONDS):
                    is_usable = (await cloud.check()).enabled
        except (NotFound, TimeoutError) as error:
            log.info("%s: %s", name, error)
        else:
            usable |= {cloud.name} if is_usable else set()
    return usable


async def end_orphans(
    engine: Engine, cloud_name: str, report: ReconcileReport, *, least_age: Seconds = ORPHAN_SECONDS
) -> list[Instance]:
    """End machines of ours that no live launch made; see `OrphanCollector.end_orphans`."""
    return await engine.orphans.end_orphans(cloud_name, report, least_age=least_age)


async def tidy(engine: Engine, cloud_name: str, report: ReconcileReport) -> None:
    """Remove what launches left beside their machines and is nobody's.

    What cannot be removed now is tried again in the background.
    """
    side_objects, key = engine.side_objects, f"side {cloud_name}"
    try:
        async with asyncio.timeout(LOOK_SECONDS):
            done = (await side_objects.look(cloud_name)).is_done
    except (CloudError, TimeoutError) as error:
        why = str(error) or "no answer"
        report.say(key, f"{cloud_name}: what lies beside its machines: {why}; tried again")
        done = False
    left = [row for row in side_objects.left(cloud_name) if row.reason]
    if left:
        report.say(key, f"{cloud_name}: left beside its machines, and tried again: {words(left)}")
    if not done:
        side_objects.soon(cloud_name)


async def _list(engine: Engine, name: str, report: ReconcileReport) -> bool:
    """Compare the ledger with a cloud's listing; whether it could be listed."""
    try:
        async with asyncio.timeout(LOOK_SECONDS):
            await engine.lifecycle.observe(engine.cloud(name))
    except NotFound as error:
        why = f"its adapter is not installed here ({error.message})"
    except TimeoutError:
        why = f"did not answer within {LOOK_SECONDS:g} s"
    except Exception as error:
        if not isinstance(error, CloudError | NbprovError):
            log.exception("%s could not be listed", name)
        why = f"cannot be listed now ({error})"
    else:
        return True
    report.say(f"cloud {name}", f"{name}: {why}; what it runs is shown as last seen")
    return False


# ---------------------------------------------------------------- clusters


def _report_cluster(engine: Engine, run_id: str, report: ReconcileReport) -> None:
    row = engine.ledger.clusters.of_run(run_id)
    if row is None or row.state is ClusterState.ENDING:
        return
    where = f"{row.candidate.offer.instance_type} in {row.candidate.offer.place}"
    report.say(row.cluster_id, f"{row.name} ({where}): {_cluster_words(engine, row)}")


def _cluster_words(engine: Engine, row: ClusterRow) -> str:
    if engine.lifecycle.is_missing(row):
        return "not in its cloud's list just now; it is looked for again before it counts as ended"
    words_by_state = {
        ClusterState.RUNNING: f"still running: %%on {row.name} goes on with it",
        ClusterState.STOPPED: f"stopped: %nbprov start {row.name} brings it back",
        ClusterState.ENDED: f"ended while no kernel was there: {row.reason}",
    }
    found = words_by_state.get(row.state, f"{row.state.value}: {row.reason}")
    if row.state is ClusterState.RUNNING:
        found += setup_left_words(engine, row.run_id)
    found = _pending_words(row) or found
    teardown = engine.hooks.teardown
    if row.state is ClusterState.STOPPED and teardown is not None and teardown.outputs_left(row):
        found = f"{found}; outputs: {left_note(engine.ledger, row)}"
    return found


def _pending_words(row: ClusterRow) -> str:
    """What is said of a cluster that its kernel was to end or stop; nothing of others."""
    if row.pending is None:
        return ""
    if row.pending is DesiredState.STOPPED:
        return (
            "was to be stopped when its kernel stopped: its logs and outputs are pulled, and it is"
            f" stopped; %nbprov start {row.name} keeps it running"
        )
    first = "its outputs are pulled first; " if row.pending is DesiredState.ENDED else ""
    return (
        f"was to be ended when its kernel stopped: {first}"
        f"%nbprov down {row.name} --no-outputs ends it at once"
    )


async def _finish_change(engine: Engine, run_id: str, report: ReconcileReport) -> None:
    """Repeat a start or a stop that a kernel did not finish."""
    row, run = _changing(engine, run_id), engine.ledger.runs.get(run_id)
    if row is None or run is None or not await take_lease(engine, run, report, row.cluster_id):
        return
    row = _changing(engine, run_id)
    if row is None:  # the other kernel finished it after all
        engine.runs.release(run_id)
        _report_cluster(engine, run_id, report)
    elif row.state is ClusterState.STARTING:
        await _start(engine, row, report)
    else:
        await _stop(engine, row, report)


def _changing(engine: Engine, run_id: str) -> ClusterRow | None:
    row = engine.ledger.clusters.of_run(run_id)
    is_changing = row is not None and row.state in (ClusterState.STARTING, ClusterState.STOPPING)
    return row if is_changing else None


async def _start(engine: Engine, row: ClusterRow, report: ReconcileReport) -> None:
    # A machine that was started and got no agent has no guards, so the whole start is repeated.
    before = f"{row.name}: was being started when its kernel stopped"
    try:
        await engine.lifecycle.start(row)
    except (CloudError, NbprovError) as error:
        report.say(row.cluster_id, f"{before}, and could not be: {error}")
    else:
        report.say(row.cluster_id, f"{before}; it runs: %%on {row.name} uses it")


async def _stop(engine: Engine, row: ClusterRow, report: ReconcileReport) -> None:
    # Its cloud may never have been asked: then it runs, and costs, as if nobody wanted a stop.
    before = f"{row.name}: was being stopped when its kernel stopped"
    try:
        await engine.lifecycle.stop(row, row.reason)
    except (CloudError, NbprovError) as error:
        report.say(row.cluster_id, f"{before}, and could not be: {error}")
    else:
        report.say(row.cluster_id, f"{before}; it is: %nbprov start {row.name} brings it back")
