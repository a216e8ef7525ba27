"""What launches leave beside their machines (disks, addresses, groups, keys): kept in the ledger, and removed once it is nobody's."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING

from nbprov.model.clock import Seconds
from nbprov.model.errors import NbprovError
from nbprov.model.failures import Cause, CloudError
from nbprov.model.launches import SideObject
from nbprov.provisioning.async_cloud import AsyncCloud
from nbprov.provisioning.ledger import SideRow, SideState

if TYPE_CHECKING:
    from nbprov.provisioning.engine import Engine

log = logging.getLogger("nbprov.lifecycle")

UNKNOWN_SECONDS: Seconds = 600.0
"""A side object of a launch that this ledger never made is removed once it was listed for so long, as machines are (`ORPHAN_SECONDS`)."""

MOST_PAUSE: Seconds = 30.0
"""Between two looks: what is in use is freed within a minute or two of its machine's end, and listing all regions costs a dozen calls."""

WATCH_EVERY: Seconds = 600.0
"""Between two looks while clusters live and nothing has ended: only what was made or lost by hand can be new."""

LATE_PAUSES: tuple[Seconds, ...] = (60.0, 120.0, 300.0, 600.0)
"""Between looks for machines of creates that were concluded to have made nothing; the last one again and again, until no doubt is left. Most that
come late do so within minutes, and each second of one is on the bill."""

YOUNG_GRACE: Seconds = 10.0
"""Beyond the age from which a machine that stands in no row is ended: clouds round the time of a launch."""

TIDY_SECONDS: Seconds = 1800.0
"""How long what cannot be removed is tried again and again; then it is left to the next end, and to the next load."""


@dataclass(frozen=True, slots=True)
class Tidied:
    """What one look came to.

    Attributes
    ----------
    asked
        What its cloud was asked to remove.
    later
        What may be nobody's, and is too young to tell.
    """

    asked: tuple[SideObject, ...] = ()
    later: tuple[SideObject, ...] = ()

    @property
    def is_done(self) -> bool:
        """Whether another look would find nothing to do."""
        return not self.asked and not self.later


