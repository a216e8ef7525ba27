"""Keeping the ledger true to the clouds' own lists while clusters live."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from typing import TYPE_CHECKING

from nbprov.model.clock import Seconds
from nbprov.model.clusters import ClusterState
from nbprov.model.errors import NbprovError
from nbprov.model.failures import CloudError
from nbprov.model.launches import Instance, InstanceState
from nbprov.provisioning.async_cloud import AsyncCloud
from nbprov.provisioning.ledger import ClusterRow
from nbprov.provisioning.replacement.node_loss import Replacing

from .desired_state import REPLACED, reason_then
from .guard_config import BUDGET, budget_words, guards_known
from .guard_sync import TellingGuards
from .outages import REFUSALS, SILENCE_AGAIN, UNASKED, Unasked, unasked_words
from .stopped_expiry import SecondClock

if TYPE_CHECKING:
    from nbprov.provisioning.engine import Engine

log = logging.getLogger("nbprov.lifecycle")

LEAST_WATCH: Seconds = 1.0
MOST_WATCH: Seconds = 30.0
POLLS_A_WATCH = 20
"""Clusters are looked at every 20 poll intervals of their cloud: often enough to show a preemption soon, seldom enough for any rate limit."""

CONFIRM_SECONDS: Seconds = 600.0
"""How long a person waits for an end or a stop to be confirmed before being told; confirming goes on in the background."""


GOING = (InstanceState.GONE, InstanceState.ENDING)


class Watching(SecondClock, TellingGuards, Replacing):
    """The watcher: one listing of each cloud with live clusters, again and again."""

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine)
        self._watcher: asyncio.Task[None] | None = None
        self._left_ending: set[str] = set()
        self._unguarded: set[str] = set()
        self._unasked: dict[str, Unasked] = {}

    def watch(self) -> None:
        """Look at live clusters regularly from now on, as long as there are any. On the engine thread."""
        if self._watcher is None or self._watcher.done():
            self._watcher = asyncio.create_task(self._watch())

    async def _watch(self) -> None:
        while True:
            pause = LEAST_WATCH
            try:
                rows = self._engine.ledger.clusters.latest(live_only=True)
                if not rows:
                    return
                pause = await self._round({row.candidate.offer.cloud for row in rows})
            except Exception:
                log.exception("clusters could not be watched; tried again")
            await asyncio.sleep(pause)

    async def _round(self, clouds: set[str]) -> Seconds:
        pauses = []
        for name in sorted(clouds):
            try:
                cloud = self._engine.cloud(name)
                pauses.append(
                    min(MOST_WATCH, max(LEAST_WATCH, cloud.capabilities.poll_every * POLLS_A_WATCH))
                )
                await self.observe(cloud)
                self._engine.tidying.now_and_then(name)
            except (CloudError, NbprovError) as error:
                log.info("%s cannot be observed now: %s", name, error)
                self._not_asked(name, error)
            except Exception as error:
                log.exception("%s could not be observed", name)
                self._not_asked(name, error)
            else:
                self._asked(name)
        rows = self._engine.ledger.clusters.latest(live_only=True)
        self._keep_silences({row.cluster_id for row in rows}, clouds)
        self._take_care(rows)
        for row in rows:
            self._keep_money(row)
            self._tell_guards(row)
            self._enforce(row)
            self._mend(row)
        return min(pauses, default=MOST_WATCH)

    def _not_asked(self, name: str, error: Exception) -> None:
        """Tell of a cloud that cannot be asked of its clusters: nobody sees what becomes of them, or can end them, meanwhile."""
        self._dark.add(name)
        clock, silence = self._engine.clock, self._unasked.setdefault(name, Unasked())
        is_refusal = isinstance(error, CloudError) and error.failure.cause in REFUSALS
        if silence.failed(clock.elapsed(), is_refusal=is_refusal):
            for row in self._live_on(name):
                self._notes.say(
                    row,
                    UNASKED,
                    unasked_words(row, error, clock.now() - silence.span),
                    again=SILENCE_AGAIN,
                )

    def _asked(self, name: str) -> None:
        self._unasked.pop(name, None)
        for row in self._live_on(name):
            self._notes.over(row, UNASKED)

    def _live_on(self, name: str) -> list[ClusterRow]:
        return [
            row
            for row in self._engine.ledger.clusters.latest(live_only=True)
            if row.candidate.offer.cloud == name
        ]

    def _keep_silences(self, cluster_ids: set[str], clouds: set[str]) -> None:
        """Forget the silences of what has ended."""
        self._keep_holds(cluster_ids)
        self._notes.keep(cluster_ids)
        self._foreign &= cluster_ids
        self._unreached = {i: silence for i, silence in self._unreached.items() if i in cluster_ids}
        self._unasked = {name: silence for name, silence in self._unasked.items() if name in clouds}

    def _keep_money(self, row: ClusterRow) -> None:
        """Warn of a budget that is nearly spent, and end what has been stopped for as long as the spec lets it be."""
        ledger = self._engine.ledger
        guards = guards_known(ledger, row.run_id)
        if guards is None:
            return
        told = (
            {text for _, kind, text in ledger.events.of_run(row.run_id) if kind == BUDGET}
            if guards.warn
            else set()
        )
        for text in budget_words(guards, ledger.prices.cost(row.run_id)):
            if text.partition(" (")[0] not in {t.partition(" (")[0] for t in told}:
                ledger.events.add(row.run_id, BUDGET, text, row.token)
                self._engine.changed()
        self._keep_stopped(row, guards)

    def _take_care(self, rows: list[ClusterRow]) -> None:
        """Go on with ends that nobody works on, and with guards that do not run yet."""
        idle = {row.cluster_id: row for row in rows if not self._busy[row.cluster_id]}
        ending = {i for i, row in idle.items() if row.state is ClusterState.ENDING}
        for cluster_id in (
            ending & self._left_ending
        ):  # in two rounds: whoever has begun to end it had the time to say so
            if self._try_lease(idle[cluster_id].run_id):
                self._begin(self.down(idle[cluster_id], idle[cluster_id].reason))
        self._left_ending = ending
        for row in idle.values():
            if row.state not in (ClusterState.RUNNING, ClusterState.STOPPED, ClusterState.UNKNOWN):
                continue
            if row.reason.startswith(REPLACED) and self._try_lease(row.run_id):
                self._begin(self.down(row, row.reason))
            else:
                self._go_on(row)
        self._unguarded &= {row.cluster_id for row in rows if row.state is ClusterState.RUNNING}
        for cluster_id in self._unguarded & set(idle):
            self._begin(self._guard(idle[cluster_id]))

    async def _guard(self, row: ClusterRow) -> None:
        """Attach to a cluster that somebody else set running, so that its guards run. The next round tries again."""
        self._busy[row.cluster_id] += 1
        try:
            await self._engine.attach(row.name)
        except Exception as error:
            log.warning("%s runs without its guards: %s; tried again", row.name, error)
        else:
            self._unguarded.discard(row.cluster_id)
            self._engine.ledger.events.add(
                row.run_id, "cluster", "it runs again, and so do its guards", row.token
            )
        finally:
            self._busy[row.cluster_id] -= 1

    def is_missing(self, row: ClusterRow) -> bool:
        """Whether a machine of this cluster was absent from the last listing, which alone does not mean that it is gone."""
        return self._absences.any_of(row.cluster_id)

    async def observe(self, cloud: AsyncCloud) -> None:
        """Bring the ledger up to date with one listing of a cloud.

        Raises
        ------
        CloudError
            If the cloud cannot be listed; then nothing is concluded.
        """
        engine = self._engine
        before = {row.cluster_id: row for row in engine.ledger.clusters.latest(live_only=True)}
        asked = engine.clock.elapsed()
        try:
            listed = await cloud.list(engine.ledger.owner)
        except CloudError:
            self._dark.add(cloud.name)
            raise
        self._dark.discard(cloud.name)
        known_tokens = engine.ledger.launches.tokens()
        changed = engine.ledger.instances.seen(
            i for i in listed if i.token in known_tokens
        )  # an address that moved is told too
        for row in engine.ledger.clusters.latest(live_only=True):
            known = before.get(row.cluster_id)
            if (
                row.candidate.offer.cloud == cloud.name
                and known is not None
                and known.state is row.state
            ):
                changed |= await self._compare(
                    cloud, row, [i for i in listed if i.token == row.token], asked
                )
        if changed:
            engine.changed()

    async def _compare(
        self, cloud: AsyncCloud, row: ClusterRow, listed: list[Instance], asked: Seconds
    ) -> bool:
        machines = self._of_cluster(row, listed)
        if machines is not listed:
            self._end_surplus(cloud, row, listed)
        if self._may_lose(row, machines, set()) and not self._busy[row.cluster_id]:
            gone, _ = await self._missing(cloud, row, machines, asked)
            if (gone or any(i.state in GOING for i in machines)) and self._may_lose(
                row, machines, gone
            ):
                return self._lose(cloud, row, machines, gone)
        ending = [i for i in machines if i.state is InstanceState.ENDING]
        if (
            ending
            and row.state is not ClusterState.ENDING
            and row.cluster_id not in self._downs
            and not self._busy[row.cluster_id]
        ):
            # It powered itself off, or its cloud takes it back: seen to its end at once, with the reason that a later list may no longer give.
            reason = reason_of(ending) or "its cloud ends it"
            self._begin(
                self.down(row, _torn_words(reason) if _is_torn(machines, set()) else reason)
            )
            return False
        gone, unsure = await self._missing(cloud, row, machines, asked)
        is_worked_on = bool(self._busy[row.cluster_id]) and self._may_lose(row, machines, gone)
        if row.state is not ClusterState.ENDING and _is_torn(machines, gone) and not is_worked_on:
            reason = (
                reason_of([i for i in machines if i.state in GOING])
                or "it is not in its cloud's list any more"
            )
            self._begin(self.down(row, _torn_words(reason)))
            return False
        if unsure:
            return False
        state = state_of([*(i.state for i in machines), *(InstanceState.GONE for _ in gone)])
        if state is None or state is row.state or not self._is_news(row, state):
            return False
        unnamed = (
            "its machines are gone from the cloud's list"
            if state is ClusterState.ENDED
            else f"its cloud lists it as {state.value}"
        )
        is_wanted = row.state is ClusterState.ENDING or row.reason.startswith(REPLACED)
        return await self._set(
            row,
            state,
            row.reason if is_wanted else reason_then(row, state, reason_of(machines) or unnamed),
        )

    async def _set(self, row: ClusterRow, state: ClusterState, reason: str) -> bool:
        engine = self._engine
        with engine.ledger.together():
            if not engine.ledger.clusters.move(row.cluster_id, state, reason, was=row.state):
                return False
            if state is ClusterState.ENDED:
                engine.ledger.blocks.free_quota(row.candidate)
            if state is ClusterState.RUNNING:
                engine.ledger.clusters.resume_prices(row.cluster_id)
            engine.ledger.events.add(row.run_id, "cluster", f"{state.value}: {reason}", row.token)
        # A state that nobody knows is no reason to drop what works, nor is the end of the doubt.
        if not {state, row.state} <= {ClusterState.UNKNOWN, ClusterState.RUNNING}:
            await engine.forget(row.run_id)
        if state is ClusterState.ENDED:
            self._absences.forget(row.cluster_id)
            engine.tidying.soon(row.candidate.offer.cloud)
        if state is ClusterState.RUNNING:
            self._unguarded.add(row.cluster_id)
            self.watch()
        return True

    def _is_news(self, row: ClusterRow, state: ClusterState) -> bool:
        """Whether a listing overrules the ledger. Where somebody is at work on a cluster, only its goal, its end, or a long silence does."""
        if row.state is ClusterState.ENDING or self._busy[row.cluster_id]:
            return state is ClusterState.ENDED and row.cluster_id not in self._downs
        if row.state in (ClusterState.RUNNING, ClusterState.STOPPED, ClusterState.UNKNOWN):
            return True
        # A start has reached its goal when the agent runs, which no listing tells.
        goal = {
            ClusterState.STOPPING: ClusterState.STOPPED,
            ClusterState.STARTING: ClusterState.ENDED,
        }.get(row.state)
        silent = self._engine.clock.now() - (row.confirmed or row.started) > CONFIRM_SECONDS
        return goal is not None and (state in (goal, ClusterState.ENDED) or silent)


def reason_of(machines: list[Instance]) -> str:
    return next((i.reason for i in machines if i.reason), "")


def _is_torn(machines: list[Instance], gone: set[str]) -> bool:
    """Whether some machines of a gang are gone or going while others stay."""
    staying = [i for i in machines if i.state not in GOING]
    return bool(staying) and (bool(gone) or len(staying) < len(machines))


def _torn_words(reason: str) -> str:
    return f"one of its machines is gone ({reason}), and the machines of a cluster end together"


def state_of(machines: Iterable[InstanceState]) -> ClusterState | None:
    """The state of a cluster from its machines' states; None while they are on their way from one to another.

    A gang is all or nothing: where its machines disagree for good, nothing is known but that something is wrong.
    """
    states = set(machines)
    if states <= {InstanceState.GONE}:
        return ClusterState.ENDED
    if states & {InstanceState.ENDING, InstanceState.STOPPING}:
        return None
    if states == {InstanceState.STOPPED}:
        return ClusterState.STOPPED
    return (
        ClusterState.RUNNING
        if states <= {InstanceState.RUNNING, InstanceState.PENDING}
        else ClusterState.UNKNOWN
    )
