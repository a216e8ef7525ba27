"""Ends machines that bear our owner id and belong to no live launch."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from nbprov.model.clock import Clock, Seconds, short_duration
from nbprov.model.errors import NbprovError
from nbprov.model.failures import CloudError
from nbprov.model.launches import Instance, InstanceState
from nbprov.runtime.fault_log import log_fault

from .async_cloud import AsyncCloud, is_passing
from .ledger import Ledger
from .reconcile_report import ReconcileReport
from .supervision.listing.intervals import CONFIRM_SECONDS, MOST_WATCH

log = logging.getLogger("nbprov.lifecycle")

ORPHAN_SECONDS: Seconds = 600.0
"""A machine with our owner id that the ledger does not know is ended once it is this old.

A younger one may be another kernel's that is about to write it down.
"""

REFUSED_AGAIN: Seconds = 600.0
"""After an orphan could not be ended it is tried again this much later.

It is billed, and permissions and credentials are corrected while a kernel runs.
"""

LATE_PAUSES: tuple[Seconds, ...] = (60.0, 120.0, 300.0, 600.0)
"""Between two looks for machines of creates that were concluded to have made nothing.

The last pause repeats until no doubt is left. Most machines that come late do so within minutes,
and each second of one is on the bill.
"""

YOUNG_GRACE: Seconds = 10.0
"""An orphan is ended this much later than it is old enough: clouds round the launch time."""


class OrphanCollector:
    """Finds and ends orphans. On the engine thread.

    Parameters
    ----------
    clouds
        Looks a cloud up by its name.
    changed
        Tells displays that something has changed.
    """

    def __init__(
        self,
        ledger: Ledger,
        clock: Clock,
        clouds: Callable[[str], AsyncCloud],
        changed: Callable[[], None],
    ) -> None:
        self._ledger, self._clock, self._clouds, self._changed = ledger, clock, clouds, changed
        self._late: dict[str, asyncio.Task[None]] = {}
        self._young: dict[str, asyncio.Task[None]] = {}

    async def end_orphans(
        self, cloud_name: str, report: ReconcileReport, *, least_age: Seconds = ORPHAN_SECONDS
    ) -> list[Instance]:
        """End orphans, and confirm that by listing. Returns those that were found.

        A machine whose launch the ledger knows as over is ended whatever its age: a create that
        was concluded to have made nothing did so late.

        Parameters
        ----------
        least_age
            The age from which a machine that the ledger does not know is ended.

        Raises
        ------
        CloudError
            If the cloud cannot be listed.
        """
        cloud, ledger = self._clouds(cloud_name), self._ledger
        live = ledger.launches.live_tokens()
        listed = await cloud.list(ledger.owner)
        # Launches that were concluded or intended while the listing was made are no orphans.
        live |= ledger.launches.live_tokens()
        known = ledger.launches.known(i.token for i in listed)
        orphans = [
            i
            for i in listed
            if i.token not in live and i.owner == ledger.owner and i.state is not InstanceState.GONE
        ]
        doomed, young = {}, []
        lost_at = ledger.lost_at
        for instance in orphans:
            is_lost = lost_at is not None and instance.launched_at < lost_at
            if (is_lost or ledger.store.is_copy) and least_age > 0 and instance.token not in known:
                report.say(instance.id, _left_words(instance, is_copy=ledger.store.is_copy))
                continue
            what, age = _orphan_words(instance, known), self._clock.now() - instance.launched_at
            if instance.token in known or age >= least_age:
                doomed[instance.id] = what
                report.say(instance.id, f"{what}: being ended")
            else:
                young.append(age)
                limit = f"{least_age / 60:.0f} minutes"
                report.say(instance.id, f"{what}: left alone until it is {limit} old")
        if young:  # the next load may be in a week
            self.look_again(cloud_name, ORPHAN_SECONDS - min(young))
        if doomed and not await self._end_confirmed(cloud, doomed, report):
            self.look_again(cloud_name, REFUSED_AGAIN)
        return orphans

    async def _end_confirmed(
        self, cloud: AsyncCloud, doomed: dict[str, str], report: ReconcileReport
    ) -> bool:
        """Whether all are confirmed gone."""
        end, pause = self._clock.elapsed() + CONFIRM_SECONDS, cloud.capabilities.poll_every
        left, asked = dict(doomed), set[str]()
        while left:
            try:
                if left.keys() - asked:
                    await cloud.terminate(sorted(left.keys() - asked))
                    asked |= left.keys()
                listed = {i.id: i.state for i in await cloud.list(self._ledger.owner)}
            except CloudError as error:
                given_up = not is_passing(error.failure) or self._clock.elapsed() > end
                again = f" in {short_duration(REFUSED_AGAIN)}" if given_up else ""
                why = f"could not be ended: {error.failure.sentence()}; tried again{again}"
                for instance_id, what in left.items():
                    report.say(instance_id, f"{what}: {why}")
                if given_up:
                    return False
                pause = min(MOST_WATCH, pause * 2)
            else:
                gone = [i for i in left if listed.get(i, InstanceState.GONE) is InstanceState.GONE]
                for instance_id in gone:
                    what = left.pop(instance_id)
                    report.say(instance_id, f"{what}: ended, confirmed by the cloud's list")
                # What is not ending by now is asked to end again.
                asked -= {i for i in left if listed[i] is not InstanceState.ENDING}
                if left and self._clock.elapsed() > end:
                    for instance_id, what in left.items():
                        state = f"still {listed[instance_id].value} after {CONFIRM_SECONDS:g} s"
                        report.say(instance_id, f"{what}: asked to end, and {state}")
                    return False
            if left:
                await asyncio.sleep(pause)
        return True

    # ------------------------------------------------------------ in the background

    def watch_late(self, name: str, settled: Callable[[str], None]) -> None:
        """Look for machines of creates that were concluded to have made nothing.

        It goes on for as long as such a machine may appear; then `settled` is called.
        """
        running = self._late.get(name)
        if (running is None or running.done()) and self._is_doubted(name):
            self._late[name] = asyncio.create_task(self._until_sure(name, settled))

    def _is_doubted(self, name: str) -> bool:
        try:
            return bool(self._ledger.side_objects.doubted(name))
        except NbprovError as error:
            log.info("%s: whether a lost create may yet make anything: %s", name, error)
            return True

    async def _until_sure(self, name: str, settled: Callable[[str], None]) -> None:
        number = 0
        while self._is_doubted(name):
            await asyncio.sleep(LATE_PAUSES[min(number, len(LATE_PAUSES) - 1)])
            number += 1
            await self._look_and_end(name)
        settled(name)

    def look_again(self, name: str, seconds: Seconds) -> None:
        """Look for orphans of a cloud again after a while, until there are none.

        Those that were too young are old enough by then, and a refused end is tried again.
        """
        running = self._young.get(name)
        if running is None or running.done():
            self._young[name] = asyncio.create_task(self._when_old(name, seconds))

    async def _when_old(self, name: str, seconds: Seconds) -> None:
        pause = max(0.0, seconds) + YOUNG_GRACE
        while True:
            await asyncio.sleep(pause)
            if await self._look_and_end(name):
                return
            pause = LATE_PAUSES[-1]

    async def _look_and_end(self, name: str) -> bool:
        """End the orphans of a cloud; whether it could be listed and there were none."""
        report = ReconcileReport()
        try:
            found = await self.end_orphans(name, report)
            if found:
                log.warning("%s: machines that no launch is known to have made: %s", name, report)
                self._changed()
        except (CloudError, NbprovError) as error:
            log.info("%s: orphans cannot be looked for: %s; tried again", name, error)
        except Exception as error:
            log_fault(log, error, "%s: orphans cannot be looked for; tried again", name)
        else:
            return not found
        return False


def _left_words(instance: Instance, *, is_copy: bool) -> str:
    place = f"{instance.id} in {instance.place}"
    if is_copy:
        return f"{place}: left alone, since the ledger is read from a copy that may lack it"
    return (
        f"{place} is of the ledger that was lost, and costs money until it ends: restore the ledger"
        " from a backup to use it, or end it: %nbprov sweep --end"
    )


def _orphan_words(instance: Instance, known: set[str]) -> str:
    place = f"{instance.id} in {instance.place} bears this ledger's id but"
    is_over = instance.token in known
    return f"{place} {'its launch counts as over' if is_over else 'stands in no row'}"
