"""What bears our owner id and belongs to no live launch: machines are ended, what lies beside machines is removed."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from nbprov.model.clock import Seconds, short_duration
from nbprov.model.failures import CloudError
from nbprov.model.launches import Instance, InstanceState

from .async_cloud import AsyncCloud, is_passing
from .reconcile_report import Report
from .supervision.lifecycle import CONFIRM_SECONDS, MOST_WATCH
from .supervision.side_objects import words

if TYPE_CHECKING:
    from .engine import Engine

ORPHAN_SECONDS: Seconds = 600.0
"""A machine that bears our owner id and stands in no row of the ledger is ended once it is this old: younger ones may be another kernel's, mid-write."""

REFUSED_AGAIN: Seconds = 600.0
"""After a machine that is nobody's could not be ended: it is billed, and permissions and credentials are mended while a kernel runs."""

LOOK_SECONDS: Seconds = 45.0
"""How long a cloud may take to be listed at load: twice its own limit, since the watcher's listing may come first."""


async def tidy(engine: Engine, cloud_name: str, report: Report) -> None:
    """Remove what launches left beside their machines and is nobody's; what cannot be removed now is tried again in the background.

    Raises
    ------
    CloudError
        If the cloud cannot list it.
    """
    try:
        done = (await asyncio.wait_for(engine.tidying.look(cloud_name), LOOK_SECONDS)).is_done
    except (CloudError, TimeoutError) as error:
        report.say(
            f"side {cloud_name}",
            f"{cloud_name}: what lies beside its machines: {str(error) or 'no answer'}; tried again",
        )
        done = False
    left = [row for row in engine.tidying.left(cloud_name) if row.reason]
    if left:
        report.say(
            f"side {cloud_name}",
            f"{cloud_name}: left beside its machines, and tried again: {words(left)}",
        )
    if not done:
        engine.tidying.soon(cloud_name)


async def end_orphans(
    engine: Engine, cloud_name: str, report: Report, *, least_age: Seconds = ORPHAN_SECONDS
) -> list[Instance]:
    """End machines that bear our owner id and that no live launch of the ledger made, and confirm that. Returns those found.

    One whose launch the ledger knows as over is ended whatever its age: a create that was concluded to have made nothing did
    so late. One that stands in no row is ended from `least_age` on: a younger one may be another kernel's, mid-write.

    Raises
    ------
    CloudError
        If the cloud cannot be listed.
    """
    cloud, ledger = engine.cloud(cloud_name), engine.ledger
    live = ledger.launches.live_tokens()
    listed = await cloud.list(ledger.owner)
    live |= (
        ledger.launches.live_tokens()
    )  # neither what was concluded nor what was intended while the list was made is an orphan
    known = ledger.launches.tokens()
    orphans = [
        i
        for i in listed
        if i.token not in live and i.owner == ledger.owner and i.state is not InstanceState.GONE
    ]
    doomed = {}
    for instance in orphans:
        what = _orphan(instance, known)
        if instance.token in known or engine.clock.now() - instance.launched_at >= least_age:
            doomed[instance.id] = what
            report.say(instance.id, f"{what}: being ended")
        else:
            report.say(
                instance.id, f"{what}: left alone until it is {least_age / 60:.0f} minutes old"
            )
    young = [engine.clock.now() - i.launched_at for i in orphans if i.id not in doomed]
    if young:  # who loads next may do so in a week
        engine.tidying.look_again(cloud_name, ORPHAN_SECONDS - min(young))
    if doomed and not await _end_confirmed(engine, cloud, doomed, report):
        engine.tidying.look_again(cloud_name, REFUSED_AGAIN)
    return orphans


def _orphan(instance: Instance, known: set[str]) -> str:
    place = f"{instance.id} in {instance.place} bears this ledger's id but"
    return (
        f"{place} {'its launch counts as over' if instance.token in known else 'stands in no row'}"
    )


async def _end_confirmed(
    engine: Engine, cloud: AsyncCloud, doomed: dict[str, str], report: Report
) -> bool:
    """Whether all are confirmed gone."""
    end = engine.clock.elapsed() + CONFIRM_SECONDS
    pause, left, told = cloud.capabilities.poll_every, dict(doomed), set[str]()
    while left:
        try:
            if left.keys() - told:
                await cloud.terminate(sorted(left.keys() - told))
                told |= left.keys()
            listed = {i.id: i.state for i in await cloud.list(engine.ledger.owner)}
        except CloudError as error:
            given_up = not is_passing(error.failure) or engine.clock.elapsed() > end
            for instance_id, what in left.items():
                report.say(
                    instance_id,
                    f"{what}: could not be ended: {error.failure.sentence()}; tried again{f' in {short_duration(REFUSED_AGAIN)}' if given_up else ''}",
                )
            if given_up:
                return False
            pause = min(MOST_WATCH, pause * 2)
        else:
            for instance_id in [
                i for i in left if listed.get(i, InstanceState.GONE) is InstanceState.GONE
            ]:
                report.say(
                    instance_id, f"{left.pop(instance_id)}: ended, confirmed by the cloud's list"
                )
            told -= {
                i for i in left if listed[i] is not InstanceState.ENDING
            }  # asked again for what goes on living
            if left and engine.clock.elapsed() > end:
                for instance_id, what in left.items():
                    report.say(
                        instance_id,
                        f"{what}: asked to end, and still {listed[instance_id].value} after {CONFIRM_SECONDS:g} s",
                    )
                return False
        if left:
            await asyncio.sleep(pause)
    return True
