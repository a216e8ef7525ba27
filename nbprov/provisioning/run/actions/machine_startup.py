"""Bring the machines of an attempt up: boot, ssh, agent, health check."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from functools import partial

from nbprov.model.clock import Seconds
from nbprov.model.clusters import AttemptState, RunState
from nbprov.model.failures import Cause, CloudError, Failure
from nbprov.model.launches import Instance, InstanceState
from nbprov.provisioning.async_cloud import AsyncCloud
from nbprov.provisioning.live_cluster import LiveCluster, Node
from nbprov.provisioning.run import events
from nbprov.provisioning.run.attempt import AGENT_SECONDS, Attempt
from nbprov.provisioning.run.context import RunContext
from nbprov.provisioning.run.health_check import check_health
from nbprov.provisioning.run.pricing.requote import listed_beyond, listed_prices
from nbprov.provisioning.run.run_journal import RunJournal
from nbprov.provisioning.ssh_ingress import SshIngress
from nbprov.provisioning.supervision.absence_tracker import AbsenceTracker
from nbprov.provisioning.supervision.guard_config import guard_config, hold_of, kept
from nbprov.remote.agent.config import GuardConfig
from nbprov.remote.errors import RemoteError

from .launch_requests import LaunchRequests

RECOUNT_SECONDS: Seconds = 10.0
"""How long agents may take to note the costs of a race; one that answers does so at once."""

ALIVE = (InstanceState.PENDING, InstanceState.RUNNING, InstanceState.UNKNOWN)
ENDING = (InstanceState.ENDING, InstanceState.GONE)


class MachineStartup:
    """Brings the machines of a run's attempts up. On the engine thread."""

    def __init__(self, context: RunContext, journal: RunJournal, requests: LaunchRequests) -> None:
        self._context, self._journal, self._requests = context, journal, requests

    async def prepare(self, token: str, phase: AttemptState) -> None:
        """Bring the machines of an attempt through a phase."""
        context = self._context
        try:
            await self._run_phase(token, phase)
        except CloudError as error:
            context.post(events.PhaseFailed(token, error.failure))
        except RemoteError as error:
            failure = Failure(Cause.UNHEALTHY, error.message, error.code)
            context.post(events.PhaseFailed(token, failure))
        else:
            context.post(events.PhaseDone(token, phase))

    async def _run_phase(self, token: str, phase: AttemptState) -> None:
        context, progress = self._context, self._context.progress
        cloud = context.cloud_of(token)
        if phase is AttemptState.BOOTING:
            await self._boot(token, cloud)
        elif phase is AttemptState.SSH:
            seconds = cloud.capabilities.ssh_deadline
            # A start script that makes the login may put the keys in place after sshd answers.
            grace = seconds if cloud.capabilities.login else 0.0
            await progress.clusters[token].connect(seconds, boot_grace=grace)
        elif phase is AttemptState.HEALTH:
            live = progress.clusters[token]
            await check_health(live, progress.spec.health, partial(self._show_health, token))
        else:
            await self._start_agents(token)

    def _show_health(self, token: str, text: str) -> None:
        self._context.log_attempt(token, text)
        if self._context.progress.state is RunState.LAUNCHING:
            self._context.show_message(text)

    # ------------------------------------------------------------ booting

    async def _boot(self, token: str, cloud: AsyncCloud) -> None:
        """Wait until every machine of an attempt runs and has an address."""
        context, absences = self._context, AbsenceTracker()
        attempt = context.attempt(token)
        while True:
            asked = context.clock.elapsed()
            listed = {i.id: i for i in await self._requests.machines(token, cloud)}
            gone, _ = absences.look(
                token,
                attempt.ids,
                listed.keys(),
                asked=asked,
                answered=context.clock.elapsed(),
                settle=cloud.capabilities.settle,
            )
            if gone:
                words = f"machine {min(gone)} is not in its cloud's list any more"
                raise CloudError(Failure(Cause.UNHEALTHY, words))
            _check_listed(attempt, listed)
            prices = listed_prices(listed.values())
            if beyond := listed_beyond(attempt.candidate, prices, context.consent):
                raise CloudError(Failure(Cause.UNHEALTHY, beyond))
            found = [listed[i] for i in attempt.ids if i in listed]
            are_up = all(i.state is InstanceState.RUNNING and i.host for i in found)
            if len(found) == len(attempt.ids) and are_up:
                context.progress.clusters[token] = self._live_cluster(token, cloud, found)
                return
            await asyncio.sleep(cloud.capabilities.poll_every)

    def _live_cluster(self, token: str, cloud: AsyncCloud, found: list[Instance]) -> LiveCluster:
        context, attempt = self._context, self._context.attempt(token)
        nodes = [Node(instance) for instance in sorted(found, key=lambda i: (i.node, i.id))]
        listed = partial(context.ledger.instances.of_launch, token)
        ingress = SshIngress(cloud, attempt.ids, context.clock, listed)
        name = context.progress.name
        return LiveCluster(context.run_id, name, attempt.candidate, context.keys, nodes, ingress)

    # ------------------------------------------------------------ agents and guards

    async def _start_agents(self, token: str) -> None:
        context, live = self._context, self._context.progress.clusters[token]
        guards = self._guards(token)
        await live.start_agents(guards, AGENT_SECONDS)
        for note in live.notes:
            context.log_attempt(token, note)
        await self._write_guards(token, guards)

    def _guards(self, token: str) -> GuardConfig:
        context, spec = self._context, self._context.progress.spec
        return guard_config(
            spec.guards,
            context.cloud_of(token).capabilities,
            context.attempt(token).candidate,
            spent=context.spent(),
            hold=hold_of(spec),
        )

    async def _write_guards(self, token: str, guards: GuardConfig) -> None:
        context = self._context
        nodes = context.attempt(token).candidate.count
        stored = kept(guards, context.progress.spec.guards)
        await self._journal.persist(
            lambda: context.ledger.guards.set_all(context.run_id, nodes, stored)
        )

    async def recount(self) -> None:
        """Tell the winner's agents what the whole race cost, which is of the same budget.

        The losers cost something after the winner's guards were set. The cloud watcher tells an
        agent that does not answer now, for as long as it takes.
        """
        context, progress = self._context, self._context.progress
        winner = progress.failover.winner or ""
        live, costs = progress.clusters.get(winner), context.costs()
        others_cost = any(cost for token, cost in costs.items() if token != winner)
        if live is None or progress.spec.guards.budget is None or not others_cost:
            return
        guards = self._guards(winner)
        agents = [node.agent for node in live.nodes if node.agent is not None]
        try:
            async with asyncio.timeout(RECOUNT_SECONDS):
                await asyncio.gather(*(agent.set_guards(guards) for agent in agents))
        except (CloudError, RemoteError, TimeoutError) as error:
            context.runlog.line(
                f"the agents were not told what the race cost: {error}; they are told again"
            )
        await self._write_guards(winner, guards)


def _check_listed(attempt: Attempt, listed: dict[str, Instance]) -> None:
    """Raise the failure that the listed machines of an attempt show, if any."""
    strangers = (i for i in listed.values() if i.id not in attempt.ids and i.state not in ENDING)
    if twin := next(strangers, None):
        # A create that seemed refused was carried out after all, and so was its second try.
        # All machines of a token end together.
        words = f"{twin.id} was made by the same launch too: both are ended"
        raise CloudError(Failure(Cause.TRANSIENT, words))
    found = (listed[i] for i in attempt.ids if i in listed)
    if dead := next((i for i in found if i.state not in ALIVE), None):
        raise CloudError(_late_failure(dead))


def _late_failure(instance: Instance) -> Failure:
    """Why a machine ended after it was accepted and before it was up.

    The cause is the cloud's own where the machine tells it: it may have been out of stock after
    all.
    """
    words = f"machine {instance.id} is {instance.state.value}"
    words += f": {instance.reason}" if instance.reason else ""
    if instance.failure is not None:
        return replace(instance.failure, message=words)
    return Failure(Cause.UNHEALTHY, words)
