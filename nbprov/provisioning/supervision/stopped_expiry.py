"""`down_after`: what is stopped is ended after a while, and outputs that are on its disk alone are brought first."""

from __future__ import annotations

import logging
from abc import abstractmethod

from nbprov.model.clock import Instant, Seconds, iso, short_duration
from nbprov.model.clusters import ClusterState
from nbprov.model.errors import NbprovError
from nbprov.model.failures import CloudError
from nbprov.model.guards import Guards
from nbprov.provisioning.ledger import ClusterRow, Ledger

from .desired_state import ASKED, Intents
from .guard_config import guards_known, stopped_until
from .outages import Topic, short

log = logging.getLogger("nbprov.lifecycle")

LEFT_AGAIN: Seconds = 24 * 3600.0
"""Outputs on a stopped disk are told of again so often: whoever looks once a day knows the date."""

LEFT = Topic(
    "outputs-left",
    "its outputs are on its disk alone",
    "its outputs are not on its disk alone any more",
    is_of_run=True,
)

NOT_BROUGHT = "not brought"
"""How the event begins of outputs for whose sake a stopped cluster could not be started: that is tried once."""


class SecondClock(Intents):
    """Ends what has been stopped for as long as its spec lets it be. On the engine thread."""

    @abstractmethod
    async def start(self, row: ClusterRow) -> None:
        """Start a stopped cluster; see `Lifecycle.start`."""

    def _keep_stopped(self, row: ClusterRow, guards: Guards) -> None:
        due, engine = stopped_until(guards, row), self._engine
        if due is None or row.cluster_id in self.asked:
            return
        has_outputs = engine.leaving is not None and engine.leaving.outputs_left(row)
        is_tried = has_outputs and was_tried(engine.ledger, row)
        if has_outputs:
            self._notes.say(row, LEFT, left_words(row, due, is_tried=is_tried), again=LEFT_AGAIN)
        if row.candidate.offer.cloud in self._dark or row.cluster_id in self._foreign:
            return  # it could neither be started nor ended
        if (
            engine.clock.now() < due
            or self._busy[row.cluster_id]
            or not self._try_lease(row.run_id)
        ):
            return
        reason = f"it was stopped for {short_duration(engine.clock.now() - (row.confirmed or 0.0))} (down_after)"
        lost = "; its outputs, which were on its disk alone, went with it" if is_tried else ""
        if has_outputs and not is_tried:
            self.asked.add(row.cluster_id)
            self._begin(self._bring_and_end(row, reason))
        # Only what is stopped still: whoever started it a moment ago wants it.
        elif engine.ledger.clusters.move(
            row.cluster_id, ClusterState.ENDING, reason + lost, was=ClusterState.STOPPED
        ):
            self._begin(self.down(row, reason + lost))

    async def _bring_and_end(self, row: ClusterRow, reason: str) -> None:
        """Start a cluster for its outputs alone, at what was agreed to; then end it. Where it does not start it stays for one more while."""
        ledger = self._engine.ledger
        self.wanted_again.discard(row.cluster_id)
        try:
            async with self.leased(row):
                await self.start(row)
                now = ledger.clusters.by_id(row.cluster_id)
                # Whoever started it meanwhile joined this start; other kernels were told that it is in use.
                if (
                    now is not None
                    and row.cluster_id not in self.wanted_again
                    and self.ask(now, ASKED, reason)
                ):
                    await self._go_on_ending(now, outputs=True)
        except (CloudError, NbprovError) as error:
            told = error.message if isinstance(error, NbprovError) else error.failure.sentence()
            ledger.events.add(
                row.run_id,
                LEFT.kind,
                f"{NOT_BROUGHT}: it could not be started for its outputs: {short(told)}",
                row.token,
            )
            # Written anew, its while begins anew.
            ledger.clusters.move(
                row.cluster_id,
                ClusterState.STOPPED,
                f"{NOT_BROUGHT}: its outputs; {short(told)}",
                was=ClusterState.STOPPED,
            )
            self._engine.changed()
        finally:
            self.asked.discard(row.cluster_id)


def is_start(kind: str, text: str) -> bool:
    """Whether an event says that a stopped cluster ran again."""
    return kind == "cluster" and (text == "started" or text.startswith("it runs again"))


def was_tried(ledger: Ledger, row: ClusterRow) -> bool:
    """Whether a cluster could not be started for its outputs, and did not run since."""
    for _, kind, text in reversed(ledger.events.of_run(row.run_id)):
        if kind == LEFT.kind and text.startswith(NOT_BROUGHT):
            return True
        if is_start(kind, text):
            return False
    return False


def left_note(ledger: Ledger, row: ClusterRow) -> str:
    """What is to be said now of the outputs that are on a stopped cluster's disk alone."""
    guards = guards_known(ledger, row.run_id)
    due = stopped_until(guards, row) if guards is not None else None
    if due is None:
        return (
            f"on its disk alone: %nbprov start {row.name} and %nbprov outputs {row.name} bring them"
        )
    return f"{LEFT.begins}{left_words(row, due, is_tried=was_tried(ledger, row))}"


def left_words(row: ClusterRow, due: Instant, *, is_tried: bool) -> str:
    """What is said of a stopped cluster's outputs, behind `LEFT.begins`."""
    then = (
        f"they go with it at {iso(due)} (down_after), since it could not be started for them"
        if is_tried
        else f"at {iso(due)} (down_after) a kernel with nbprov starts it for some minutes to bring them, and ends it"
    )
    return f": {then}; %nbprov start {row.name} and %nbprov outputs {row.name} bring them before"
