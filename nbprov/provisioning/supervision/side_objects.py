"""Removes what launches leave beside their machines: disks, addresses, groups and keys.

The ledger knows each of these side objects until its removal is confirmed.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection
from dataclasses import dataclass

from nbprov.model.clock import Clock, Seconds
from nbprov.model.errors import NbprovError
from nbprov.model.failures import Cause, CloudError
from nbprov.model.launches import SideObject
from nbprov.provisioning.async_cloud import AsyncCloud
from nbprov.provisioning.ledger import Ledger, SideRow, SideState
from nbprov.provisioning.orphans import OrphanCollector
from nbprov.runtime.fault_log import log_fault

log = logging.getLogger("nbprov.lifecycle")

UNKNOWN_SECONDS: Seconds = 600.0
"""A side object of a launch that this ledger does not know is removed after this long.

Machines are treated the same way (`ORPHAN_SECONDS`).
"""

MOST_PAUSE: Seconds = 30.0
"""The longest pause between two looks.

A side object is free within a minute or two of its machine's end, and listing all regions costs a
dozen calls.
"""

WATCH_EVERY: Seconds = 600.0
"""Between two looks while clusters live and nothing has ended.

Only what somebody made or removed by hand can be new then.
"""

TIDY_SECONDS: Seconds = 1800.0
"""How long the removal of what cannot be removed is repeated.

