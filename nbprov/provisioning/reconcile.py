"""What is done at load about whatever an earlier kernel left: the cloud's list first, the ledger second."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from nbprov.model.causes import CloudError
from nbprov.model.clock import Seconds
from nbprov.model.clusters import AttemptState, ClusterState, RunState
from nbprov.model.errors import NbprovError
from nbprov.model.launches import Instance, InstanceState
from nbprov.model.spec import Spec
from nbprov.remote.keys import ClusterKeys, KeyMaterialError
from nbprov.spec import parse

from .attempt import Attempt
from .failover import Failover
from .ledger import LaunchRow, RunRow

if TYPE_CHECKING:
    from .engine import Engine

log = logging.getLogger("nbprov.reconcile")

ORPHAN_SECONDS: Seconds = 600.0
"""A machine that bears our owner id and stands in no row of the ledger is ended once it is this old: younger ones may be another kernel's, mid-write."""


@dataclass(slots=True)
class Report:
    """What was found at load and what became of it, a line each. Lines are renewed as things settle."""

    lines: dict[str, str] = field(default_factory=dict)
    on_change: Callable[[], None] = lambda: None

    def say(self, key: str, text: str) -> None:
        """Set the line of one run or machine."""
        self.lines[key] = text
        self.on_change()

    def __str__(self) -> str:
        return "\n".join(self.lines.values())


async def reconcile(engine: Engine, report: Report) -> None:
    """Bring every unfinished run of the ledger to its end, and check every live cluster against its cloud's list.

    A launch whose kernel died is adopted if it was accepted and not cancelled, otherwise ended. Only machines that bear
    this ledger's owner id are touched. Returns when all is settled; a cloud that does not answer is reported and left for
    the next load.
    """
    rows = engine.ledger.unfinished_runs()
    clusters = engine.ledger.clusters(live_only=True)
    names = sorted({c.candidate.offer.cloud for c in clusters} | engine.ledger.live_clouds())
    for name in names:
        try:
            await engine.lifecycle.observe(engine.cloud(name))
        except (CloudError, NbprovError) as error:
            report.say(f"cloud {name}", f"{name}: cannot be listed now ({error}); what it runs is shown as last seen")
    for before in clusters:
        _report_cluster(engine, before.name, report)
    started = (_start_again(engine, c.name, report) for c in clusters if c.state is ClusterState.STARTING)
    await asyncio.gather(*(_take_up(engine, row, report) for row in rows), *started)
    for name in names:
        try:
            await end_orphans(engine, name, report)
        except CloudError as error:
            log.info("%s: %s", name, error)
    engine.lifecycle.watch()


def _report_cluster(engine: Engine, name: str, report: Report) -> None:
    row = engine.ledger.cluster(name)
    if row is None or row.state is ClusterState.ENDING:
        return
    where = f"{row.candidate.offer.instance_type} in {row.candidate.offer.place}"
    words = {
        ClusterState.RUNNING: f"still running: %%on {name} goes on with it",
        ClusterState.STOPPED: f"stopped: %nbprov start {name} brings it back",
        ClusterState.ENDED: f"ended while no kernel was there: {row.reason}",
    }.get(row.state, f"{row.state.value}: {row.reason}")
    report.say(row.cluster_id, f"{name} ({where}): {words}")


async def _start_again(engine: Engine, name: str, report: Report) -> None:
    # A machine that was started and got no agent has no guards: the start is gone through again, to its end.
    row = engine.ledger.cluster(name)
    if row is None or row.state is not ClusterState.STARTING:
        return
    try:
        await engine.lifecycle.start(row)
    except (CloudError, NbprovError) as error:
        report.say(row.cluster_id, f"{name}: was being started when its kernel stopped, and could not be: {error}")
    else:
        report.say(row.cluster_id, f"{name}: was being started when its kernel stopped; it runs: %%on {name} uses it")


async def _take_up(engine: Engine, row: RunRow, report: Report) -> None:
    if row.run_id in engine.drivers and not engine.drivers[row.run_id].machine.finished:
        return
    if not await _take_lease(engine, row, report):
        return
    cluster = engine.ledger.cluster_of_run(row.run_id)
    if cluster is not None and cluster.state is ClusterState.ENDING:
        report.say(row.run_id, f"{row.name}: going on to end it")
        await engine.lifecycle.down(cluster, cluster.reason)
        report.say(row.run_id, f"{row.name}: ended, confirmed by the cloud's list")
    await _wind_up(engine, row, report, has_cluster=cluster is not None)


