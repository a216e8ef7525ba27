"""What a run has to do with its cloud: send a create, follow it, bring machines up, find out what became of a lost answer, end and confirm."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from nbprov.model.causes import Cause, CloudError, Failure
from nbprov.model.clock import Instant, Seconds, iso, short_duration
from nbprov.model.clusters import AttemptState
from nbprov.model.errors import UsageError
from nbprov.model.launches import Accepted, Instance, InstanceState, Launch, Operation, Pending, PollResult, Quote, Refused
from nbprov.model.money import format_usd
from nbprov.model.offers import Candidate
from nbprov.remote.errors import RemoteError

from . import signals
from .async_cloud import AsyncCloud, is_passing
from .guards import check_budget, guard_config
from .launching import make_launch
from .ledger import LaunchRow
from .live import LiveCluster, Node

if TYPE_CHECKING:
    from nbprov.remote.agent.values import GuardConfig

    from .driver import RunDriver

AGENT_SECONDS: Seconds = 60.0
"""How long the agent may take to start and answer: copying 60 kB and starting Python, on a machine that is still busy booting."""

WATCH_SECONDS: Seconds = 900.0
"""A create whose outcome stays undecided is looked for this long before it counts as never having happened."""

MOST_PAUSE: Seconds = 10.0
"""Between two tries of something that must not be given up (resolving, confirming an end)."""

LIST, POLL, END = "listing its machines", "asking after its create", "ending its machines"
"""What an attempt waits for while a cloud refuses it, as it is shown."""

UNSENT = Failure(Cause.CANCELLED, "given up before it was sent")


class Errands:
    """The coroutines behind the actions of one run; each ends by posting an event, or goes on until it may."""

    def __init__(self, driver: RunDriver) -> None:
        self._run = driver

    def _cloud(self, token: str) -> AsyncCloud:
        return self._run.clouds(self._run.machine.attempts[token].candidate.offer.cloud)

    # ------------------------------------------------------------ creating

    async def submit(self, action: signals.Submit) -> None:
        """Ask the price again, commit the intent, send the create."""
        run, token = self._run, action.token
        cloud = self._cloud(token)
        quote = await cloud.quote(action.candidate)
        candidate = _quoted(action.candidate, quote)
        refusal = self._price_refusal(action.candidate, candidate)
        if refusal is None and run.machine.is_unwanted(token):
            refusal = UNSENT
        if refusal is not None:
            run.post(signals.Withdrawn(token, refusal))
            return
        await run.books.persist(lambda: self._intend(replace(action, candidate=candidate), cloud))
        if run.machine.is_unwanted(token):
            run.post(signals.SubmitFailed(token, UNSENT))  # while the ledger could not be written
            return
        try:
            operation = await cloud.submit(self._filled(token))
        except CloudError as error:
            run.post(signals.SubmitFailed(token, error.failure))
            return
        await self._note_operation(token, operation)
        run.post(signals.Submitted(token))

    def _price_refusal(self, planned: Candidate, candidate: Candidate) -> Failure | None:
        """Why a create is not sent at the price that holds now; None where it may be."""
        cap, now = candidate.request.max_hourly, candidate.offer.hourly
        if cap is not None and now > cap:
            return Failure(Cause.CANCELLED, f"the price is {format_usd(now)}/h a node now, above the cap of {format_usd(cap)}")
        agreed = max(self._run.consent, planned.hourly)
        if candidate.hourly > agreed:
            return Failure(
                Cause.CANCELLED,
                f"the price is {format_usd(candidate.hourly)}/h now, above the {format_usd(agreed)}/h that Launch agreed to",
            )
        try:
            check_budget(self._run.spec.guards, candidate, spent=sum(self._run.costs().values()))
        except UsageError as error:
            return Failure(Cause.CANCELLED, error.message)
        return None

    def _intend(self, action: signals.Submit, cloud: AsyncCloud) -> None:
        run, now = self._run, self._run.clock.now()
        answer_by = now + cloud.capabilities.submit_seconds
        if action.again:
            row = run.rows[action.token]
            launch = replace(row.launch, candidate=action.candidate, answer_by=answer_by)
            run.ledger.intend_again(action.token, launch)
            run.rows[action.token] = replace(row, candidate=action.candidate, launch=launch, deadline=answer_by, operation=None)
            run.machine.freeze(action.token, action.candidate)
            return
        launch = make_launch(
            action.token,
            run.ledger.owner,
            run.run_id,
            run.name,
            run.spec,
            action.candidate,
            cloud.capabilities,
            run.keys,
            answer_by=answer_by,
        )
        attempt = replace(run.machine.attempts[action.token], candidate=action.candidate)
        run.books.intend(
            LaunchRow(
                token=action.token,
                run_id=run.run_id,
                number=action.number,
                slot=action.slot,
                cloud=cloud.name,
                state=AttemptState.INTENT,
                candidate=action.candidate,
                launch=launch,
                keys=run.keys.fingerprint,
                operation=None,
                ids=(),
                failure=None,
                deadline=answer_by,
                created=now,
                ended=None,
            ),
            attempt,
        )
        run.machine.freeze(action.token, action.candidate)

    def _filled(self, token: str) -> Launch:
        from nbprov.remote.boot import fills

        return replace(self._run.rows[token].launch, fills=fills(self._run.keys))

    async def _note_operation(self, token: str, operation: Operation) -> None:
        await self._run.books.persist(lambda: self._run.ledger.sent(token, operation))
        self._run.rows[token] = replace(self._run.rows[token], operation=operation)

    async def follow(self, token: str) -> None:
        """Poll a create until it is decided."""
        operation = self._run.rows[token].operation
        assert operation is not None, "only a create that was taken note of is followed"
        cloud = self._cloud(token)
        while True:
            result = await self._poll(cloud, operation)
            if not isinstance(result, Pending):
                self._run.post(signals.Polled(token, result))
                return
            await asyncio.sleep(cloud.capabilities.poll_every)

    async def _poll(self, cloud: AsyncCloud, operation: Operation) -> PollResult:
        """What the cloud says of a create; no answer is not a decision."""
        try:
            result = await cloud.poll(operation)
        except CloudError as error:
            if not is_passing(error.failure):
                self._run.trouble(operation.token, POLL, error.failure)
            return Pending()
        self._run.trouble(operation.token, POLL, None)
        return result

    # ------------------------------------------------------------ bringing up

    async def prepare(self, token: str, phase: AttemptState) -> None:
        """Bring the machines of an attempt through a phase."""
        try:
            await self._phase(token, phase)
        except CloudError as error:
            self._run.post(signals.PhaseFailed(token, error.failure))
        except RemoteError as error:
            self._run.post(signals.PhaseFailed(token, Failure(Cause.UNHEALTHY, error.message, error.code)))
        else:
            self._run.post(signals.PhaseDone(token, phase))

    async def _phase(self, token: str, phase: AttemptState) -> None:
        run, cloud = self._run, self._cloud(token)
        capabilities = cloud.capabilities
        if phase is AttemptState.BOOTING:
            await self._boot(token, cloud)
        elif phase is AttemptState.SSH:
            await run.clusters[token].connect(capabilities.ssh_deadline)
        else:
            candidate = run.machine.attempts[token].candidate
            guards = guard_config(run.spec.guards, capabilities, candidate, spent=sum(run.costs().values()))
            await run.clusters[token].start_agents(guards, AGENT_SECONDS)
            await run.books.persist(lambda: self._write_guards(candidate.count, guards))

    def _write_guards(self, nodes: int, guards: GuardConfig) -> None:
        with self._run.ledger.together():
            for node in range(nodes):
                self._run.ledger.set_guard(self._run.run_id, node, guards.to_json(), {})

    async def _boot(self, token: str, cloud: AsyncCloud) -> None:
        run = self._run
        attempt = run.machine.attempts[token]
        while True:
            listed = {i.id: i for i in await self._listing(cloud, token)}
            found = [listed[i] for i in attempt.ids if i in listed]
            dead = [i for i in found if i.state not in (InstanceState.PENDING, InstanceState.RUNNING, InstanceState.UNKNOWN)]
            if dead:
                raise CloudError(Failure(Cause.UNHEALTHY, f"machine {dead[0].id} is {dead[0].state.value} {dead[0].reason}".strip()))
            if len(found) == len(attempt.ids) and all(i.state is InstanceState.RUNNING and i.host for i in found):
                nodes = [Node(instance) for instance in sorted(found, key=lambda i: (i.node, i.id))]
                run.clusters[token] = LiveCluster(run.run_id, run.name, attempt.candidate, run.keys, nodes)
                return
            await asyncio.sleep(cloud.capabilities.poll_every)

    async def _listing(self, cloud: AsyncCloud, token: str) -> list[Instance]:
        """This launch's machines; passing faults are waited out, since no answer is not an empty answer."""
        pause = cloud.capabilities.poll_every
        while True:
            try:
                listed = await cloud.list(self._run.ledger.owner)
            except CloudError as error:
                if not is_passing(error.failure):
                    self._run.trouble(token, LIST, error.failure)
                await asyncio.sleep(error.failure.retry_after or pause)
                pause = min(MOST_PAUSE, pause * 2)
            else:
                self._run.trouble(token, LIST, None)
                ours = [i for i in listed if i.token == token]
                await self._run.books.persist(partial(self._run.ledger.seen, ours))
                return ours

    # ------------------------------------------------------------ lost answers

    async def resolve(self, token: str) -> None:
        """Find out whether a create whose answer was lost made machines."""
        run, cloud = self._run, self._cloud(token)
        operation = run.rows[token].operation
        if operation is None and cloud.capabilities.replayable and run.machine.may_start:
            operation = await self._replay(token, cloud)
        ids = await self._decided(operation, cloud) if operation is not None else await self._look_for(token, cloud)
        run.post(signals.Resolved(token, ids))

    async def _replay(self, token: str, cloud: AsyncCloud) -> Operation | None:
        """Send the identical create again: a cloud that honours the token tells which operation the first one was.

        None once it cannot or must not be sent any more; then the list decides.
        """
        run, pause = self._run, cloud.capabilities.poll_every
        while run.clock.now() < run.rows[token].deadline and not run.machine.is_unwanted(token):
            try:
                operation = await cloud.submit(self._filled(token))
            except CloudError as error:
                if not is_passing(error.failure):
                    return None
                await asyncio.sleep(error.failure.retry_after or pause)
                pause = min(MOST_PAUSE, pause * 2)
            else:
                await self._note_operation(token, operation)
                return operation
        return None

    async def _decided(self, operation: Operation, cloud: AsyncCloud) -> tuple[str, ...]:
        end = self._run.clock.elapsed() + WATCH_SECONDS
        while self._run.clock.elapsed() < end:
            result = await self._poll(cloud, operation)
            if isinstance(result, Accepted):
                return result.ids
            if isinstance(result, Refused):
                return ()
            await asyncio.sleep(cloud.capabilities.poll_every)
        return await self._look_for(operation.token, cloud)

    async def _look_for(self, token: str, cloud: AsyncCloud) -> tuple[str, ...]:
        """The ids a launch made. None, or fewer than were asked for, only after a create could no longer appear in the list."""
        row = self._run.rows[token]
        sure_after = row.deadline + cloud.capabilities.settle
        while True:
            asked = self._run.clock.now()
            ours = await self._listing(cloud, token)
            if len(ours) >= row.candidate.count or asked > sure_after:
                return tuple(i.id for i in sorted(ours, key=lambda i: (i.node, i.id)))
            await asyncio.sleep(max(cloud.capabilities.poll_every, min(1.0, sure_after - asked)))

    # ------------------------------------------------------------ ending

    async def end(self, token: str) -> None:
        """Terminate and confirm. Never gives up: a machine that cannot be confirmed gone stays on the panel and in the ledger."""
        run, cloud = self._run, self._cloud(token)
        live = run.clusters.pop(token, None)
        if live is not None:
            await live.close()
        made, seen = set(run.machine.attempts[token].ids), set[str]()
        sure_after = run.rows[token].deadline + cloud.capabilities.settle
        pause = cloud.capabilities.poll_every
        while True:
            asked = run.clock.now()
            if len(made) < run.rows[token].candidate.count and await self._may_yet_make(token, cloud, made):
                sure_after = max(sure_after, run.clock.now() + cloud.capabilities.settle)
            ours = await self._listing(cloud, token)
            seen |= {i.id for i in ours}
            rest = [i for i in ours if i.state is not InstanceState.GONE]
            all_seen = len(made) >= run.rows[token].candidate.count and made <= seen
            if not rest and (all_seen or asked > sure_after):
                run.post(signals.Gone(token))
                return
            pause = await self._terminate(token, cloud, [i.id for i in rest if i.state is not InstanceState.ENDING], pause)
            await asyncio.sleep(pause)

    async def _terminate(self, token: str, cloud: AsyncCloud, alive: list[str], pause: Seconds) -> Seconds:
        """Ask for the end of what lives; returns the pause before the next look."""
        if not alive:
            return pause
        try:
            await cloud.terminate(alive)
        except CloudError as error:
            self._run.runlog.line(f"terminate: {error.failure.sentence()}; tried again in {short_duration(pause)}")
            if not is_passing(error.failure):
                self._run.trouble(token, END, error.failure)
            return min(MOST_PAUSE, pause * 2)
        self._run.trouble(token, END, None)
        return pause

    async def _may_yet_make(self, token: str, cloud: AsyncCloud, made: set[str]) -> bool:
        """Whether a create is, or was a moment ago, undecided; what it made is added to `made`."""
        row = self._run.rows[token]
        if row.operation is None or self._run.clock.now() > _given_up(row):
            return False
        result = await self._poll(cloud, row.operation)
        if isinstance(result, Accepted):
            made.update(result.ids)
        return not isinstance(result, Refused)


def _given_up(row: LaunchRow) -> Instant:
    return row.deadline + WATCH_SECONDS


def _quoted(candidate: Candidate, quote: Quote | None) -> Candidate:
    """The candidate at the price asked just now: what is agreed to, counted and guarded is what is paid."""
    if quote is None or quote.hourly == candidate.offer.hourly:
        return candidate
    offer = replace(candidate.offer, hourly=quote.hourly, source=quote.source, as_of=iso(quote.as_of)[:10])
    return replace(candidate, offer=offer)