After that it is left to the next end of a cluster and to the next load.
"""


@dataclass(frozen=True, slots=True)
class SideObjectLook:
    """What a look at one cloud found.

    Attributes
    ----------
    asked
        What the cloud was asked to remove.
    later
        What may belong to nobody, and is too young to tell.
    """

    asked: tuple[SideObject, ...] = ()
    later: tuple[SideObject, ...] = ()

    @property
    def is_done(self) -> bool:
        """Whether another look would find nothing to do."""
        return not self.asked and not self.later


class SideObjectCollector:
    """Finds and removes side objects that belong to nobody. On the engine thread.

    Only what bears this ledger's owner id and serves one launch alone is removed. Shared objects
    cost nothing and stay.
    """

    def __init__(
        self,
        ledger: Ledger,
        clock: Clock,
        orphans: OrphanCollector,
        *,
        clouds: Callable[[str], AsyncCloud],
        changed: Callable[[], None],
    ) -> None:
        self._ledger, self._clock, self._orphans = ledger, clock, orphans
        self._clouds, self._changed = clouds, changed
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._again: set[str] = set()
        self._looked: dict[str, Seconds] = {}

    def soon(self, name: str) -> None:
        """Look at a cloud in the background, now and until nothing is left to remove."""
        cloud = self._cloud(name)
        if cloud is None:
            return
        running = self._tasks.get(name)
        if running is not None and not running.done():
            self._again.add(name)
            return
        self._tasks[name] = asyncio.create_task(self._until_tidy(cloud))

    def told(self, name: str, is_over: bool) -> None:
        """Note that a launch may have left something at a cloud.

        Its run is over, or its create was just sent; of the latter many may come in a second.
        """
        if is_over:
            self.soon(name)
            self._orphans.watch_late(name, self.soon)
        else:
            self.now_and_then(name, MOST_PAUSE)

    def now_and_then(self, name: str, pause: Seconds = WATCH_EVERY) -> None:
        """Look at a cloud in the background unless that was done less than `pause` seconds ago."""
        if self._clock.elapsed() - self._looked.get(name, float("-inf")) >= pause:
            self.soon(name)

    def left(self, cloud: str = "") -> list[SideRow]:
        """The side objects of single launches that are not removed yet, with the reason.

        Those of one cloud where it is named. Any thread.
        """
        return [row for row in self._ledger.side_objects.listed(cloud) if not row.object.shared]

    async def look(self, name: str) -> SideObjectLook:
        """List a cloud's side objects, write them down, and have those removed that are nobody's.

        Raises
        ------
        CloudError
            If it cannot list them, or refuses to remove them; the ledger has the reason then.
        """
        cloud, ledger = self._cloud(name), self._ledger
        if cloud is None:
            return SideObjectLook()
        self._looked[name] = self._clock.elapsed()
        # Read before the listing: what it lacks of these launches is gone or was never made.
        over = ledger.side_objects.over(name)
        listed = await self._listed(cloud)
        ledger.side_objects.seen(
            name, listed, over, unseen=await self._of_other_accounts(cloud, listed)
        )
        self._orphans.watch_late(name, self.soon)
        found = self._nobodys(name)
        if found.asked:
            await self._remove(cloud, found.asked)
        return found

    async def _listed(self, cloud: AsyncCloud) -> list[SideObject]:
        try:
            return [
                o for o in await cloud.side_objects(self._ledger.owner) if o.cloud == cloud.name
            ]
        except CloudError as error:
            # A key that may not list them may not have made any either.
            is_denied = error.failure.cause is Cause.PERMISSION
            if is_denied and not self._ledger.side_objects.listed(cloud.name):
                return []
            raise

    async def _of_other_accounts(
        self, cloud: AsyncCloud, listed: Collection[SideObject]
    ) -> set[str]:
        """The tokens of launches of another account than the listed one.

        What the listing lacks of them is not gone.
        """
        shown = {thing.token for thing in listed}
        accounts = {
            token: account
            for token, account in self._ledger.side_objects.accounts(cloud.name).items()
            if token not in shown
        }
        foreign = {account for account in {*accounts.values()} if not await cloud.is_of(account)}
        if foreign:
            log.info(
                "%s: what lies beside the machines of %s is not looked for:"
                " other credentials are in use",
                cloud.name,
                ", ".join(foreign),
            )
        return {token for token, account in accounts.items() if account in foreign}

    def _cloud(self, name: str) -> AsyncCloud | None:
        try:
            cloud = self._clouds(name)
        except NbprovError as error:  # its adapter is not installed here
            log.info("%s: %s", name, error)
            return None
        return cloud if cloud.leaves_side_objects else None

    def _nobodys(self, name: str) -> SideObjectLook:
        """Tell objects that belong to no live launch from those that are too young to tell."""
        # Read after the listing: a launch that was intended during it is alive.
        ledger, now = self._ledger, self._clock.now()
        # A machine that comes late powers itself off by its start script, which may be an object.
        left = self.left(name)
        live = ledger.launches.live_tokens() | ledger.side_objects.doubted(name)
        known = ledger.launches.known(row.object.token for row in left)
        asked: list[SideObject] = []
        later: list[SideObject] = []
        for row in left:
            token = row.object.token
            if token in live:
                continue
            # An object that names no launch may serve any live one.
            may_serve = not token and name in ledger.launches.live_clouds()
            is_old = now - row.since >= UNKNOWN_SECONDS
            (asked if token in known or (is_old and not may_serve) else later).append(row.object)
        return SideObjectLook(tuple(asked), tuple(later))

    async def _remove(self, cloud: AsyncCloud, things: tuple[SideObject, ...]) -> None:
        ledger = self._ledger
        try:
            in_use = set(await cloud.remove(things))
        except CloudError as error:
            ledger.side_objects.tried(
                dict.fromkeys(things, (SideState.THERE, error.failure.sentence()))
            )
            raise
        removing, kept = (SideState.REMOVING, ""), (SideState.IN_USE, "still in use")
        ledger.side_objects.tried(
            {thing: kept if thing in in_use else removing for thing in things}
        )

    async def _until_tidy(self, cloud: AsyncCloud) -> None:
        clock, name = self._clock, cloud.name
        pause, end = cloud.capabilities.poll_every, clock.elapsed() + TIDY_SECONDS
        while True:
            self._again.discard(name)
            found = await self._found(name)
            if name in self._again:
                pause, end = cloud.capabilities.poll_every, clock.elapsed() + TIDY_SECONDS
            elif found is not None and found.is_done:
                break
            elif clock.elapsed() > end:
                log.warning(
                    "%s: left beside its machines until the next load: %s",
                    name,
                    words(self.left(name)),
                )
                break
            await asyncio.sleep(pause if found is None or found.asked else MOST_PAUSE)
            pause = min(MOST_PAUSE, pause * 2)
        self._changed()

    async def _found(self, name: str) -> SideObjectLook | None:
        try:
            return await self.look(name)
        except (CloudError, NbprovError) as error:
            log.info("%s: what lies beside its machines: %s; looked at again", name, error)
        except Exception as error:
            log_fault(log, error, "%s: what lies beside its machines; looked at again", name)
        return None


def words(rows: list[SideRow]) -> str:
    """Side objects in one line: what they are, where, and why they are still there."""
    return "; ".join(
        f"{r.object.kind} {r.object.id} in {r.object.region}"
        + (f" ({r.reason})" if r.reason else "")
        for r in rows
    )