async def _take_lease(engine: Engine, row: RunRow, report: Report) -> bool:
    ledger = engine.ledger
    while not ledger.take(row.run_id):
        current = ledger.run(row.run_id)
        if current is None:
            return False
        left = current.lease_expires - engine.clock.now()
        renewed = current.lease_expires > row.lease_expires
        if renewed:
            report.say(row.run_id, f"{row.name}: another notebook is at work on it")
            return False
        report.say(row.run_id, f"{row.name}: its kernel is silent; taken over in {max(0, left):.0f} s unless it speaks up")
        await asyncio.sleep(max(0.05, min(1.0, left)))
    return True


async def _wind_up(engine: Engine, row: RunRow, report: Report, *, has_cluster: bool) -> None:
    launches = engine.ledger.launches(row.run_id)
    # A run with a cluster keeps exactly that one; whatever else it made is ended.
    cancelled = row.cancelled or has_cluster
    pending = [launch for launch in launches if not launch.state.is_final and not (has_cluster and launch.state is AttemptState.READY)]
    if not pending:
        if not has_cluster:
            engine.ledger.set_run(
                row.run_id, RunState.CANCELLED if row.cancelled else RunState.FAILED, "its kernel stopped before anything was created"
            )
            report.say(row.run_id, f"{row.name}: its kernel stopped before anything was created; nothing is left on the bill")
        engine.ledger.release(row.run_id)
        return
    machine = Failover(candidates=(), deadlines_of=engine.deadlines_of, new_token=lambda: "", may_start=False)
    driver = engine.restored_driver(row.run_id, row.name, _spec_of(row), machine)
    for launch in pending:
        driver.adopt(launch)
    driver.keep_state = has_cluster
    try:
        driver.keys = ClusterKeys.load(driver.keys_folder)
    except KeyMaterialError as error:
        log.warning("%s: %s", row.name, error)
        cancelled = True  # machines that cannot be reached are of no use to anybody
    driver.state = RunState.CANCELLING if cancelled else RunState.LAUNCHING
    first = machine.restore([_attempt(launch) for launch in pending], cancelled=cancelled, elapsed=engine.clock.elapsed())
    found = _found(pending)
    report.say(
        row.run_id, f"{row.name}: a launch was under way when its kernel stopped ({found}); {'ending it' if cancelled else 'taking it up'}"
    )
    await engine.follow(driver, first)
    report.say(row.run_id, _outcome(engine, row, driver.machine, pending))


def _spec_of(row: RunRow) -> Spec:
    try:
        return parse(row.spec)
    except NbprovError as error:
        log.warning("the spec of run %s cannot be read by this release: %s", row.run_id, error)
        return Spec(name=row.name)


def _attempt(row: LaunchRow) -> Attempt:
    return Attempt(row.token, row.candidate, row.number, row.slot, state=row.state, failure=row.failure, ids=row.ids)


def _found(pending: list[LaunchRow]) -> str:
    return (
        ", ".join(f"attempt {launch.number} {launch.state.value} in {launch.candidate.offer.place}" for launch in pending)
        or "nothing sent yet"
    )


def _outcome(engine: Engine, row: RunRow, machine: Failover, pending: list[LaunchRow]) -> str:
    ended = sum(a.state is AttemptState.GONE for a in machine.attempts.values())
    absent = sum(a.state in (AttemptState.ABSENT, AttemptState.REFUSED) for a in machine.attempts.values())
    parts = [f"{ended} ended and confirmed gone"] if ended else []
    parts += [f"{absent} never became a machine"] if absent else []
    if machine.winner is not None:
        place = machine.attempts[machine.winner].candidate.offer.place
        return f"{row.name}: adopted, it runs in {place}: %%on {row.name} uses it, %nbprov down {row.name} ends it" + (
            f" ({', '.join(parts)})" if parts else ""
        )
    return (
        f"{row.name}: its kernel stopped during the launch; {', '.join(parts) or 'nothing had been created'}; nothing is left on the bill"
    )


async def end_orphans(engine: Engine, cloud_name: str, report: Report, *, least_age: Seconds = ORPHAN_SECONDS) -> list[Instance]:
    """End machines that bear our owner id and that no row of the ledger knows. Returns those found.

    Raises
    ------
    CloudError
        If the cloud cannot be listed.
    """
    cloud = engine.cloud(cloud_name)
    listed = await cloud.list(engine.ledger.owner)
    known = engine.ledger.tokens()
    orphans = [i for i in listed if i.token not in known and i.owner == engine.ledger.owner and i.state is not InstanceState.GONE]
    old = [i for i in orphans if engine.clock.now() - i.launched_at >= least_age]
    if old:
        await cloud.terminate([i.id for i in old])
    for instance in orphans:
        fate = "ended" if instance in old else f"left alone until it is {least_age / 60:.0f} minutes old"
        report.say(instance.id, f"{instance.id} in {instance.place} bears this ledger's id but stands in no row: {fate}")
    return orphans