class Tidying:
    """Looks after side objects. On the engine thread.

    Only what bears this ledger's owner id and serves one launch alone is ever removed: what is shared costs nothing and stays.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._again: set[str] = set()
        self._looked: dict[str, Seconds] = {}
        self._late: dict[str, asyncio.Task[None]] = {}
        self._young: dict[str, asyncio.Task[None]] = {}

    def soon(self, name: str) -> None:
        """Look at a cloud in the background, now and again until nothing is left that has to be removed."""
        cloud = self._cloud(name)
        if cloud is None:
            return
        running = self._tasks.get(name)
        if running is not None and not running.done():
            self._again.add(name)
            return
        self._tasks[name] = asyncio.create_task(self._until_tidy(cloud))

    def told(self, name: str, is_over: bool) -> None:
        """A launch may have left something: its run is over, or its create was just sent, which many may be within a second."""
        if is_over:
            self.soon(name)
            self._watch_late(name)
        else:
            self.now_and_then(name, MOST_PAUSE)

    def now_and_then(self, name: str, pause: Seconds = WATCH_EVERY) -> None:
        """Look at a cloud in the background unless it was looked at so many seconds ago or less."""
        if self._engine.clock.elapsed() - self._looked.get(name, float("-inf")) >= pause:
            self.soon(name)

    def left(self, cloud: str = "") -> list[SideRow]:
        """What serves one launch alone and is not removed yet (of one cloud), with why. Any thread may call it."""
        return [
            row for row in self._engine.ledger.side_objects.listed(cloud) if not row.object.shared
        ]

    async def look(self, name: str) -> Tidied:
        """List a cloud's side objects once, write them down, and ask for the removal of those that are nobody's.

        Raises
        ------
        CloudError
            If it cannot list them, or refuses to remove them; what it refused stands in the ledger with the reason.
        """
        cloud, ledger = self._cloud(name), self._engine.ledger
        if cloud is None:
            return Tidied()
        self._looked[name] = self._engine.clock.elapsed()
        over = ledger.side_objects.over(
            name
        )  # read before: what the list lacks of these launches was not left, or is gone
        listed = await self._listed(cloud)
        ledger.side_objects.seen(
            name, listed, over, unseen=await self._of_other_accounts(cloud, listed)
        )
        self._watch_late(name)
        found = self._nobodys(name)
        if found.asked:
            await self._remove(cloud, found.asked)
        return found

    async def _listed(self, cloud: AsyncCloud) -> list[SideObject]:
        try:
            return [
                o
                for o in await cloud.side_objects(self._engine.ledger.owner)
                if o.cloud == cloud.name
            ]
        except CloudError as error:
            # Who may not list them may not have made any: a key with fewer rights, which is asked at every look.
            if (
                error.failure.cause is Cause.PERMISSION
                and not self._engine.ledger.side_objects.listed(cloud.name)
            ):
                return []
            raise

    async def _of_other_accounts(
        self, cloud: AsyncCloud, listed: Collection[SideObject]
    ) -> set[str]:
        """Launches whose account is another than the one that was listed: what a list of that one lacks is not gone."""
        shown = {thing.token for thing in listed}
        accounts = {
            token: account
            for token, account in self._engine.ledger.side_objects.accounts(cloud.name).items()
            if token not in shown
        }
        foreign = {account for account in {*accounts.values()} if not await cloud.is_of(account)}
        if foreign:
            log.info(
                "%s: what lies beside the machines of %s is not looked for: other credentials are in use",
                cloud.name,
                ", ".join(foreign),
            )
        return {token for token, account in accounts.items() if account in foreign}

    def _cloud(self, name: str) -> AsyncCloud | None:
        try:
            cloud = self._engine.cloud(name)
        except NbprovError as error:  # its adapter is not installed here
            log.info("%s: %s", name, error)
            return None
        return cloud if cloud.leaves_side_objects else None

    def _nobodys(self, name: str) -> Tidied:
        # Read after the listing: a launch that was intended while it was made is alive.
        ledger, now = self._engine.ledger, self._engine.clock.now()
        # A machine that comes late ends itself by its start script, which may be one of these.
        live, known = (
            ledger.launches.live_tokens() | ledger.side_objects.doubted(name),
            ledger.launches.tokens(),
        )
        asked: list[SideObject] = []
        later: list[SideObject] = []
        for row in self.left(name):
            token = row.object.token
            if token in live:
                continue
            # What names no launch may serve any that lives there.
            may_serve = not token and name in ledger.launches.live_clouds()
            is_old = now - row.since >= UNKNOWN_SECONDS
            (asked if token in known or (is_old and not may_serve) else later).append(row.object)
        return Tidied(tuple(asked), tuple(later))

    async def _remove(self, cloud: AsyncCloud, things: tuple[SideObject, ...]) -> None:
        ledger = self._engine.ledger
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
        clock, name = self._engine.clock, cloud.name
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
        self._engine.changed()

    def _watch_late(self, name: str) -> None:
        """Look for machines of creates that were concluded to have made nothing, for as long as one may yet appear."""
        running = self._late.get(name)
        if (running is None or running.done()) and self._is_doubted(name):
            self._late[name] = asyncio.create_task(self._until_sure(name))

    def _is_doubted(self, name: str) -> bool:
        try:
            return bool(self._engine.ledger.side_objects.doubted(name))
        except NbprovError as error:
            log.info("%s: whether a lost create may yet make anything: %s", name, error)
            return True

    async def _until_sure(self, name: str) -> None:
        number = 0
        while self._is_doubted(name):
            await asyncio.sleep(LATE_PAUSES[min(number, len(LATE_PAUSES) - 1)])
            number += 1
            await self._end_nobodys(name)
        self.soon(name)

    def look_again(self, name: str, seconds: Seconds) -> None:
        """Look for machines of a cloud that are nobody's once more: when those that are too young to tell are old enough, or after an end was refused."""
        running = self._young.get(name)
        if running is None or running.done():
            self._young[name] = asyncio.create_task(self._when_old(name, seconds))

    async def _when_old(self, name: str, seconds: Seconds) -> None:
        pause = max(0.0, seconds) + YOUNG_GRACE
        while True:
            await asyncio.sleep(pause)
            if await self._end_nobodys(name):
                return
            pause = LATE_PAUSES[-1]

    async def _end_nobodys(self, name: str) -> bool:
        """End machines of a cloud that are nobody's; whether it could be looked at, and there were none."""
        from nbprov.provisioning.orphans import end_orphans  # which knows of side objects
        from nbprov.provisioning.reconcile_report import Report

        report = Report()
        try:
            found = await end_orphans(self._engine, name, report)
            if found:
                log.warning("%s: machines that no launch is known to have made: %s", name, report)
                self._engine.changed()
        except (CloudError, NbprovError) as error:
            log.info(
                "%s: whether there are machines that are nobody's: %s; looked at again", name, error
            )
        except Exception:
            log.exception("%s: whether there are machines that are nobody's; looked at again", name)
        else:
            return not found
        return False

    async def _found(self, name: str) -> Tidied | None:
        try:
            return await self.look(name)
        except (CloudError, NbprovError) as error:
            log.info("%s: what lies beside its machines: %s; looked at again", name, error)
        except Exception:
            log.exception("%s: what lies beside its machines; looked at again", name)
        return None


def words(rows: list[SideRow]) -> str:
    """Side objects in a line: what, where, and why they are there still."""
    return "; ".join(
        f"{r.object.kind} {r.object.id} in {r.object.region}"
        + (f" ({r.reason})" if r.reason else "")
        for r in rows
    )
