"""Launches that this session did not begin: adopted from a dead kernel, or another kernel's."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from nbprov.api.errors import LaunchUnderWay, NotSettled, with_readable_errors
from nbprov.api.steps import Steps, result
from nbprov.model.clock import Seconds
from nbprov.model.clusters import RunState
from nbprov.model.errors import (
    EndUnrecorded,
    Interrupted,
    LedgerError,
    NbprovError,
    UsageError,
)
from nbprov.model.launches import InstanceState
from nbprov.provisioning.async_cloud import try_request
from nbprov.provisioning.run.events import Restocked
from nbprov.provisioning.supervision.listing.intervals import CONFIRM_SECONDS
from nbprov.runtime.waiting import wait_for

if TYPE_CHECKING:
    from nbprov.model.spec import Spec
    from nbprov.provisioning.engine import Engine
    from nbprov.provisioning.ledger import RunRow
    from nbprov.provisioning.run.driver import RunDriver

log = logging.getLogger("nbprov.api")

Say = Callable[[str], None]
"""Called with a line that says what a verb waits for."""


def say_nothing(text: str) -> None:
    """Say nothing."""


OPEN = (RunState.LAUNCHING, RunState.WAITING, RunState.CANCELLING)
"""States of a launch that is under way."""

LOOK_EVERY: Seconds = 0.1
"""How often the ledger is read while a launch is adopted."""

GRACE: Seconds = 3.0
"""How long this kernel waits for another one to take a lapsed lease. A kernel that waits for it
takes it within a second, so after this time there is none."""


def driver_of(engine: Engine, name: str) -> RunDriver | None:
    """The launch of this name that this kernel drives, adopted ones included."""
    return next(
        (
            d
            for d in list(engine.drivers.values())
            if d.name == name and not d.finished.done() and d.state in OPEN
        ),
        None,
    )


def foreign_launch(engine: Engine, name: str) -> RunRow | None:
    """The launch of this name that is under way and that another kernel drives."""
    ours = {d.run_id for d in list(engine.drivers.values()) if not d.failover.finished}
    rows = engine.ledger.runs.unfinished()
    return next(
        (row for row in rows if row.name == name and row.state in OPEN and row.run_id not in ours),
        None,
    )


def ending_launches(engine: Engine, name: str) -> list[RunRow]:
    """The launches of this name that are over, of which machines are still being ended."""
    return [
        row for row in engine.ledger.runs.unfinished() if row.name == name and row.state not in OPEN
    ]


def cancel(engine: Engine, driver: RunDriver) -> None:
    """Cancel a launch. Any thread."""
    engine.thread.soon(driver.cancel)


def try_now(engine: Engine, driver: RunDriver) -> None:
    """Try the places again, if a launch waits for stock and its last pass is not too recent.

    Any thread.
    """
    engine.thread.soon(lambda: driver.post(Restocked()))


def wait_longer(engine: Engine, driver: RunDriver | None, name: str, seconds: Seconds) -> None:
    """Let a launch wait so much longer for stock. Any thread.

    Raises
    ------
    UsageError
        If this kernel drives no launch that waits for stock.
    """
    if driver is None or not driver.can_wait_longer:
        raise UsageError(
            f"{name} does not wait for stock",
            hint="wait: 1h in the spec lets a launch wait",
            code="run.no-wait",
        )
    wait_for(engine.thread.call(engine.runs.wait_longer(driver, seconds)))


async def until_gone(engine: Engine, driver: RunDriver) -> None:
    """Wait until a cancelled launch is confirmed gone.

    A cluster that was ready before the cancellation is ended, too.

    Raises
    ------
    NotSettled
        If another kernel has adopted it meanwhile.
    """
    await _end_settled(
        engine, driver.name, await asyncio.wrap_future(driver.finished), driver.message
    )


async def until_foreign_gone(engine: Engine, row: RunRow) -> None:
    """Wait until the launch of another kernel is confirmed gone, and end what it became.

    If that kernel is dead, it is ended from here.

    Raises
    ------
    NotSettled
        If nobody can be made to end it.
    """
    try:
        driver = await until_adopted(engine, row, patient=True)
    except LaunchUnderWay as error:
        raise NotSettled(error.message, hint=error.hint) from None
    if driver is not None:
        cancel(engine, driver)
        await until_gone(engine, driver)
        return
    current = engine.ledger.runs.get(row.run_id)
    if current is not None:
        await _end_settled(engine, row.name, current.state, current.message)


async def until_launches_gone(engine: Engine, rows: list[RunRow]) -> None:
    """Wait until all machines of launches that are over are confirmed gone.

    Whichever kernel drives such a launch ends them; where that kernel is gone, it is done here.
    """
    ids = {row.run_id for row in rows}
    task: asyncio.Task[None] | None = None
    while True:
        pending = [run for run in engine.ledger.runs.unfinished() if run.run_id in ids]
        if not pending:
            return
        leases = engine.ledger.leases
        is_left = any(
            leases.left(r.run_id) <= 0 and not engine.runs.is_driven(r.run_id) for r in pending
        )
        if is_left and task is None:
            task = asyncio.create_task(_reconcile(engine))
        await asyncio.sleep(LOOK_EVERY)


async def end_unwritten(engine: Engine, row: RunRow, error: LedgerError) -> None:
    """End the machines of another kernel's launch, where the ledger cannot be told of it.

    Raises
    ------
    EndUnrecorded
        When its clouds list none of them any more, or after `CONFIRM_SECONDS`.
    """
    clock, end = engine.clock, engine.clock.elapsed() + CONFIRM_SECONDS
    tokens = {launch.token: launch.cloud for launch in engine.ledger.launches.attempts(row.run_id)}
    while left := await _alive(engine, tokens):
        for name, ids in left.items():
            await try_request(engine.cloud(name).terminate, ids)
        if clock.elapsed() > end:
            raise EndUnrecorded.of(f"the machines of {row.name} were asked to end", error)
        await asyncio.sleep(max(engine.capabilities_of(name).poll_every for name in left))
    raise EndUnrecorded.of(f"no machine of {row.name} is left in its cloud's list", error)


async def _alive(engine: Engine, tokens: Mapping[str, str]) -> dict[str, list[str]]:
    """The ids of machines of these launches that are not gone, by cloud."""
    found: dict[str, list[str]] = {}
    for name in {*tokens.values()}:
        for instance in await engine.cloud(name).list(engine.ledger.owner):
            if instance.token in tokens and instance.state is not InstanceState.GONE:
                found.setdefault(name, []).append(instance.id)
    return found


async def _end_settled(engine: Engine, name: str, state: RunState, message: str) -> None:
    if state is RunState.READY:
        await with_readable_errors(engine.lifecycle.down(engine.cluster(name)))
    elif state not in (RunState.CANCELLED, RunState.FAILED):
        raise NotSettled(
            f"{name}: {message or state.value}", hint="%clusters shows what became of it"
        )


async def until_adopted(engine: Engine, row: RunRow, *, patient: bool = False) -> RunDriver | None:
    """Wait until this kernel has adopted another one's launch; None once the launch is over.

    Parameters
    ----------
    patient
        Wait also for the launch of a kernel that lives, until it ends.

    Raises
    ------
    LaunchUnderWay
        If another kernel drives it, or it cannot be adopted.
    """
    lapsed = engine.clock.elapsed()
    task: asyncio.Task[None] | None = None
    while True:
        driver = driver_of(engine, row.name)
        current = engine.ledger.runs.get(row.run_id)
        if driver is not None or current is None or current.state not in OPEN:
            return driver
        renewal = current.lease_holder, current.lease_renewed
        is_renewed = renewal != (row.lease_holder, row.lease_renewed)
        if is_renewed and current.lease_holder != engine.ledger.holder:
            if not patient:
                raise launched_elsewhere(row.name)
            row, task = current, None
        now = engine.clock.elapsed()
        if engine.ledger.leases.left(row.run_id) > 0:
            lapsed = now
        silent = now - lapsed
        if silent > GRACE and task is None:
            task = asyncio.create_task(_reconcile(engine))
        if silent > GRACE + engine.ledger.lease_seconds:
            raise LaunchUnderWay(
                f"the kernel that launched {row.name} is gone, and its launch could not be adopted",
                hint="%load_ext nbprov tries it again",
            )
        await asyncio.sleep(LOOK_EVERY)


async def _reconcile(engine: Engine) -> None:
    from nbprov.provisioning.reconcile import ReconcileReport, reconcile

    try:
        await reconcile(engine, ReconcileReport())
    except Exception:
        log.exception("what an earlier kernel left could not be adopted")


def launched_elsewhere(name: str) -> LaunchUnderWay:
    """The error for a launch that another notebook drives."""
    return LaunchUnderWay(
        f"{name} is being launched by another notebook",
        hint=f"wait until it is ready (%clusters shows it), or end it: %nbprov down {name}",
    )


def other_spec_error(name: str) -> LaunchUnderWay:
    """The error for a name whose launch goes on from another spec."""
    return LaunchUnderWay(
        f"{name} is being launched from another spec",
        hint=f"use another name, or end it first: %nbprov down {name}",
    )


def is_same_spec(stored: Spec, spec: Spec) -> bool:
    """Whether a launch was begun from this spec, as far as the ledger keeps specs.

    How it races is not compared: `--race` is of the line, and not of the spec.
    """
    from nbprov.provisioning.spec_storage import readable_text
    from nbprov.spec import parse, to_yaml

    try:
        given = parse(readable_text(replace(spec, race=stored.race)))
        return to_yaml(stored) == to_yaml(given)
    except NbprovError:
        return False


def waiting_driver(engine: Engine, name: str, say: Say) -> Steps[RunDriver | None]:
    """The launch of this name that waits for stock and that no handle of this session follows yet.

    A launch whose kernel is gone is adopted first. One that tries again after its wait counts too.

    Raises
    ------
    LaunchUnderWay
        If another notebook drives it.
    """
    driver = driver_of(engine, name)
    row = foreign_launch(engine, name) if driver is None else None
    if row is not None and row.wait_deadline > engine.clock.now() and not row.cancelled:
        say(f"{name}: another kernel waited for its stock; checking whether that kernel is alive …")
        try:
            driver = yield from result(engine.thread.call(until_adopted(engine, row)))
        except KeyboardInterrupt:
            raise Interrupted(
                f"{name}: its wait goes on; %nbprov down {name} ends it, %clusters shows it"
            ) from None
    if (
        driver is None
        or driver.state not in (RunState.LAUNCHING, RunState.WAITING)
        or not driver.failover.stock_wait.until
    ):
        return None
    return driver


def until_settled(engine: Engine, name: str, say: Say) -> Steps[NbprovError | None]:
    """Wait until no launch of this name that another session began is under way.

    An interrupt leaves the launch alone.

    Returns
    -------
    NbprovError or None
        How the launch ended, where it did not end in a cluster.

    Raises
    ------
    LaunchUnderWay
        If another notebook drives it.
    """
    driver = driver_of(engine, name)
    row = foreign_launch(engine, name) if driver is None else None
    if driver is None and row is None:
        return None
    try:
        if row is not None:
            say(f"{name}: another kernel launches it; checking whether that kernel is alive …")
            driver = yield from result(engine.thread.call(until_adopted(engine, row)))
        if driver is None:
            return None
        is_cancelled = driver.state is RunState.CANCELLING
        say(
            f"{name} is being cancelled; waiting until that is confirmed …"
            if is_cancelled
            else f"{name} is being adopted; waiting for it …"
        )
        try:
            yield from result(driver.ready)
        except NbprovError as error:
            yield from result(driver.finished)
            return error
    except KeyboardInterrupt:
        raise Interrupted(
            f"{name}: its launch goes on; %nbprov down {name} ends it, %clusters shows it"
        ) from None
    return None
