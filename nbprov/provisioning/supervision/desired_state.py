"""Ends and stops that were asked for and wait for logs and outputs: written down first, so that another kernel goes on should this one die."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Protocol

from nbprov.model.clock import Seconds
from nbprov.model.clusters import ClusterState
from nbprov.model.errors import NbprovError
from nbprov.model.failures import CloudError
from nbprov.provisioning.ledger import ClusterRow

from .guard_enforcement import BILLED, Enforcing

if TYPE_CHECKING:
    from nbprov.provisioning.engine import Engine

log = logging.getLogger("nbprov.lifecycle")

ASKED = "to be ended: "
"""How the reason of a cluster begins that is to be ended once its logs and outputs are here: the next kernel goes on where this one is gone."""

ASKED_BARE = "to be ended without its outputs: "
"""The same where its outputs are not waited for, only the logs of its jobs."""

TO_STOP = "to be stopped: "
"""How the reason of a cluster begins that is to be stopped once its logs and outputs are here."""

REPLACED = "replaced: "
"""How the reason of a cluster begins in whose place another one was put: whoever sees it run still ends it."""

_ENDS = (ASKED, ASKED_BARE)

KEPT = "its end was asked for, and it is kept: "
"""How the reason of a cluster begins that a later kernel was to end and whose outputs did not all come, though its machines answer."""

OUTPUTS_SECONDS: Seconds = 3600.0
"""How long a kernel that goes on with an end, in front of which nobody waits, goes on pulling."""

AGAIN_SECONDS: Seconds = 60.0
"""Before this kernel tries again what failed for a reason that nobody foresaw: each try pulls anew."""


class Leaving(Protocol):
    """What a session does before machines go. On the engine thread."""

    async def before_the_end(self, row: ClusterRow, *, outputs: bool = True) -> None:
        """Bring logs and outputs here. Raises an `NbprovError` where the cluster has to be kept for outputs that did not come."""

    async def before_a_stop(self, row: ClusterRow) -> None:
        """Bring logs and outputs here as far as that goes in bounded time; never raises but when cancelled."""

    def outputs_left(self, row: ClusterRow) -> bool:
        """Whether a stopped cluster has outputs that nobody tried to bring since it ran."""


def intent_of(reason: str) -> str:
    """How a reason begins that says what is to become of a cluster; empty where it says nothing of that.

    Examples
    --------
    >>> intent_of("to be ended: you ended it"), intent_of("you ended it")
    ('to be ended: ', '')
    """
    return next((intent for intent in (*_ENDS, TO_STOP) if reason.startswith(intent)), "")


def is_leaving(row: ClusterRow) -> bool:
    """Whether a cluster that runs is to be ended or stopped, or another one was put in its place: it needs no more machines."""
    return bool(intent_of(row.reason)) or row.reason.startswith(REPLACED)


def without_intent(reason: str) -> str:
    """The reason itself, once what was asked for is done.

    Examples
    --------
    >>> without_intent("to be stopped: you stopped it")
    'you stopped it'
    """
    return reason.removeprefix(intent_of(reason))


def reason_then(row: ClusterRow, state: ClusterState, told: str) -> str:
    """What a change that a listing shows is put down to: what is to become of a cluster is not forgotten over it."""
    intent = intent_of(row.reason)
    if row.state is ClusterState.STOPPING and state is ClusterState.RUNNING:
        return f"{TO_STOP}{row.reason}"  # whoever was to stop it did not; it costs as if nobody had wanted it
    if (intent in _ENDS and state is ClusterState.ENDED) or (
        intent == TO_STOP and state is ClusterState.STOPPED
    ):
        return without_intent(row.reason)
    return row.reason if intent else told


class Intents(Enforcing):
    """Writes down what is asked for, and goes on with what a kernel that is gone was asked for. On the engine thread where nothing else is said."""

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine)
        self.asked: set[str] = set()
        """Clusters whose end or stop this kernel sees to, their logs and outputs first."""
        self.wanted_again: set[str] = set()
        """Clusters that were used again in this kernel while it was about to end them, before it had written that down."""

    def ask(self, row: ClusterRow, intent: str, reason: str) -> bool:
        """Write down what is to become of a cluster that runs; whether that stands in the ledger now. Any thread; never raises.

        An end is not made a stop by a later word, nor is that of a cluster in whose place another one was put.
        """
        if row.state not in BILLED:
            return False
        ledger = self._engine.ledger
        try:
            now = ledger.clusters.by_id(row.cluster_id)
            if now is None or now.state not in BILLED:
                return False
            if intent == TO_STOP and (
                intent_of(now.reason) in _ENDS or now.reason.startswith(REPLACED)
            ):
                return False
            self.asked.add(row.cluster_id)
            self._try_lease(row.run_id)  # or another kernel would take it up at once
            return ledger.clusters.move(
                row.cluster_id, now.state, f"{intent}{reason}", was=now.state
            )
        except Exception:  # a disk that is full here must not keep a machine from its end
            log.exception("%s: what was asked for could not be written down", row.name)
            return False

    def is_asked(self, row: ClusterRow, *intents: str) -> bool:
        """Whether one of these intents still stands in the ledger. Any thread."""
        now = self._engine.ledger.clusters.by_id(row.cluster_id)
        return now is not None and intent_of(now.reason) in intents

    def take_back(self, row: ClusterRow) -> None:
        """A cluster that was to be ended or stopped is used again, or cannot be. Any thread."""
        ledger = self._engine.ledger
        self.wanted_again.add(row.cluster_id)
        now = ledger.clusters.by_id(row.cluster_id)
        if now is not None and (intent := intent_of(now.reason)):
            verb = "stopped" if intent == TO_STOP else "ended"
            ledger.clusters.move(
                row.cluster_id, now.state, f"it was to be {verb}, and is kept", was=now.state
            )

    def _go_on(self, row: ClusterRow) -> None:
        """Take up what the ledger says is to become of a cluster, where no kernel sees to it."""
        intent, settled = intent_of(row.reason), (*BILLED, ClusterState.STOPPED)
        if not intent or row.cluster_id in self.asked or row.state not in settled:
            return
        # A cloud that cannot be asked cannot end anything either, and a line that is away tells nothing then.
        if (
            row.candidate.offer.cloud in self._dark
            or row.cluster_id in self._foreign
            or not self._try_lease(row.run_id)
        ):
            return
        self.asked.add(row.cluster_id)
        self._begin(self._go_on_with(row, intent))

    async def _go_on_with(self, row: ClusterRow, intent: str) -> None:
        try:
            async with self.leased(row):
                await (
                    self._go_on_stopping(row)
                    if intent == TO_STOP
                    else self._go_on_ending(row, outputs=intent == ASKED)
                )
        except Exception as error:
            log.warning("%s: %s%s; tried again", row.name, intent, error)
            await asyncio.sleep(AGAIN_SECONDS)
        finally:
            self.asked.discard(row.cluster_id)

    async def _go_on_ending(self, row: ClusterRow, *, outputs: bool) -> None:
        """Logs and outputs in bounded time, by the rule of every end; then the end, or the cluster is kept under its guards."""
        ledger, leaving = self._engine.ledger, self._engine.leaving
        why = ""
        try:
            if leaving is not None:
                async with asyncio.timeout(OUTPUTS_SECONDS):
                    await leaving.before_the_end(row, outputs=outputs)
        except TimeoutError:
            why = "its outputs did not all come in time"
        except (CloudError, NbprovError) as error:
            why = error.message if isinstance(error, NbprovError) else str(error)
        now = ledger.clusters.by_id(row.cluster_id)
        if now is None or intent_of(now.reason) not in _ENDS:
            return  # somebody uses it again, or ends it
        if not why:
            await self.down(now, without_intent(now.reason))
            return
        ledger.events.add(row.run_id, "cluster", f"{KEPT}{why}", row.token)
        ledger.clusters.move(row.cluster_id, now.state, f"{KEPT}{why}", was=now.state)
        self._engine.changed()

    async def _go_on_stopping(self, row: ClusterRow) -> None:
        from .lifecycle import CannotStop  # which is built on this

        leaving = self._engine.leaving
        if leaving is not None:
            await leaving.before_a_stop(row)
        now = self._engine.ledger.clusters.by_id(row.cluster_id)
        if now is None or intent_of(now.reason) != TO_STOP or now.state not in BILLED:
            return
        try:
            await self.stop(now, without_intent(now.reason))
        except CannotStop as error:
            log.warning("%s", error)
            self.take_back(row)
