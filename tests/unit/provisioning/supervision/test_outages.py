"""Silences: when they are told, and when a machine that nobody reaches counts as idle."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from manual_clock import ManualClock
from provisioning_samples import candidate

from nbprov.model.clusters import ClusterState, DesiredState
from nbprov.model.errors import NbprovError
from nbprov.model.events import EventKind
from nbprov.model.failures import Cause, CloudError, Failure
from nbprov.model.guards import Autostop
from nbprov.provisioning.ledger import ClusterRow, Ledger
from nbprov.provisioning.ledger.events import EVENT_LIMIT
from nbprov.provisioning.supervision import outages
from nbprov.provisioning.supervision.condition_notes import (
    FOREIGN,
    MOST_WORDS,
    OUTAGE_AGAIN,
    UNASKED,
    UNREACHED,
    ConditionNotes,
    condition_notes,
    foreign_words,
    last_report,
    short,
    unasked_words,
    unreached_words,
    why,
)
from nbprov.provisioning.supervision.listing.cloud_outages import CLOUD_SAID, CloudOutage
from nbprov.provisioning.supervision.outages import (
    LEAST_ATTEMPTS,
    MOST_GAP,
    UNREACHED_AGAIN,
    UNREACHED_GRACE,
    UNREACHED_MOST,
    UNREACHED_SAID,
    ActivityAnswer,
    MachineOutage,
    answer_of,
)
from nbprov.remote.agent.messages import AgentStatus, GuardState

HALF = 1800.0
IDLE = Autostop(HALF, down=True)
MINUTE = 60.0


def _row(state: ClusterState = ClusterState.RUNNING, account: str = "me") -> ClusterRow:
    return ClusterRow(
        "c-1",
        "dev",
        "run-1",
        "token",
        state,
        DesiredState.of(state),
        replace(candidate(), account=account),
        "",
        None,
        0.0,
        None,
    )


def _idle(
    at: float = 0.0, left: float | None = HALF, *, is_active: bool = False, mode: str = "terminate"
) -> ActivityAnswer:
    return ActivityAnswer(at, left, is_active, mode)


def _silent(
    found: MachineOutage, until: float, since: float = 0.0, every: float = 5 * MINUTE
) -> MachineOutage:
    """Attempts that fail, from an instant to another."""
    now = since
    while now < until:
        found.failed(now)
        now += every
    found.failed(until)
    return found


# ---------------------------------------------------------------- when it ends


def test_whatwas_idle_is_ended_once_its_idle_time_and_the_grace_are_over() -> None:
    found = MachineOutage()
    found.answered(_idle(left=600.0))
    _silent(found, 600.0 + UNREACHED_GRACE - 1)
    assert found.due(IDLE) is None
    found.failed(600.0 + UNREACHED_GRACE)
    assert found.due(IDLE) == ("terminate", "idle: not reached for 1 h 10 min, and idle before")


def test_as_the_guard_says_it_is_stopped() -> None:
    found = MachineOutage()
    found.answered(_idle(left=600.0, mode="stop"))
    assert (_silent(found, 4200.0).due(IDLE) or ("",))[0] == "stop"
    never = _silent(MachineOutage(), UNREACHED_MOST + HALF)
    assert (never.due(replace(IDLE, down=False)) or ("",))[0] == "stop"


@pytest.mark.parametrize("answer", [None, _idle(is_active=True), _idle(left=None)])
def test_what_was_at_work_or_never_answered_has_a_day(answer: ActivityAnswer | None) -> None:
    found = MachineOutage()
    if answer is not None:
        found.answered(answer)
    _silent(found, UNREACHED_MOST + HALF - 1)
    assert found.due(IDLE) is None
    found.failed(UNREACHED_MOST + HALF)
    assert found.due(IDLE) == (
        "terminate",
        "idle: not reached for 1 d, and not known to be idle before",
    )


def test_a_hook_has_its_time() -> None:
    hooked = replace(IDLE, hook="save", hook_timeout=3 * UNREACHED_GRACE)
    found = MachineOutage()
    found.answered(_idle(left=0.0))
    _silent(found, 3 * UNREACHED_GRACE - 1)
    assert found.due(IDLE) is not None
    assert found.due(hooked) is None
    found.failed(3 * UNREACHED_GRACE)
    assert found.due(hooked) is not None


def test_a_gap_starts_the_count_anew() -> None:
    found = MachineOutage()
    found.answered(_idle(left=0.0))
    _silent(found, 50 * MINUTE)
    found.failed(9 * 3600.0)
    assert found.due(IDLE) is None, "this computer slept"
    _silent(found, 9 * 3600.0 + UNREACHED_GRACE - 1, since=9 * 3600.0 + 60)
    assert found.due(IDLE) is None
    found.failed(9 * 3600.0 + UNREACHED_GRACE)
    assert found.due(IDLE) is not None


def test_attempts_that_are_few_end_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outages, "UNREACHED_GRACE", 10 * MINUTE)
    found = MachineOutage()
    found.answered(_idle(left=0.0))
    for at in (0.0, 800.0):
        found.failed(at)
    assert found.due(IDLE) is None
    found.failed(801.0)
    assert found.due(IDLE) is not None


def test_what_is_seen_at_work_elsewhere_is_told_and_not_ended() -> None:
    found = MachineOutage()
    found.answered(_idle(left=0.0))
    for minute in range(0, 3 * 24 * 60, 10):
        found.failed(minute * MINUTE, is_active=True)
    assert found.is_to_report
    assert found.due(IDLE) is None


READINGS = st.lists(
    st.tuples(
        st.floats(0.0, 2 * MOST_GAP),
        st.one_of(
            st.just("failed"),
            st.just("failed"),
            st.just("failed"),
            st.just("at work"),
            st.just("paused"),
            st.tuples(st.one_of(st.none(), st.floats(-10, 7200)), st.booleans()),
        ),
    ),
    max_size=60,
)


@given(READINGS, st.floats(1.0, 7200.0))
def test_nothing_is_ended_before_its_time(readings: list[tuple[float, Any]], idle: float) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(outages, "UNREACHED_GRACE", 1200.0)
        patch.setattr(outages, "UNREACHED_MOST", 3600.0)
        found, autostop, now = MachineOutage(), Autostop(idle, down=True), 0.0
        # Told a second time, as a plain list of failures since anything else was seen.
        failures: list[float] = []
        allowed = 3600.0 + idle
        for later, what in readings:
            now += later
            if what == "failed":
                found.failed(now)
                failures = (
                    [*failures, now] if failures and now - failures[-1] <= MOST_GAP else [now]
                )
            elif what == "at work":
                found.failed(now, is_active=True)
                failures, allowed = [], 3600.0 + idle
            elif what == "paused":
                found.restart()
                failures = []
            else:
                left, is_active = what
                found.answered(_idle(now, left, is_active=is_active))
                failures, allowed = (
                    [],
                    3600.0 + idle if is_active or left is None else max(0.0, left) + 1200.0,
                )
            is_due = len(failures) >= LEAST_ATTEMPTS and failures[-1] - failures[0] >= allowed
            assert (found.due(autostop) is not None) == is_due


@given(st.lists(st.floats(0.0, 24 * 3600.0), min_size=1, max_size=40), st.floats(0.0, 7200.0))
def test_a_laptop_that_sleeps_and_wakes_ends_nothing(naps: list[float], left: float) -> None:
    found, now = MachineOutage(), 0.0
    for nap in naps:
        found.answered(_idle(now, left))
        now += nap
        found.failed(now)  # no network yet
        now += 20.0
        found.failed(now)
        assert found.due(IDLE) is None
        now += 20.0


# ---------------------------------------------------------------- what agents say


def _status(left: float | None = None, *active: str, guard: str = "idle") -> AgentStatus:
    guards = (GuardState(guard, left, "stop", "because"),)
    return cast(AgentStatus, SimpleNamespace(active=active, guards=guards))


def test_the_busiest_of_the_machines_decides() -> None:
    assert answer_of([_status(5.0), _status(70.0)], 3.0) == ActivityAnswer(3.0, 70.0, False, "stop")
    assert answer_of([_status(5.0), _status(70.0, "a job")], 3.0).is_active
    assert answer_of([_status(5.0), _status(None)], 3.0).left is None
    assert answer_of([_status(5.0, guard="budget")], 3.0) == ActivityAnswer(3.0, None, False, "")


# ---------------------------------------------------------------- when it is told


def test_a_machine_is_told_of_after_its_time_of_unbroken_silence() -> None:
    found = MachineOutage()
    found.failed(0.0)
    assert not found.is_to_report
    found.failed(UNREACHED_SAID - 1)
    assert not found.is_to_report
    found.restart()
    found.failed(UNREACHED_SAID)
    assert not found.is_to_report, "the cloud could not be asked meanwhile"
    found.failed(2 * UNREACHED_SAID)
    assert found.is_to_report
    found.answered(_idle())
    assert not found.is_to_report


def test_a_refusal_is_told_in_its_second_round_and_all_else_after_a_while() -> None:
    refused, offline = CloudOutage(), CloudOutage()
    assert [refused.failed(t, is_refusal=True) for t in (0.0, 1.0, 2.0)] == [False, True, True]
    assert [
        offline.failed(t, is_refusal=False) for t in (0.0, 1.0, CLOUD_SAID - 1, CLOUD_SAID)
    ] == [False, False, False, True]
    assert offline.span == CLOUD_SAID
    asleep = CloudOutage()
    assert not any(asleep.failed(t, is_refusal=False) for t in (0.0, 8 * 3600.0, 8 * 3600.0 + 30))


@pytest.fixture
def notes(ledger: Ledger, clock: ManualClock) -> ConditionNotes:
    return ConditionNotes(ledger, clock, lambda: None)


def _texts(ledger: Ledger) -> list[str]:
    return [event.text for event in ledger.events.of_run("run-1")]


def test_a_silence_is_noted_once_and_again_after_a_while(
    notes: ConditionNotes, ledger: Ledger, clock: ManualClock
) -> None:
    row = _row()
    for _ in range(130):
        notes.say(row, UNREACHED, " noon", again=UNREACHED_AGAIN)
        clock.advance(MINUTE)
    assert _texts(ledger) == ["not reached since noon"] * 3
    notes.over(row, UNREACHED)
    notes.over(row, UNREACHED)
    assert _texts(ledger)[3:] == ["reached again"]
    notes.say(row, UNREACHED, " one", again=UNREACHED_AGAIN)
    assert _texts(ledger)[4:] == ["not reached since one"], "another silence"


def test_kernels_say_it_once_together(
    notes: ConditionNotes, ledger: Ledger, clock: ManualClock
) -> None:
    told: list[int] = []
    other, row = ConditionNotes(ledger, clock, lambda: told.append(1)), _row()
    notes.say(row, UNASKED, ": a", again=OUTAGE_AGAIN)
    clock.advance(OUTAGE_AGAIN / 2)
    other.say(row, UNASKED, ": b", again=OUTAGE_AGAIN)
    assert (_texts(ledger), told) == ([f"{UNASKED.begins}: a"], [])
    clock.advance(OUTAGE_AGAIN / 2)
    other.say(row, UNASKED, ": c", again=OUTAGE_AGAIN)
    notes.say(row, UNASKED, ": d", again=OUTAGE_AGAIN)
    assert len(_texts(ledger)) == 2
    other.over(row, UNASKED)
    notes.over(row, UNASKED)
    assert _texts(ledger)[2:] == [UNASKED.over]
    assert told == [1, 1]


def test_that_another_kernel_reached_it_is_known(
    notes: ConditionNotes, ledger: Ledger, clock: ManualClock
) -> None:
    row = _row()
    notes.say(row, UNREACHED, " noon", again=UNREACHED_AGAIN)
    assert not notes.is_over_since(row, UNREACHED, 3600.0)
    ConditionNotes(ledger, clock, lambda: None).over(row, UNREACHED)
    clock.advance(600.0)
    assert notes.is_over_since(row, UNREACHED, 3600.0)
    assert not notes.is_over_since(row, UNREACHED, 599.0)


def test_a_note_that_cannot_be_written_stops_nothing(
    notes: ConditionNotes, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any) -> Any:
        raise OSError("disk full")

    with monkeypatch.context() as patch:
        patch.setattr(ledger.events, "of_run", broken)
        notes.say(_row(), UNREACHED, " noon", again=1.0)
        notes.over(_row(), UNREACHED)
    notes.say(_row(), UNREACHED, " noon", again=1.0)
    assert _texts(ledger) == ["not reached since noon"], "it is tried again"


def test_panels_show_what_lasts(notes: ConditionNotes, ledger: Ledger) -> None:
    row = _row()
    assert condition_notes(ledger, row) == ()
    for topic in (UNREACHED, UNASKED, FOREIGN):
        notes.say(row, topic, "…", again=1.0)
    assert len(condition_notes(ledger, row)) == 3
    assert len(condition_notes(ledger, replace(row, state=ClusterState.STOPPED))) == 2
    assert condition_notes(ledger, replace(row, state=ClusterState.ENDED)) == ()
    notes.over(row, UNASKED)
    assert [
        n.startswith(t.begins)
        for n, t in zip(condition_notes(ledger, row), (UNREACHED, FOREIGN), strict=True)
    ] == [True, True]
    ledger.events.add("run-1", EventKind.CLUSTER_STARTED, "started")
    assert last_report(ledger.events.of_run("run-1"), UNREACHED) is None, "it began anew"
    assert last_report(ledger.events.of_run("run-1"), FOREIGN) is not None


# ---------------------------------------------------------------- words


def test_what_is_said_of_a_machine() -> None:
    found = MachineOutage()
    found.answered(_idle(left=600.0))
    _silent(found, 600.0)
    error = NbprovError("no route to host\nTraceback", hint="no")
    assert unreached_words(_row(), found, error, since=0.0, autostop=IDLE) == (
        " 1970-01-01 00:00:00 UTC (no route to host), so its idle time cannot be known;"
        " left so, it is ended by this kernel in 1 h;"
        f" it costs ${_row().candidate.hourly / 1e6:.2f}/h; %nbprov down dev ends it"
    )
    assert "idle" not in unreached_words(_row(), found, error, since=0.0, autostop=None)


def test_what_is_said_of_a_cloud() -> None:
    refused = unasked_words(_row(), CloudError(Failure(Cause.CREDENTIALS, "key revoked")), 0.0)
    assert "credentials refused: key revoked" in refused
    assert "the machine goes on and costs $" in refused
    assert refused.endswith("renew this cloud's credentials, then run %nbprov check")
    offline = unasked_words(_row(ClusterState.STOPPED), CloudError(Failure(Cause.TIMEOUT, "")), 0.0)
    assert "costs" not in offline
    assert "its network" in offline
    assert unasked_words(_row(), NbprovError("no adapter", hint="install it"), 0.0).endswith(
        "install it"
    )


def test_what_is_said_of_an_account() -> None:
    said = foreign_words(_row(account="acme-7"))
    assert (
        "use the credentials of acme-7 again, or, if you exchanged the key and the machine is gone,"
        " `%nbprov down dev --forget`" in said
    )


def test_the_next_step_is_never_cut_off() -> None:
    error = CloudError(Failure(Cause.PERMISSION, "x" * 5000))
    row = _row(account="a" * 200)
    said = {
        UNREACHED.begins: unreached_words(row, MachineOutage(), error, since=0.0, autostop=IDLE),
        UNASKED.begins: unasked_words(row, error, 0.0),
        FOREIGN.begins: foreign_words(row),
    }
    for begins, words in said.items():
        assert len(begins + words) < EVENT_LIMIT, begins


@given(st.text())
def test_words_of_others_are_one_plain_line(text: str) -> None:
    said = short(text)
    assert said.isprintable()
    assert len(said) <= MOST_WORDS


def test_an_error_without_words_has_a_name() -> None:
    assert why(KeyError()) == "KeyError"
    assert (
        why(CloudError(Failure(Cause.TIMEOUT, "no answer\nat all"))) == "took too long: no answer"
    )
