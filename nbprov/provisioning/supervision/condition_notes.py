"""Lasting conditions, reported in the ledger: outages, prices, lost guards, other accounts."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from nbprov.model.clock import Clock, Instant, Seconds, short_duration, utc_text
from nbprov.model.clusters import ClusterState
from nbprov.model.errors import NbprovError
from nbprov.model.events import CLUSTER_EVENTS, Event, EventKind
from nbprov.model.failures import CloudError
from nbprov.model.guards import Autostop
from nbprov.model.money import format_usd
from nbprov.model.text.plain import one_line
from nbprov.provisioning.ledger import ClusterRow, Ledger

from .outages import REFUSALS, MachineOutage

log = logging.getLogger("nbprov.lifecycle")

OUTAGE_AGAIN: Seconds = 6 * 3600.0
"""The outage of a cloud or an account is reported again this often.

That is seldom enough for a laptop's day on trains, and often enough for a machine that nobody can
end.
"""

MOST_WORDS = 160
"""Characters of somebody else's message that go into a note.

The next step behind it must have room in the ledger's line.
"""

_OFFLINE = (
    "nothing to do if this computer is offline for a while: it is asked on and on;"
    " else look at its network"
)


@dataclass(frozen=True, slots=True)
class Topic:
    """An outage as the ledger has it: an event when it is reported, and one when it is over.

    Attributes
    ----------
    kind
        The event of its reports.
    over_kind
        The event of its end; None where only the cluster's next change ends it.
    begins, over
        The words that its reports begin with, and those of its end.
    is_of_run
        Whether it is old news once the cluster was stopped or started.
    """

    kind: EventKind
    over_kind: EventKind | None
    begins: str
    over: str = ""
    is_of_run: bool = False


UNREACHED = Topic(
    EventKind.MACHINES_UNREACHABLE,
    EventKind.MACHINES_REACHED,
    "not reached since",
    "reached again",
    is_of_run=True,
)
UNASKED = Topic(
    EventKind.CLOUD_UNREACHABLE,
    EventKind.CLOUD_REACHED,
    "its cloud cannot be asked",
    "its cloud can be asked again",
)
FOREIGN = Topic(
    EventKind.ACCOUNT_DIFFERS,
    EventKind.ACCOUNT_MATCHES,
    "its account may not be the one in use",
    "its account is in use again",
)

UNGUARDED = Topic(
    EventKind.GUARDS_SET_AGAIN,
    None,
    "a machine of it had lost its guards",
    is_of_run=True,
)

DEARER = Topic(
    EventKind.PRICE_ABOVE_AGREED,
    EventKind.PRICE_AGREED,
    "dearer than agreed",
    "its price is agreed to again",
    is_of_run=True,
)


def last_report(events: Sequence[Event], topic: Topic) -> Event | None:
    """The last report of an outage that no later event of the run ended.

    Examples
    --------
    >>> note = Event(5.0, EventKind.CLOUD_UNREACHABLE, "its cloud cannot be asked: no network")
    >>> last_report([note], UNASKED).text
    'its cloud cannot be asked: no network'
    >>> last_report([note, Event(9.0, EventKind.CLOUD_REACHED)], UNASKED) is None
    True
    """
    for event in reversed(events):
        if event.kind is topic.kind:
            return event
        if event.kind is topic.over_kind or (topic.is_of_run and event.kind in CLUSTER_EVENTS):
            return None
    return None


def condition_notes(ledger: Ledger, row: ClusterRow) -> tuple[str, ...]:
    """The outages of a live cluster that last, for the panels."""
    if row.state is ClusterState.ENDED:
        return ()
    events = ledger.events.of_run(row.run_id)
    topics: tuple[Topic, ...] = (UNASKED, FOREIGN)
    if row.state is not ClusterState.STOPPED:
        topics = (DEARER, UNREACHED, UNGUARDED, *topics)
    return tuple(
        found.text for topic in topics if (found := last_report(events, topic)) is not None
    )


class ConditionNotes:
    """Reports outages in the ledger, once for all kernels, and again after a while.

    It never raises: a report must not keep a guard from its work.
    """

    def __init__(self, ledger: Ledger, clock: Clock, changed: Callable[[], None]) -> None:
        self._ledger, self._clock, self._changed = ledger, clock, changed
        self._reported: dict[tuple[str, Topic], Seconds] = {}

    def say(self, row: ClusterRow, topic: Topic, text: str, *, again: Seconds) -> None:
        """Report an outage, unless a kernel did so less than `again` seconds ago.

        `text` goes on where `topic.begins` ends.
        """
        key, now = (row.cluster_id, topic), self._clock.elapsed()
        if key in self._reported and now - self._reported[key] < again:
            return
        try:
            with self._ledger.together():
                found = last_report(self._ledger.events.of_run(row.run_id), topic)
                age = self._clock.now() - found.at if found is not None else again
                if 0 <= age < again:
                    self._reported[key] = now - age
                    return
                self._ledger.events.add(row.run_id, topic.kind, f"{topic.begins}{text}", row.token)
        except Exception as error:
            log.warning("%s: %s%s (%s)", row.name, topic.begins, text, error)
            return
        self._reported[key] = now
        log.warning("%s: %s%s", row.name, topic.begins, text)
        self._changed()

    def over(self, row: ClusterRow, topic: Topic) -> None:
        """Note the end of an outage that the ledger has, whichever kernel reported it."""
        assert topic.over_kind is not None, "only an outage that has an end can be over"
        self._reported.pop((row.cluster_id, topic), None)
        try:
            if last_report(self._ledger.events.of_run(row.run_id), topic) is None:
                return
            with self._ledger.together():
                # Asked again inside the change: every kernel that sees the end would note it.
                if last_report(self._ledger.events.of_run(row.run_id), topic) is None:
                    return
                self._ledger.events.add(row.run_id, topic.over_kind, topic.over, row.token)
        except Exception as error:
            log.warning("%s: %s (%s)", row.name, topic.over, error)
            return
        self._changed()

    def is_over_since(self, row: ClusterRow, topic: Topic, seconds: Seconds) -> bool:
        """Whether any kernel noted the end of such an outage in the last `seconds`."""
        events = self._ledger.events.of_run(row.run_id)
        return any(
            e.kind is topic.over_kind and self._clock.now() - e.at <= seconds for e in events
        )

    def reported_at(self, row: ClusterRow, topic: Topic) -> Instant | None:
        """When a kernel reported such an outage that lasts; None where none did."""
        found = last_report(self._ledger.events.of_run(row.run_id), topic)
        return None if found is None else found.at

    def keep(self, cluster_ids: Collection[str]) -> None:
        """Forget all other clusters."""
        self._reported = {key: at for key, at in self._reported.items() if key[0] in cluster_ids}


# ---------------------------------------------------------------- words


def short(text: str, most: int = MOST_WORDS) -> str:
    """The first line of a message, shortened, without characters that cannot be printed."""
    line = next(iter(text.strip().splitlines()), "")
    return one_line(line, most)


def why(error: BaseException) -> str:
    """An error in a few words.

    Examples
    --------
    >>> why(TimeoutError()), why(OSError("no route to host"))
    ('no answer in time', 'no route to host')
    >>> why(NbprovError("it is closed", hint="wait"))
    'it is closed'
    """
    if isinstance(error, CloudError):
        return short(error.failure.sentence())
    if isinstance(error, NbprovError):
        return short(error.message)
    name = "no answer in time" if isinstance(error, TimeoutError) else type(error).__name__
    return short(str(error)) or name


def unreached_words(
    row: ClusterRow,
    outage: MachineOutage,
    error: BaseException,
    *,
    since: Instant,
    autostop: Autostop | None,
) -> str:
    """What is reported of a machine that does not answer, behind `UNREACHED.begins`.

    Parameters
    ----------
    since
        When the outage began.
    autostop
        Its idle guard; None where it has none.
    """
    words = f" {utc_text(since)} ({why(error)})"
    if autostop is not None:
        words += ", so its idle time cannot be known"
    if autostop is not None and outage.unattended.count:
        verb = "stopped" if outage.mode(autostop) == "stop" else "ended"
        rest = short_duration(max(0.0, outage.allowed(autostop) - outage.unattended.span))
        words += f"; left so, it is {verb} by this kernel in {rest}"
    return (
        f"{words}; it costs {format_usd(row.candidate.hourly)}/h; %nbprov down {row.name} ends it"
    )


def unasked_words(row: ClusterRow, error: BaseException, since: Instant) -> str:
    """What is reported of a cluster whose cloud cannot be asked, behind `UNASKED.begins`."""
    if isinstance(error, CloudError) and error.failure.cause in REFUSALS:
        advice = error.failure.rule.advice
    else:
        advice = (error.hint if isinstance(error, NbprovError) else "") or _OFFLINE
    cloud = row.candidate.offer.cloud
    return (
        f" what it does ({cloud}, since {utc_text(since)}): {why(error)}; {_goes_on(row)}; {advice}"
    )


def foreign_words(row: ClusterRow) -> str:
    """What is reported of a cluster of another account than the one in use.

    It stands behind `FOREIGN.begins`.
    """
    account = short(row.candidate.account, 40)
    return (
        f": {row.candidate.offer.cloud} does not list its machines with the credentials in use,"
        f" which are not known to be of {account}; {_goes_on(row)}; use the credentials of"
        f" {account} again, or, if you exchanged the key and the machine is gone,"
        f" `%nbprov down {row.name} --forget`"
    )


def _goes_on(row: ClusterRow) -> str:
    if row.state is ClusterState.STOPPED:
        return "it was stopped when it was last seen"
    return f"the machine goes on and costs {format_usd(row.candidate.hourly)}/h"
