"""One machine in the place of a lost one: asked for, decided, brought up, or ended and confirmed. Each step may be gone on with by another kernel."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

from nbprov.model.clock import Seconds, short_duration
from nbprov.model.clusters import AttemptState, ClusterState
from nbprov.model.errors import NbprovError
from nbprov.model.failures import Cause, CloudError, Failure
from nbprov.model.launches import (
    Accepted,
    Instance,
    InstanceState,
    Launch,
    Operation,
    Pending,
    PollResult,
    Refused,
)
from nbprov.model.offers import block_for
from nbprov.provisioning.async_cloud import is_passing
from nbprov.provisioning.gang_setup import tie
from nbprov.provisioning.ledger import ClusterRow, LeaseLost, Ledger, ReplacementRow
from nbprov.provisioning.live_cluster import LiveCluster, Node
from nbprov.provisioning.run.attempt_actions import AGENT_SECONDS, WATCH_SECONDS
from nbprov.provisioning.run.health_check import check_health, health_seconds
from nbprov.provisioning.ssh_ingress import Door
from nbprov.provisioning.supervision.absence_tracker import Absences
from nbprov.provisioning.supervision.desired_state import is_leaving
from nbprov.provisioning.supervision.guard_config import NODE
from nbprov.provisioning.supervision.guard_sync import count_price
from nbprov.remote.agent.messages import GuardConfig
from nbprov.remote.errors import RemoteError

from .policy import Asking, NotNow

if TYPE_CHECKING:
    pass

log = logging.getLogger("nbprov.lifecycle")

GOING = (InstanceState.ENDING, InstanceState.GONE)

MOST_PAUSE: Seconds = 10.0
"""Between two tries of something that must not be given up."""
BRING_SECONDS: Seconds = 6 * 3600.0
"""How long files, Python, setup and engine of one machine may take: as long as a step holds off the idle guards of the others."""
HEALTH_LEAST: Seconds = 60.0

SURE = frozenset(
    {
        *(
            Cause.CAPACITY,
            Cause.QUOTA,
            Cause.NOT_OFFERED,
            Cause.CREDENTIALS,
            Cause.BALANCE,
            Cause.PERMISSION,
            Cause.BAD_REQUEST,
        ),
        *(Cause.RATE_LIMIT, Cause.SPOT),
    }
)
"""Refusals of a create after which surely no machine of it is there. After any other answer that is looked into first."""


class Bringing(Protocol):
    """What a session does for a machine that replaces a lost one."""

    def why_not(self, row: ClusterRow) -> str:
        """Why nothing can be brought up now; empty where it can."""

    async def bring(self, live: LiveCluster, node: Node) -> None:
        """Bring files, Python, setup and engine to a node; the others are left alone. Raises where one fails."""


class Unwanted(Exception):
    """The cluster does not run any more, or is to be ended or stopped: what is under way is left to whoever does so."""


class Replacement(Asking):
    """One replacement, from the question whether there may be one to its end. On the engine thread, under the run's lease."""

    async def go(self) -> None:
        """Go on with the one that is open, else ask for a machine and see it through.

        Raises
        ------
        NotNow
            If nothing may be asked for now.
        LeaseLost
            If another kernel has taken the run over.
        """
        row, is_mine = self._ledger.replacements.open_one(self._cluster.token), False
        if row is None:
            row, is_mine = await self._intend(), True
        try:
            await self._see_through(row, is_mine=is_mine)
        except Unwanted:
            log.info("%s: the replacement of node %d is left", self._cluster.name, row.node)

    async def undo(self) -> None:
        """End what is under way, and confirm it: nothing of it is there or will be afterwards."""
        row = self._ledger.replacements.open_one(self._cluster.token)
        if row is not None:
            with contextlib.suppress(Unwanted):
                await self._end(
                    row, Failure(Cause.CANCELLED, "the cluster is to be stopped or ended")
                )

    async def _see_others(self, error: Exception) -> None:
        """Raise `NotNow` where another machine is on its way out: what failed since may have failed for want of that one."""
        ids = self._ledger.launches.ids_of(self._cluster.token)
        there = {i.id for i in await self._listed() if i.state is InstanceState.RUNNING}
        if not set(ids) <= there:
            raise NotNow("another of its machines is lost as well") from error

    # ------------------------------------------------------------ deciding

    async def _see_through(self, row: ReplacementRow, *, is_mine: bool) -> None:
        if row.state in (AttemptState.INTENT, AttemptState.SENT, AttemptState.UNKNOWN):
            found = await self._decided(row, is_mine=is_mine)
            if not isinstance(found, str):
                self._close(
                    row, AttemptState.ABSENT if found is None else AttemptState.REFUSED, found
                )
                return
            if not self._ledger.replacements.made(row, found):
                raise Unwanted
            count_price(self._ledger, self._cluster)
            row = replace(row, state=AttemptState.ACCEPTED, instance_id=found)
        if row.state is AttemptState.ENDING:
            await self._end(row, row.failure)
            return
        try:
            await self._bring_up(row)
        except (LeaseLost, Unwanted, NotNow):
            raise
        except Exception as error:
            if not isinstance(error, CloudError | NbprovError | TimeoutError | OSError):
                log.exception("%s: bringing node %d up", self._cluster.name, row.node)
            self._check_wanted()
            await self._see_others(error)
            await self._end(row, _failure(error))

    async def _decided(self, row: ReplacementRow, *, is_mine: bool) -> str | Failure | None:
        """The id that the create made; why it was refused; None where nothing was made and nothing can be any more."""
        cloud, operation, may_send = (
            self._cloud,
            row.operation,
            is_mine or self._cloud.capabilities.replayable,
        )
        pause = cloud.capabilities.poll_every
        while True:
            self._check_wanted()
            asked = self._clock.now()
            if operation is None and may_send and asked < row.deadline:
                sent = await self._send(row, is_mine=is_mine)
                if isinstance(sent, Failure):
                    return sent
                is_mine, may_send, operation = False, cloud.capabilities.replayable, sent
                pause = pause if sent is not None else min(MOST_PAUSE, pause * 2)
            is_told = operation is not None and asked < row.deadline + WATCH_SECONDS
            result = await self._polled(operation) if operation is not None and is_told else None
            if isinstance(result, Refused):
                return result.failure
            ids = self._ledger.launches.ids_of(row.token)
            if isinstance(result, Accepted):
                if len(result.ids) != 1 or result.ids[0] in ids:
                    return Failure(
                        Cause.BAD_REQUEST,
                        f"{cloud.name} answered with {', '.join(result.ids)} instead of one new machine",
                    )
                return result.ids[0]
            if result is None:
                new = [
                    i
                    for i in await self._listed()
                    if i.id not in ids and i.state is not InstanceState.GONE and i.node == row.node
                ]
                if new:
                    return min(new, key=lambda i: (i.launched_at, i.id)).id
                if asked > row.deadline + cloud.capabilities.settle:
                    return None
            await asyncio.sleep(pause)

    async def _send(self, row: ReplacementRow, *, is_mine: bool) -> Operation | Failure | None:
        """Send the create, or the identical one again; None where its outcome is not known."""
        from nbprov.remote.boot.user_data import fills
        from nbprov.remote.ssh.keys import ClusterKeys

        keys = ClusterKeys.load(self._engine.home / "keys" / row.run_id)
        launch: Launch = replace(row.launch, fills=fills(keys))
        try:
            operation = await self._cloud.submit(launch)
        except CloudError as error:
            # A repeat that is refused says nothing of the first.
            return error.failure if is_mine and error.failure.cause in SURE else None
        self._ledger.replacements.sent(row, operation)
        return operation

    async def _polled(self, operation: Operation) -> PollResult:
        try:
            return await self._cloud.poll(operation)
        except CloudError:
            return Pending()  # no answer is not a decision

    # ------------------------------------------------------------ up

    async def _bring_up(self, row: ReplacementRow) -> None:
        engine, cluster = self._engine, self._cluster
        instance = await self._boot(row)
        try:
            live = await engine.attach(cluster.name)
        except (CloudError, NbprovError) as error:
            # The others are out of reach from here, which is no fault of the new one; without an agent it powers itself off after a while.
            raise NotNow(f"the other machines do not answer ({error})") from error
        node = Node(instance)
        try:
            draft = await self._open(row, live, node)
            self._check_wanted()
            if engine.bringing is not None:
                async with asyncio.timeout(BRING_SECONDS):
                    await engine.bringing.bring(draft, node)
            self._check_wanted()
            with self._ledger.together():
                if not self._ledger.replacements.ready(row):
                    raise Unwanted
                self._ledger.events.add(
                    row.run_id,
                    NODE,
                    f"node {row.node} is there again, as {instance.id}: {self._words()}",
                    row.token,
                )
        except BaseException:
            await asyncio.shield(node.close())
            raise
        if engine.live.get(row.run_id) is live:
            live.nodes[row.node], live.unheard, live.notes = node, draft.unheard, draft.notes
            live.variables = draft.variables
        else:
            await node.close()  # who attaches anew finds it in the ledger
        engine.changed()

    async def _open(self, row: ReplacementRow, live: LiveCluster, node: Node) -> LiveCluster:
        """Connection, agent with its guards, and health of the new machine; then all know each other anew. The cluster as it will be."""
        cloud, instance = self._cloud, node.instance
        door = Door(
            cloud, (instance.id,), self._clock, lambda: self._ledger.instances.of_launch(row.token)
        )
        alone = LiveCluster(live.run_id, live.name, live.candidate, live.keys, [node], door)
        seconds = cloud.capabilities.ssh_deadline
        try:
            await alone.connect_to(
                node, seconds, boot_grace=seconds if cloud.capabilities.login else 0.0
            )
        finally:
            door.close()
        if live.door is not None:
            live.door.add(instance.id)
        await live.start_agent(node, self._guards(row), AGENT_SECONDS)
        async with asyncio.timeout(
            max(HEALTH_LEAST, health_seconds(self._spec.health, live.candidate) or 0.0)
        ):
            await check_health(
                alone,
                self._spec.health,
                lambda text: log.info("%s node %d: %s", live.name, row.node, text),
            )
        nodes = [node if rank == row.node else other for rank, other in enumerate(live.nodes)]
        draft = replace(live, nodes=nodes, unheard=set(), notes=[], variables=dict(live.variables))
        await tie(draft)
        return draft

    def _guards(self, row: ReplacementRow) -> GuardConfig | None:
        known = self._ledger.guards.get(row.run_id)
        if known is None or "poweroff" not in known[0]:
            return None
        began = next(
            r for r in self._ledger.launches.of_run(row.run_id) if r.token == row.token
        ).created
        return GuardConfig.from_json(known[0]).later(max(0.0, row.created - began), row.spent)

    async def _boot(self, row: ReplacementRow) -> Instance:
        cloud, absences = self._cloud, Absences()
        end = self._clock.elapsed() + cloud.capabilities.boot_deadline
        while True:
            self._check_wanted()
            asked = self._clock.elapsed()
            ours = await self._listed()
            await self._end_others(row, ours)
            found = next((i for i in ours if i.id == row.instance_id), None)
            gone, _ = absences.look(
                *(row.token, {row.instance_id}, [i.id for i in ours]),
                asked=asked,
                answered=self._clock.elapsed(),
                settle=cloud.capabilities.settle,
            )
            if gone or (
                found is not None
                and found.state
                not in (InstanceState.PENDING, InstanceState.RUNNING, InstanceState.UNKNOWN)
            ):
                told = found.failure if found is not None else None
                raise CloudError(
                    told
                    or Failure(Cause.UNHEALTHY, f"machine {row.instance_id} ended before it was up")
                )
            if found is not None and found.state is InstanceState.RUNNING and found.host:
                return found
            if self._clock.elapsed() > end:
                raise CloudError(
                    Failure(
                        Cause.TIMEOUT,
                        f"machine {row.instance_id} does not run after {short_duration(cloud.capabilities.boot_deadline)}",
                    )
                )
            await asyncio.sleep(cloud.capabilities.poll_every)

    async def _end_others(self, row: ReplacementRow, ours: list[Instance]) -> None:
        """End what bears the token beside the cluster's machines and this one: a create of an earlier replacement that came late."""
        known = {*self._ledger.launches.ids_of(row.token), row.instance_id}
        if surplus := [i.id for i in ours if i.id not in known and i.state not in GOING]:
            self._ledger.events.add(
                row.run_id, NODE, f"{', '.join(surplus)} came too late and is ended", row.token
            )
            await self._cloud.terminate(surplus)

    # ------------------------------------------------------------ ending

    async def _end(self, row: ReplacementRow, failure: Failure | None) -> None:
        """Terminate what it made, or may make yet, and confirm. Never gives up but where another kernel takes over or the cluster ends."""
        cloud, ledger = self._cloud, self._ledger
        if row.state is not AttemptState.ENDING:
            ledger.replacements.end(row, AttemptState.ENDING, failure)
        absences, pause, known = Absences(), cloud.capabilities.poll_every, {row.instance_id} - {""}
        while True:
            self._check_not_ended()
            asked, now = self._clock.elapsed(), self._clock.now()
            decided = bool(known) or await self._is_decided(row, known)
            ids = ledger.launches.ids_of(row.token)
            ours = [i for i in await self._listed(self._check_not_ended) if i.id not in ids]
            rest = [i for i in ours if i.state is not InstanceState.GONE]
            _, unsure = absences.look(
                *(row.token, known, [i.id for i in ours]),
                asked=asked,
                answered=self._clock.elapsed(),
                settle=cloud.capabilities.settle,
            )
            known |= {i.id for i in rest}
            if (
                not rest
                and not unsure
                and decided
                and (known or now > row.deadline + cloud.capabilities.settle)
            ):
                self._close(row, AttemptState.GONE if known else AttemptState.ABSENT, failure)
                return
            if alive := [i.id for i in rest if i.state is not InstanceState.ENDING]:
                try:
                    await cloud.terminate(alive)
                except CloudError as error:
                    log.warning("%s: %s; tried again", self._cluster.name, error.failure.sentence())
                    pause = min(MOST_PAUSE, pause * 2)
            await asyncio.sleep(pause)

    async def _is_decided(self, row: ReplacementRow, known: set[str]) -> bool:
        """Whether a create whose machine is not known can make none any more; where it made one, that is added to `known`."""
        if row.operation is None or self._clock.now() > row.deadline + WATCH_SECONDS:
            return True
        result = await self._polled(row.operation)
        if isinstance(result, Accepted):
            known |= set(result.ids) - set(self._ledger.launches.ids_of(row.token))
        return not isinstance(result, Pending)

    def _close(self, row: ReplacementRow, state: AttemptState, failure: Failure | None) -> None:
        candidate, now = row.launch.candidate, self._clock.now()
        words = failure.sentence() if failure is not None else "nothing was made"
        with self._ledger.together():
            if state is AttemptState.REFUSED and failure is not None:
                block = block_for(replace(candidate, count=1), failure, now)
                if block is not None:
                    self._ledger.blocks.remember(
                        block_for(
                            replace(candidate, count=1),
                            failure,
                            now,
                            repeats=self._ledger.blocks.repeats(block),
                        )
                        or block
                    )
            self._ledger.replacements.end(row, state, failure)
            if state is AttemptState.GONE:
                self._ledger.blocks.free_quota(candidate)
            if failure is None or failure.cause is not Cause.CANCELLED:
                say(
                    self._ledger,
                    self._cluster,
                    f"node {row.node} is not replaced yet: {words}; it is asked for again",
                )
        self._engine.tidying.soon(self._cloud.name)
        self._engine.changed()

    # ------------------------------------------------------------ looking

    def _words(self) -> str:
        token = self._cluster.token
        return f"{len(self._ledger.launches.ids_of(token))} of {self._cluster.candidate.count} machines"

    def _check_wanted(self) -> None:
        """Raise `Unwanted` where the cluster does not run any more, or is to be ended or stopped."""
        row = self._ledger.clusters.by_id(self._cluster.cluster_id)
        if (
            row is None
            or row.state not in (ClusterState.RUNNING, ClusterState.UNKNOWN)
            or is_leaving(row)
        ):
            raise Unwanted

    def _check_not_ended(self) -> None:
        """Raise `Unwanted` where the cluster is being ended, which takes along what is under way."""
        row = self._ledger.clusters.by_id(self._cluster.cluster_id)
        if row is None or row.state in (ClusterState.ENDING, ClusterState.ENDED):
            raise Unwanted

    async def _listed(self, check: Callable[[], None] | None = None) -> list[Instance]:
        """The machines of the token; faults are waited out, since no answer is not an empty answer, for as long as `check` lets them be."""
        pause = self._cloud.capabilities.poll_every
        while True:
            try:
                ours = [
                    i
                    for i in await self._cloud.list(self._ledger.owner)
                    if i.token == self._cluster.token
                ]
            except CloudError as error:
                if not is_passing(error.failure):
                    log.warning("%s: %s", self._cluster.name, error.failure.sentence())
                (check or self._check_wanted)()
                await asyncio.sleep(pause)
                pause = min(MOST_PAUSE, pause * 2)
            else:
                self._ledger.instances.seen(ours)
                return ours


def say(ledger: Ledger, row: ClusterRow, text: str) -> bool:
    """Note what is to be known of a missing machine, unless it was the last that was said of it."""
    with ledger.together():
        told = next(
            (
                words
                for _, kind, words in reversed(ledger.events.of_run(row.run_id))
                if kind == NODE
            ),
            "",
        )
        if told == text:
            return False
        ledger.events.add(row.run_id, NODE, text, row.token)
    log.warning("%s: %s", row.name, text)
    return True


def _failure(error: Exception) -> Failure:
    if isinstance(error, CloudError):
        return error.failure
    if isinstance(error, RemoteError | NbprovError):
        return Failure(Cause.UNHEALTHY, error.message.splitlines()[0], error.code)
    return Failure(
        Cause.UNHEALTHY, f"it does not come up: {type(error).__name__}: {error}".rstrip(": ")
    )
