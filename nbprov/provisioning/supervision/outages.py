"""Silences of machines and clouds: since when nobody answers, what is said of it, and when a machine that nobody reaches counts as idle.

Pure but for `Notes`, which writes to the ledger: readings of time and answers are handed in.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from nbprov.model.clock import Clock, Instant, Seconds, iso, short_duration
from nbprov.model.clusters import ClusterState
from nbprov.model.errors import NbprovError
from nbprov.model.failures import Cause, CloudError
from nbprov.model.guards import Autostop
from nbprov.model.money import format_usd
from nbprov.provisioning.ledger import ClusterRow, Ledger
from nbprov.remote.agent.messages import AgentStatus

log = logging.getLogger("nbprov.lifecycle")

UNREACHED_SAID: Seconds = 300.0
"""A machine is said to be out of reach after this long: a reboot, a router's restart or a walk between two networks takes less."""

UNREACHED_AGAIN: Seconds = 3600.0
"""It is said again this often: each time another hour has been paid for."""

UNREACHED_GRACE: Seconds = 3600.0
"""What is given on top of its idle time to a machine that was idle when it last answered: somebody else may have begun to use it since."""

UNREACHED_MOST: Seconds = 24 * 3600.0
"""What is given on top of its idle time to a machine that was at work when it last answered, or never did: most work is done in a day."""

LEAST_ATTEMPTS = 3
"""Fewer failures end nothing, however far apart: a computer that wakes up has no network for a moment."""

MOST_GAP: Seconds = 900.0
"""Two failures further apart are no unbroken silence: this computer slept, or nobody asked. An attempt takes at most two thirds of it."""

ATTEMPT_SECONDS: Seconds = 600.0
"""How long one attempt to reach a cluster's agents may take; well below `MOST_GAP`, or no silence would ever be unbroken."""

SILENCE_SAID: Seconds = 600.0
"""A cloud is said to be out of reach after this long: being offline for less is a person's everyday life."""

SILENCE_AGAIN: Seconds = 6 * 3600.0
"""It is said again this often: seldom enough for a laptop's day on trains, often enough for a machine that nobody can end."""

REFUSED_ROUNDS = 2
"""A refusal of the account is said in this round of failures: one alone may be a slip of the cloud's."""

REFUSALS = frozenset({Cause.CREDENTIALS, Cause.BALANCE, Cause.PERMISSION})
"""What does not pass by itself."""

MOST_WORDS = 160
"""Characters of somebody else's message that go into a note: the next step behind it must have room in the ledger's line."""

SILENCE = "silence"
"""The event of a cloud that cannot be asked of a cluster, or can be again."""

_OFFLINE = "nothing to do if this computer is offline for a while: it is asked on and on; else look at its network"
_CLUSTER = "cluster"


@dataclass(frozen=True, slots=True)
class Topic:
    """A silence as the ledger has it: a note when it is said, and one when it is over.

    Attributes
    ----------
    kind
        Of its events.
    begins, over
        What its notes begin with.
    is_of_run
        Whether it is old news once the cluster was stopped or started.
    """

    kind: str
    begins: str
    over: str
    is_of_run: bool = False


UNREACHED = Topic("guard", "not reached since", "reached again", is_of_run=True)
UNASKED = Topic(SILENCE, "its cloud cannot be asked", "its cloud can be asked again")
FOREIGN = Topic(SILENCE, "its account may not be the one in use", "its account is in use again")

Events = Sequence[tuple[Instant, str, str]]


def standing(events: Events, topic: Topic) -> tuple[Instant, str] | None:
    """The note of a silence that nothing in a run's history ended yet.

    Examples
    --------
    >>> said = (5.0, "silence", "its cloud cannot be asked: no network")
    >>> standing([said], UNASKED)
    (5.0, 'its cloud cannot be asked: no network')
    >>> standing([said, (9.0, "silence", "its cloud can be asked again")], UNASKED) is None
    True
    """
    for at, kind, text in reversed(events):
        if kind == topic.kind and text.startswith(topic.begins):
            return at, text
        if (kind == topic.kind and text.startswith(topic.over)) or (
            topic.is_of_run and kind == _CLUSTER
        ):
            return None
    return None


def silence_notes(ledger: Ledger, row: ClusterRow) -> tuple[str, ...]:
    """The silences of a live cluster that last still, for the panels."""
    if row.state is ClusterState.ENDED:
        return ()
    events = ledger.events.of_run(row.run_id)
    topics = (
        (UNASKED, FOREIGN) if row.state is ClusterState.STOPPED else (UNREACHED, UNASKED, FOREIGN)
    )
    return tuple(found[1] for topic in topics if (found := standing(events, topic)) is not None)


@dataclass(slots=True)
class Streak:
    """Failures with no success between them.

    Attributes
    ----------
    first, last
        When the first and the last of them were, by a clock that never steps back.
    count
        How many.
    """

    first: Seconds = 0.0
    last: Seconds = 0.0
    count: int = 0

    def failed(self, now: Seconds) -> None:
        """One more; after a gap it is the first."""
        if not self.count or now - self.last > MOST_GAP:
            self.first, self.count = now, 0
        self.last = now
        self.count += 1

    def restart(self) -> None:
        """What was counted does not count any more."""
        self.count = 0

    @property
    def span(self) -> Seconds:
        """Seconds from the first to the last of them."""
        return self.last - self.first if self.count else 0.0


