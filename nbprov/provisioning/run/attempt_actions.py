"""What a run has to do with its cloud: send a create, follow it, bring machines up, find out what became of a lost answer, end and confirm."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from nbprov.model.clock import Instant, Seconds, short_duration
from nbprov.model.clusters import AttemptState, RunState
from nbprov.model.errors import UsageError
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
from nbprov.model.money import SECONDS_PER_HOUR, format_usd
from nbprov.model.offers import Candidate
from nbprov.provisioning.async_cloud import AsyncCloud, is_passing
from nbprov.provisioning.ledger import LaunchRow
from nbprov.provisioning.live_cluster import LiveCluster, Node
from nbprov.provisioning.ssh_ingress import Door
from nbprov.provisioning.supervision.absence_tracker import Absences
from nbprov.provisioning.supervision.guard_config import (
    LEAST_BUDGET_SECONDS,
    check_budget,
    guard_config,
    hold_of,
    kept,
)
from nbprov.remote.errors import RemoteError

from . import events
from .failover import MOST_HEEDED
from .health_check import check_health
from .launch_builder import make_launch
from .partial_gang import hold
from .requote import beyond_agreed, quoted

if TYPE_CHECKING:
    from nbprov.remote.agent.messages import GuardConfig

    from .driver import RunDriver

AGENT_SECONDS: Seconds = 60.0
"""How long the agent may take to start and answer: copying 60 kB and starting Python, on a machine that is still busy booting."""

RECOUNT_SECONDS: Seconds = 10.0
"""An agent that answers does so at once."""

WATCH_SECONDS: Seconds = 900.0
"""A create whose outcome stays undecided is looked for this long before it counts as never having happened."""

MOST_PAUSE: Seconds = 10.0
"""Between two tries of something that must not be given up (resolving, confirming an end)."""


LIST, POLL, END = "listing its machines", "asking after its create", "ending its machines"
"""What an attempt waits for while a cloud refuses it, as it is shown."""

GOING = (InstanceState.ENDING, InstanceState.GONE)

UNSENT = Failure(Cause.CANCELLED, "given up before it was sent")


class Errands:
    """The coroutines behind the actions of one run; each ends by posting an event, or goes on until it may."""

    def __init__(self, driver: RunDriver) -> None:
        self._run = driver

    def _cloud(self, token: str) -> AsyncCloud:
        return self._run.clouds(self._run.machine.attempts[token].candidate.offer.cloud)

    # ------------------------------------------------------------ creating

    async def submit(self, action: events.Submit) -> None:
        """Ask the price again, commit the intent, send the create."""
        run, token = self._run, action.token
        cloud = self._cloud(token)
        quote = await cloud.quote(action.candidate)
        candidate = quoted(action.candidate, quote)
        refusal = self._price_refusal(candidate)
        if refusal is None and run.machine.is_unwanted(token):
            refusal = UNSENT
        if refusal is not None:
            run.post(events.Withdrawn(token, refusal))
            return
        await run.books.persist(lambda: self._intend(replace(action, candidate=candidate), cloud))
        if run.machine.is_unwanted(token):
            run.post(events.SubmitFailed(token, UNSENT))  # while the ledger could not be written
            return
        try:
            operation = await cloud.submit(self._filled(token))
        except CloudError as error:
            run.post(events.SubmitFailed(token, error.failure))
            return
        finally:
            run.aside(cloud.name, False)
        await self._note_operation(token, operation)
        run.post(events.Submitted(token))

    def _price_refusal(self, candidate: Candidate) -> Failure | None:
        """Why a create is not sent at the price that holds now; None where it may be."""
        beyond = beyond_agreed(candidate, self._run.consent)
        if beyond:
            return Failure(Cause.CANCELLED, beyond)
        spent, total = sum(self._run.costs().values()), self._run.spec.confirm_above.total
        if (
            total is not None
            and spent + candidate.hourly * LEAST_BUDGET_SECONDS / SECONDS_PER_HOUR > total
        ):
            return Failure(
                Cause.CANCELLED,
                f"{format_usd(spent)} are spent, and confirm_above allows {format_usd(total)} in all",
            )
        try:
            check_budget(self._run.spec.guards, candidate, spent=spent)
        except UsageError as error:
            return Failure(Cause.CANCELLED, error.message)
        return None

    def _intend(self, action: events.Submit, cloud: AsyncCloud) -> None:
        run, now = self._run, self._run.clock.now()
        answer_by = now + cloud.capabilities.submit_seconds
        if action.again:
            row = run.rows[action.token]
            launch = replace(row.launch, candidate=action.candidate, answer_by=answer_by)
            run.ledger.launches.intend_again(action.token, launch)
            run.rows[action.token] = replace(
                row, candidate=action.candidate, launch=launch, deadline=answer_by, operation=None
            )
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
        row = LaunchRow(
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
        )
        run.books.intend(row, attempt, leaves=cloud.leaves_side_objects)
        run.machine.freeze(action.token, action.candidate)

    def _filled(self, token: str) -> Launch:
        from nbprov.remote.boot.user_data import fills

        return replace(self._run.rows[token].launch, fills=fills(self._run.keys))

    async def _note_operation(self, token: str, operation: Operation) -> None:
        await self._run.books.persist(lambda: self._run.ledger.launches.sent(token, operation))
        self._run.rows[token] = replace(self._run.rows[token], operation=operation)

    async def follow(self, token: str) -> None:
        """Poll a create until it is decided."""
        operation = self._run.rows[token].operation
        assert operation is not None, "only a create that was taken note of is followed"
        cloud = self._cloud(token)
        while True:
            result = await self._poll(cloud, operation)
            if (
                isinstance(result, Accepted)
                and len(result.ids) < self._run.rows[token].candidate.count
                and cloud.capabilities.fills
            ):
                self._run.post(await hold(self, token, cloud, operation, result.ids))
                return
            if not isinstance(result, Pending):
                self._run.post(events.Polled(token, result))
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
            self._run.post(events.PhaseFailed(token, error.failure))
        except RemoteError as error:
            self._run.post(
                events.PhaseFailed(token, Failure(Cause.UNHEALTHY, error.message, error.code))
            )
        else:
            self._run.post(events.PhaseDone(token, phase))

    async def _phase(self, token: str, phase: AttemptState) -> None:
        run, cloud = self._run, self._cloud(token)
        capabilities = cloud.capabilities
        if phase is AttemptState.BOOTING:
            await self._boot(token, cloud)
        elif phase is AttemptState.SSH:
            # Where the start script makes the login, sshd may answer before the script has put the keys in place.
            grace = capabilities.ssh_deadline if capabilities.login else 0.0
            await run.clusters[token].connect(capabilities.ssh_deadline, boot_grace=grace)
        elif phase is AttemptState.HEALTH:
            await check_health(
                run.clusters[token], run.spec.health, lambda text: self._say_health(token, text)
            )
        else:
            candidate = run.machine.attempts[token].candidate
            guards = guard_config(
                run.spec.guards,
                capabilities,
                candidate,
                spent=sum(run.costs().values()),
                hold=hold_of(run.spec),
            )
            await run.clusters[token].start_agents(guards, AGENT_SECONDS)
            for note in run.clusters[token].notes:
                run.runlog.line(f"attempt {run.machine.attempts[token].number}  {note}")
            await run.books.persist(lambda: self._write_guards(candidate.count, guards))

    async def recount(self) -> None:
        """Tell the winner's agents what was really spent: what the losers cost after its guards were set is of the same budget.

        A machine that cannot be told now is told by the watcher (`telling_guards.py`), for as long as it takes.
        """
        run, winner = self._run, self._run.machine.winner or ""
        live, costs = run.clusters.get(winner), run.costs()
        if (
            live is None
            or run.spec.guards.budget is None
            or not any(cost for token, cost in costs.items() if token != winner)
        ):
            return
        candidate = run.machine.attempts[winner].candidate
        capabilities = self._cloud(winner).capabilities
        guards = guard_config(
            run.spec.guards,
            capabilities,
            candidate,
            spent=sum(costs.values()),
            hold=hold_of(run.spec),
        )
        try:
            async with asyncio.timeout(RECOUNT_SECONDS):
                await asyncio.gather(
                    *(
                        node.agent.set_guards(guards)
                        for node in live.nodes
                        if node.agent is not None
                    )
                )
        except (CloudError, RemoteError, TimeoutError) as error:
            run.runlog.line(
                f"the agents were not told what the race cost: {error}; they are told again"
            )
        await run.books.persist(lambda: self._write_guards(candidate.count, guards))

    def _say_health(self, token: str, text: str) -> None:
        run = self._run
        run.runlog.line(f"attempt {run.machine.attempts[token].number}  {text}")
        if run.state is RunState.LAUNCHING:
            run.tell(text)

    def _write_guards(self, nodes: int, guards: GuardConfig) -> None:
        self._run.ledger.guards.set_all(
            self._run.run_id, nodes, kept(guards, self._run.spec.guards)
        )

    async def _boot(self, token: str, cloud: AsyncCloud) -> None:
        run, absences = self._run, Absences()
        attempt = run.machine.attempts[token]
        while True:
            asked = run.clock.elapsed()
            listed = {i.id: i for i in await self._listing(cloud, token)}
            gone, _ = absences.look(
                token,
                attempt.ids,
                listed.keys(),
                asked=asked,
                answered=run.clock.elapsed(),
                settle=cloud.capabilities.settle,
            )
            if gone:
                raise CloudError(
                    Failure(
                        Cause.UNHEALTHY, f"machine {min(gone)} is not in its cloud's list any more"
                    )
                )
            if twin := next(
                (i for i in listed.values() if i.id not in attempt.ids and i.state not in GOING),
                None,
            ):
                # A create that was called refused, and sent again, was carried out after all: whoever keeps one must end the other, and all of
                # a token end together.
                raise CloudError(
                    Failure(
                        Cause.TRANSIENT,
                        f"{twin.id} was made by the same launch too: both are ended",
                    )
                )
            found = [listed[i] for i in attempt.ids if i in listed]
            dead = [
                i
                for i in found
                if i.state
                not in (InstanceState.PENDING, InstanceState.RUNNING, InstanceState.UNKNOWN)
            ]
            if dead:
                raise CloudError(_late_failure(dead[0]))
            if len(found) == len(attempt.ids) and all(
                i.state is InstanceState.RUNNING and i.host for i in found
            ):
                nodes = [Node(instance) for instance in sorted(found, key=lambda i: (i.node, i.id))]
                door = Door(
                    cloud, attempt.ids, run.clock, partial(run.ledger.instances.of_launch, token)
                )
                run.clusters[token] = LiveCluster(
                    run.run_id, run.name, attempt.candidate, run.keys, nodes, door
                )
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
                await asyncio.sleep(min(error.failure.retry_after or pause, MOST_HEEDED))
                pause = min(MOST_PAUSE, pause * 2)
            else:
                ours = [i for i in listed if i.token == token]
                account = self._run.rows[token].candidate.account
                if not ours and not await cloud.is_of(account):
                    words = f"the credentials in use are not those of {account}, with which it was launched: put them back"
                    self._run.trouble(
                        token, LIST, Failure(Cause.CREDENTIALS, words, "other-account")
                    )
                    await asyncio.sleep(pause)
                    pause = min(MOST_PAUSE, pause * 2)
                    continue
                self._run.trouble(token, LIST, None)
                await self._run.books.persist(partial(self._run.ledger.instances.seen, ours))
                return ours

    # ------------------------------------------------------------ lost answers

    async def resolve(self, token: str) -> None:
        """Find out whether a create whose answer was lost made machines."""
        run, cloud = self._run, self._cloud(token)
        operation = run.rows[token].operation
        if operation is None and cloud.capabilities.replayable and run.machine.may_start:
            operation = await self._replay(token, cloud)
        ids = (
            await self._decided(operation, cloud)
            if operation is not None
            else await self._look_for(token, cloud)
        )
        run.post(events.Resolved(token, ids))

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
                await asyncio.sleep(min(error.failure.retry_after or pause, MOST_HEEDED))
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
            if len(made) < run.rows[token].candidate.count and await self._may_yet_make(
                token, cloud, made
            ):
                sure_after = max(sure_after, run.clock.now() + cloud.capabilities.settle)
            ours = await self._listing(cloud, token)
            seen |= {i.id for i in ours}
            rest = [i for i in ours if i.state is not InstanceState.GONE]
            all_seen = len(made) >= run.rows[token].candidate.count and made <= seen
            if not rest and (all_seen or asked > sure_after):
                run.post(events.Gone(token))
                return
            pause = await self._terminate(
                token, cloud, [i.id for i in rest if i.state is not InstanceState.ENDING], pause
            )
            await asyncio.sleep(pause)

    async def _terminate(
        self, token: str, cloud: AsyncCloud, alive: list[str], pause: Seconds
    ) -> Seconds:
        """Ask for the end of what lives; returns the pause before the next look."""
        if not alive:
            return pause
        try:
            await cloud.terminate(alive)
        except CloudError as error:
            self._run.runlog.line(
                f"terminate: {error.failure.sentence()}; tried again in {short_duration(pause)}"
            )
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
        result, before = await self._poll(cloud, row.operation), len(made)
        if isinstance(result, Accepted):
            made.update(result.ids)
        # One that was accepted with fewer machines than asked for is decided too: after that, only what is new has to settle.
        return isinstance(result, Pending) or len(made) > before


def _late_failure(instance: Instance) -> Failure:
    """Why a machine that was accepted ends before it is up: by its cloud's own cause where that can be told (it was out of stock after all)."""
    told = instance.failure
    words = f"machine {instance.id} is {instance.state.value}" + (
        f": {instance.reason}" if instance.reason else ""
    )
    return replace(told, message=words) if told is not None else Failure(Cause.UNHEALTHY, words)


def _given_up(row: LaunchRow) -> Instant:
    return row.deadline + WATCH_SECONDS
