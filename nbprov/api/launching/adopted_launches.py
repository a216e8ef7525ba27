"""Launches that this session did not begin: taken up here after their kernel died, or in the hands of another kernel."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from nbprov.api.errors import LaunchUnderWay, NotSettled, readably
from nbprov.model.clock import Seconds
from nbprov.model.clusters import RunState
from nbprov.model.errors import Interrupted, NbprovError
from nbprov.runtime.waiting import wait_for

if TYPE_CHECKING:
    from nbprov.model.spec import Spec
    from nbprov.provisioning.engine import Engine
    from nbprov.provisioning.ledger import RunRow
    from nbprov.provisioning.run.driver import RunDriver

log = logging.getLogger("nbprov.api")

Say = Callable[[str], None]
"""Tells the person in a line why something waits."""


def quietly(text: str) -> None:
    """Nobody is told."""


OPEN = (RunState.LAUNCHING, RunState.WAITING, RunState.CANCELLING)

LOOK_EVERY: Seconds = 0.1
GRACE: Seconds = 3.0
"""A kernel that waits for a lapsed lease takes it within a second; who has not after this long is not there."""


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


def foreign(engine: Engine, name: str) -> RunRow | None:
    """The launch of this name that is under way by the ledger and that this kernel does not drive."""
    ours = {d.run_id for d in list(engine.drivers.values()) if not d.machine.finished}
    rows = engine.ledger.runs.unfinished()
    return next(
        (row for row in rows if row.name == name and row.state in OPEN and row.run_id not in ours),
        None,
    )


def cancel(engine: Engine, driver: RunDriver) -> None:
    """Give a launch up. From any thread."""
    engine.thread.soon(driver.cancel)


async def gone(engine: Engine, driver: RunDriver) -> None:
    """Wait until a cancelled launch is confirmed gone; a cluster that was quicker than the cancellation is ended too.

    Raises
    ------
    NotSettled
        If another kernel has taken it over meanwhile.
    """
    await _see_out(engine, driver.name, await asyncio.wrap_future(driver.finished), driver.message)


async def gone_elsewhere(engine: Engine, row: RunRow) -> None:
    """Wait until the launch of another kernel is confirmed gone, and end what it became; if that kernel is dead, end it from here.

    Raises
    ------
    NotSettled
        If nobody can be made to end it.
    """
    try:
        driver = await taken_up(engine, row, patient=True)
    except LaunchUnderWay as error:
        raise NotSettled(error.message, hint=error.hint) from None
    if driver is not None:
        cancel(engine, driver)
        await gone(engine, driver)
        return
    current = engine.ledger.runs.get(row.run_id)
    if current is not None:
        await _see_out(engine, row.name, current.state, current.message)


async def _see_out(engine: Engine, name: str, state: RunState, message: str) -> None:
    if state is RunState.READY:
        await readably(engine.lifecycle.down(engine.cluster(name)))
    elif state not in (RunState.CANCELLED, RunState.FAILED):
        raise NotSettled(
            f"{name}: {message or state.value}", hint="%clusters shows what became of it"
        )


async def taken_up(engine: Engine, row: RunRow, *, patient: bool = False) -> RunDriver | None:
    """Wait until a launch that another kernel held is in this one's hands; None once it is over.

    Parameters
    ----------
    patient
        Wait for a living kernel's launch to end, too.

    Raises
    ------
    LaunchUnderWay
        If another kernel is at work on it, or nobody can take it up.
    """
    begun = engine.clock.now()
    task: asyncio.Task[None] | None = None
    while True:
        driver = driver_of(engine, row.name)
        current = engine.ledger.runs.get(row.run_id)
        if driver is not None or current is None or current.state not in OPEN:
            return driver
        if (
            current.lease_expires > row.lease_expires
            and current.lease_holder != engine.ledger.holder
        ):
            if not patient:
                raise elsewhere(row.name)
            row, task = current, None
        silent = engine.clock.now() - max(current.lease_expires, begun)
        if silent > GRACE and task is None:
            task = asyncio.create_task(_reconcile(engine))
        if silent > GRACE + engine.ledger.lease_seconds:
            raise LaunchUnderWay(
                f"the kernel that launched {row.name} is gone, and its launch could not be taken up",
                hint="%load_ext nbprov tries it again",
            )
        await asyncio.sleep(LOOK_EVERY)


async def _reconcile(engine: Engine) -> None:
    from nbprov.provisioning.reconcile import Report, reconcile

    try:
        await reconcile(engine, Report())
    except Exception:
        log.exception("what an earlier kernel left could not be taken up")


def elsewhere(name: str) -> LaunchUnderWay:
    """The error that says who launches it."""
    return LaunchUnderWay(
        f"{name} is being launched by another notebook",
        hint=f"wait until it is ready (%clusters shows it), or end it: %nbprov down {name}",
    )


def other_spec(name: str) -> LaunchUnderWay:
    """The error where a launch of a name goes on, and another is asked for."""
    return LaunchUnderWay(
        f"{name} is being launched from another spec",
        hint=f"use another name, or end it first: %nbprov down {name}",
    )


def same_wish(stored: Spec, spec: Spec) -> bool:
    """Whether a cell says what a launch was begun from, as far as the ledger keeps it."""
    from nbprov.provisioning.spec_storage import readable_text
    from nbprov.spec import parse, to_yaml

    try:
        return to_yaml(stored) == to_yaml(parse(readable_text(spec)))
    except NbprovError:
        return False


def waiting_driver(engine: Engine, name: str, say: Say) -> RunDriver | None:
    """The launch of this name that waits for stock, or tries again after such a wait, and that no handle of this session follows yet.

    One whose kernel is gone is taken up first.

    Raises
    ------
    LaunchUnderWay
        If it is in another notebook's hands.
    """
    driver = driver_of(engine, name)
    row = foreign(engine, name) if driver is None else None
    if row is not None and row.wait_deadline > engine.clock.now() and not row.cancelled:
        say(f"{name}: another kernel waited for stock for it; looking whether it still does …")
        try:
            driver = wait_for(engine.thread.call(taken_up(engine, row)))
        except KeyboardInterrupt:
            raise Interrupted(
                f"{name}: its wait goes on; %nbprov down {name} ends it, %clusters shows it"
            ) from None
    if (
        driver is None
        or driver.state not in (RunState.LAUNCHING, RunState.WAITING)
        or not driver.machine.patience.until
    ):
        return None
    return driver


def see_adopted(engine: Engine, name: str, say: Say) -> NbprovError | None:
    """Block until no launch of this name that the session did not begin is under way; how it ended where not in a cluster.

    An interrupt leaves the launch alone.

    Raises
    ------
    LaunchUnderWay
        If it is in another notebook's hands.
    """
    driver = driver_of(engine, name)
    row = foreign(engine, name) if driver is None else None
    if driver is None and row is None:
        return None
    try:
        if row is not None:
            say(
                f"{name}: a launch of another kernel is under way; looking whether it is still there …"
            )
            driver = wait_for(engine.thread.call(taken_up(engine, row)))
        if driver is None:
            return None
        is_cancelled = driver.state is RunState.CANCELLING
        say(
            f"{name} is being cancelled; waiting until that is confirmed …"
            if is_cancelled
            else f"{name} is being taken up; waiting for it …"
        )
        try:
            wait_for(driver.ready)
        except NbprovError as error:
            wait_for(driver.finished)
            return error
    except KeyboardInterrupt:
        raise Interrupted(
            f"{name}: its launch goes on; %nbprov down {name} ends it, %clusters shows it"
        ) from None
    return None