@dataclass(frozen=True, slots=True)
class Answer:
    """What all agents of a cluster together said of its idleness.

    Attributes
    ----------
    at
        When, by a clock that never steps back.
    left
        Seconds until the cluster is idle for long enough; None where no agent has an idle guard that can come due.
    is_active
        Whether anything was at work on any machine.
    mode
        What the idle guard does: `stop` or `terminate`; empty where there is none.
    """

    at: Seconds
    left: Seconds | None
    is_active: bool
    mode: str


def answer_of(statuses: Sequence[AgentStatus], at: Seconds) -> Answer:
    """Put the answers of all nodes together: the busiest decides."""
    idle = [next((g for g in status.guards if g.guard == "idle"), None) for status in statuses]
    left = [guard.left for guard in idle if guard is not None and guard.left is not None]
    mode = next((guard.mode for guard in idle if guard is not None), "")
    return Answer(
        at,
        max(left) if left and len(left) == len(idle) else None,
        any(status.active for status in statuses),
        mode,
    )


class Unreached:
    """Whether the agents of one running cluster answer, and what its idle guard does where they do not.

    Two counts run: of what is told, and of what may end the cluster. The second starts anew whenever something is seen at work on it.
    """

    def __init__(self) -> None:
        self.told = Streak()
        self.ending = Streak()
        self.answer: Answer | None = None

    def answered(self, answer: Answer) -> None:
        """All agents answered."""
        self.answer = answer
        self.told.restart()
        self.ending.restart()

    def failed(self, now: Seconds, *, is_active: bool = False) -> None:
        """An attempt failed, though the cloud itself answers.

        Parameters
        ----------
        is_active
            Something was seen at work all the same: on another machine of the cluster, or by another kernel.
        """
        self.told.failed(now)
        if is_active:
            self.at_work()
        else:
            self.ending.failed(now)

    def at_work(self) -> None:
        """Somebody uses the cluster, or may since its last answer: what was idle then need not be now."""
        self.ending.restart()
        self.answer = None

    def paused(self) -> None:
        """The cloud cannot be asked either, so it may be this computer that is out of reach: both counts start anew."""
        self.told.restart()
        self.ending.restart()

    @property
    def is_to_say(self) -> bool:
        """Whether it has lasted long enough to be told."""
        return self.told.count > 1 and self.told.span >= UNREACHED_SAID

    def allowed(self, autostop: Autostop) -> Seconds:
        """How long the cluster may be silent before its idle guard is carried out."""
        # A hook that saves what was computed begins on the machine when its idle time is over, and may take its time.
        hook = autostop.hook_timeout if autostop.hook else 0.0
        if self._was_idle:
            assert self.answer is not None, "only an answer tells of idleness"
            return max(0.0, self.answer.left or 0.0) + max(UNREACHED_GRACE, hook)
        return autostop.idle + max(UNREACHED_MOST, hook)

    def due(self, autostop: Autostop) -> tuple[str, str] | None:
        """What the idle guard, as the ledger knows it, asks for now without a word from the machine: `stop` or `terminate`, and why."""
        if self.ending.count < LEAST_ATTEMPTS or self.ending.span < self.allowed(autostop):
            return None
        before = "and idle before" if self._was_idle else "and not known to be idle before"
        return self.mode(
            autostop
        ), f"idle: not reached for {short_duration(self.ending.span)}, {before}"

    def mode(self, autostop: Autostop) -> str:
        """What the idle guard does: `stop` or `terminate`."""
        told = self.answer.mode if self.answer is not None else ""
        return told or ("terminate" if autostop.down else "stop")

    @property
    def _was_idle(self) -> bool:
        return (
            self.answer is not None and not self.answer.is_active and self.answer.left is not None
        )


class Unasked:
    """Whether one cloud can be asked of its clusters."""

    def __init__(self) -> None:
        self._rounds = Streak()

    def failed(self, now: Seconds, *, is_refusal: bool) -> bool:
        """A round failed; whether that is to be told now, and so in every round of this silence from here on.

        Parameters
        ----------
        is_refusal
            The account was refused, which does not pass by itself.
        """
        self._rounds.failed(now)
        return self._rounds.count >= REFUSED_ROUNDS and (
            is_refusal or self._rounds.span >= SILENCE_SAID
        )

    @property
    def span(self) -> Seconds:
        """Seconds from the first failed round to the last."""
        return self._rounds.span


class Notes:
    """Tells of silences in the ledger, once for all kernels, and again after a while. Never raises: a note must not keep a guard from its work."""

    def __init__(self, ledger: Ledger, clock: Clock, changed: Callable[[], None]) -> None:
        self._ledger, self._clock, self._changed = ledger, clock, changed
        self._said: dict[tuple[str, Topic], Seconds] = {}

    def say(self, row: ClusterRow, topic: Topic, text: str, *, again: Seconds) -> None:
        """Note a silence, unless this or another kernel did so less than `again` seconds ago. `text` goes on where `topic.begins` ends."""
        key, now = (row.cluster_id, topic), self._clock.elapsed()
        if key in self._said and now - self._said[key] < again:
            return
        try:
            with self._ledger.together():
                found = standing(self._ledger.events.of_run(row.run_id), topic)
                age = self._clock.now() - found[0] if found is not None else again
                if 0 <= age < again:
                    self._said[key] = now - age
                    return
                self._ledger.events.add(row.run_id, topic.kind, f"{topic.begins}{text}", row.token)
        except Exception as error:
            log.warning("%s: %s%s (%s)", row.name, topic.begins, text, error)
            return
        self._said[key] = now
        log.warning("%s: %s%s", row.name, topic.begins, text)
        self._changed()

    def over(self, row: ClusterRow, topic: Topic) -> None:
        """Note the end of a silence that stands in the ledger, whichever kernel told of it."""
        self._said.pop((row.cluster_id, topic), None)
        try:
            if standing(self._ledger.events.of_run(row.run_id), topic) is None:
                return
            with (
                self._ledger.together()
            ):  # looked at again inside the change: each kernel that sees the end would note it
                if standing(self._ledger.events.of_run(row.run_id), topic) is None:
                    return
                self._ledger.events.add(row.run_id, topic.kind, topic.over, row.token)
        except Exception as error:
            log.warning("%s: %s (%s)", row.name, topic.over, error)
            return
        self._changed()

    def is_over_since(self, row: ClusterRow, topic: Topic, seconds: Seconds) -> bool:
        """Whether any kernel noted the end of such a silence in the last `seconds`."""
        events = self._ledger.events.of_run(row.run_id)
        return any(
            k == topic.kind and t.startswith(topic.over) and self._clock.now() - at <= seconds
            for at, k, t in events
        )

    def keep(self, cluster_ids: Collection[str]) -> None:
        """Forget all other clusters."""
        self._said = {key: said for key, said in self._said.items() if key[0] in cluster_ids}


def short(text: str, most: int = MOST_WORDS) -> str:
    """The first line of a message, cut, with nothing in it that cannot be printed."""
    line = next(iter(text.strip().splitlines()), "")
    plain = "".join(c if c.isprintable() else " " for c in line)
    return plain if len(plain) <= most else plain[: most - 1].rstrip() + "…"


def why(error: BaseException) -> str:
    """An error in a few words.

    Examples
    --------
    >>> why(TimeoutError()), why(OSError("no route to host")), why(NbprovError("it is closed", hint="wait"))
    ('no answer in time', 'no route to host', 'it is closed')
    """
    if isinstance(error, CloudError):
        return short(error.failure.sentence())
    if isinstance(error, NbprovError):
        return short(error.message)
    return short(str(error)) or (
        "no answer in time" if isinstance(error, TimeoutError) else type(error).__name__
    )


def unreached_words(
    row: ClusterRow,
    silence: Unreached,
    error: BaseException,
    *,
    since: Instant,
    autostop: Autostop | None,
) -> str:
    """What is said of a machine that does not answer, behind `UNREACHED.begins`.

    Parameters
    ----------
    since
        When the silence began.
    autostop
        Its idle guard; None where it has none.
    """
    words = f" {iso(since)} ({why(error)})"
    if autostop is not None:
        words += ", so its idle time cannot be known"
    if autostop is not None and silence.ending.count:
        verb = "stopped" if silence.mode(autostop) == "stop" else "ended"
        rest = short_duration(max(0.0, silence.allowed(autostop) - silence.ending.span))
        words += f"; left so, it is {verb} by this kernel in {rest}"
    return (
        f"{words}; it costs {format_usd(row.candidate.hourly)}/h; %nbprov down {row.name} ends it"
    )


def unasked_words(row: ClusterRow, error: BaseException, since: Instant) -> str:
    """What is said of a cluster whose cloud cannot be asked, behind `UNASKED.begins`."""
    if isinstance(error, CloudError) and error.failure.cause in REFUSALS:
        advice = error.failure.rule.advice
    else:
        advice = (error.hint if isinstance(error, NbprovError) else "") or _OFFLINE
    return f" what it does ({row.candidate.offer.cloud}, since {iso(since)}): {why(error)}; {_goes_on(row)}; {advice}"


def foreign_words(row: ClusterRow) -> str:
    """What is said of a cluster that another account's credentials look for, behind `FOREIGN.begins`."""
    account = short(row.candidate.account, 40)
    return (
        f": {row.candidate.offer.cloud} does not list its machines with the credentials in use, which are not known to be of {account};"
        f" {_goes_on(row)}; use the credentials of {account} again, or, if you exchanged the key and the machine is gone,"
        f" `%nbprov down {row.name} --forget`"
    )


def _goes_on(row: ClusterRow) -> str:
    if row.state is ClusterState.STOPPED:
        return "it was stopped when it was last seen"
    return f"the machine goes on and costs {format_usd(row.candidate.hourly)}/h"
